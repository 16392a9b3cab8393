//! Every form of the tensor-core instructions in a kernel of its own: decoded, executed, and compared with the pure function.
//!
//! The functions are tested against the ISA's layouts where they stand; here it is operands, their order and their number.

use std::fmt::Write as _;

use ptx_emulator::tensor_core::Lanes;
use ptx_emulator::tensor_core::descriptor::{Descriptor, Major, Swizzle};
use ptx_emulator::tensor_core::matrix::{self, MatrixOp};
use ptx_emulator::tensor_core::mma::{self, MmaOp};
use ptx_emulator::tensor_core::wgmma::{self, Immediates, OperandA, WgmmaOp};
use ptx_emulator::{Counters, Launch, Memory, Options, Program};

/// Words without order. Exponents that would overflow are kept out by clearing the second highest bit of each element.
fn words(n: usize, seed: u32, mask: u32) -> Vec<u32> {
    (0..n as u32)
        .map(|i| {
            let x = (i + seed).wrapping_mul(0x9e37_79b1);
            (x ^ x >> 13).wrapping_mul(0x85eb_ca6b) & mask
        })
        .collect()
}

fn registers(words: &[u32]) -> Vec<Lanes> {
    words
        .chunks_exact(32)
        .map(|lanes| lanes.try_into().unwrap())
        .collect()
}

/// `{%a0, %a1, …}`
fn vector(name: &str, n: usize) -> String {
    let list: Vec<String> = (0..n).map(|i| format!("%{name}{i}")).collect();
    format!("{{{}}}", list.join(", "))
}

/// A kernel that loads registers from `in`, register by register with lane beside lane, runs `body` and stores to `out`.
///
/// `%lane` is the thread's offset in bytes in a register; a block of several warps has its registers one warp after the other.
fn kernel(
    target: &str,
    shared: usize,
    loads: &[(&str, usize)],
    body: &str,
    stores: (&str, usize),
) -> String {
    let mut text = format!(
        ".version 8.6\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 a, .param .u64 b)\n{{\n\
         .reg .b64 %in, %out, %t, %da, %db;\n.reg .b32 %thread, %lane, %warp, %at, %w;\n.reg .pred %p, %q;\n.shared .align 1024 .b8 tile[{}];\n",
        shared.max(16)
    );
    let mut declared: Vec<(&str, usize)> = loads.to_vec();
    if !declared.iter().any(|(name, _)| *name == stores.0) {
        declared.push(stores);
    }
    for (name, n) in &declared {
        writeln!(text, ".reg .b32 %{name}<{n}>;").unwrap();
    }
    let in_registers: usize = loads.iter().map(|(_, n)| n).sum();
    write!(
        text,
        "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %da, [a];\nld.param.u64 %db, [b];\n\
         mov.u32 %thread, %tid.x;\nand.b32 %lane, %thread, 31;\nshl.b32 %lane, %lane, 2;\nshr.u32 %warp, %thread, 5;\n\
         mul.lo.u32 %at, %warp, {};\nadd.u32 %at, %at, %lane;\ncvt.u64.u32 %t, %at;\nadd.u64 %in, %in, %t;\n\
         mul.lo.u32 %at, %warp, {};\nadd.u32 %at, %at, %lane;\ncvt.u64.u32 %t, %at;\nadd.u64 %out, %out, %t;\n",
        128 * in_registers,
        128 * stores.1
    )
    .unwrap();
    let mut offset = 0;
    for (name, n) in loads {
        for i in 0..*n {
            writeln!(text, "ld.global.b32 %{name}{i}, [%in+{offset}];").unwrap();
            offset += 128;
        }
    }
    text.push_str(body);
    for i in 0..stores.1 {
        writeln!(text, "st.global.b32 [%out+{}], %{}{i};", 128 * i, stores.0).unwrap();
    }
    text + "ret;\n}\n"
}

