//! The forward pass against a dense attention in f64, and the promises about bits and special values.

use half::{bf16, f16};

use super::*;
use crate::request::{BlockRows, Run, TileRule};
use crate::tensor::{DType, TensorData, TensorDataMut, TensorRef};

/// f32 against f64: scores of size 1, a few hundred terms.
const TOLERANCE_F32: f64 = 2e-6;
/// Outputs near 1 are rounded to 11 bits.
const TOLERANCE_F16: f64 = 1e-3;
/// Outputs near 1 are rounded to 8 bits.
const TOLERANCE_BF16: f64 = 8e-3;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// How a tensor lies in memory.
#[derive(Debug, Clone, Copy)]
enum Memory {
    /// `[B, H, L, D]`.
    Contiguous,
    /// `[B, L, H, D]`.
    Tokens,
    /// `[B, H, D, L]`.
    Transposed,
    /// `[B, H, L, D]`, every axis walked backwards.
    Reversed,
    /// Padded rows, and one head that all share.
    Broadcast,
}

enum Elements {
    F32(Vec<f32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
}

struct Tensor {
    elements: Elements,
    shape: [usize; 4],
    strides: [isize; 4],
    offset: usize,
}

impl Tensor {
    fn random(random: &mut Random, dtype: DType, memory: Memory, shape: [usize; 4]) -> Self {
        let [_, h, l, d] = shape.map(|n| n as isize);
        let (strides, offset) = match memory {
            Memory::Contiguous => ([h * l * d, l * d, d, 1], 0),
            Memory::Tokens => ([h * l * d, d, h * d, 1], 0),
            Memory::Transposed => ([h * l * d, l * d, 1, l], 0),
            Memory::Reversed => {
                let last = shape.iter().product::<usize>().saturating_sub(1);
                ([-h * l * d, -l * d, -d, -1], last)
            }
            Memory::Broadcast => ([l * (d + 3), 0, d + 3, 1], 2),
        };
        let len = shape[0] * shape[1].max(1) * shape[2] * (shape[3] + 3) + 2;
        let floats = (0..len).map(|_| random.float());
        let elements = match dtype {
            DType::F32 => Elements::F32(floats.collect()),
            DType::F16 => Elements::F16(floats.map(f16::from_f32).collect()),
            DType::BF16 => Elements::BF16(floats.map(bf16::from_f32).collect()),
        };
        Self {
            elements,
            shape,
            strides,
            offset,
        }
    }

    fn view(&self) -> TensorRef<'_> {
        let data = match &self.elements {
            Elements::F32(x) => TensorData::F32(x),
            Elements::F16(x) => TensorData::F16(x),
            Elements::BF16(x) => TensorData::BF16(x),
        };
        TensorRef::new(data, self.shape, self.strides, self.offset).unwrap()
    }

    fn index(&self, at: [usize; 4]) -> usize {
        let reach: isize = at
            .iter()
            .zip(&self.strides)
            .map(|(i, s)| *i as isize * s)
            .sum();
        (self.offset as isize + reach) as usize
    }

    fn get(&self, at: [usize; 4]) -> f64 {
        let i = self.index(at);
        match &self.elements {
            Elements::F32(x) => f64::from(x[i]),
            Elements::F16(x) => f64::from(x[i].to_f32()),
            Elements::BF16(x) => f64::from(x[i].to_f32()),
        }
    }

    fn set(&mut self, at: [usize; 4], value: f32) {
        let i = self.index(at);
        match &mut self.elements {
            Elements::F32(x) => x[i] = value,
            Elements::F16(x) => x[i] = f16::from_f32(value),
            Elements::BF16(x) => x[i] = bf16::from_f32(value),
        }
    }
}

type Mask = fn(usize, usize, usize, usize) -> bool;
type Score = fn(f32, usize, usize, usize, usize) -> f32;

#[derive(Clone, Copy, Default)]
struct Rule {
    mask: Option<Mask>,
    score: Option<Score>,
}

impl TileRule for Rule {
    fn has_mask(&self) -> bool {
        self.mask.is_some()
    }

    fn has_score(&self) -> bool {
        self.score.is_some()
    }

