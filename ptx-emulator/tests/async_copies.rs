//! Kernels with asynchronous copies, compiled by NVRTC, and what happens to them when a wait or a fence is taken out.

#![expect(
    clippy::print_stdout,
    reason = "a test that fails shows what was reported"
)]

use half::bf16;
use ptx_emulator::async_copy::element::Element;
use ptx_emulator::async_copy::tensor_map::{Fill, Swizzle, TensorMap};
use ptx_emulator::check::report::{Fault, RaceKind, Report};
use ptx_emulator::{Launch, Memory, Options, Program};

const RANKS: &str = include_str!("kernels/tma_ranks.ptx");
const BULK: &str = include_str!("kernels/bulk.ptx");
const PIPELINE: &str = include_str!("kernels/pipeline.ptx");
const GEMM: &str = include_str!("kernels/gemm.ptx");
const CLUSTER: &str = include_str!("kernels/cluster.ptx");
const CP_ASYNC: &str = include_str!("kernels/cp_async.ptx");

/// The parameter space of a kernel, one parameter after the other.
#[derive(Default)]
struct Params(Vec<u8>);

impl Params {
    fn push(mut self, align: usize, bytes: &[u8]) -> Self {
        self.0.resize(self.0.len().next_multiple_of(align), 0);
        self.0.extend(bytes);
        self
    }

    fn map(self, map: &TensorMap) -> Self {
        self.push(64, &map.to_bytes().unwrap())
    }

    fn u32(self, value: u32) -> Self {
        self.push(4, &value.to_le_bytes())
    }

    fn pointer(self, value: u64) -> Self {
        self.push(8, &value.to_le_bytes())
    }

    fn coordinates(self, at: &[i32]) -> Self {
        (0..5).fold(self, |params, i| {
            params.u32(at.get(i).map_or(0, |&c| c as u32))
        })
    }
}

struct Case<'a> {
    text: &'a str,
    kernel: &'a str,
    blocks: u32,
    threads: u32,
    dynamic: u32,
    params: Params,
}

impl Case<'_> {
    /// Runs under several seeds, which must all pass; the memory is as the last left it.
    #[track_caller]
    fn run(&self, memory: &Memory, seed: u64) -> Result<(), Box<Report>> {
        let program = Program::from_text(self.text).unwrap();
        let launch = Launch {
            kernel: self.kernel,
            grid: [self.blocks, 1, 1],
            block: [self.threads, 1, 1],
            dynamic_shared_bytes: self.dynamic,
            params: &self.params.0,
        };
        program
            .launch(
                memory,
                &launch,
                &Options {
                    seed,
                    ..Options::default()
                },
            )
            .map(drop)
    }

    #[track_caller]
    fn pass(&self, memory: &Memory) {
        if let Err(report) = self.run(memory, 0) {
            panic!("{report}");
        }
    }
}

