//! Captured values for each rule at given sizes: the same for the same sizes, without any chance in them.

use super::Captures;
use crate::capture::{BufferData, CaptureValue, CapturedBuffer};
use crate::eval::Sizes;
use crate::ir::Const;

/// Sizes that every rule can work with: at least one key, row and head.
#[derive(Clone, Copy)]
struct At {
    batch: usize,
    heads: usize,
    q_len: usize,
    kv_len: usize,
}

impl At {
    fn new(sizes: &Sizes) -> Self {
        let [batch, heads, q_len, kv_len] =
            [sizes.batch, sizes.num_q_heads, sizes.q_len, sizes.kv_len]
                .map(|size| size.max(1) as usize);
        Self {
            batch,
            heads,
            q_len,
            kv_len,
        }
    }

    /// A `parts`-th of the keys, at least one.
    fn share(self, parts: usize) -> usize {
        (self.kv_len / parts).max(1)
    }

    /// The number of the document that holds a token; short and long documents take turns.
    fn document(self, token: usize) -> usize {
        let pair = 2 * self.share(5);
        2 * (token / pair) + usize::from(pair.div_ceil(4) <= token % pair)
    }

    /// Documents as `(start, end)`.
    fn documents(self) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for token in 0..self.kv_len {
            match found.last_mut() {
                Some(last) if self.document(last.0) == self.document(token) => last.1 = token + 1,
                _ => found.push((token, token + 1)),
            }
        }
        found
    }
}

fn int(value: usize) -> CaptureValue {
    CaptureValue::Scalar(Const::I32(value as i32))
}

fn float(value: f32) -> CaptureValue {
    CaptureValue::Scalar(Const::F32(value))
}

fn buffer(data: BufferData, shape: &[usize]) -> CaptureValue {
    let buffer = CapturedBuffer::new(data, shape.to_vec());
    CaptureValue::Buffer(buffer.expect("the elements fill the shape"))
}

fn ints(shape: &[usize], values: impl Iterator<Item = usize>) -> CaptureValue {
    let values = values.map(|value| value as i32).collect();
    buffer(BufferData::I32(values), shape)
}

fn bools(shape: &[usize], values: impl Iterator<Item = bool>) -> CaptureValue {
    buffer(BufferData::Bool(values.collect()), shape)
}

/// Sixteenths between -2 and 2: sums of them are exact.
fn biases(count: usize) -> BufferData {
    let value = |i: usize| (i * 37 % 64) as f32 / 16.0 - 2.0;
    BufferData::F32((0..count).map(value).collect())
}

fn floats(shape: &[usize]) -> CaptureValue {
    buffer(biases(shape.iter().product()), shape)
}

fn nothing() -> Captures {
    Vec::new()
}

pub(super) fn alibi(sizes: &Sizes) -> Captures {
    let heads = At::new(sizes).heads;
    let slopes = (0..heads).map(|h| 0.5_f32.powi(1 + h as i32 % 8));
    let slopes = BufferData::F32(slopes.collect());
    vec![("slope", buffer(slopes, &[heads]))]
}

pub(super) fn alibi_computed(_: &Sizes) -> Captures {
    nothing()
}

pub(super) fn bigbird_random(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let block = at.share(16).min(65_536);
    let blocks = at.kv_len.div_ceil(block);
    let picks = (0..at.heads * blocks * 3).map(|i| {
        let mixed = (i as u32 + 1).wrapping_mul(0x9e37_79b1);
        (mixed >> 7) as usize % blocks
    });
    vec![
        ("block", int(block)),
        ("random", ints(&[at.heads, blocks, 3], picks)),
    ]
}

pub(super) fn block_causal_diffusion(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    vec![("tokens", int(at.share(2))), ("block", int(at.share(10)))]
}

pub(super) fn causal(_: &Sizes) -> Captures {
    nothing()
}

pub(super) fn causal_bottom_right(_: &Sizes) -> Captures {
    nothing()
}

pub(super) fn chunked(sizes: &Sizes) -> Captures {
    vec![("chunk", int(At::new(sizes).share(4)))]
}

pub(super) fn decode_offset(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    vec![("offset", int(at.kv_len.saturating_sub(at.q_len)))]
}

pub(super) fn decode_offset_per_batch(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let cached = at.kv_len.saturating_sub(at.q_len);
    let offsets = (0..at.batch).map(|b| cached / (1 + b % 4));
    vec![("offset", ints(&[at.batch], offsets))]
}

pub(super) fn dilated_window(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    vec![("reach", int(at.share(12))), ("dilation", int(3))]
}

pub(super) fn document(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let numbers = (0..at.kv_len).map(|token| at.document(token));
    vec![("doc", ints(&[at.kv_len], numbers))]
}

pub(super) fn document_causal(sizes: &Sizes) -> Captures {
    document(sizes)
}

pub(super) fn document_prefix_lm(sizes: &Sizes) -> Captures {
    let documents = At::new(sizes).documents();
    let ends = documents
        .iter()
        .map(|(start, end)| start + (end - start) / 3);
    let ends = ints(&[documents.len()], ends);
    let mut captures = document(sizes);
    captures.push(("prefix_end", ends));
    captures
}

/// Documents of even number attend both ways, the others causally.
pub(super) fn flashmask_columns(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let documents = at.documents();
    let bounds = (0..at.kv_len).flat_map(|kv| {
        let number = at.document(kv);
        let (start, end) = documents[number];
        let upper = if number.is_multiple_of(2) { start } else { kv };
        [end, at.kv_len.max(at.q_len), 0, upper]
    });
    vec![("bounds", ints(&[at.kv_len, 4], bounds))]
}

pub(super) fn full(_: &Sizes) -> Captures {
    nothing()
}