    fn mask(
        &self,
        b: usize,
        h: usize,
        q0: usize,
        n_q: usize,
        kv0: usize,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    ) {
        let mask = self.mask.unwrap();
        assert_eq!(bits.len(), n_q * words_per_row);
        for i in 0..n_q {
            for j in 0..n_kv {
                let bit = u64::from(mask(b, h, q0 + i, kv0 + j));
                bits[i * words_per_row + j / 64] |= bit << (j % 64);
            }
            // Bits past the last key must not matter.
            if !n_kv.is_multiple_of(64) {
                bits[(i + 1) * words_per_row - 1] |= u64::MAX << (n_kv % 64);
            }
        }
    }

    fn score(
        &self,
        b: usize,
        h: usize,
        q0: usize,
        n_q: usize,
        kv0: usize,
        n_kv: usize,
        scores: &mut [f32],
        row_stride: usize,
    ) {
        let score = self.score.unwrap();
        assert_eq!(scores.len(), (n_q - 1) * row_stride + n_kv);
        for i in 0..n_q {
            for j in 0..n_kv {
                let s = &mut scores[i * row_stride + j];
                *s = score(*s, b, h, q0 + i, kv0 + j);
            }
        }
    }
}

/// A block mask: 0 is empty, 1 partial, 2 full; one plane for each batch and head.
#[derive(Clone)]
struct Blocks {
    q_block: usize,
    kv_block: usize,
    rows: usize,
    columns: usize,
    heads: usize,
    classes: Vec<u8>,
    /// Whether every block is a run of its own, empty runs between them.
    scattered: bool,
}

impl Blocks {
    fn class(&self, b: usize, h: usize, row: usize, column: usize) -> u8 {
        self.classes[((b * self.heads + h) * self.rows + row) * self.columns + column]
    }

    fn at(&self, b: usize, h: usize, q: usize, kv: usize) -> u8 {
        self.class(b, h, q / self.q_block, kv / self.kv_block)
    }

    /// Makes one by asking `class` for every block.
    fn build(
        shape: &Shape,
        (q_block, kv_block): (usize, usize),
        mut class: impl FnMut(usize, usize, usize, usize) -> u8,
    ) -> Self {
        let rows = shape.q_len.div_ceil(q_block);
        let columns = shape.kv_len.div_ceil(kv_block);
        let mut classes = Vec::new();
        for b in 0..shape.batch {
            for h in 0..shape.num_q_heads() {
                for row in 0..rows {
                    for column in 0..columns {
                        classes.push(class(b, h, row, column));
                    }
                }
            }
        }
        Self {
            q_block,
            kv_block,
            rows,
            columns,
            heads: shape.num_q_heads(),
            classes,
            scattered: false,
        }
    }

    fn random(random: &mut Random, shape: &Shape, block: (usize, usize)) -> Self {
        let mut last = 0;
        let mut blocks = Self::build(shape, block, |_, _, _, _| {
            if random.below(3) == 0 {
                last = random.pick(&[0, 0, 1, 1, 2, 2, 2]);
            }
            last
        });
        blocks.scattered = random.below(2) == 0;
        blocks
    }

    /// The exact classes of a rule.
    fn of_rule(shape: &Shape, block: (usize, usize), mask: Mask) -> Self {
        Self::build(shape, block, |b, h, row, column| {
            let (mut all, mut any) = (true, false);
            for q in row * block.0..shape.q_len.min((row + 1) * block.0) {
                for kv in column * block.1..shape.kv_len.min((column + 1) * block.1) {
                    let seen = mask(b, h, q, kv);
                    all &= seen;
                    any |= seen;
                }
            }
            u8::from(any) + u8::from(all)
        })
    }
}

impl BlockRows for Blocks {
    fn q_block(&self) -> usize {
        self.q_block
    }

    fn kv_block(&self) -> usize {
        self.kv_block
    }

