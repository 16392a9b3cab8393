//! One test for each construct, and files that compilers made.

use super::{ParseFault, parse};
use crate::ast::{Function, Module, Operand, Space, Type};

const HEADER: &str = ".version 8.8 .target sm_90a, debug .address_size 64\n";

#[track_caller]
fn module(text: &str) -> Module {
    parse(&format!("{HEADER}{text}")).unwrap_or_else(|error| panic!("{error}"))
}

/// A kernel of this body, with a register of every kind.
#[track_caller]
fn kernel(body: &str) -> Function {
    let text = format!(
        ".extern .shared .align 16 .b8 smem[];
        .func (.reg .b32 out) twice(.reg .b32 in);
        .entry f(.param .u64 p, .param .align 64 .b8 map[128]) {{
        .reg .pred %p<4>, q; .reg .b32 %r<10>; .reg .b64 %rd<4>; .reg .f32 %f<4>;
        {body}
        }}"
    );
    let mut module = module(&text);
    module.functions.swap_remove(0)
}

fn show_operand(function: &Function, operand: &Operand) -> String {
    let show = |operand: &Operand| show_operand(function, operand);
    let all = |operands: &[Operand]| {
        let shown: Vec<_> = operands.iter().map(show).collect();
        shown.join(" ")
    };
    match operand {
        Operand::Register(id) => function.registers[id.0 as usize].name.clone(),
        Operand::Not(id) => format!("!{}", function.registers[id.0 as usize].name),
        Operand::Sink => "_".to_owned(),
        Operand::Integer(value) => value.to_string(),
        Operand::F32(bits) => format!("{:?}f", f32::from_bits(*bits)),
        Operand::F64(bits) => format!("{:?}d", f64::from_bits(*bits)),
        Operand::Special(name) => format!("<{name}>"),
        Operand::Symbol(name) => format!("&{name}"),
        Operand::SymbolOffset(name, offset) => format!("&{name}{offset:+}"),
        Operand::Address {
            base,
            offset,
            coordinates,
        } => format!("[{}{offset:+} {{{}}}]", show(base), all(coordinates)),
        Operand::Vector(elements) => format!("{{{}}}", all(elements)),
        Operand::List(elements) => format!("({})", all(elements)),
        Operand::Pair(first, second) => format!("{}|{}", show(first), show(second)),
        Operand::Label(index) => format!("->{index}"),
        Operand::Labels(indices) => format!("->{indices:?}"),
        Operand::Prototype(name) => format!("proto {name}"),
    }
}

fn show(function: &Function) -> Vec<String> {
    let line = |instruction: &crate::ast::Instruction| {
        let mut parts = vec![instruction.opcode.clone()];
        if let Some((id, is_negated)) = instruction.guard {
            let not = if is_negated { "!" } else { "" };
            let name = &function.registers[id.0 as usize].name;
            parts[0] = format!("@{not}{name} {}", instruction.opcode);
        }
        for modifier in &instruction.modifiers {
            parts.push(format!(" .{modifier}"));
        }
        for operand in &instruction.operands {
            parts.push(format!(", {}", show_operand(function, operand)));
        }
        parts.concat()
    };
    function.body.iter().map(line).collect()
}

#[track_caller]
fn check(body: &str, expected: &[&str]) {
    assert_eq!(show(&kernel(body)), expected);
}

/// Checks the fault of a whole module (its header aside), with its line and column.
#[track_caller]
fn check_error(text: &str, expected: &str) {
    let error = parse(&format!("{HEADER}{text}")).expect_err("the text has a fault");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn instructions_are_split_at_dots() {
    check(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [map, {%r2, 3}], [%r4+8];
        mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0,%f1}, {%r0}, {%r1}, {%f0,%f1};
        @%p1 ret; @!q exit;",
        &[
            "cp .async .bulk .tensor .2d .shared::cluster .global .tile .mbarrier::complete_tx::bytes, \
             [%r1+0 {}], [&map+0 {%r2 3}], [%r4+8 {}]",
            "mma .sync .aligned .m16n8k16 .row .col .f32 .bf16 .bf16 .f32, {%f0 %f1}, {%r0}, {%r1}, {%f0 %f1}",
            "@%p1 ret",
            "@!q exit",
        ],
    );
}