/// Runs such a kernel: what it stored, and what was counted.
#[track_caller]
fn run(
    text: &str,
    warps: u32,
    input: &[u32],
    output: usize,
    descriptors: [u64; 2],
) -> (Vec<u32>, Counters) {
    let program = Program::from_text(text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    let memory = Memory::new();
    let bytes: Vec<u8> = input.iter().flat_map(|word| word.to_le_bytes()).collect();
    let from = memory.alloc_from(&bytes);
    let to = memory.alloc(4 * output as u64).unwrap();
    let params: Vec<u8> = [from, to, descriptors[0], descriptors[1]]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect();
    let launch = Launch {
        kernel: "k",
        block: [32 * warps, 1, 1],
        params: &params,
        ..Launch::default()
    };
    let counters = program
        .launch(&memory, &launch, &Options::default())
        .unwrap_or_else(|report| panic!("{report}"));
    let bytes = memory.read(to, 4 * output).unwrap();
    (
        bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect(),
        counters,
    )
}

#[test]
fn mma_of_every_type() {
    for (form, mask) in [
        ("m16n8k8.row.col.f32.f16.f16.f32", 0xbfff_bfff),
        ("m16n8k8.row.col.f16.f16.f16.f16", 0xbfff_bfff),
        ("m16n8k16.row.col.f32.f16.f16.f32", 0xbfff_bfff),
        ("m16n8k16.row.col.f16.f16.f16.f16", 0xbfff_bfff),
        ("m16n8k8.row.col.f32.bf16.bf16.f32", 0xbfff_bfff),
        ("m16n8k16.row.col.f32.bf16.bf16.f32", 0xbfff_bfff),
        ("m16n8k4.row.col.f32.tf32.tf32.f32", 0xbfff_ffff),
        ("m16n8k8.row.col.f32.tf32.tf32.f32", 0xbfff_ffff),
        ("m16n8k32.row.col.f32.e4m3.e4m3.f32", 0xbfbf_bfbf),
        ("m16n8k32.row.col.f32.e5m2.e4m3.f32", 0xbfbf_bfbf),
        ("m16n8k16.row.col.s32.s8.s8.s32", !0),
        ("m16n8k32.row.col.s32.u8.s8.s32", !0),
        ("m16n8k32.row.col.satfinite.s32.s8.s8.s32", !0),
    ] {
        let name = format!("sync.aligned.{form}");
        let op = MmaOp::parse(&name.split('.').collect::<Vec<_>>()).unwrap();
        let (a, b, c, d) = op.registers();
        let body = format!(
            "mma.{name} {}, {}, {}, {};\n",
            vector("d", d),
            vector("a", a),
            vector("b", b),
            vector("c", c)
        );
        let text = kernel("sm_89", 0, &[("a", a), ("b", b), ("c", c)], &body, ("d", d));
        let input = words(32 * (a + b + c), 7, mask);
        let (found, counters) = run(&text, 1, &input, 32 * d, [0; 2]);
        let fragments = registers(&input);
        let mut expected = vec![[0; 32]; d];
        mma::mma(
            &op,
            &fragments[..a],
            &fragments[a..a + b],
            &fragments[a + b..],
            &mut expected,
        );
        assert_eq!(registers(&found), expected, "{form}");
        assert_eq!(counters.tensor.multiply_adds, op.multiply_adds(), "{form}");
    }
}

#[test]
fn mma_may_write_over_its_accumulator() {
    let op = MmaOp::parse(
        &"sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
            .split('.')
            .collect::<Vec<_>>(),
    )
    .unwrap();
    let body = format!(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {}, {}, {}, {};\n",
        vector("c", 4),
        vector("a", 4),
        vector("b", 2),
        vector("c", 4)
    );
    let input = words(32 * 10, 3, 0xbfff_bfff);
    let (found, _) = run(
        &kernel("sm_80", 0, &[("a", 4), ("b", 2), ("c", 4)], &body, ("c", 4)),
        1,
        &input,
        128,
        [0; 2],
    );
    let fragments = registers(&input);
    let mut expected = vec![[0; 32]; 4];
    mma::mma(
        &op,
        &fragments[..4],
        &fragments[4..6],
        &fragments[6..],
        &mut expected,
    );
    assert_eq!(registers(&found), expected);
}

/// `%at` is the shared address of the row that the lane names, with rows 16 bytes apart in an order that is not theirs.
const ROW_ADDRESS: &str = "shr.u32 %at, %lane, 2;\nxor.b32 %at, %at, 5;\nshl.b32 %at, %at, 4;\nmov.u32 %w, tile;\nadd.u32 %at, %at, %w;\n";

#[test]
fn matrices_are_stored_moved_and_loaded() {
    for count in [1, 2, 4] {
        for trans in ["", ".trans"] {
            let form = format!("sync.aligned.m8n8.x{count}{trans}.shared.b16");
            let op = MatrixOp::parse(&form.split('.').collect::<Vec<_>>()).unwrap();
            // Stored as given and loaded by rows, then transposed by lanes.
            let rows = format!("sync.aligned.m8n8.x{count}.shared.b16");
            let mut body = ROW_ADDRESS.to_owned();
            writeln!(
                body,
                "stmatrix.{form} [%at], {};\nbar.warp.sync 0xffffffff;",
                vector("a", count)
            )
            .unwrap();
            writeln!(body, "ldmatrix.{rows} {}, [%at];", vector("d", count)).unwrap();
            for i in 0..count {
                writeln!(body, "movmatrix.sync.aligned.m8n8.trans.b16 %d{i}, %d{i};").unwrap();
            }
            let input = words(32 * count, 11, !0);
            let (found, _) = run(
                &kernel("sm_90", 512, &[("a", count)], &body, ("d", count)),
                1,
                &input,
                32 * count,
                [0; 2],
            );
            let expected: Vec<Lanes> = registers(&input)
                .iter()
                .map(|register| match op.order {
                    matrix::Order::Rows => matrix::movmatrix(register),
                    // Transposed once by the store and once more by the move.
                    matrix::Order::Transposed => *register,
                })
                .collect();
            assert_eq!(registers(&found), expected, "{form}");
        }
    }
}

#[test]
fn loads_may_be_transposed() {
    let body = ROW_ADDRESS.to_owned()
        + "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%at], {%a0, %a1, %a2, %a3};\nbar.warp.sync 0xffffffff;\n\
           ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%d0, %d1, %d2, %d3}, [%at];\n";
    let input = words(128, 5, !0);
    let (found, _) = run(
        &kernel("sm_90", 512, &[("a", 4)], &body, ("d", 4)),
        1,
        &input,
        128,
        [0; 2],
    );
    let expected: Vec<Lanes> = registers(&input).iter().map(matrix::movmatrix).collect();
    assert_eq!(registers(&found), expected);
}

/// Bytes of shared memory that a wgmma kernel fills, 64 words by each of its 128 threads.
const TILE: usize = 4 * 64 * 128;

struct WgmmaCase<'a> {
    /// Shape and types.
    form: &'a str,
    /// Keeps exponents in range.
    mask: u32,
    a: Option<(Swizzle, Major)>,
    b: (Swizzle, Major),
    /// Operands `scale-d` (0, 1 or a predicate), `imm-scale-a` and `imm-scale-b`.
    scales: [i32; 3],
}