    fn row(&self, b: usize, h: usize, q_block_idx: usize, out: &mut Vec<Run>) {
        let mut column = 0;
        while column < self.columns {
            let class = self.class(b, h, q_block_idx, column);
            let mut end = column + 1;
            while !self.scattered
                && end < self.columns
                && self.class(b, h, q_block_idx, end) == class
            {
                end += 1;
            }
            let full = BlockClass::Full;
            let (first, mut count) = (column as u32, (end - column) as u32);
            if class == 0 && self.scattered {
                out.push(Run {
                    first,
                    count: 0,
                    class: full,
                });
            } else if class != 0 {
                // The last run overhangs the keys there are.
                if end == self.columns {
                    count += 7;
                }
                let class = if class == 2 {
                    full
                } else {
                    BlockClass::Partial
                };
                out.push(Run {
                    first,
                    count,
                    class,
                });
            }
            column = end;
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    batch: usize,
    num_kv_heads: usize,
    group: usize,
    q_len: usize,
    kv_len: usize,
    d_qk: usize,
    d_v: usize,
}

impl Shape {
    const fn new(q_len: usize, kv_len: usize, d_qk: usize, d_v: usize) -> Self {
        Self {
            batch: 1,
            num_kv_heads: 1,
            group: 1,
            q_len,
            kv_len,
            d_qk,
            d_v,
        }
    }

    fn num_q_heads(&self) -> usize {
        self.num_kv_heads * self.group
    }
}

struct Inputs {
    q: Tensor,
    k: Tensor,
    v: Tensor,
}

impl Inputs {
    fn random(random: &mut Random, shape: &Shape, dtype: DType, memory: Memory) -> Self {
        let heads = shape.num_q_heads();
        let mut tensor =
            |heads, len, dim| Tensor::random(random, dtype, memory, [shape.batch, heads, len, dim]);
        Self {
            q: tensor(heads, shape.q_len, shape.d_qk),
            k: tensor(shape.num_kv_heads, shape.kv_len, shape.d_qk),
            v: tensor(shape.num_kv_heads, shape.kv_len, shape.d_v),
        }
    }
}

#[derive(Debug, Default, Clone)]
struct Results {
    out: Vec<f32>,
    lse: Vec<f32>,
    row_max: Vec<f32>,
}

impl Results {
    fn bits(&self) -> Vec<u32> {
        let all = self.out.iter().chain(&self.lse).chain(&self.row_max);
        all.map(|x| x.to_bits()).collect()
    }
}

const SCALE: f32 = 0.7;

fn run_engine(
    shape: &Shape,
    inputs: &Inputs,
    blocks: Option<&Blocks>,
    rule: Rule,
    micro: Micro,
) -> (Results, ForwardStats) {
    let rows = shape.batch * shape.num_q_heads() * shape.q_len;
    let len = rows * shape.d_v;
    // Whatever was in the outputs must be overwritten.
    let mut results = Results {
        out: vec![7.0; len],
        lse: vec![7.0; rows],
        row_max: vec![7.0; rows],
    };
    let mut halves = vec![f16::ONE; len];
    let mut brains = vec![bf16::ONE; len];
    let mut request = Request::new(inputs.q.view(), inputs.k.view(), inputs.v.view(), SCALE);
    request.blocks = blocks.map(|blocks| blocks as &dyn BlockRows);
    request.rule = Some(&rule);
    request.micro = Some(micro);
    let output = Output {
        out: match inputs.q.view().dtype() {
            DType::F32 => TensorDataMut::F32(&mut results.out),
            DType::F16 => TensorDataMut::F16(&mut halves),
            DType::BF16 => TensorDataMut::BF16(&mut brains),
        },
        lse: Some(&mut results.lse),
        row_max: Some(&mut results.row_max),
    };
    let stats = forward(&request, output).unwrap();
    match inputs.q.view().dtype() {
        DType::F32 => {}
        DType::F16 => results.out = halves.iter().map(|x| x.to_f32()).collect(),
        DType::BF16 => results.out = brains.iter().map(|x| x.to_f32()).collect(),
    }
    (results, stats)
}

/// Dense attention in f64, straight from the definition.
fn run_dense(shape: &Shape, inputs: &Inputs, blocks: Option<&Blocks>, rule: Rule) -> [Vec<f64>; 3] {
    let [mut out, mut lse, mut row_max] = [const { Vec::new() }; 3];
    for b in 0..shape.batch {
        for h in 0..shape.num_q_heads() {
            for q in 0..shape.q_len {
                let mut scores = Vec::new();
                for kv in 0..shape.kv_len {
                    let class = blocks.map_or(1, |blocks| blocks.at(b, h, q, kv));
                    let seen = match class {
                        0 => false,
                        1 => rule.mask.is_none_or(|mask| mask(b, h, q, kv)),
                        _ => true,
                    };
                    if !seen {
                        continue;
                    }
                    let dot: f64 = (0..shape.d_qk)
                        .map(|d| {
                            inputs.q.get([b, h, q, d]) * inputs.k.get([b, h / shape.group, kv, d])
                        })
                        .sum();
                    let score = (dot * f64::from(SCALE)) as f32;
                    let score = rule.score.map_or(score, |f| f(score, b, h, q, kv));
                    scores.push((kv, f64::from(score)));
                }
                let nan = scores
                    .iter()
                    .any(|(_, s)| s.is_nan() || *s == f64::INFINITY);
                let m = scores.iter().fold(f64::NEG_INFINITY, |m, (_, s)| m.max(*s));
                let weight = |s: f64| {
                    if m == f64::NEG_INFINITY {
                        0.0
                    } else {
                        (s - m).exp()
                    }
                };
                let l: f64 = scores.iter().map(|(_, s)| weight(*s)).sum();
                for d in 0..shape.d_v {
                    let sum: f64 = scores
                        .iter()
                        .filter(|(_, s)| weight(*s) != 0.0)
                        .map(|(kv, s)| weight(*s) * inputs.v.get([b, h / shape.group, *kv, d]))
                        .sum();
                    out.push(match (nan, l == 0.0) {
                        (true, _) => f64::NAN,
                        (_, true) => 0.0,
                        _ => sum / l,
                    });
                }
                lse.push(if nan { f64::NAN } else { m + l.ln() });
                row_max.push(if nan { f64::NAN } else { m });
            }
        }
    }
    [out, lse, row_max]
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (i, (&x, &y)) in found.iter().zip(expected).enumerate() {
        let x = f64::from(x);
        let same = (x.is_nan() && y.is_nan()) || x == y;
        let close = y.is_finite() && (x - y).abs() <= tolerance * y.abs().max(1.0);
        assert!(same || close, "{what}[{i}] is {x:e}, expected {y:e}");
    }
}

fn micros() -> Vec<Micro> {
    let all = [Micro::Portable, Micro::Avx2];
    all.into_iter().filter(|m| m.is_available()).collect()
}

/// Compares with dense attention on every micro-kernel this processor has.
#[track_caller]
fn check(shape: &Shape, inputs: &Inputs, blocks: Option<&Blocks>, rule: Rule, what: &str) {
    let [out, lse, row_max] = run_dense(shape, inputs, blocks, rule);
    let tolerance = match inputs.q.view().dtype() {
        DType::F32 => TOLERANCE_F32,
        DType::F16 => TOLERANCE_F16,
        DType::BF16 => TOLERANCE_BF16,
    };
    for micro in micros() {
        let what = format!("{micro:?} {shape:?} {what}");
        let (found, _) = run_engine(shape, inputs, blocks, rule, micro);
        assert_close(&found.out, &out, tolerance, &format!("{what}: out"));
        assert_close(&found.lse, &lse, TOLERANCE_F32, &format!("{what}: lse"));
        let name = format!("{what}: row_max");
        assert_close(&found.row_max, &row_max, TOLERANCE_F32, &name);
    }
}

fn causal(_: usize, _: usize, q: usize, kv: usize) -> bool {
    kv <= q
}

fn scattered(b: usize, h: usize, q: usize, kv: usize) -> bool {
    (q * 7 + kv * 13 + b * 3 + h * 5) % 11 < 4
}

/// Whole rows, strips and corners of tiles are empty.
fn ragged(_: usize, h: usize, q: usize, kv: usize) -> bool {
    q % 5 != 3 && (kv / 20 + q / 9 + h).is_multiple_of(3) && kv < 150
}

fn alibi(score: f32, _: usize, h: usize, q: usize, kv: usize) -> f32 {
    score - 0.01 * (h + 1) as f32 * q.abs_diff(kv) as f32
}

/// −∞ in some cells, and in all of every seventh row.
fn holes(score: f32, _: usize, _: usize, q: usize, kv: usize) -> f32 {
    if q % 7 == 2 || (q + kv).is_multiple_of(3) {
        f32::NEG_INFINITY
    } else {
        score
    }
}

const MEMORIES: [Memory; 5] = [
    Memory::Contiguous,
    Memory::Tokens,
    Memory::Transposed,
    Memory::Reversed,
    Memory::Broadcast,
];
const BLOCKS: [(usize, usize); 10] = [
    (1, 1),
    (16, 64),
    (100, 7),
    (128, 128),
    (1, 128),
    (128, 1),
    (64, 64),
    (300, 200),
    (13, 129),
    (usize::MAX, 1 << 40),
];

#[test]
fn agrees_with_dense_attention_over_random_cases() {
    let masks: [Option<Mask>; 4] = [None, Some(causal), Some(scattered), Some(ragged)];
    let scores: [Option<Score>; 3] = [None, Some(alibi), Some(holes)];
    for seed in 0..240 {
        let mut random = Random(seed);
        let r = &mut random;
        let shape = Shape {
            batch: r.pick(&[1, 1, 2]),
            num_kv_heads: r.pick(&[1, 2]),
            group: r.pick(&[1, 1, 3, 7, 8]),
            q_len: r.pick(&[1, 2, 5, 6, 7, 24, 25, 63, 127, 130, 200]),
            kv_len: r.pick(&[1, 3, 15, 16, 17, 64, 100, 129, 255, 300]),
            d_qk: r.pick(&[1, 3, 8, 17, 40, 64]),
            d_v: r.pick(&[1, 5, 16, 33, 64]),
        };
        let dtype = r.pick(&[DType::F32, DType::F32, DType::F16, DType::BF16]);
        let memory = r.pick(&MEMORIES);
        let rule = Rule {
            mask: r.pick(&masks),
            score: r.pick(&scores),
        };
        let inputs = Inputs::random(r, &shape, dtype, memory);
        let block = r.pick(&BLOCKS);
        let blocks = (r.below(4) != 0).then(|| Blocks::random(r, &shape, block));
        let what = format!("seed {seed} {dtype} {memory:?} blocks {block:?}");
        check(&shape, &inputs, blocks.as_ref(), rule, &what);
    }
}

#[test]
fn agrees_with_dense_attention_at_every_edge_of_a_tile() {
    let mut random = Random(1);
    for len in (0..36).chain(120..136) {
        let shape = Shape::new(len, 135 - len.min(135), 9, 10);
        let inputs = Inputs::random(&mut random, &shape, DType::F32, Memory::Contiguous);
        check(&shape, &inputs, None, Rule::default(), "dense");
        let rule = Rule {
            mask: Some(causal),
            score: Some(alibi),
        };
        check(&shape, &inputs, None, rule, "causal");
    }
}

#[test]
fn agrees_with_dense_attention_at_large_heads() {
    let mut random = Random(2);
    for (d_qk, d_v) in [(192, 128), (576, 512), (1, 300)] {
        let shape = Shape::new(33, 70, d_qk, d_v);
        let inputs = Inputs::random(&mut random, &shape, DType::BF16, Memory::Tokens);
        let rule = Rule {
            mask: Some(causal),
            score: None,
        };
        check(&shape, &inputs, None, rule, "large heads");
    }
}

#[test]
fn lengths_of_zero_are_computed() {
    let mut random = Random(3);
    for (batch, q_len, kv_len) in [(0, 5, 5), (1, 0, 5), (2, 5, 0), (1, 0, 0)] {
        let shape = Shape {
            batch,
            ..Shape::new(q_len, kv_len, 4, 6)
        };
        let inputs = Inputs::random(&mut random, &shape, DType::F32, Memory::Contiguous);
        check(&shape, &inputs, None, Rule::default(), "no blocks");
        let blocks = Blocks::random(&mut random, &shape, (2, 3));
        check(&shape, &inputs, Some(&blocks), Rule::default(), "blocks");
    }
}

#[test]
fn every_class_and_thread_count_gives_the_same_bits() {
    let masks: [Mask; 3] = [causal, scattered, ragged];
    for seed in 0..60 {
        let mut random = Random(1000 + seed);
        let r = &mut random;
        let shape = Shape {
            batch: 2,
            num_kv_heads: 2,
            group: r.pick(&[1, 3]),
            ..Shape::new(r.pick(&[50, 130, 270]), r.pick(&[90, 200, 300]), 24, 20)
        };
        let mask = r.pick(&masks);
        let rule = Rule {
            mask: Some(mask),
            score: r.pick(&[None, Some(alibi as Score), Some(holes)]),
        };
        let inputs = Inputs::random(r, &shape, DType::F32, Memory::Tokens);
        let exact = Blocks::of_rule(&shape, r.pick(&BLOCKS), mask);
        for micro in micros() {
            let (expected, _) = run_engine(&shape, &inputs, Some(&exact), rule, micro);
            for empty_too in [false, true] {
                let mut coarse = exact.clone();
                for class in &mut coarse.classes {
                    if (*class == 2 || empty_too) && r.below(2) == 0 {
                        *class = 1;
                    }
                }
                coarse.scattered = r.below(2) == 0;
                let (found, _) = run_engine(&shape, &inputs, Some(&coarse), rule, micro);
                assert_eq!(found.bits(), expected.bits(), "seed {seed} {micro:?}");
            }
        }
    }
}

#[test]
fn thread_counts_give_the_same_bits_when_work_is_spread() {
    let mut random = Random(5);
    let shape = Shape {
        num_kv_heads: 2,
        group: 2,
        ..Shape::new(700, 900, 64, 64)
    };
    let inputs = Inputs::random(&mut random, &shape, DType::F32, Memory::Contiguous);
    let rule = Rule {
        mask: Some(causal),
        score: Some(alibi),
    };
    let blocks = Blocks::of_rule(&shape, (128, 128), causal);
    for micro in micros() {
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = pool.build().unwrap();
            pool.install(|| run_engine(&shape, &inputs, Some(&blocks), rule, micro))
        };
        let (expected, stats) = on(1);
        for threads in [2, 3, 5] {
            let (found, found_stats) = on(threads);
            assert_eq!(found.bits(), expected.bits(), "{threads} threads");
            assert_eq!(found_stats, stats);
        }
    }
}

#[test]
fn packing_in_place_or_in_waves_of_heads_gives_the_same_bits() {
    let mut random = Random(6);
    let shape = Shape {
        batch: 2,
        num_kv_heads: 3,
        group: 2,
        ..Shape::new(300, 333, 40, 24)
    };
    let inputs = Inputs::random(&mut random, &shape, DType::F32, Memory::Tokens);
    let blocks = Blocks::random(&mut random, &shape, (64, 64));
    let head_bytes = 3 * 128 * (40 + 32) * size_of::<f32>();
    for micro in micros() {
        let within = |budget| {
            let mut out = vec![7.0; 2 * 6 * 300 * 24];
            let mut request =
                Request::new(inputs.q.view(), inputs.k.view(), inputs.v.view(), SCALE);
            request.blocks = Some(&blocks);
            request.micro = Some(micro);
            let output = Output::new(TensorDataMut::F32(&mut out));
            forward_within(&request, output, budget).unwrap();
            out.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        let expected = within(0);
        for heads in [1, 2, 4, 5, 6, 100] {
            assert_eq!(within(heads * head_bytes), expected, "{heads} heads a wave");
        }
    }
}

#[test]
fn a_masked_value_never_matters() {
    let mut random = Random(12);
    let shape = Shape {
        group: 2,
        ..Shape::new(150, 200, 16, 20)
    };
    let mut inputs = Inputs::random(&mut random, &shape, DType::F32, Memory::Contiguous);
    for (i, kv) in (1..200).step_by(7).enumerate() {
        let poison = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][i % 3];
        inputs.v.set([0, 0, kv, i % 20], poison);
    }
    // Every poisoned key is masked for most rows, and attended by the others.
    let rule = Rule {
        mask: Some(|_, _, q, kv| kv % 7 != 1 || q % 10 == 4),
        score: None,
    };
    check(&shape, &inputs, None, rule, "by the rule");
    let empty = |_, _, row: usize, column: usize| {
        if column % 7 != 1 || row % 10 == 4 {
            2
        } else {
            0
        }
    };
    let blocks = Blocks::build(&shape, (1, 1), empty);
    check(
        &shape,
        &inputs,
        Some(&blocks),
        Rule::default(),
        "by empty blocks",
    );
}

#[test]
fn a_masked_key_never_matters() {
    let mut random = Random(7);
    let shape = Shape::new(40, 200, 16, 16);
    let mut inputs = Inputs::random(&mut random, &shape, DType::F32, Memory::Contiguous);
    let rule = Rule {
        mask: Some(|_, _, q, kv| kv % 3 != 1 && kv <= q + 100),
        score: Some(alibi),
    };
    let blocks = Blocks::of_rule(&shape, (16, 16), rule.mask.unwrap());
    for micro in micros() {
        let (expected, _) = run_engine(&shape, &inputs, Some(&blocks), rule, micro);
        for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for kv in (1..shape.kv_len).step_by(3).chain(140..shape.kv_len) {
                for d in 0..shape.d_qk {
                    inputs.k.set([0, 0, kv, d], poison);
                }
            }
            let (found, _) = run_engine(&shape, &inputs, Some(&blocks), rule, micro);
            assert_eq!(found.bits(), expected.bits());
        }
        inputs = Inputs::random(&mut Random(7), &shape, DType::F32, Memory::Contiguous);
    }
}