#[test]
fn numbers_have_many_forms() {
    check(
        "x 1, -1, 0x1F, 0X1fU, 017, 0b101, 12U, 0, 18446744073709551615, WARP_SZ, - 5, -0x80000000;
        x 0f3F800000, 0F40000000, -0f3F800000, 0d3FF0000000000000, 1.5, 25e-1, -0.5;",
        &[
            "x, 1, -1, 31, 31, 15, 5, 12, 0, 18446744073709551615, 32, -5, -2147483648",
            "x, 1.0f, 2.0f, -1.0f, 1.0d, 1.5d, 2.5d, -0.5d",
        ],
    );
}

#[test]
fn operands_have_many_forms() {
    check(
        "x _, %tid.x, %laneid, %envreg3, %clock64, smem, smem+8, p, !%p1, %r1|%p1, _|q;
        x [%rd1], [%rd1+4], [ %rd1 + -4 ], [%rd1-4], [%rd1+4+4], [smem], [smem+16], [p+4], [128];
        x {%r1, _, 3, 0f3F800000}, {%r1};",
        &[
            "x, _, <%tid.x>, <%laneid>, <%envreg3>, <%clock64>, &smem, &smem+8, &p, !%p1, %r1|%p1, _|q",
            "x, [%rd1+0 {}], [%rd1+4 {}], [%rd1-4 {}], [%rd1-4 {}], [%rd1+8 {}], [&smem+0 {}], [&smem+16 {}], [&p+4 {}], [128+0 {}]",
            "x, {%r1 _ 3 1.0f}, {%r1}",
        ],
    );
}

#[test]
fn labels_are_indices_within_their_scope() {
    check(
        "top: add.u32 %r1, %r1, 1;
        { done: inner: @%p1 bra done; bra.uni top; bra end; }
        { done: bra done; bra below; below: }
        end:",
        &[
            "add .u32, %r1, %r1, 1",
            "@%p1 bra, ->1",
            "bra .uni, ->0",
            "bra, ->6",
            "bra, ->4",
            "bra, ->6",
        ],
    );
}

#[test]
fn registers_of_nested_scopes_hide_outer_ones() {
    let function = kernel(
        "mov.b32 %r1, %r2;
        { .reg .f32 %r1; .reg .b16 t<3>; mov.b32 %r1, t2; }
        mov.b32 %r1, %r9;",
    );
    let registers: Vec<_> = function
        .registers
        .iter()
        .map(|it| (it.name.as_str(), it.ty))
        .collect();
    let expected = [
        ("%r1", Type::B32),
        ("%r2", Type::B32),
        ("%r1", Type::F32),
        ("t2", Type::B16),
        ("%r9", Type::B32),
    ];
    assert_eq!(registers, expected);
    assert_eq!(function.body[2].operands[0], function.body[0].operands[0]);
}

#[test]
fn calls_have_one_form() {
    check(
        "{ .param .b32 param0; .param .align 8 .b8 ret0[16];
          st.param.b32 [param0+0], %r1;
          call.uni (ret0), twice, (param0, 3);
          call (%r1), twice, (%r2);
          call.uni twice;
          call.uni twice, (%r1);
          proto : .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _) .noreturn;
          call (ret0), %rd1, (param0), proto; }
        { .param .b32 param0; st.param.b32 [param0], 1; }",
        &[
            "st .param .b32, [&param0@1+0 {}], %r1",
            "call .uni, (&ret0@2), &twice, (&param0@1 3)",
            "call, (%r1), &twice, (%r2)",
            "call .uni, (), &twice, ()",
            "call .uni, (), &twice, (%r1)",
            "call, (&ret0@2), %rd1, (&param0@1), proto proto",
            "st .param .b32, [&param0@3+0 {}], 1",
        ],
    );
}

