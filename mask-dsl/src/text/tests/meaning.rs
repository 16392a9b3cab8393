//! What rules mean: each is lowered and evaluated by the interpreter.

use super::*;
use crate::ir::{CaptureKind, Elem, Expr, Extent, Ty};
use crate::text::{check_rust_closure, check_rust_fn, parse_rust_fn};

#[track_caller]
fn rust_rule(text: &str, kind: RuleKind, library: &dyn Library) -> Rule {
    let faults = check_rust_fn(source(text), kind);
    assert_eq!(faults, Vec::new(), "{text}");
    let item = match parse_rust_fn(source(text), kind) {
        Ok(item) => item,
        Err(faults) => panic!("{}", faults.render(false)),
    };
    let module = Module {
        source: source(text),
        items: vec![item],
    };
    unwrap_rule(lower(&module, None, &LowerOptions::default(), library))
}

#[test]
fn packed_documents() {
    let rule = rule("/// Packed.\nmask packed(doc: [i32; kv_len]) = kv <= q && doc[q] == doc[kv]");
    assert_eq!(rule.doc, "Packed.");
    let bindings = bindings(&[ints(&[0, 0, 0, 1, 1, 2, 2, 2])], &[]);
    insta::assert_snapshot!(draw(&rule, &bindings), @r"
    #.......
    ##......
    ###.....
    ...#....
    ...##...
    .....#..
    .....##.
    .....###
    ");
}

#[test]
fn precedence_is_that_of_rust() {
    check_score("(1 + 2 * 3 - 4 / 2 % 3) as f32", (0, 0), "5.0");
    check_score("(1 | 6 ^ 3 & 2 << 1 + 0) as f32", (0, 0), "7.0");
    check_score("(-q.pow(2)) as f32", (3, 0), "-9.0");
    check_score("-q as f32 / 2.0", (3, 0), "-1.5");
    check_score(
        "if !(q < 3) && kv < 3 || h == 1 { 1.0 } else { 0.0 }",
        (0, 0),
        "1.0",
    );
    check_score("if q & 1 == 1 { 1.0 } else { 0.0 }", (3, 0), "1.0");
    check_score("(7 - 2 - 1) as f32", (0, 0), "4.0");
}

#[test]
fn literals_take_the_type_of_what_surrounds_them() {
    check_score("(1 + 2 * 3 + q as i64) as f32", (5, 0), "12.0");
    check_score("if 2 * 3 < q as u32 { 1.0 } else { 0.0 }", (7, 0), "1.0");
    check_score("(0xff & 0b1010 | 1_000) as f32", (0, 0), "1002.0");
    check_score("1e-3 + 1. + 2.5e2f32 + 1f32", (0, 0), "252.001");
    check_score("5_000_000_000i64 as f32", (0, 0), "5000000000.0");
    check_score(
        "(4294967295 as u32).wrapping_mul(3) as f32",
        (0, 0),
        "4294967300.0",
    );
    check_score("min(3, q as i64) as f32", (9, 0), "3.0");
    check_score("(i32::MIN + 1) as f32", (0, 0), "-2147483600.0");
    check_score("-2147483648 as f32", (0, 0), "-2147483600.0");
    check_score("if q == 0 { 1 } else { kv as i64 } as f32", (1, 7), "7.0");
    check_score(
        "(i64::from(q) + 5_000_000_000i64) as f32",
        (0, 7),
        "5000000000.0",
    );
    check_score("f32::from(q < kv) + i32::from(q) as f32", (1, 7), "2.0");
}

#[test]
fn built_in_functions() {
    check_score("abs(q - kv) as f32", (1, 4), "3.0");
    check_score("(q - kv).abs().max(2).min(9) as f32", (1, 4), "3.0");
    check_score("q.clamp(2, 5) as f32", (9, 0), "5.0");
    check_score("(q - 8).div_floor(3) as f32", (0, 0), "-3.0");
    check_score("(q - 8).rem_floor(3) as f32", (0, 0), "1.0");
    check_score("(q - 8).div_euclid(3) as f32", (0, 0), "-3.0");
    check_score("i32::rem_euclid(q - 8, 3) as f32", (0, 0), "1.0");
    check_score("(q - 8) as f32 % 3.0", (0, 0), "-2.0");
    check_score("((q - 8) / 3) as f32", (0, 0), "-2.0");
    check_score("signum(q - kv) as f32 + (-0.5).signum()", (0, 4), "-2.0");
    check_score(
        "3.pow(4) as f32 + 2.0.powi(3) + powf(4.0, 0.5)",
        (0, 0),
        "91.0",
    );
    check_score(
        "math::sqrt(4.0) + maskwright::math::floor(2.5) + f32::max(1.0, score)",
        (0, 0),
        "5.0",
    );
    check_score(
        "exp2(-3.0) + ceil(0.5) + trunc(1.5) + round(2.5)",
        (0, 0),
        "5.125",
    );
    check_score("i32::MAX.wrapping_add(1) as f32", (0, 0), "-2147483600.0");
    check_score("-f32::INFINITY", (0, 0), "-inf");
    check_score("if kv <= q { score } else { -inf }", (0, 4), "-inf");
    check_score("std::f32::consts::PI", (0, 0), "3.1415927");
    check_score("(q > kv) as i32 as f32", (4, 0), "1.0");
}

#[test]
fn branches() {
    check_score(
        "match q { 0 => 10, 1 | 2 => 20, 3..=5 => 30, -1 => 40, 6.. => 50, _ => 60 } as f32",
        (2, 0),
        "20.0",
    );
    check_score(
        "match q { 0 => 10.0, 1 | 2 => 20.0, 3..5 => 30.0, n if n > 6 => n as f32, _ => 60.0 }",
        (4, 0),
        "30.0",
    );
    check_score(
        "match q { 0 => 10.0, 1 | 2 => 20.0, n if n > 6 => n as f32, _ => 60.0 }",
        (7, 0),
        "7.0",
    );
    check_score("match q < kv { true => 1.0, false => 2.0 }", (4, 0), "2.0");
    check_score(
        "if q == 0 { 1.0 } else if q == 1 { 2.0 } else { 3.0 }",
        (1, 0),
        "2.0",
    );
}

#[test]
fn reductions() {
    check_same(
        "mask m() = any(i in 0..3, kv == q - 2 * i)",
        "mask m() = kv == q || kv == q - 2 || kv == q - 4",
    );
    check_same(
        "mask m() = all(i in 1..=2, (kv + q) % (i + 1) == 0)",
        "mask m() = (0..2).all(|i| (kv + q) % (i + 2) == 0)",
    );
    check_score("sum(i in 0..4, i * q) as f32", (2, 0), "12.0");
    check_score(
        "sum(i in 0u32..4, i.wrapping_mul(q as u32)) as f32",
        (2, 0),
        "12.0",
    );
    check_score("sum(i in 2..=i32::MIN + 1, 1) as f32", (2, 0), "0.0");
    check_score("sum(i in 0..4, i as f32 * 0.5)", (2, 0), "3.0");
    check_score("(0..4).map(|i| i as f32).sum::<f32>()", (2, 0), "6.0");
    check_score("sum::<f32>(i in 4..4, i as f32) + 1.0", (2, 0), "1.0");
    check_score("sum(i in 0..3, sum(j in 0..i, 1)) as f32", (2, 0), "3.0");
    let wide = rule("mask m() = any(i in 0..1000, kv == q + i)");
    assert!(wide.arena.depth(wide.root) < 16);
}

#[test]
fn statements() {
    check_score("{ let x: i64 = 3; let y = x + 1; y as f32 }", (0, 0), "4.0");
    check_score(
        "{ let mut x = 1; for i in 0..4 { x += i; x *= 2; } x as f32 }",
        (0, 0),
        "38.0",
    );
    check_score(
        "{ let mut x = 1; if q > 3 { x = 5; } else if q > 1 { x <<= 3; } x as f32 }",
        (2, 0),
        "8.0",
    );
    check_score(
        "{ let mut x = 1; match q { 0 => x = 7, 1 => { x -= 3; } _ => {} } x as f32 }",
        (1, 0),
        "-2.0",
    );
    check_score(
        "{ let mut x = 1; { let x = 2; } x += 1; x as f32 }",
        (0, 0),
        "2.0",
    );
    check_score("{ let x = 1; let x = x + 1; x as f32 }", (0, 0), "2.0");
    check_score(
        "{ let mut a = 0; let mut b = 1; for _i in 0..10 { let c = a + b; a = b; b = c; } a as f32 }",
        (0, 0),
        "55.0",
    );
}

#[test]
fn early_returns() {
    let text = "mask m() {
        if kv > q { return false; }
        for i in 0..3 {
            if kv == 2 * i { return true; }
            if q == 7 && kv == i { return h == 0; }
        }
        match q { 3 => return true, 5 => { if kv == 5 { return true; } } _ => {} }
        q == kv + 1
    }";
    insta::assert_snapshot!(draw(&rule(text), &Bindings::default()), @r"
    #.......
    #.......
    ###.....
    ####....
    #.###...
    #.#.##..
    #.#.##..
    #.#.#.#.
    ");
    check_same(
        "mask m() { if q < 3 { return kv == 0; } else { return kv == 1; } }",
        "mask m() = if q < 3 { kv == 0 } else { kv == 1 }",
    );
    check_same(
        "mask m() { if q < 3 { if kv < 2 { return true; } kv == 5 } else { kv == 1 } }",
        "mask m() = if q < 3 { kv < 2 || kv == 5 } else { kv == 1 }",
    );
    check_same(
        "mask m() { let mut n = 0; for i in 0..8 { if i == kv { return n <= q; } n += 1; } false }",
        "mask m() = kv <= q",
    );
}

#[test]
fn lets_are_eager_and_guards_are_lazy() {
    let bindings = bindings(&[ints(&[0, 1, 2])], &[]);
    let guarded = rule("mask m(x: [i32; 3]) = q < 3 && x[q] == kv");
    assert_eq!(value(&guarded, &bindings, &at(7, 0)), "false");
    let eager = rule("mask m(x: [i32; 3]) { let v = x[q]; q < 3 && v == kv }");
    assert_eq!(
        value(&eager, &bindings, &at(7, 0)),
        "index 7 leaves axis 0 of capture 0, which has extent 3"
    );
    let unused = rule("mask m(x: [i32; 3]) { let v = x[q]; true }");
    assert_eq!(value(&unused, &bindings, &at(1, 0)), "true");
    assert!(value(&unused, &bindings, &at(7, 0)).contains("leaves axis"));
    let argument = rule("fn f(v: i32) -> bool = true mask m(x: [i32; 3]) = f(x[q])");
    assert!(value(&argument, &bindings, &at(7, 0)).contains("leaves axis"));
    let branch = rule("mask m(x: [i32; 3]) { if q < 5 { let v = x[q]; } true }");
    assert!(value(&branch, &bindings, &at(4, 0)).contains("leaves axis"));
    assert_eq!(value(&branch, &bindings, &at(6, 0)), "true");
    let assigned =
        rule("mask m(x: [i32; 3]) { let mut v = 0; if q < 5 { v = x[q]; v = 1; } v < 3 }");
    assert!(value(&assigned, &bindings, &at(4, 0)).contains("leaves axis"));
    assert_eq!(value(&assigned, &bindings, &at(6, 0)), "true");
}

#[test]
fn a_let_that_is_used_at_once_needs_no_node_of_its_own() {
    let rule = rule("mask m() { let d = q - kv; d >= 0 && d < 3 }");
    assert!(
        rule.arena
            .ids()
            .all(|id| !matches!(rule.arena.expr(id), Expr::Then { .. }))
    );
}

#[test]
fn reads() {
    let table: Vec<f32> = (0..32u8).map(f32::from).collect();
    let values = [
        buffer(BufferData::F32(table.into()), &[4, 8]),
        buffer(BufferData::I32(vec![5].into()), &[]),
        halves(&[0.5, 1.5, 2.5, 3.5]),
    ];
    let text = |read: &str| {
        format!(
            "score m(table: [f32; num_q_heads, kv_len], past: [i32;], slope: [f16; num_q_heads]) = {read}"
        )
    };
    for read in [
        "table[h, q]",
        "table[[h, q]]",
        "table[h][q]",
        "table[h as usize, q as usize]",
    ] {
        let rule = rule(&text(read));
        assert_eq!(
            value(&rule, &bindings(&values, &[]), &at(3, 0)),
            "11.0",
            "{read}"
        );
    }
    let rule = rule(&text("slope[h] + (past + past[]) as f32"));
    assert_eq!(value(&rule, &bindings(&values, &[]), &at(3, 0)), "11.5");
}

#[test]
fn heads_declare_extents_ranges_and_dimension_names() {
    let rule = rule_with(
        "mask m(const K: i32 in 1..=8, doc: [u8; batch, 2 * kv_len] in 0..docs, start: [i32; docs + 1, 4],
               w: i64 in -1..pages, x: [i32; docs], y: Buffer<bf16, 3>) = docs < K",
        &[("K", 4)],
    );
    let names: Vec<_> = rule.dims.iter().map(|dim| dim.name.as_str()).collect();
    assert_eq!(names, ["docs", "pages"]);
    let captures: Vec<_> = rule.captures.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(captures, ["doc", "start", "w", "x", "y"]);
    let CaptureKind::Buffer { elem, extents } = &rule.captures[0].kind else {
        panic!("doc is a buffer")
    };
    assert_eq!(*elem, Elem::U8);
    assert!(extents.iter().all(|e| matches!(e, Extent::AtLeast(_))));
    let max = rule.captures[0].max.expect("a range is declared");
    let bound = bindings(&[], &[7, 3]);
    let mut evaluator = ScalarEvaluator::new(&rule, &bound, SIZES);
    assert_eq!(evaluator.eval_expr(max, &at(0, 0)), Ok(Const::I32(6)));
    let min = rule.captures[2].min.expect("a range is declared");
    assert_eq!(rule.arena.as_const(min), Some(Const::I64(-1)));
    assert_eq!(
        rule.captures[4].kind,
        CaptureKind::Buffer {
            elem: Elem::Bf16,
            extents: vec![Extent::Unspecified; 3],
        }
    );
    assert_eq!(value(&rule, &bound, &at(0, 0)), "false");
}