/// NaN and +inf at the start, in the middle and at the end of a row, and in masked cells.
fn poison(score: f32, _: usize, _: usize, q: usize, kv: usize) -> f32 {
    match (q, kv) {
        (7, 0) | (8, 150) | (9, 299) | (6, 200) | (21, 7) => f32::INFINITY,
        (10, _) if kv != 170 => f32::NEG_INFINITY,
        (3, 0) | (4, 150) | (5, 299) | (6, 64) | (20, 7) | (10, _) => f32::NAN,
        _ => score,
    }
}

#[test]
fn a_nan_or_infinite_score_makes_its_row_nan_and_no_other() {
    let mut random = Random(8);
    let shape = Shape::new(30, 300, 16, 16);
    let inputs = Inputs::random(&mut random, &shape, DType::F32, Memory::Contiguous);
    let nowhere: Mask = |_, _, q, kv| q < 15 || kv != 7;
    for mask in [None, Some(nowhere)] {
        let rule = Rule {
            mask,
            score: Some(poison),
        };
        check(&shape, &inputs, None, rule, "poison");
    }
}

#[test]
fn an_empty_row_has_its_contract_whatever_v_holds() {
    let mut random = Random(9);
    let shape = Shape::new(30, 150, 16, 16);
    let mut inputs = Inputs::random(&mut random, &shape, DType::F32, Memory::Contiguous);
    inputs.v.set([0, 0, 5, 3], f32::NAN);
    inputs.v.set([0, 0, 140, 3], f32::INFINITY);
    let by_mask = Rule {
        mask: Some(|_, _, q, kv| q % 2 == 0 && kv == 1),
        score: None,
    };
    let by_score = Rule {
        mask: None,
        score: Some(|score, _, _, q, kv| {
            if q % 2 == 0 && kv == 1 {
                score
            } else {
                f32::NEG_INFINITY
            }
        }),
    };
    for rule in [by_mask, by_score] {
        for micro in micros() {
            let (found, _) = run_engine(&shape, &inputs, None, rule, micro);
            for q in 0..shape.q_len {
                let out = &found.out[q * 16..][..16];
                if q % 2 == 0 {
                    assert!(found.lse[q].is_finite() && found.row_max[q].is_finite());
                } else {
                    assert!(out.iter().all(|x| x.to_bits() == 0));
                    assert_eq!(found.lse[q], f32::NEG_INFINITY);
                    assert_eq!(found.row_max[q], f32::NEG_INFINITY);
                }
            }
        }
    }
}