#[test]
fn jump_tables_are_lists_of_labels() {
    check(
        "table: .branchtargets one, two, one;
        brx.idx %r1, table;
        one: mov.b32 %r1, 1;
        two: brx.idx.uni %r2, table;",
        &[
            "brx .idx, %r1, ->[1, 2, 1]",
            "mov .b32, %r1, 1",
            "brx .idx .uni, %r2, ->[1, 2, 1]",
        ],
    );
}

#[test]
fn heads_are_read() {
    let module = module(
        ".visible .func (.param .align 8 .b8 r[16]) g(.reg .b32 %a, .param .b64 b) .noreturn ;
        .weak .entry k(.param .u8 a, .param .u64 .ptr .global .align 1 b, .param .align 64 .b8 c[128], .param .v4 .f32 d)
        .maxntid 128, 2 .minnctapersm 2 .maxnreg 64 .pragma \"x\", \"y\"; .reqnctapercluster 2, 1, 1 .explicitcluster
        { }
        .func (.param .align 8 .b8 r[16]) g(.reg .b32 %a, .param .b64 b) .abi_preserve 3 { mov.b32 %a, %a; }
        .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
        .entry none .reqntid 32 { ret; }",
    );
    let names: Vec<_> = module.functions.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["k", "g", "none", "vprintf"]);
    let k = &module.functions[0];
    assert!(k.is_entry);
    assert_eq!(k.max_threads, Some([128, 2, 1]));
    assert_eq!(k.cluster, Some([2, 1, 1]));
    let params: Vec<_> = k
        .params
        .iter()
        .map(|it| (it.offset, it.size, it.align))
        .collect();
    assert_eq!(params, [(0, 1, 1), (8, 8, 8), (64, 128, 64), (192, 16, 16)]);
    assert_eq!(show(k), ["ret"]);
    let g = &module.functions[1];
    assert!(g.params[0].is_register && !g.params[1].is_register);
    assert_eq!(g.registers.len(), 1);
    assert_eq!(g.returns[0].size, 16);
    assert_eq!(module.functions[2].max_threads, Some([32, 1, 1]));
    assert!(module.functions[3].body.is_empty());
}

#[test]
fn variables_have_their_bytes() {
    let module = module(
        ".extern .shared .align 16 .b8 smem[]; .extern .shared .align 16 .b8 smem[];
        .global .align 4 .b8 a[16] = {1, 2, 255, -1};
        .visible .global .u32 b = 7, c;
        .const .u16 d[2][3] = {{1, 2}, {3}};
        .global .attribute(.managed) .f32 e[2] = {0f3F800000, 2.0};
        .global .f64 w = 1;
        .global .v2 .u16 h[2] = {{1}, {2, 3}};
        .extern .global .b32 later; .global .b32 later = 1;
        .extern .global .b32 elsewhere;
        .entry f() { .shared .align 8 .b8 s[32]; .local .b8 depot[8]; .shared .b32 a; mov.b32 a, smem; }
        .entry g() { .shared .align 8 .b8 s[32]; { .shared .b8 t; } }",
    );
    let of = |name: &str| {
        let found = module.variables.iter().find(|it| it.name == name);
        found.unwrap_or_else(|| panic!("no variable {name}"))
    };
    assert_eq!((of("smem").size, of("smem").align), (0, 16));
    assert_eq!(of("a").init, [1, 2, 255, 255]);
    assert_eq!(
        (of("b").init.as_slice(), of("c").size),
        ([7, 0, 0, 0].as_slice(), 4)
    );
    assert_eq!(of("d").init, [1, 0, 2, 0, 0, 0, 3, 0]);
    assert_eq!(of("e").init, [0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]);
    assert_eq!(of("w").init, 1_f64.to_le_bytes());
    assert_eq!(
        (of("h").init.as_slice(), of("h").align),
        ([1, 0, 0, 0, 2, 0, 3, 0].as_slice(), 4)
    );
    assert_eq!(of("later").init, [1, 0, 0, 0]);
    let names: Vec<_> = module.variables.iter().map(|it| it.name.as_str()).collect();
    let expected = [
        "smem", "a", "b", "c", "d", "e", "w", "h", "later", "s", "a@1", "s@2", "t@3",
    ];
    assert_eq!(names, expected);
    assert_eq!(of("s").space, Space::Shared);
    assert_eq!(module.functions[0].variables[0].name, "depot");
    assert_eq!(
        module.functions[0].body[0].operands[0],
        Operand::Symbol("a@1".to_owned())
    );
}