#[test]
fn rules_and_functions_call_one_another() {
    check_same(
        "mask causal() = kv <= q
         mask window(w: i32) = causal() && q - kv < w
         fn near(x: i32, y: i32, n: i32) -> bool { let d = abs(x - y); d <= n }
         mask m() = window(1 + 2) || near(q, kv, 0)",
        "mask m() = kv <= q && q - kv < 3",
    );
    let calls = rule(
        "mask doc_of(doc: [i32; n], limit: i32) = doc[q] == doc[kv] && kv < n && q < limit
         mask m(d: [i32; kv_len], e: &[i32]) = doc_of(d, 8) && doc_of(e, 9)",
    );
    assert_eq!(calls.captures.len(), 2);
    assert_eq!(calls.dims.len(), 1, "the extent of `e` has got a name");
    let bound = bindings(
        &[
            ints(&[0, 0, 0, 0, 1, 1, 1, 1]),
            ints(&[0, 1, 0, 1, 0, 1, 0, 1]),
        ],
        &[8],
    );
    insta::assert_snapshot!(draw(&calls, &bound), @r"
    #.#.....
    .#.#....
    #.#.....
    .#.#....
    ....#.#.
    .....#.#
    ....#.#.
    .....#.#
    ");
    check_same(
        "mask stripes(const K: i32) = any(i in 0..K, kv == q - i * K)
         mask m() = stripes(3)",
        "mask m() = kv == q || kv == q - 3 || kv == q - 6",
    );
}

#[test]
fn a_library_lends_its_rules() {
    let library = TextLibrary(Arc::new(module(
        "mask causal() = kv <= q  score soft(cap: f32) = cap * tanh(score / cap)
         mask broken() = causal() && missing(3)",
    )));
    let options = LowerOptions::default();
    let rule = unwrap_rule(lower_expression(
        "causal() && h == 1",
        RuleKind::Mask,
        &options,
        &library,
    ));
    assert_eq!(value(&rule, &Bindings::default(), &at(3, 2)), "true");
    let faults = lower_expression("q < 3 || broken()", RuleKind::Mask, &options, &library)
        .expect_err("the library's rule has a fault");
    insta::assert_snapshot!(faults.render(false), @"
    error[unknown-function]: in `broken`: expected a function, found the unknown name `missing`
     --> expression:1:10
      |
    1 | q < 3 || broken()
      |          ^^^^^^^^
      |
      = help: functions are built in, written with `fn`, or rules of this text or of the catalogue
    ");
}

#[test]
fn expressions_capture_free_names_in_order_of_use() {
    let options = LowerOptions {
        consts: BTreeMap::from([("k".to_owned(), 3)]),
        free_scalars: BTreeMap::from([("w".to_owned(), Ty::I32), ("k".to_owned(), Ty::I32)]),
        free_buffers: BTreeMap::from([("doc".to_owned(), (Elem::U8, 1))]),
    };
    let text = "q - kv < w && doc[q] == doc[kv] && any(i in 0..k, i == k)";
    let rule = unwrap_rule(lower_expression(
        text,
        RuleKind::Mask,
        &options,
        &EmptyLibrary,
    ));
    let names: Vec<_> = rule.captures.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["w", "doc", "k"]);
    let bound = bindings(
        &[
            scalar(4),
            buffer(BufferData::U8(vec![1; 8].into()), &[8]),
            scalar(2),
        ],
        &[],
    );
    assert_eq!(value(&rule, &bound, &at(3, 1)), "true");
}

#[test]
fn rust_functions() {
    let text = "
        #[doc = \" Packed.\"] #[inline]
        pub(crate) fn packed<'a>(q_idx: i32, kv_idx: i32, doc: &'a [i32], table: crate::Buffer<f32, 2>, mut w: i32) -> bool {
            let d = doc[q_idx as usize];
            w += 1;
            if d != doc[kv_idx] { return false; }
            kv_idx <= q_idx && (q_idx - kv_idx).abs() < w && table[[0, q_idx]] > 0.0f32
        }";
    let rule = rust_rule(text, RuleKind::Mask, &EmptyLibrary);
    assert_eq!(
        (rule.name.as_str(), rule.doc.as_str()),
        ("packed", "Packed.")
    );
    let bound = bindings(
        &[
            ints(&[0, 0, 0, 0, 1, 1, 1, 1]),
            buffer(BufferData::F32(vec![1.0; 8].into()), &[1, 8]),
            scalar(1),
        ],
        &[],
    );
    insta::assert_snapshot!(draw(&rule, &bound), @r"
    #.......
    ##......
    .##.....
    ..##....
    ....#...
    ....##..
    .....##.
    ......##
    ");
    let score = "fn alibi(score: f32, h: i32, q_idx: i32, kv_idx: i32, slope: &[f32]) -> f32 {
        score + slope[h] * (kv_idx - q_idx) as f32 }";
    let rule = rust_rule(score, RuleKind::Score, &EmptyLibrary);
    let bound = bindings(
        &[buffer(BufferData::F32(vec![0.5, 0.25].into()), &[2])],
        &[],
    );
    assert_eq!(value(&rule, &bound, &at(4, 2)), "0.0");
}