impl WgmmaCase<'_> {
    #[track_caller]
    fn check(&self) {
        let name = format!("mma_async.sync.aligned.{}", self.form);
        let op = WgmmaOp::parse(&name.split('.').collect::<Vec<_>>()).unwrap();
        let n = op.accumulators();
        let descriptor = |(swizzle, major): (Swizzle, Major), start: u32| {
            // Strides that keep 256 columns within 16 KiB; whether they overlap does not matter here.
            let (leading, stride) = match (swizzle, major) {
                (Swizzle::None, _) => (128, 256),
                (_, Major::K) => (16, 8 * swizzle.row_bytes()),
                (_, Major::Mn) => (2 * 8 * swizzle.row_bytes() / 2, 2048),
            };
            Descriptor {
                start,
                leading,
                stride,
                base_offset: 0,
                swizzle,
            }
        };
        let b = descriptor(self.b, 0);
        let a = self.a.map(|layout| descriptor(layout, 0x1000));
        let trans = |major: Major| i32::from(major == Major::Mn);
        let mut immediates = format!("%p, {}, {}", self.scales[1], self.scales[2]);
        if op.has_transpose() {
            if let Some((_, major)) = self.a {
                write!(immediates, ", {}", trans(major)).unwrap();
            }
            write!(immediates, ", {}", trans(self.b.1)).unwrap();
        }
        let from = if a.is_some() {
            "%da".to_owned()
        } else {
            vector("a", 4)
        };
        // The shared window begins at 0 in a kernel without other variables, so descriptors may come from outside.
        let mut body =
            "shl.b32 %at, %thread, 8;\nmov.u32 %w, tile;\nadd.u32 %at, %at, %w;\n".to_owned();
        for i in 0..64 {
            writeln!(body, "st.shared.b32 [%at+{}], %s{i};", 4 * i).unwrap();
        }
        write!(
            body,
            "setp.ne.b32 %p, {}, 0;\nfence.proxy.async.shared::cta;\nbar.sync 0;\nwgmma.fence.sync.aligned;\n\
             wgmma.{name} {}, {from}, %db, {immediates};\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
            self.scales[0],
            vector("d", n)
        )
        .unwrap();
        let text = kernel(
            "sm_90a",
            TILE,
            &[("s", 64), ("a", 4), ("d", n)],
            &body,
            ("d", n),
        );
        let input = words(128 * (64 + 4 + n), 99, self.mask);
        let encoded = [a.map_or(0, |a| a.encode()), b.encode()];
        let (found, counters) = run(&text, 4, &input, 128 * n, encoded);

        let warps: Vec<Vec<Lanes>> = input.chunks_exact(32 * (68 + n)).map(registers).collect();
        let mut tile = vec![0u8; TILE];
        for (thread, bytes) in tile.chunks_exact_mut(256).enumerate() {
            for (i, word) in bytes.chunks_exact_mut(4).enumerate() {
                word.copy_from_slice(&warps[thread / 32][i][thread % 32].to_le_bytes());
            }
        }
        let fragments: [[Lanes; 4]; 4] =
            std::array::from_fn(|warp| warps[warp][64..68].try_into().unwrap());
        let mut d: [Vec<Lanes>; 4] = std::array::from_fn(|warp| warps[warp][68..].to_vec());
        let immediates = Immediates {
            accumulate: self.scales[0] != 0,
            negate_a: self.scales[1] == -1,
            negate_b: self.scales[2] == -1,
            a_major: self.a.map_or(Major::K, |(_, major)| major),
            b_major: self.b.1,
        };
        let operand = a.map_or(OperandA::Registers(&fragments), OperandA::Shared);
        let mut read = |address: u32| -> [u8; 16] {
            tile[address as usize..address as usize + 16]
                .try_into()
                .unwrap()
        };
        wgmma::wgmma(
            &op,
            immediates,
            &operand,
            &b,
            &mut read,
            d.each_mut().map(Vec::as_mut_slice),
        );
        assert!(
            registers(&found) == d.concat(),
            "{} with A {:?} and B {:?}",
            self.form,
            self.a,
            self.b
        );
        assert_eq!(counters.tensor.multiply_adds, op.multiply_adds());
    }
}