fn floats(memory: &Memory, at: u64, n: usize) -> Vec<f32> {
    memory
        .read(at, 4 * n)
        .unwrap()
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

fn words(memory: &Memory, at: u64, n: usize) -> Vec<u32> {
    memory
        .read(at, 4 * n)
        .unwrap()
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

fn bytes_of(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// Where element `i` of a box lies in bytes, by the formula of the programming guide: row `y` of 128 bytes, chunk `x` of 16.
fn place(swizzle: Swizzle, i: u32, size: u32) -> usize {
    let byte = i * size;
    let (y, x) = (byte / 128, byte % 128 / 16);
    let x = match swizzle {
        Swizzle::None => x,
        Swizzle::B32 => x ^ (y % 2),
        Swizzle::B64 => x ^ (y % 4),
        Swizzle::B128 => x ^ (y % 8),
        Swizzle::B128Atom32 => x ^ (y % 4 * 2),
    };
    (y * 128 + x * 16 + byte % 16) as usize
}

/// The indices of element `i` of a box.
fn indices(map: &TensorMap, at: &[i32], i: u32) -> Option<Vec<u64>> {
    let mut rest = i;
    (0..map.rank())
        .map(|d| {
            let n = map.box_elements(d);
            let step = if d == 0 { 1 } else { map.element_strides[d] };
            let index = i64::from(at[d]) + i64::from(rest % n * step);
            rest /= n;
            (0 <= index && index < map.sizes[d] as i64).then_some(index as u64)
        })
        .collect()
}

fn offset(map: &TensorMap, indices: &[u64]) -> u64 {
    let outer: u64 = map
        .strides
        .iter()
        .zip(&indices[1..])
        .map(|(s, i)| s * i)
        .sum();
    indices[0] * u64::from(map.element.bytes()) + outer
}

/// A tensor whose elements of 16 bits count up, with gaps between its rows.
fn counting_tensor(memory: &Memory, sizes: &[u64], boxes: &[u32]) -> (TensorMap, Vec<u8>) {
    let mut map = TensorMap::contiguous(Element::U16, 0, sizes, boxes);
    let mut stride = sizes[0] * 2;
    for (to, size) in map.strides.iter_mut().zip(&sizes[1..]) {
        stride = (stride + 1).next_multiple_of(16);
        *to = stride;
        stride *= size;
    }
    let data: Vec<u8> = (0..stride.div_ceil(2))
        .flat_map(|i| (i as u16).to_le_bytes())
        .collect();
    map.address = memory.alloc_from(&data);
    (map, data)
}

const SIZES: [u64; 5] = [40, 7, 5, 4, 3];
const BOXES: [u32; 5] = [16, 3, 2, 3, 2];
const PLACES: [[i32; 5]; 4] = [
    [8, 1, 1, 1, 1],
    [-3, -1, -1, -2, -1],
    [33, 5, 4, 2, 2],
    [0, 9, 0, 0, 0],
];

#[track_caller]
fn check_load(map: &TensorMap, data: &[u8], memory: &Memory, at: &[i32]) {
    let bytes = map.box_bytes();
    let size = map.element.bytes();
    let out = memory.alloc(u64::from(bytes)).unwrap();
    let kernel = format!("load_{}d", map.rank());
    let params = Params::default()
        .map(map)
        .coordinates(at)
        .u32(bytes)
        .pointer(out);
    Case {
        text: RANKS,
        kernel: &kernel,
        blocks: 1,
        threads: 64,
        dynamic: bytes.next_multiple_of(1024),
        params,
    }
    .pass(memory);
    let got = memory.read(out, bytes as usize).unwrap();
    for i in 0..bytes / size {
        let expected = match indices(map, at, i) {
            Some(indices) => data[offset(map, &indices) as usize..][..size as usize].to_vec(),
            None => match map.fill {
                Fill::Zero => vec![0; size as usize],
                Fill::Nan => map.element.nan().to_vec(),
            },
        };
        let p = place(map.swizzle, i, size);
        assert_eq!(
            got[p..p + size as usize],
            expected,
            "element {i} of {map:?} at {at:?}"
        );
    }
}

#[test]
fn boxes_of_every_rank_are_loaded() {
    for rank in 1..=5 {
        let memory = Memory::new();
        let (map, data) = counting_tensor(&memory, &SIZES[..rank], &BOXES[..rank]);
        for at in PLACES {
            check_load(&map, &data, &memory, &at[..rank]);
        }
    }
}

#[test]
fn boxes_are_swizzled_filled_and_thinned_out() {
    let memory = Memory::new();
    for (swizzle, columns) in [
        (Swizzle::B32, 16),
        (Swizzle::B64, 32),
        (Swizzle::B128, 64),
        (Swizzle::B128Atom32, 64),
    ] {
        let (map, data) = counting_tensor(&memory, &[72, 30, 3], &[columns, 18, 2]);
        let map = TensorMap { swizzle, ..map };
        check_load(&map, &data, &memory, &[8, 3, 1]);
        check_load(&map, &data, &memory, &[-8, 20, -1]);
    }
    let (map, data) = counting_tensor(&memory, &[40, 30], &[32, 16]);
    check_load(
        &TensorMap {
            element: Element::Bf16,
            fill: Fill::Nan,
            ..map.clone()
        },
        &data,
        &memory,
        &[20, 25],
    );
    check_load(
        &TensorMap {
            element_strides: vec![1, 3],
            ..map
        },
        &data,
        &memory,
        &[0, 4],
    );
}

#[test]
fn boxes_of_every_rank_are_stored_and_reduced() {
    for rank in 1..=5 {
        for reduce in [false, true] {
            for at in PLACES {
                let memory = Memory::new();
                let (map, mut expected) = counting_tensor(&memory, &SIZES[..rank], &BOXES[..rank]);
                let swizzle = if rank == 2 {
                    Swizzle::B32
                } else {
                    Swizzle::None
                };
                let element = if reduce { Element::Bf16 } else { Element::U16 };
                let map = TensorMap {
                    swizzle,
                    element,
                    ..map
                };
                let n = map.box_bytes() / 2;
                let mut source = vec![0; 2 * n as usize];
                for i in 0..n {
                    let bits = bf16::from_f32(i as f32 % 64.0 + 1.0).to_le_bytes();
                    let p = place(swizzle, i, 2);
                    source[p..p + 2].copy_from_slice(&bits);
                    if let Some(indices) = indices(&map, &at[..rank], i) {
                        let o = offset(&map, &indices) as usize;
                        let old = bf16::from_le_bytes([expected[o], expected[o + 1]]);
                        let new = if reduce {
                            (bf16::from_le_bytes(bits) + old).to_le_bytes()
                        } else {
                            bits
                        };
                        expected[o..o + 2].copy_from_slice(&new);
                    }
                }
                let from = memory.alloc_from(&source);
                let kernel = format!("{}_{rank}d", if reduce { "reduce" } else { "store" });
                let params = Params::default()
                    .map(&map)
                    .coordinates(&at)
                    .u32(2 * n)
                    .pointer(from);
                let dynamic = (2 * n).next_multiple_of(1024);
                Case {
                    text: RANKS,
                    kernel: &kernel,
                    blocks: 1,
                    threads: 64,
                    dynamic,
                    params,
                }
                .pass(&memory);
                assert_eq!(
                    memory.read(map.address, expected.len()).unwrap(),
                    expected,
                    "{kernel} at {at:?}"
                );
            }
        }
    }
}

fn double_chunks(memory: &Memory, text: &str) -> (Result<(), Box<Report>>, u64) {
    let n = 7;
    let input = memory.alloc_from(&bytes_of((0..256 * n).map(|i| i as f32)));
    let output = memory.alloc(1024 * u64::from(n)).unwrap();
    let params = Params::default().pointer(input).pointer(output).u32(n);
    (
        Case {
            text,
            kernel: "double_chunks",
            blocks: 1,
            threads: 128,
            dynamic: 0,
            params,
        }
        .run(memory, 0),
        output,
    )
}

#[test]
fn plain_bytes_are_copied_in_groups() {
    let memory = Memory::new();
    let (result, output) = double_chunks(&memory, BULK);
    result.unwrap_or_else(|report| panic!("{report}"));
    assert!(
        floats(&memory, output, 7 * 256)
            .iter()
            .enumerate()
            .all(|(i, &x)| x == 2.0 * i as f32)
    );
}

#[test]
fn plain_bytes_are_reduced_by_many_blocks() {
    let memory = Memory::new();
    let sums = memory.alloc_from(&bytes_of([0.5; 64]));
    let maxima = memory.alloc_from(&[0x80; 256]);
    let params = Params::default().pointer(sums).pointer(maxima);
    Case {
        text: BULK,
        kernel: "reduce_blocks",
        blocks: 9,
        threads: 64,
        dynamic: 0,
        params,
    }
    .pass(&memory);
    assert_eq!(floats(&memory, sums, 64), vec![45.5; 64]);
    let maxima: Vec<i32> = words(&memory, maxima, 64)
        .into_iter()
        .map(|x| x as i32)
        .collect();
    assert!(
        maxima
            .iter()
            .enumerate()
            .all(|(t, &m)| m == if t % 3 == 0 { 8 } else { t as i32 } - 10)
    );
}

#[test]
fn shared_memory_is_copied_within_a_cluster_of_one() {
    let memory = Memory::new();
    let out = memory.alloc(256).unwrap();
    let params = Params::default().pointer(out);
    Case {
        text: BULK,
        kernel: "shared_to_shared",
        blocks: 2,
        threads: 64,
        dynamic: 0,
        params,
    }
    .pass(&memory);
    assert!(
        words(&memory, out, 64)
            .iter()
            .enumerate()
            .all(|(i, &x)| x == 3 * i as u32)
    );
}

fn pipeline(memory: &Memory, text: &str, seed: u64) -> (Result<(), Box<Report>>, u64) {
    let (tiles, columns) = (11, 64);
    let input = memory.alloc_from(&bytes_of(
        (0..32 * tiles * columns).map(|i| (i % 17) as f32),
    ));
    let out = memory.alloc_from(&bytes_of([0.0; 64]));
    let map = TensorMap {
        swizzle: Swizzle::B128,
        ..TensorMap::contiguous(
            Element::F32,
            input,
            &[u64::from(columns), 32 * u64::from(tiles)],
            &[32, 32],
        )
    };
    let params = Params::default().map(&map).pointer(out).u32(tiles);
    let case = Case {
        text,
        kernel: "column_sums",
        blocks: 2,
        threads: 384,
        dynamic: 4 * 4096 + 64,
        params,
    };
    (case.run(memory, seed), out)
}

#[test]
fn a_pipeline_with_specialised_warps_runs_under_any_schedule() {
    for seed in 0..8 {
        let memory = Memory::new();
        let (result, out) = pipeline(&memory, PIPELINE, seed);
        result.unwrap_or_else(|report| panic!("seed {seed}: {report}"));
        for (c, &sum) in floats(&memory, out, 64).iter().enumerate() {
            let expected: f32 = (0..32 * 11).map(|r| ((r * 64 + c) % 17) as f32).sum();
            assert_eq!(sum, expected, "column {c}");
        }
    }
}

/// Multiplies matrices of small integers, so that the result is exact.
fn gemm(memory: &Memory, text: &str, seed: u64) -> (Result<(), Box<Report>>, Vec<f32>) {
    let (m, n, k) = (128, 64, 320);
    let value = |i: usize, j: usize| ((i * 7 + j * 13) % 5) as f32 - 2.0;
    let matrix = |rows: usize, shift: usize| -> TensorMap {
        let bytes: Vec<u8> = (0..rows * k)
            .flat_map(|e| bf16::from_f32(value(e / k + shift, e % k)).to_le_bytes())
            .collect();
        TensorMap {
            swizzle: Swizzle::B128,
            ..TensorMap::contiguous(
                Element::Bf16,
                memory.alloc_from(&bytes),
                &[k as u64, rows as u64],
                &[64, 64],
            )
        }
    };
    let (a, b) = (matrix(m, 0), matrix(n, 3));
    let out = memory.alloc((4 * m * n) as u64).unwrap();
    let c = TensorMap::contiguous(Element::F32, out, &[n as u64, m as u64], &[64, 64]);
    let params = Params::default().map(&a).map(&b).map(&c).u32(k as u32 / 64);
    let case = Case {
        text,
        kernel: "gemm",
        blocks: 2,
        threads: 256,
        dynamic: 4 * 8192 + 16384 + 32,
        params,
    };
    let result = case.run(memory, seed);
    let expected = (0..m * n)
        .map(|e| (0..k).map(|j| value(e / n, j) * value(e % n + 3, j)).sum())
        .collect();
    if result.is_ok() {
        assert_eq!(floats(memory, out, m * n), expected);
    }
    (result, expected)
}

#[test]
fn a_product_pipeline_gives_stages_back_by_one_lane() {
    for seed in 0..6 {
        let (result, _) = gemm(&Memory::new(), GEMM, seed);
        result.unwrap_or_else(|report| panic!("seed {seed}: {report}"));
    }
}

#[test]
fn mistakes_in_a_product_pipeline_are_reported() {
    let run = |what: &str, n, with: &str| {
        let text = mutate(GEMM, "gemm", what, n, with);
        let report = (0..4).find_map(|seed| gemm(&Memory::new(), &text, seed).0.err());
        fault(Err(report.expect("one of the schedules shows the mistake")))
    };
    let unfenced = run("fence.proxy.async", 0, "");
    assert!(
        matches!(unfenced, Fault::MissingProxyFence { .. }),
        "{unfenced}"
    );
    let early = run("wgmma.wait_group", 0, "");
    assert!(
        matches!(
            early,
            Fault::PendingCopy {
                copy_writes: false,
                ..
            } | Fault::BadUse { .. }
        ),
        "{early}"
    );
    let unmet = run("bar.sync 1, 128", 0, "");
    assert!(
        matches!(
            unmet,
            Fault::WarpRace { .. } | Fault::SharedRace { .. } | Fault::Uninitialised { .. }
        ),
        "{unmet}"
    );
}

#[test]
fn blocks_of_a_cluster_see_each_others_shared_memory() {
    let memory = Memory::new();
    let out = memory.alloc(8 * 64 * 4).unwrap();
    let params = Params::default().pointer(out);
    let case = Case {
        text: CLUSTER,
        kernel: "pass_on",
        blocks: 8,
        threads: 64,
        dynamic: 0,
        params,
    };
    case.pass(&memory);
    for (i, &x) in words(&memory, out, 8 * 64).iter().enumerate() {
        let (block, t) = (i as u32 / 64, i as u32 % 64);
        let before = |block: u32, by: u32| block / 4 * 4 + (block + 4 - by) % 4;
        assert_eq!(
            x,
            100 * (before(block, 1) + before(block, 2)) + 2 * t,
            "block {block}"
        );
    }
    // Without the barrier in the middle a block reads what another may not have written.
    let text = mutate(CLUSTER, "pass_on", "barrier.cluster.wait", 0, "");
    let case = Case {
        text: &text,
        params: Params::default().pointer(out),
        ..case
    };
    let report = (0..4).find_map(|seed| case.run(&memory, seed).err());
    assert!(matches!(
        fault(Err(report.unwrap())),
        Fault::SharedRace { .. } | Fault::Uninitialised { .. }
    ));
}

fn multicast(memory: &Memory, text: &str, seed: u64) -> Result<(), Box<Report>> {
    let n = 5u32;
    let input: Vec<u8> = (0..32 * 32 * n).flat_map(u32::to_le_bytes).collect();
    let map = TensorMap::contiguous(
        Element::U32,
        memory.alloc_from(&input),
        &[32, 32 * u64::from(n)],
        &[32, 16],
    );
    let out = memory.alloc(4 * 32 * 4).unwrap();
    let params = Params::default().map(&map).pointer(out).u32(n);
    Case {
        text,
        kernel: "multicast",
        blocks: 4,
        threads: 32,
        dynamic: 0,
        params,
    }
    .run(memory, seed)?;
    for (i, &x) in words(memory, out, 128).iter().enumerate() {
        let (me, t) = (i as u32 / 32 % 2, i as u32 % 32);
        let rows = (0..32 * n).map(|row| (32 * row + t) * (row % 32 + 1 + me));
        assert_eq!(x, rows.sum::<u32>(), "block {}", i / 32);
    }
    Ok(())
}

#[test]
fn a_load_goes_to_all_blocks_of_a_cluster() {
    for seed in 0..6 {
        multicast(&Memory::new(), CLUSTER, seed)
            .unwrap_or_else(|report| panic!("seed {seed}: {report}"));
    }
    // Each block arrives twice at its own mbarrier, rather than once at both: the other's buffer is taken too early.
    let own: String = CLUSTER
        .lines()
        .map(
            |line| match line.trim().strip_prefix("mapa.shared::cluster.u32 ") {
                Some(operands) => {
                    let (kept, _) = operands.rsplit_once(',').unwrap();
                    format!("add.u32 {kept}, 0;\n")
                }
                None => format!("{line}\n"),
            },
        )
        .collect();
    let report = (0..8).find_map(|seed| multicast(&Memory::new(), &own, seed).err());
    let early = fault(Err(report.expect("one of the schedules shows the mistake")));
    assert!(!matches!(early, Fault::StepLimit { .. }), "{early}");
}

#[test]
fn copies_of_the_older_kind_are_grouped_and_filled() {
    let memory = Memory::new();
    let (n, valid) = (9, 6);
    let input = memory.alloc_from(&bytes_of((0..128 * valid).map(|i| i as f32)));
    let output = memory.alloc(512 * n).unwrap();
    let params = Params::default()
        .pointer(input)
        .pointer(output)
        .u32(n as u32)
        .u32(valid);
    Case {
        text: CP_ASYNC,
        kernel: "reverse_rows",
        blocks: 1,
        threads: 32,
        dynamic: 0,
        params,
    }
    .pass(&memory);
    for (i, &x) in floats(&memory, output, 128 * n as usize).iter().enumerate() {
        let (row, column) = (i / 128, i % 128);
        assert_eq!(
            x,
            if row < valid as usize {
                (128 * row + 127 - column) as f32
            } else {
                0.0
            },
            "{row} {column}"
        );
    }
}

#[test]
fn copies_of_the_older_kind_arrive_at_an_mbarrier() {
    let memory = Memory::new();
    let input = memory.alloc_from(&bytes_of((0..128).map(|i| i as f32)));
    let output = memory.alloc(512).unwrap();
    let params = Params::default().pointer(input).pointer(output);
    Case {
        text: CP_ASYNC,
        kernel: "arrive_when_copied",
        blocks: 1,
        threads: 64,
        dynamic: 0,
        params,
    }
    .pass(&memory);
    assert!(
        floats(&memory, output, 128)
            .iter()
            .enumerate()
            .all(|(i, &x)| x == i as f32 + 1.0)
    );
}

#[test]
fn states_of_an_mbarrier_order_two_warps() {
    let memory = Memory::new();
    let out = memory.alloc(8).unwrap();
    let params = Params::default().pointer(out).u32(5);
    Case {
        text: CP_ASYNC,
        kernel: "ping_pong",
        blocks: 1,
        threads: 64,
        dynamic: 0,
        params,
    }
    .pass(&memory);
    let (mut sums, mut values) = ([0, 0], [1, 2]);
    for _ in 0..5 {
        sums = [sums[0] + values[1], sums[1] + values[0]];
        values = sums;
    }
    assert_eq!(words(&memory, out, 2), sums);
}

/// Replaces the `n`th line that holds `what` (from 0), counted from where `kernel` begins.
#[track_caller]
fn mutate(text: &str, kernel: &str, what: &str, n: usize, with: &str) -> String {
    let begin = text
        .find(&format!("entry {kernel}("))
        .expect("the kernel is there");
    let (at, _) = text[begin..]
        .match_indices(what)
        .nth(n)
        .expect("the line is there");
    let start = begin + at;
    let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
    format!("{}{with}{}", &text[..line_start], &text[line_end..])
}

#[track_caller]
fn fault(result: Result<(), Box<Report>>) -> Fault {
    let report = result.expect_err("the mistake is reported");
    println!("{report}\n");
    report.fault
}

#[test]
fn mistakes_in_a_pipeline_are_reported() {
    let run = |what: &str, n, with: &str| {
        let memory = Memory::new();
        fault(pipeline(&memory, &mutate(PIPELINE, "column_sums", what, n, with), 0).0)
    };
    // The consumers do not wait for a full stage.
    let wait = "mbarrier.try_wait.parity";
    let done = "setp.eq.u32 p, 0, 0;";
    assert!(matches!(
        run(wait, 0, done),
        Fault::PendingCopy { .. } | Fault::SharedRace { .. } | Fault::Uninitialised { .. }
    ));
    // The producer does not wait for an empty stage.
    let overwritten = run(wait, 1, done);
    assert!(
        matches!(
            overwritten,
            Fault::Mbarrier(_) | Fault::PendingCopy { .. } | Fault::SharedRace { .. }
        ),
        "{overwritten}"
    );
    // A group releases its stage before all its warps have read it.
    assert!(matches!(
        run("bar.sync %", 0, ""),
        Fault::SharedRace {
            kind: RaceKind::WriteAfterRead,
            ..
        }
    ));
    // Nobody arrives when a stage is read, so the producer waits for ever.
    assert!(matches!(
        run("mbarrier.arrive.shared::cta.b64", 0, ""),
        Fault::Deadlock { .. }
    ));
    // The initialisation is not awaited.
    assert!(matches!(
        run("bar.sync \t0", 0, ""),
        Fault::Mbarrier(_) | Fault::SharedRace { .. } | Fault::Uninitialised { .. }
    ));
}

#[test]
fn wrong_counts_of_an_mbarrier_are_reported() {
    let run = |what: &str, n, with: &str| {
        let memory = Memory::new();
        fault(double_chunks(&memory, &mutate(BULK, "double_chunks", what, n, with)).0)
    };
    let expect = BULK
        .lines()
        .find(|line| line.contains("mbarrier.arrive.expect_tx"))
        .unwrap();
    let (head, _) = expect.rsplit_once(',').unwrap();
    assert!(matches!(
        run("mbarrier.arrive.expect_tx", 0, &format!("{head}, 1040;")),
        Fault::Deadlock { .. }
    ));
    assert!(matches!(
        run("mbarrier.init", 0, ""),
        Fault::Mbarrier(_) | Fault::Uninitialised { .. }
    ));
}

#[test]
fn missing_fences_and_waits_of_bulk_stores_are_reported() {
    let run = |what: &str, n, with: &str| {
        let memory = Memory::new();
        fault(double_chunks(&memory, &mutate(BULK, "double_chunks", what, n, with)).0)
    };
    assert!(matches!(
        run("fence.proxy.async", 0, ""),
        Fault::MissingProxyFence { .. }
    ));
    let unread = run("cp.async.bulk.wait_group.read", 0, "");
    assert!(
        matches!(
            unread,
            Fault::PendingCopy {
                copy_writes: false,
                ..
            }
        ),
        "{unread}"
    );
    let exits = run("cp.async.bulk.wait_group 0", 0, "");
    assert!(matches!(exits, Fault::BadUse { .. }), "{exits}");
}

#[test]
fn a_missing_wait_group_or_warp_barrier_is_reported() {
    let run = |what: &str, with: &str| {
        let memory = Memory::new();
        let input = memory.alloc_from(&bytes_of((0..512).map(|i| i as f32)));
        let output = memory.alloc(2048).unwrap();
        let params = Params::default()
            .pointer(input)
            .pointer(output)
            .u32(4)
            .u32(4);
        let text = mutate(CP_ASYNC, "reverse_rows", what, 0, with);
        fault(
            Case {
                text: &text,
                kernel: "reverse_rows",
                blocks: 1,
                threads: 32,
                dynamic: 0,
                params,
            }
            .run(&memory, 0),
        )
    };
    assert!(matches!(
        run("cp.async.wait_group", ""),
        Fault::PendingCopy {
            copy_writes: true,
            ..
        }
    ));
    assert!(matches!(
        run("cp.async.wait_group", "cp.async.wait_group 2;"),
        Fault::PendingCopy {
            copy_writes: true,
            ..
        }
    ));
    let unsynced = run("bar.warp.sync", "");
    assert!(
        matches!(
            unsynced,
            Fault::WarpRace {
                kind: RaceKind::ReadAfterWrite,
                ..
            }
        ),
        "{unsynced}"
    );
}

#[test]
fn garbage_in_the_place_of_a_tensor_map_is_reported() {
    let memory = Memory::new();
    let out = memory.alloc(1024).unwrap();
    let params = Params::default()
        .push(64, &[9; 128])
        .coordinates(&[0; 5])
        .u32(1024)
        .pointer(out);
    let case = Case {
        text: RANKS,
        kernel: "load_2d",
        blocks: 1,
        threads: 32,
        dynamic: 1024,
        params,
    };
    assert!(matches!(fault(case.run(&memory, 0)), Fault::TensorMap(_)));
}

#[test]
fn a_copy_of_no_bytes_touches_nothing() {
    let text = include_str!("../fuzz/seeds/decode/empty_copy.ptx");
    let program = Program::from_text(text).unwrap();
    let launch = Launch {
        kernel: "empty_copy",
        block: [1, 1, 1],
        ..Launch::default()
    };
    // Nobody waits for it, which is what the report is about, not what it touches.
    let report = program
        .launch(&Memory::new(), &launch, &Options::default())
        .unwrap_err();
    assert!(matches!(report.fault, Fault::BadUse { .. }), "{report}");
}