#[test]
fn rust_functions_call_by_position() {
    let library = TextLibrary(Arc::new(module(
        "#[attention_mask] fn causal(q_idx: i32, kv_idx: i32) -> bool { kv_idx <= q_idx }
         #[attention_mask] fn stripes<const N: i32>(q: i32, w: &[i32], kv: i32) -> bool {
             (0..N).any(|i| kv == q - w[0] * i) }
         mask text(w: i32) = q - kv < w",
    )));
    let text = "fn shifted(q_idx: i32, kv_idx: i32, step: &[i32]) -> bool {
        causal(q_idx - 1, kv_idx) && self::stripes::<2>(q_idx, &step, kv_idx) || text(1) && causal(q_idx, kv_idx) }";
    let rule = rust_rule(text, RuleKind::Mask, &library);
    let bound = bindings(&[ints(&[3])], &[]);
    insta::assert_snapshot!(draw(&rule, &bound), @r"
    #.......
    .#......
    ..#.....
    #..#....
    .#..#...
    ..#..#..
    ...#..#.
    ....#..#
    ");
    // Called from text, a function of Rust gets its variables like any rule.
    let options = LowerOptions::default();
    let rule = unwrap_rule(lower_expression(
        "causal()",
        RuleKind::Mask,
        &options,
        &library,
    ));
    assert_eq!(value(&rule, &Bindings::default(), &at(1, 2)), "false");
}

