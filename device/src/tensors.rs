//! Tensors of a call: drawn values in one of the layouts that kernels take, on the host and as bytes for a machine.

use half::{bf16, f16};
use maskwright::attention::ElementsRef;
use maskwright::cuda::Float;

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `[batch, heads, length, head_dim]`, row-major.
    RowMajor,
    /// `[batch, length, heads, head_dim]`: heads within a row, as projections give them.
    HeadsInRows,
    /// Row-major, with eight elements between rows that belong to nobody.
    Padded,
    /// One batch entry for all.
    OneBatch,
}

impl Layout {
    /// Strides, in elements.
    pub(crate) fn strides(self, [_, heads, len, width]: [usize; 4]) -> [usize; 4] {
        match self {
            Self::RowMajor => [heads * len * width, len * width, width, 1],
            Self::HeadsInRows => [len * heads * width, width, heads * width, 1],
            Self::Padded => {
                let row = width + 8;
                [heads * len * row, len * row, row, 1]
            }
            Self::OneBatch => [0, len * width, width, 1],
        }
    }
}

/// Elements from the first to the end of the last.
pub(crate) fn extent(shape: [usize; 4], strides: [usize; 4]) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    let steps = shape.iter().zip(strides);
    1 + steps.map(|(n, stride)| (n - 1) * stride).sum::<usize>()
}

/// Where each element lies, in row-major order of the shape.
pub(crate) fn places(shape: [usize; 4], strides: [usize; 4]) -> impl Iterator<Item = usize> {
    let [batch, heads, len, width] = shape;
    (0..batch).flat_map(move |b| {
        (0..heads).flat_map(move |h| {
            (0..len).flat_map(move |l| {
                let row = b * strides[0] + h * strides[1] + l * strides[2];
                (0..width).map(move |d| row + d * strides[3])
            })
        })
    })
}

/// A number that looks random, from its place in a stream.
pub(crate) fn mixed(seed: u64, at: u64) -> u64 {
    let mut z = seed.wrapping_add((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Elements of a type.
#[derive(Clone, Debug)]
pub(crate) enum Elements {
    F16(Vec<f16>),
    BF16(Vec<bf16>),
    F32(Vec<f32>),
}

impl Elements {
    /// Rounds values to a type.
    pub(crate) fn new(dtype: Float, values: &[f32]) -> Self {
        match dtype {
            Float::F16 => Self::F16(values.iter().map(|x| f16::from_f32(*x)).collect()),
            Float::BF16 => Self::BF16(values.iter().map(|x| bf16::from_f32(*x)).collect()),
            Float::F32 => Self::F32(values.to_vec()),
        }
    }

    /// The bytes, as a machine has them.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::F16(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Self::BF16(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Self::F32(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    pub(crate) fn view(&self) -> ElementsRef<'_> {
        match self {
            Self::F16(x) => x.into(),
            Self::BF16(x) => x.into(),
            Self::F32(x) => x.into(),
        }
    }
}

/// Reads an element of a type.
pub(crate) fn element(dtype: Float, bytes: &[u8], at: usize) -> f32 {
    let half = |at: usize| [bytes[2 * at], bytes[2 * at + 1]];
    match dtype {
        Float::F16 => f16::from_le_bytes(half(at)).to_f32(),
        Float::BF16 => bf16::from_le_bytes(half(at)).to_f32(),
        Float::F32 => {
            let at = 4 * at;
            f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        }
    }
}

/// A tensor of the host.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) elements: Elements,
    pub(crate) shape: [usize; 4],
    pub(crate) strides: [usize; 4],
}

impl Tensor {
    /// Values between -1 and 1. What lies between rows is NaN: whoever reads it shows.
    pub(crate) fn drawn(dtype: Float, shape: [usize; 4], layout: Layout, seed: u64) -> Self {
        let strides = layout.strides(shape);
        let mut values = vec![f32::NAN; extent(shape, strides)];
        for (i, at) in places(shape, strides).enumerate() {
            values[at] = (mixed(seed, i as u64) >> 40) as f32 / (1 << 23) as f32 - 1.0;
        }
        Self {
            elements: Elements::new(dtype, &values),
            shape,
            strides,
        }
    }
}