pub(super) fn global_window(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    vec![("tokens", int(at.share(20))), ("reach", int(at.share(8)))]
}

/// Cells have a value each while that is at most 16 MiB; beyond, the rows of a view overlap.
pub(super) fn learned_bias(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let shape = [at.batch, at.heads, at.q_len, at.kv_len];
    let cells = shape
        .iter()
        .try_fold(1_usize, |cells, n| cells.checked_mul(*n));
    if cells.is_some_and(|cells| cells <= 1 << 22) {
        return vec![("bias", floats(&shape))];
    }
    let strides = [5, 3, 1, 1];
    let reached = shape
        .iter()
        .zip(strides)
        .map(|(n, stride)| (n - 1) * stride)
        .sum::<usize>();
    let strides = strides.map(|stride| stride as i64).to_vec();
    let view = CapturedBuffer::strided(biases(reached + 1), shape.to_vec(), strides, 0);
    let view = view.expect("there are as many elements as the view reaches");
    vec![("bias", CaptureValue::Buffer(view))]
}

pub(super) fn natten_1d(sizes: &Sizes) -> Captures {
    vec![("kernel", int(At::new(sizes).share(4) | 1))]
}

pub(super) fn natten_2d(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let width = at.kv_len.isqrt();
    vec![
        ("height", int(at.kv_len.div_ceil(width))),
        ("width", int(width)),
        ("kernel", int((width / 3) | 1)),
    ]
}

pub(super) fn padding_left(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let starts = (0..at.batch).map(|b| (1 + b) % 3 * at.kv_len / 4);
    vec![("start", ints(&[at.batch], starts))]
}

pub(super) fn padding_right(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let lengths = (0..at.batch).map(|b| at.kv_len - (1 + b) % 3 * at.kv_len / 4);
    vec![("length", ints(&[at.batch], lengths))]
}

pub(super) fn per_head_window(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let windows = (0..at.heads).map(|h| at.share(2 + h % 4 * 3));
    vec![("window", ints(&[at.heads], windows))]
}

pub(super) fn prefix_lm(sizes: &Sizes) -> Captures {
    vec![("prefix", int(At::new(sizes).share(3)))]
}

pub(super) fn prefix_lm_per_batch(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let prefixes = (0..at.batch).map(|b| (1 + b) % 3 * at.kv_len / 4);
    vec![("prefix", ints(&[at.batch], prefixes))]
}

pub(super) fn relative_bias(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let reach = at.share(4).min(128);
    vec![
        ("reach", int(reach)),
        ("bias", floats(&[at.heads, 2 * reach + 1])),
    ]
}

pub(super) fn retrieval_heads(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let retrieval = (0..at.heads).map(|h| h.is_multiple_of(2));
    vec![
        ("retrieval", bools(&[at.heads], retrieval)),
        ("sinks", int(at.share(32))),
        ("window", int(at.share(8))),
    ]
}

pub(super) fn shared_prefix(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let question = at.share(4);
    let answers = (0..at.kv_len).map(|token| token / question);
    vec![("answer", ints(&[at.kv_len], answers))]
}

pub(super) fn sinks_window(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    vec![("sinks", int(at.share(32))), ("window", int(at.share(8)))]
}

pub(super) fn sliding_window(sizes: &Sizes) -> Captures {
    vec![("window", int(At::new(sizes).share(4)))]
}

pub(super) fn sliding_window_left_right(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    vec![("left", int(at.share(5))), ("right", int(at.share(10)))]
}

pub(super) fn sliding_window_symmetric(sizes: &Sizes) -> Captures {
    vec![("reach", int(At::new(sizes).share(8)))]
}

pub(super) fn softcap(_: &Sizes) -> Captures {
    vec![("cap", float(20.0))]
}

pub(super) fn sparse_fixed(sizes: &Sizes) -> Captures {
    let stride = At::new(sizes).kv_len.isqrt();
    vec![
        ("stride", int(stride)),
        ("summary", int(stride.div_ceil(8))),
    ]
}

pub(super) fn strided(sizes: &Sizes) -> Captures {
    vec![("stride", int(At::new(sizes).kv_len.isqrt()))]
}

pub(super) fn swin_bias(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let window = at.kv_len.isqrt().min(32);
    let offsets = 2 * window - 1;
    vec![
        ("window", int(window)),
        ("bias", floats(&[offsets, offsets, at.heads])),
    ]
}

pub(super) fn t5_buckets(sizes: &Sizes) -> Captures {
    let buckets = 32;
    vec![
        ("buckets", int(buckets)),
        ("max_distance", int(128)),
        ("bias", floats(&[buckets, At::new(sizes).heads])),
    ]
}

pub(super) fn temperature(sizes: &Sizes) -> Captures {
    let step = At::new(sizes).share(8);
    vec![("step", int(step)), ("coefficient", float(0.1))]
}

/// A binary tree of up to 31 nodes after half of the tokens.
pub(super) fn tree(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let context = at.kv_len / 2;
    let nodes = (at.kv_len - context).min(31);
    let is_ancestor = move |mut node: usize, of: usize| {
        while of < node {
            node = (node - 1) / 2;
        }
        node == of
    };
    let cells = (0..nodes * nodes).map(|cell| is_ancestor(cell / nodes, cell % nodes));
    vec![
        ("context", int(context)),
        ("ancestor", bools(&[nodes, nodes], cells)),
    ]
}

/// Scales of 1, 4, 9 and so on tokens.
pub(super) fn var_levels(sizes: &Sizes) -> Captures {
    let at = At::new(sizes);
    let levels = (0_usize..).flat_map(|level| std::iter::repeat_n(level, (level + 1).pow(2)));
    vec![("level", ints(&[at.kv_len], levels.take(at.kv_len)))]
}
