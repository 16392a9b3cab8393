//! Faults as they are drawn: syntax first, then names, types and everything else that has no meaning.

use super::*;
use crate::ir::{Elem, Ty};
use crate::text::{check_rust_fn, parse_rust_fn};

/// The faults of a text: of its syntax, or of its last rule.
fn faults(text: &str) -> String {
    let faults = match parse(source(text)) {
        Err(faults) => faults,
        Ok(module) => {
            let last = module.items.last().expect("the text has a rule");
            lower(
                &module,
                Some(&last.name.text),
                &LowerOptions::default(),
                &EmptyLibrary,
            )
            .expect_err("the text has a fault")
        }
    };
    faults.render(false)
}

/// Checks the messages and helps of the faults of a mask's body, in order.
#[track_caller]
fn check(body: &str, expected: &[&str]) {
    check_text(
        &format!("mask m(w: i32, doc: [i32; kv_len], t: [f32; num_q_heads, kv_len]) {body}"),
        expected,
    );
}

#[track_caller]
fn check_text(text: &str, expected: &[&str]) {
    let faults = match parse(source(text)) {
        Err(faults) => faults,
        Ok(module) => {
            let name = module.items.last().map(|item| item.name.text.as_str());
            lower(&module, name, &LowerOptions::default(), &EmptyLibrary)
                .expect_err("the text has a fault")
        }
    };
    let found: Vec<String> = faults
        .items
        .iter()
        .map(|item| match &item.help {
            Some(help) => format!("{}; {help}", item.message),
            None => item.message.clone(),
        })
        .collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn syntax_faults_are_drawn_all_at_once() {
    insta::assert_snapshot!(faults(
        "mask a() = q < kv < 3\nmask b() = q = kv\nmask c() = if q < kv { true\nmask d(w) = q <\nmask e() = q ≤ kv"
    ), @r#"
    error[chained-comparison]: expected one comparison, found another `<`
     --> rule.mask:1:19
      |
    1 | mask a() = q < kv < 3
      |            ------ ^
      |            |
      |            the first comparison
      |
      = help: comparisons do not chain: write `a < b && b < c`

    error[syntax]: expected `==`, found `=`
     --> rule.mask:2:14
      |
    2 | mask b() = q = kv
      |              ^
      |
      = help: a comparison is `==`

    error[syntax]: expected `}`, found `mask`
     --> rule.mask:4:1
      |
    3 | mask c() = if q < kv { true
      |                      - the block starts here
    4 | mask d(w) = q <
      | ^^^^

    error[syntax]: expected `:` and a type after `w`, found `)`
     --> rule.mask:4:9
      |
    4 | mask d(w) = q <
      |         ^
      |
      = help: parameters are `window: i32` or `doc: [i32; kv_len]`; `b`, `h`, `q`, `kv` need no declaration

    error[syntax]: expected an expression, found `mask`
     --> rule.mask:5:1
      |
    5 | mask e() = q ≤ kv
      | ^^^^

    error[syntax]: expected a number, a name or an operator, found `≤`
     --> rule.mask:5:14
      |
    5 | mask e() = q ≤ kv
      |              ^
      |
      = help: write `<=`
    "#);
}

#[test]
fn faults_of_meaning_are_drawn_all_at_once() {
    insta::assert_snapshot!(faults(
        "mask m(doc: [i32; kv_len], t: [f32; num_q_heads, kv_len]) =\n    dco[q] == 1 && t[h] < 1.5 && q < 1.5\n    && absx(q) == 2 && score < 0.0"
    ), @r#"
    error[unknown-name]: expected a value, found the unknown name `dco`
     --> rule.mask:2:5
      |
    2 |     dco[q] == 1 && t[h] < 1.5 && q < 1.5
      |     ^^^
      |
      = help: did you mean `doc`?

    error[rank]: buffer `t` has 2 axes, found 1 index
     --> rule.mask:2:20
      |
    2 |     dco[q] == 1 && t[h] < 1.5 && q < 1.5
      |                    ^^^^
      |
      = help: write `t[i, j]`

    error[type-mismatch]: `<` takes two values of one type, found `i32` and `f32`
     --> rule.mask:2:34
      |
    2 |     dco[q] == 1 && t[h] < 1.5 && q < 1.5
      |                                  ^   --- this is `f32`
      |                                  |
      |                                  this is `i32`
      |
      = help: write `q as f32`

    error[unknown-function]: expected a function, found the unknown name `absx`
     --> rule.mask:3:8
      |
    3 |     && absx(q) == 2 && score < 0.0
      |        ^^^^
      |
      = help: did you mean `abs`?

    error[score-in-mask]: a mask does not read `score`
     --> rule.mask:3:24
      |
    3 |     && absx(q) == 2 && score < 0.0
      |                        ^^^^^
      |
      = help: write a `score` rule: where it gives `-inf`, nothing is attended
    "#);
}

#[test]
fn habits_of_other_languages() {
    check(
        "= kv <= q and not kv == 3",
        &[
            "expected `&&`, found `and`; write `&&`",
            "expected `!`, found `not`; write `!x`",
        ],
    );
    check(
        "= kv <= q or True",
        &["expected `||`, found `or`; write `||`"],
    );
    check(
        "= True",
        &["expected a value, found the unknown name `True`; write `true`"],
    );
    check(
        "= doc[q:kv] == 1",
        &[
            "expected one index, found a slice with `:`; a read takes one element: `any(i in 0..4, x[i] == q)` looks at several",
        ],
    );
    check(
        "= (q // 3) == kv",
        &[
            "expected `)`, found the end of the text; `//` starts a comment; floor division is `x.div_floor(y)`",
        ],
    );
    check(
        "= q if kv < 3 else h",
        &["expected an operator, found `if`; write `if c { x } else { y }`"],
    );
    check(
        "= q ** 2 == kv",
        &[
            "expected an operand, found `*`; a power is `x.pow(2)` of an integer, `x.powi(2)` or `x.powf(0.5)` of a float",
        ],
    );
    check(
        "= (q, kv) == (1, 2)",
        &[
            "expected one value, found a tuple; there are no tuples: compare and compute one value at a time",
            "expected one value, found a tuple; there are no tuples: compare and compute one value at a time",
        ],
    );
    check(
        "= assert!(q < kv)",
        &[
            "expected a value, found the macro `assert!`; macros are not understood here: write what it expands to",
        ],
    );
    check(
        "{ while q < 3 {} true }",
        &[
            "expected a value, found `while`; loops are `for i in 0..4 { .. }` with constant bounds, which are unrolled",
        ],
    );
    check(
        "= where(q < 3, true, false)",
        &["expected a function, found the unknown name `where`; write `if c { x } else { y }`"],
    );
    check(
        "= doc.len() < q",
        &[
            "expected a function, found the unknown name `len`; the sizes are `q_len`, `kv_len`, `batch` and `num_q_heads`; another extent has a dimension name in the head",
        ],
    );
    check(
        "= *q < &kv",
        &[
            "expected a value, found `*`; there are no references: leave it out",
            "expected a value, found `&`; there are no references: leave it out",
        ],
    );
    check(
        "= \"a\" == 'b'",
        &[
            "expected a value, found a string",
            "expected a number, a name or an operator, found a character",
        ],
    );
    check(
        "= { let (a, b) = q; a < b }",
        &["expected a name, found a pattern; write one `let` for each name"],
    );
    let faults = lower_expression(
        "kv <= q // 2",
        RuleKind::Mask,
        &LowerOptions::default(),
        &EmptyLibrary,
    )
    .expect_err("half of it is a comment");
    insta::assert_snapshot!(faults.render(false), @r#"
    error[syntax]: expected an expression without a comment
     --> expression:1:9
      |
    1 | kv <= q // 2
      |         ^^ everything after this is a comment
      |
      = help: floor division is `x.div_floor(y)`; `/` truncates, which is the same if neither side is negative
    "#);
}

#[test]
fn statements_out_of_place() {
    check(
        "{ q + 1; true }",
        &[
            "this value is not used; leave out the `;` to make it the value of the block, or give it a name with `let`",
        ],
    );
    check(
        "{ if q < 3 { true } else { false } && kv < 2 }",
        &["expected a statement, found `&&`; put parentheses round it to use its value"],
    );
    check(
        "{ let x = 3; x = 4; x < q }",
        &["`x` cannot be assigned to; declare it with `let mut x`"],
    );
    check(
        "{ w += 1; q < w }",
        &["`w` cannot be assigned to; copy it first: `let mut x = w;`"],
    );
    check(
        "{ kv = 1; q < w }",
        &["`kv` cannot be assigned to; copy it first: `let mut x = kv;`"],
    );
    check(
        "{ doc[q] = 1; true }",
        &[
            "expected a name before an assignment; a comparison is `==`; captured buffers cannot be written",
        ],
    );
    check(
        "{ let mut x = 0; let y = if q < 3 { x = 1; 2 } else { 3 }; y < x }",
        &[
            "`x` cannot be assigned to within a value; assign in a statement of the body, or in an `if`, `match` or `for` that is a statement of it",
        ],
    );
    check(
        "{ let y = if q < 3 { return true; } else { 3 }; y < 2 }",
        &[
            "expected a value, found `return`; a `return` stands in the body of the rule, or in an `if`, `match` or `for` that is a statement of it",
        ],
    );
    check(
        "{ if q < 3 { return true; } }",
        &[
            "expected a value where no branch is taken, found none; add `else { .. }`, or a value after it",
        ],
    );
    check(
        "{ let x = 3; }",
        &[
            "expected a value of type `bool` at the end, found none; the last line of a block, without `;`, is its value",
        ],
    );
    check(
        "= if q < 3 { true }",
        &[
            "expected `else`: this `if` is a value; every case needs a value, as in `if c { x } else { y }`",
        ],
    );
    check(
        "= match q { 0 => true, 1 => false }",
        &["expected an arm for every value; add `_ => ..` as the last arm"],
    );
    check(
        "{ for i in 0..w { } true }",
        &[
            "expected a constant bound; bounds are literals, `const K: i32` parameters and the indices of outer loops; within the loop, a guard such as `i < n && ..` may read anything",
        ],
    );
    check(
        "= any(i in 0..4i64, q == i) || all(i in 0i64..4u32, true)",
        &[
            "`==` takes two values of one type, found `i32` and `i64`; write `q as i64`",
            "expected `i64` as the other bound, found `u32`; write `4u32 as i64`",
        ],
    );
    check(
        "= any(i in 0..1000000, q == i)",
        &[
            "expected at most 65536 repetitions, found 1000000; loops are unrolled; capture a buffer with what the loop computes",
        ],
    );
}

#[test]
fn types_that_do_not_fit() {
    check(
        "= q",
        &["expected `bool` as the result, found `i32`; compare it, as in `q != 0`"],
    );
    check(
        "= q + 1.5 < t[0, 0]",
        &["`+` takes two values of one type, found `i32` and `f32`; write `q as f32`"],
    );
    check(
        "= t[0, 0] < 1",
        &["expected `f32`, found the integer `1`; write `1.0`"],
    );
    check(
        "= exp(q - kv) < 1.0",
        &["`exp` takes f32, found `i32`; write `(q - kv) as f32`"],
    );
    check(
        "= q && kv < 3",
        &["expected `bool` beside `&&`, found `i32`; compare it, as in `q != 0`"],
    );
    check(
        "= (q < 3) + 1 < 2",
        &["`+` takes two values of one type, found `bool` and `i32`; write `(q < 3) as i32`"],
    );
    check(
        "= -(q as u32) < 3",
        &[
            "`-` takes a signed number, found `u32`; write `x.wrapping_neg()`, or convert with `as i64`",
        ],
    );
    check(
        "= q as bool",
        &["`as bool` takes a bool, found `i32`; compare it, as in `q != 0`"],
    );
    check(
        "= 2.5.pow(2) < 1.0",
        &["`pow` takes an integer, found `f32`; a float has `powi` and `powf`"],
    );
    check(
        "= q.powi(2) < 1",
        &["`powi` takes f32, found `i32`; write `q as f32`"],
    );
    check(
        "= t[0, 0].powi(h as i64) < 1.0",
        &["`powi` takes i32, found `i64`"],
    );
    check("= q << 1.5 < 1", &["`<<` takes an integer, found `f32`"]);
    check(
        "= sum(i in 0..3, q == i) < 3",
        &[
            "`sum` takes numbers, found `bool`; `any` and `all` join bools; a bool becomes 0 or 1 with `as i32`",
        ],
    );
    check(
        "= if q { true } else { 1 }",
        &[
            "expected `bool` as a condition, found `i32`; compare it, as in `q != 0`",
            "expected one type in all branches, found `bool` and `i32`; compare it, as in `1 != 0`",
        ],
    );
    check(
        "= match t[0, 0] { _ => true }",
        &[
            "expected an integer or a bool to match, found `f32`; write `if x < 1.0 { .. } else { .. }`",
        ],
    );
    check(
        "= match q { true => true, _ => false }",
        &["expected a pattern of type `i32`, found a bool"],
    );
    check(
        "= 5000000000 < q",
        &[
            "`5000000000` does not fit `i32`; `5000000000i64` is an `i64`; the other operands need `as i64` then",
        ],
    );
    check(
        "{ let i = q as usize; doc[i] == 1 }",
        &[
            "expected a type of the language, found `usize`; `as usize` stands within an index only, where an `i32` does as well",
        ],
    );
    check(
        "{ let x: f64 = 1.0; true }",
        &["expected a type, found `f64`; floats of a rule are `f32`"],
    );
    check(
        "= (0.0).clamp(1, 2.0) < 1.0",
        &["expected `f32`, found the integer `1`; write `1.0`"],
    );
}

#[test]
fn reads_that_do_not_fit() {
    check(
        "= t[h] < 1.0",
        &["buffer `t` has 2 axes, found 1 index; write `t[i, j]`"],
    );
    check(
        "= doc[q, kv] == doc[[]]",
        &[
            "buffer `doc` has 1 axis, found 2 indices; write `doc[i]`",
            "buffer `doc` has 1 axis, found 0 indices; write `doc[i]`",
        ],
    );
    check(
        "= doc[1.5] == 1",
        &[
            "expected an integer index, found `f32`; write `1.5 as i32`, which truncates towards zero",
        ],
    );
    check(
        "= doc < 3",
        &["expected a value, found the buffer `doc`; read an element of it, as in `doc[q]`"],
    );
    check(
        "= q[3] < 1",
        &["expected a buffer, found the value `q`; only captured buffers are read by index"],
    );
    check(
        "= (q + 1)[3] < 1",
        &["expected the name of a buffer before `[`; only captured buffers are read by index"],
    );
}

#[test]
fn names_that_mean_nothing() {
    check(
        "= kv_ids <= q",
        &["expected a value, found the unknown name `kv_ids`; did you mean `kv_idx`?"],
    );
    check(
        "= window < q",
        &[
            "expected a value, found the unknown name `window`; the variables are `b`, `h`, `q`, `kv` and the sizes; a capture is declared in the head, as in `window: i32`",
        ],
    );
    check(
        "= min(q) < clamp(q, 1)",
        &[
            "`min` takes 2 arguments, found 1",
            "`clamp` takes 3 arguments, found 2",
        ],
    );
    check(
        "= score < 1.0",
        &[
            "a mask does not read `score`; write a `score` rule: where it gives `-inf`, nothing is attended",
        ],
    );
    check(
        "= f32::EPSILOM < 1.0",
        &[
            "expected a value, found `f32::EPSILOM`; known are `f32::INFINITY`, `f32::MAX`, `i32::MAX`, `std::f32::consts::PI` and the like; capture other constants as parameters",
        ],
    );
    check("= q < 3.abs(kv)", &["`abs` takes 1 argument, found 2"]);
    check_text(
        "mask a() = q < 3 mask m() = a",
        &[
            "expected a value, found the unknown name `a`; `a` is a rule or function: call it, as in `a()`",
        ],
    );
    check_text(
        "fn f(x: i32) -> bool = x < q mask m() = f(1)",
        &[
            "expected a value, found the unknown name `q`; a function sees its parameters only: pass the variable to it",
        ],
    );
    check_text(
        "mask m() = m2() mask m2() = m()",
        &[
            "`m2` calls itself: `m2` -> `m` -> `m2`; rules and functions are copied where they are called; repeat with `for`, `any`, `all` or `sum`",
        ],
    );
}

#[test]
fn calls_that_do_not_fit() {
    let rules = "mask w(n: i32 in 1..=8) = q - kv < n
        mask d(x: [i32; kv_len]) = x[q] == x[kv]
        mask k(const K: i32) = any(i in 0..K, q == i)
        score s() = score
        fn f(x: i32) -> bool = d() ";
    let check = |body: &str, expected: &[&str]| {
        check_text(
            &format!("{rules} mask m(t: [f32; kv_len], n: i32) = {body}"),
            expected,
        );
    };
    check("w()", &["`w` takes 1 argument, found 0; write `w(n)`"]);
    check(
        "w(q, kv, 3)",
        &["`w` takes 1 argument, found 3; a rule gets `b`, `h`, `q`, `kv` and the sizes by itself"],
    );
    check("w(9)", &["expected `n` in 1..=8, found 9"]);
    check(
        "w(1.5)",
        &[
            "expected `i32` for the parameter `n`, found `f32`; write `1.5 as i32`, which truncates towards zero",
        ],
    );
    check(
        "d(t)",
        &["expected a buffer of `i32` with 1 axes for `x`, found one of `f32` with 1"],
    );
    check(
        "d(n)",
        &["expected the name of a buffer for `x`; captured buffers are passed by name"],
    );
    check(
        "k(n)",
        &[
            "expected a constant for `K`; constants are literals, `const K: i32` parameters and the indices of loops",
        ],
    );
    check(
        "s() < 1.0",
        &["a mask does not call the score rule `s`; a mask gives a bool and knows no score"],
    );
    check(
        "f(1)",
        &[
            "the rule `d` needs the variables `q`, `kv` and so on; a function sees its parameters only: call the rule from a rule",
        ],
    );
}

#[test]
fn heads_that_do_not_fit() {
    check_text(
        "mask m(x: i32, x: i32) = x < 1",
        &["the name `x` of this parameter is taken"],
    );
    check_text(
        "mask m() = true mask m() = true",
        &["the name `m` of this item is taken"],
    );
    check_text(
        "mask min() = true",
        &["`min` is a built-in function; choose another name"],
    );
    check_text(
        "mask m(q: i32) = q < 1",
        &[
            "`q` is a variable, not a capture; every rule has it without declaring it; choose another name for a capture",
        ],
    );
    check_text(
        "mask m(w) = true",
        &[
            "expected `:` and a type after `w`, found `)`; parameters are `window: i32` or `doc: [i32; kv_len]`; `b`, `h`, `q`, `kv` need no declaration",
        ],
    );
    check_text(
        "mask m(w: i32 in 5..5) = true",
        &["expected a range that is not empty, found 5..=4"],
    );
    check_text(
        "mask m(w: f32 in 0..5) = true",
        &["expected an integer before `in`, found `f32`; ranges are declared for integers"],
    );
    check_text(
        "mask m(d: [i32; q]) = true",
        &[
            "expected a size, found the variable `q`; the sizes are `q_len`, `kv_len`, `batch` and `num_q_heads`",
        ],
    );
    check_text(
        "mask m(d: [i32; d]) = true",
        &[
            "expected a size, found the buffer `d`; extents and ranges speak of sizes, scalars and dimension names",
        ],
    );
    check_text(
        "mask m(d: [usize; kv_len]) = true",
        &[
            "expected a type of elements, found `usize`; the types of elements are `bool`, `bits`, `i8`, `u8`, `i16`, `u16`, `i32`, `i64`, `u32`, `f16`, `bf16`, `f32`, `f64`",
        ],
    );
    check_text(
        "mask m(d: u8) = true",
        &[
            "expected the type of a value, found `u8`; `u8` is a type of elements, as in `[u8; kv_len]`; values are `i32`, `i64`, `u32`, `f32` or `bool`",
        ],
    );
    check_text(
        "mask m(d: [[f32; 2]; 3]) = true",
        &[
            "expected a type of elements, found `[`; axes stand in one list, as in `[f32; num_q_heads, kv_len]`",
        ],
    );
    check_text(
        "mask m(const K: i32) = q < K",
        &["expected a value for the constant `K`, found none; give it with `--set K=..`"],
    );
    check_text(
        "mask m() -> bool = true",
        &[
            "expected `=` or `{` after the parameters of a rule, found `->`; a mask gives a bool and a score an f32, so no type is written",
        ],
    );
}

#[test]
fn the_rule_to_lower_is_named() {
    let module = module("mask a() = true\nmask b() = true\nfn f() -> i32 = 1");
    let options = LowerOptions::default();
    let message = |name| {
        let faults = lower(&module, name, &options, &EmptyLibrary).expect_err("the name is wrong");
        faults.to_string()
    };
    assert_eq!(
        message(None),
        "expected the name of one of 2 rules; the rules are `a`, `b`"
    );
    assert_eq!(
        message(Some("f")),
        "expected the name of a rule, found `f`; the rules are `a`, `b`"
    );
}

#[test]
fn expressions_name_what_they_may_capture() {
    let options = LowerOptions {
        free_scalars: BTreeMap::from([("window".to_owned(), Ty::I32)]),
        free_buffers: BTreeMap::from([("doc".to_owned(), (Elem::I32, 1))]),
        ..LowerOptions::default()
    };
    let faults = lower_expression(
        "q - kv < windw && dox[q] == 1 && k < 3 && slope < 2",
        RuleKind::Mask,
        &options,
        &EmptyLibrary,
    )
    .expect_err("no name is right");
    insta::assert_snapshot!(faults.render(false), @r#"
    error[unknown-name]: expected a value, found the unknown name `windw`
     --> expression:1:10
      |
    1 | q - kv < windw && dox[q] == 1 && k < 3 && slope < 2
      |          ^^^^^
      |
      = help: did you mean `window`?

    error[unknown-name]: expected a value, found the unknown name `dox`
     --> expression:1:19
      |
    1 | q - kv < windw && dox[q] == 1 && k < 3 && slope < 2
      |                   ^^^
      |
      = help: did you mean `doc`?

    error[unknown-name]: expected a value, found the unknown name `k`
     --> expression:1:34
      |
    1 | q - kv < windw && dox[q] == 1 && k < 3 && slope < 2
      |                                  ^
      |
      = help: did you mean `kv`?

    error[unknown-name]: expected a value, found the unknown name `slope`
     --> expression:1:43
      |
    1 | q - kv < windw && dox[q] == 1 && k < 3 && slope < 2
      |                                           ^^^^^
      |
      = help: the variables are `b`, `h`, `q`, `kv` and the sizes; give a scalar with `--set slope=..`, a buffer with `--capture slope=..`
    "#);
}

#[test]
fn rust_heads_that_do_not_fit() {
    let check = |text: &str, expected: &[&str]| {
        let faults = check_rust_fn(source(text), RuleKind::Mask);
        let found: Vec<_> = faults.iter().map(|f| f.message.as_str()).collect();
        assert_eq!(found, expected, "{text}");
    };
    check(
        "fn m(q: i32) -> f32 { 1.0 }",
        &["expected `bool` as the result of an attention mask, found `f32`"],
    );
    check("fn m(q: i64) -> bool { q < 1 }", &["expected `q: i32`"]);
    check(
        "fn m(score: f32) -> bool { score < 1.0 }",
        &["a mask does not read `score`"],
    );
    check(
        "fn m<T>(q: i32) -> bool { true }",
        &["expected `const`, found `T`"],
    );
    check(
        "fn m(q: i32, x: usize) -> bool { true }",
        &["expected a type, found `usize`"],
    );
    check(
        "fn m(q: i32) -> bool { kv_idx < q }",
        &["expected a value, found the unknown name `kv_idx`"],
    );
    check(
        "fn m<const N: i32>(q: i32, n: i32) -> bool { (0..n).any(|i| i == q) || (0..N - 5).all(|i| i < q) }",
        &["expected a constant bound"],
    );
    check("struct M;", &["expected `fn`, found `struct`"]);
    assert!(
        parse_rust_fn(
            source("fn m() -> bool { true } fn n() -> bool { true }"),
            RuleKind::Mask
        )
        .is_err()
    );
}