#[test]
fn lines_of_the_source_are_kept() {
    let module = module(
        ".entry f() {
        ret;
        .loc 3 10 5
        ret;
        .loc 1 20 0, function_name $L__info_string0+12, inlined_at 3 40 5
        ret;
        .loc 9 30 1
        ret;
        }
        .file 1 \"/src/a.cu\"
        .file 3 \"b.cuh\", 1700000000, 512
        .section .debug_str { $L__info_string0: .b8 95 .b8 { 1 } .b32 .debug_abbrev+4 }",
    );
    assert_eq!(module.files, ["/src/a.cu", "b.cuh"]);
    let locations = module.functions[0].body.iter().map(|it| it.location);
    let locations: Vec<_> = locations
        .map(|it| (it.line, it.file, it.source_line))
        .collect();
    assert_eq!(locations, [(3, 0, 0), (5, 2, 10), (7, 1, 20), (9, 0, 30)]);
}

#[test]
fn comments_and_pragmas_say_nothing() {
    check(
        "// begin inline asm\n/* two\n lines */ .pragma \"nounroll\"; ; ret; // é",
        &["ret"],
    );
}

#[test]
fn faults_say_where_and_what() {
    check_error(
        ".entry f() {\n  ret 1 2;\n}",
        "line 3, column 9: expected `;`, found `2`: `ret 1 2;`",
    );
    check_error(
        ".entry f() { .reg .b32 %r<4>; mov.b32 %r1, %r4; }",
        "line 2, column 44: no register `%r4` in scope: `.entry f() { .reg .b32 %r<4>; mov.b32 %r1, %r4; }`",
    );
    check_error(
        ".entry f() { { here: } bra here; }",
        "line 2, column 28: no label `here` in scope: `.entry f() { { here: } bra here; }`",
    );
    check_error(
        ".entry f() { a: t: .branchtargets a; bra t; bra b; }",
        "line 2, column 42: no label `t` in scope: `.entry f() { a: t: .branchtargets a; bra t; bra b; }`",
    );
    check_error(
        ".entry f() { call g; }",
        "line 2, column 19: no variable or function `g` in scope: `.entry f() { call g; }`",
    );
    check_error(
        ".entry f() { .reg .b32 r; @r ret; }",
        "line 2, column 28: expected a predicate, found `r`: `.entry f() { .reg .b32 r; @r ret; }`",
    );
    check_error(
        ".entry f() { ret;",
        "line 2, column 18: expected an instruction, a label or `}`, found the end of the text: `.entry f() { ret;`",
    );
    check_error(
        ".entry f() { .reg .b32 a, a; }",
        "line 2, column 27: `a` is declared twice: `.entry f() { .reg .b32 a, a; }`",
    );
    check_error(
        ".global .b8 é;",
        "line 2, column 13: expected PTX, found the character 'é': `.global .b8 é;`",
    );
    check_error(
        "/* open",
        "line 2, column 1: expected the end of a comment, found the end of the text: `/* open`",
    );
    check_error(
        ".global .u8 x = 256;",
        "line 2, column 17: expected a number of the variable's type, found `256`: `.global .u8 x = 256;`",
    );
    check_error(
        ".global .b64 x = generic(y);",
        "line 2, column 18: addresses and expressions in initial values are not supported: `.global .b64 x = generic(y);`",
    );
    check_error(
        ".global .b8 x[2] = {1, 2, 3};",
        "line 2, column 27: expected `}`, since the array is full, found `3`: `.global .b8 x[2] = {1, 2, 3};`",
    );
    check_error(
        ".global .align 3 .b8 x;",
        "line 2, column 16: expected a power of two as an alignment, found the number 3: `.global .align 3 .b8 x;`",
    );
    check_error(
        ".entry f() { .reg .v4 .f32 v; }",
        "line 2, column 19: vector registers are not supported: `.entry f() { .reg .v4 .f32 v; }`",
    );
    check_error(
        ".alias a, b;",
        "line 2, column 1: aliases are not supported: `.alias a, b;`",
    );
    let error = parse("kernel").expect_err("no PTX");
    let expected = "line 1, column 1: expected `.version`, found `kernel`: `kernel`";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn absurd_counts_are_refused() {
    let too_large = |text: &str| {
        let error = parse(&format!("{HEADER}{text}")).expect_err("the count is absurd");
        assert!(
            matches!(error.fault, ParseFault::TooLarge { .. }),
            "{error}"
        );
    };
    too_large(".entry f() { .reg .b32 %r<4000000000>; }");
    too_large(".global .b8 x[4000000000][4000000000][4000000000];");
    too_large(".global .b8 x[4][1000000000] = {{1}, {1}};");
    too_large(".shared .b8 x[4000000];");
    too_large(".entry f() { .local .b8 x[4000000]; ret; }");
    too_large(&format!(".entry f() {{ {}", "{ ".repeat(100_000)));
    too_large(".entry f(.param .b8 x[4000000000]) { ret; }");
    too_large(".entry f() { .reg .b64 %r; ld.b8 %r, [%r+9223372036854775807+1]; }");
    let table = "a,".repeat(1 << 12);
    let jumps = "brx.idx r, t;".repeat(1 << 9);
    too_large(&format!(
        ".entry f() {{ .reg .b32 r; a: t: .branchtargets {table}a; {jumps} }}"
    ));
}

#[test]
fn registers_without_a_use_cost_nothing() {
    let text = ".entry f() { .reg .b32 %r<1000000>; mov.b32 %r999999, 1; }".to_owned();
    assert_eq!(module(&text).functions[0].registers.len(), 1);
}

#[test]
fn files_of_compilers_are_read() {
    let instructions = |text: &str| {
        let module = parse(text).unwrap_or_else(|error| panic!("{error}"));
        let entries = module.functions.iter().filter(|it| it.is_entry).count();
        (
            entries,
            module
                .functions
                .iter()
                .map(|it| it.body.len())
                .sum::<usize>(),
        )
    };
    assert_eq!(
        instructions(include_str!("../../tests/fixtures/causal_sm80.ptx")),
        (1, 885)
    );
    assert_eq!(
        instructions(include_str!("../../tests/fixtures/causal_sm90_wgmma.ptx")),
        (1, 781)
    );
    assert_eq!(
        instructions(include_str!("../../tests/fixtures/causal_sm90_tma.ptx")),
        (1, 922)
    );
}

/// Cuts a real file at every length, so that the end of the text is met in every state.
#[test]
fn a_file_may_end_anywhere() {
    let whole = include_str!("../../tests/fixtures/causal_sm90_tma.ptx");
    let head = &whole[..4000.min(whole.len())];
    for end in (0..head.len()).filter(|&end| head.is_char_boundary(end)) {
        drop(parse(&head[..end]));
    }
}