const SWIZZLES: [Swizzle; 4] = [
    Swizzle::None,
    Swizzle::Bytes32,
    Swizzle::Bytes64,
    Swizzle::Bytes128,
];

#[test]
fn wgmma_of_every_type_from_shared_memory_and_registers() {
    for (form, mask) in [
        ("m64n64k16.f32.bf16.bf16", 0xbfff_bfff),
        ("m64n8k16.f32.f16.f16", 0xbfff_bfff),
        ("m64n96k16.f16.f16.f16", 0xbfff_bfff),
        ("m64n32k8.f32.tf32.tf32", 0xbfff_ffff),
        ("m64n128k32.f32.e4m3.e4m3", 0xbfbf_bfbf),
        ("m64n16k32.f16.e5m2.e4m3", 0xbfbf_bfbf),
        ("m64n128k16.f32.bf16.bf16", 0xbfff_bfff),
    ] {
        let k_major = (Swizzle::Bytes128, Major::K);
        WgmmaCase {
            form,
            mask,
            a: Some(k_major),
            b: k_major,
            scales: [1, 1, 1],
        }
        .check();
        WgmmaCase {
            form,
            mask,
            a: None,
            b: k_major,
            scales: [0, 1, 1],
        }
        .check();
    }
}

#[test]
fn wgmma_of_every_layout_and_scale() {
    for (a, b) in SWIZZLES.into_iter().flat_map(|a| SWIZZLES.map(|b| (a, b))) {
        for (a_major, b_major) in [
            (Major::K, Major::Mn),
            (Major::Mn, Major::K),
            (Major::Mn, Major::Mn),
        ] {
            let scales = [
                i32::from(a_major == b_major),
                if a == b { -1 } else { 1 },
                if b_major == Major::K { -1 } else { 1 },
            ];
            WgmmaCase {
                form: "m64n64k16.f32.bf16.bf16",
                mask: 0xbfff_bfff,
                a: Some((a, a_major)),
                b: (b, b_major),
                scales,
            }
            .check();
        }
    }
}