#[test]
fn functions_are_checked_without_what_they_call() {
    let check = |text: &str| check_rust_fn(source(text), RuleKind::Mask);
    assert_eq!(
        check(
            "fn m<const N: i32>(q: i32, kv: i32, t: &[i32]) -> bool { (0..N).any(|i| elsewhere(q, t, kv + i)) }"
        ),
        Vec::new()
    );
    let faults = check("fn m(q: i32, kv: i32) -> bool { elsewhere(q + 1.0, kvv) && q }");
    let messages: Vec<_> = faults.iter().map(|f| f.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`+` takes two values of one type, found `i32` and `f32`",
            "expected a value, found the unknown name `kvv`",
            "expected `bool` beside `&&`, found `i32`",
        ]
    );
}

#[test]
fn closures_are_checked_without_the_types_of_their_captures() {
    let captures = ["w".to_owned(), "doc".to_owned()];
    let check = |body: &str| {
        let text = format!("fn closure(q: i32, kv: i32) -> bool {{ {body} }}");
        let faults = check_rust_closure(source(&text), RuleKind::Mask, &captures);
        faults
            .into_iter()
            .map(|fault| fault.message)
            .collect::<Vec<_>>()
    };
    assert!(check("q - kv < w && doc[q] == doc[[kv, 1]].min(w) && near(q, doc)").is_empty());
    assert_eq!(
        check("q < v && (0..w).any(|i| i == q)"),
        [
            "expected a value, found the unknown name `v`",
            "expected a constant, found the capture `w`"
        ]
    );
}