#[test]
fn extreme_scores_neither_overflow_nor_lose_the_row() {
    let mut random = Random(10);
    let shape = Shape::new(20, 260, 8, 8);
    let inputs = Inputs::random(&mut random, &shape, DType::F32, Memory::Contiguous);
    let extreme: [Score; 3] = [
        |score, _, _, _, kv| score + kv as f32 * 1e4,
        |score, _, _, _, kv| score - kv as f32 * 1e4,
        |_, _, _, _, kv| if kv % 2 == 0 { f32::MAX } else { f32::MIN },
    ];
    for score in extreme {
        let rule = Rule {
            mask: Some(scattered),
            score: Some(score),
        };
        check(&shape, &inputs, None, rule, "extreme");
    }
}

#[test]
fn tiles_are_counted_by_class() {
    let mut random = Random(11);
    let shape = Shape {
        num_kv_heads: 2,
        ..Shape::new(512, 512, 4, 4)
    };
    let inputs = Inputs::random(&mut random, &shape, DType::F32, Memory::Contiguous);
    let rule = Rule {
        mask: Some(causal),
        score: None,
    };
    for (block, tile) in [((128, 128), 128), ((32, 64), 128), ((100, 100), 100)] {
        let blocks = Blocks::of_rule(&shape, block, causal);
        let (_, stats) = run_engine(&shape, &inputs, Some(&blocks), rule, Micro::Portable);
        assert_eq!((stats.tile_q, stats.tile_kv), (tile, tile));
        let n = 512_u64.div_ceil(tile as u64);
        assert_eq!(stats.tiles_partial, 2 * n);
        assert_eq!(stats.tiles_full, n * (n - 1));
        assert_eq!(stats.tiles_skipped, n * (n - 1));
        assert_eq!(stats.kernel, "forward-portable");
    }
}

