//! Attention kernels that another compiler made, against a reference in `f64`.

use half::bf16;
use ptx_emulator::async_copy::element::Element;
use ptx_emulator::async_copy::tensor_map::{Swizzle, TensorMap};
use ptx_emulator::{Checks, Counters, Launch, Memory, Options, Program, Report};

const HEAD_DIM: usize = 64;
const TILE: usize = 64;
/// Inputs in [-2, 2] are rounded to bf16, and so are probabilities and results.
const TOLERANCE: f64 = 0.006;

/// Inputs of one problem, `[heads, len, 64]` each.
struct Problem {
    heads: usize,
    len: usize,
    q: Vec<bf16>,
    k: Vec<bf16>,
    v: Vec<bf16>,
}

impl Problem {
    fn new(heads: usize, len: usize) -> Self {
        let mut state = 0x1234_5678_9abc_def1u64;
        let mut tensor = || {
            (0..heads * len * HEAD_DIM)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    bf16::from_f64((state >> 40) as f64 / f64::from(1 << 24) * 4.0 - 2.0)
                })
                .collect()
        };
        Self {
            heads,
            len,
            q: tensor(),
            k: tensor(),
            v: tensor(),
        }
    }

    fn scale() -> f32 {
        std::f32::consts::LOG2_E / (HEAD_DIM as f32).sqrt()
    }

    /// Causal attention, dense, in `f64`.
    fn reference(&self) -> Vec<f64> {
        let row = |tensor: &[bf16], head: usize, i: usize| -> Vec<f64> {
            let start = (head * self.len + i) * HEAD_DIM;
            tensor[start..start + HEAD_DIM]
                .iter()
                .map(|x| f64::from(*x))
                .collect()
        };
        let mut out = Vec::new();
        for head in 0..self.heads {
            let keys: Vec<_> = (0..self.len).map(|i| row(&self.k, head, i)).collect();
            let values: Vec<_> = (0..self.len).map(|i| row(&self.v, head, i)).collect();
            for i in 0..self.len {
                let q = row(&self.q, head, i);
                let dot = |key: &Vec<f64>| {
                    q.iter().zip(key).map(|(a, b)| a * b).sum::<f64>() * f64::from(Self::scale())
                };
                let scores: Vec<f64> = keys[..=i].iter().map(dot).collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp2()).collect();
                let sum: f64 = weights.iter().sum();
                for d in 0..HEAD_DIM {
                    out.push(
                        weights
                            .iter()
                            .zip(&values)
                            .map(|(w, v)| w * v[d])
                            .sum::<f64>()
                            / sum,
                    );
                }
            }
        }
        out
    }

    fn worst(&self, memory: &Memory, out: u64) -> f64 {
        let bytes = memory.read(out, self.q.len() * 2).unwrap();
        let got = bytes
            .chunks_exact(2)
            .map(|pair| f64::from(bf16::from_le_bytes([pair[0], pair[1]])));
        got.zip(self.reference())
            .map(|(x, y)| {
                if x.is_nan() {
                    f64::INFINITY
                } else {
                    (x - y).abs()
                }
            })
            .fold(0.0, f64::max)
    }
}

fn bytes(tensor: &[bf16]) -> Vec<u8> {
    tensor.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn options(seed: u64) -> Options {
    Options {
        checks: Checks::all(),
        seed,
        threads: 2,
        ..Options::default()
    }
}

/// Runs a kernel that takes pointers; the largest error, or the report.
fn run_pointers(
    text: &str,
    shared: u32,
    problem: &Problem,
    seed: u64,
) -> Result<(f64, Counters), Box<Report>> {
    let program = Program::from_text(text).unwrap_or_else(|error| panic!("{error:?}"));
    let memory = Memory::new();
    let [q, k, v] =
        [&problem.q, &problem.k, &problem.v].map(|tensor| memory.alloc_from(&bytes(tensor)));
    let out = memory.alloc(problem.q.len() as u64 * 2).unwrap();
    let mut params = Vec::new();
    for pointer in [q, k, v, out] {
        params.extend(pointer.to_le_bytes());
    }
    params.extend((problem.len as u32).to_le_bytes());
    params.extend(Problem::scale().to_le_bytes());
    params.extend([0; 16]);
    let launch = Launch {
        kernel: "attn",
        grid: [problem.len.div_ceil(TILE) as u32, problem.heads as u32, 1],
        block: [128, 1, 1],
        dynamic_shared_bytes: shared,
        params: &params,
    };
    let counters = program.launch(&memory, &launch, &options(seed))?;
    Ok((problem.worst(&memory, out), counters))
}

#[test]
fn causal_sm80_matches_the_reference() {
    let text = include_str!("fixtures/causal_sm80.ptx");
    for (len, seed) in [(64, 0), (200, 0), (200, 1), (256, 2)] {
        let problem = Problem::new(2, len);
        let (worst, counters) =
            run_pointers(text, 24_576, &problem, seed).unwrap_or_else(|report| panic!("{report}"));
        assert!(worst < TOLERANCE, "length {len}, seed {seed}: {worst}");
        assert!(counters.tensor.mma > 0);
    }
}

#[test]
fn causal_sm90_wgmma_matches_the_reference() {
    let text = include_str!("fixtures/causal_sm90_wgmma.ptx");
    for (len, seed) in [(64, 0), (200, 0), (200, 1), (256, 2)] {
        let problem = Problem::new(2, len);
        let (worst, counters) =
            run_pointers(text, 40_960, &problem, seed).unwrap_or_else(|report| panic!("{report}"));
        assert!(worst < TOLERANCE, "length {len}, seed {seed}: {worst}");
        assert!(counters.tensor.wgmma > 0);
    }
}

#[test]
fn causal_sm90_tma_matches_the_reference() {
    let program = Program::from_text(include_str!("fixtures/causal_sm90_tma.ptx"))
        .unwrap_or_else(|error| panic!("{error:?}"));
    for (len, seed) in [(64, 0), (256, 0), (256, 1), (256, 2)] {
        let problem = Problem::new(2, len);
        let memory = Memory::new();
        let mut params = Vec::new();
        for tensor in [&problem.q, &problem.k, &problem.v] {
            let address = memory.alloc_from(&bytes(tensor));
            let sizes = [HEAD_DIM as u64, (problem.heads * len) as u64];
            let map = TensorMap {
                swizzle: Swizzle::B128,
                ..TensorMap::contiguous(Element::Bf16, address, &sizes, &[64, TILE as u32])
            };
            // A tensor map is aligned to 64 bytes; two extents and two strides follow, which the kernel does not read.
            params.resize(params.len().next_multiple_of(64), 0);
            params.extend(map.to_bytes().unwrap());
            params.extend([0; 24]);
        }
        let out = memory.alloc(problem.q.len() as u64 * 2).unwrap();
        params.extend(out.to_le_bytes());
        params.extend((len as u32).to_le_bytes());
        params.extend(Problem::scale().to_le_bytes());
        params.extend([0; 16]);
        let launch = Launch {
            kernel: "attn_tma",
            grid: [(len / TILE) as u32, problem.heads as u32, 1],
            block: [128, 1, 1],
            dynamic_shared_bytes: 40_992,
            params: &params,
        };
        let counters = program
            .launch(&memory, &launch, &options(seed))
            .unwrap_or_else(|report| panic!("{report}"));
        let worst = problem.worst(&memory, out);
        assert!(worst < TOLERANCE, "length {len}, seed {seed}: {worst}");
        assert!(counters.tensor.wgmma > 0);
    }
}