/// Two functions are called `near`; which is meant depends on the path.
struct Paths(Arc<Module>);

impl Library for Paths {
    fn find(&self, _: &str) -> Option<(Arc<Module>, usize)> {
        None
    }

    fn find_path(&self, caller: &Module, path: &[&str]) -> Option<(Arc<Module>, usize)> {
        assert_eq!(caller.items[0].name.text, "near");
        (path == ["a", "near"]).then(|| (Arc::clone(&self.0), 0))
    }
}

#[test]
fn a_path_may_name_a_function_of_its_callers_name() {
    let parsed = |text: &str| {
        let source = source(text);
        let item = parse_rust_fn(Arc::clone(&source), RuleKind::Mask).unwrap();
        Module {
            source,
            items: vec![item],
        }
    };
    let called = Arc::new(parsed("fn near(q: i32) -> bool { q == 7 }"));
    let caller = parsed("fn near(q: i32, kv: i32) -> bool { a::near(q) && kv == 1 }");
    let options = LowerOptions::default();
    let rule = unwrap_rule(lower(&caller, None, &options, &Paths(called)));
    assert_eq!(value(&rule, &Bindings::default(), &at(7, 1)), "true");
    assert_eq!(value(&rule, &Bindings::default(), &at(6, 1)), "false");
    assert!(check_rust_fn(caller.source, RuleKind::Mask).is_empty());
}