#[test]
fn out_may_be_f32_for_any_input_and_nothing_else() {
    let x = vec![f16::ONE; 8];
    let view = TensorRef::contiguous(TensorData::F16(&x), [1, 1, 2, 4]).unwrap();
    let request = Request::new(view, view, view, 1.0);
    let mut out = vec![0.0; 8];
    forward(&request, Output::new(TensorDataMut::F32(&mut out))).unwrap();
    assert_eq!(out, [1.0; 8]);
    let mut out = vec![bf16::ZERO; 8];
    let error = forward(&request, Output::new(TensorDataMut::BF16(&mut out))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "out must be f16 like q, or f32, found bf16"
    );
}

#[test]
fn shapes_that_disagree_are_refused_with_their_numbers() {
    #[track_caller]
    fn check(shapes: [[usize; 4]; 3], out_len: usize, expected: &str) {
        let x = vec![0.0; 1000];
        let [q, k, v] =
            shapes.map(|shape| TensorRef::contiguous(TensorData::F32(&x), shape).unwrap());
        let mut out = vec![0.0; out_len];
        let output = Output::new(TensorDataMut::F32(&mut out));
        let error = forward(&Request::new(q, k, v, 1.0), output).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let kv = [1, 2, 5, 4];
    check(
        [[2, 2, 3, 4], kv, kv],
        48,
        "q, k and v must have the same batch size, found 2, 1 and 1",
    );
    check(
        [[1, 3, 3, 4], kv, kv],
        36,
        "the number of query heads must be a multiple of the number of kv heads, found 3 query \
         heads and 2 kv heads",
    );
    check(
        [[1, 2, 3, 4], kv, [1, 1, 5, 4]],
        24,
        "k and v must have the same number of heads, found 2 and 1",
    );
    check(
        [[1, 2, 3, 4], kv, [1, 2, 6, 4]],
        24,
        "k and v must have the same length, found 5 and 6",
    );
    check(
        [[1, 2, 3, 5], kv, kv],
        24,
        "q and k must have the same head dimension, found 5 and 4",
    );
    check(
        [[1, 2, 3, 4], kv, [1, 2, 5, 0]],
        0,
        "head dimensions must be at least 1, found 4 for q and k, 0 for v",
    );
    check(
        [[1, 2, 3, 4], kv, kv],
        23,
        "out must hold 24 elements, found 23",
    );
}

#[test]
fn a_block_of_zero_cells_and_runs_out_of_order_are_refused() {
    struct Bad(usize);
    impl BlockRows for Bad {
        fn q_block(&self) -> usize {
            4
        }
        fn kv_block(&self) -> usize {
            self.0
        }
        fn row(&self, _: usize, _: usize, _: usize, out: &mut Vec<Run>) {
            for first in [3, 1] {
                out.push(Run {
                    first,
                    count: 1,
                    class: BlockClass::Full,
                });
            }
        }
    }
    let x = vec![0.0; 64];
    let view = TensorRef::contiguous(TensorData::F32(&x), [1, 1, 16, 4]).unwrap();
    let ask = |kv_block| {
        let mut out = vec![0.0; 64];
        let bad = Bad(kv_block);
        let mut request = Request::new(view, view, view, 1.0);
        request.blocks = Some(&bad);
        forward(&request, Output::new(TensorDataMut::F32(&mut out))).unwrap_err()
    };
    assert!(matches!(
        ask(0),
        CpuError::ZeroBlock {
            q_block: 4,
            kv_block: 0
        }
    ));
    assert!(matches!(ask(4), CpuError::RunOrder { first: 1, .. }));
}
