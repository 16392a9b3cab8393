//! The cases: groups of calls that share one compiled kernel.

use std::fmt;

use maskwright::bucket::Relation;
use maskwright::cuda::{Float, KernelShape, MaskBlocks};
use maskwright::eval::Sizes;
use maskwright::ir::RuleKind;
use maskwright::{BlockSize, Bucket, Rules, Scope, catalogue, mask, score};
use maskwright_dsl::block_mask::Authority;

use crate::error::RunError;
use crate::folder::List;
use crate::rule::{float, int, named, sampled, together};
use crate::tensors::Layout;

/// One call of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) q_len: usize,
    pub(crate) kv_len: usize,
    pub(crate) q_offset: i64,
    /// Of `q` and of the output.
    pub(crate) q_layout: Layout,
    /// Of `k` and `v`.
    pub(crate) kv_layout: Layout,
}

impl Call {
    fn new(q_len: usize, kv_len: usize, q_offset: i64) -> Self {
        Self {
            q_len,
            kv_len,
            q_offset,
            q_layout: Layout::RowMajor,
            kv_layout: Layout::RowMajor,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            q_len,
            kv_len,
            q_offset,
            q_layout,
            kv_layout,
        } = self;
        write!(f, "q {q_len} kv {kv_len}")?;
        if *q_offset != 0 {
            write!(f, " from {q_offset}")?;
        }
        if (*q_layout, *kv_layout) != (Layout::RowMajor, Layout::RowMajor) {
            write!(f, " {q_layout:?} {kv_layout:?}")?;
        }
        Ok(())
    }
}

/// Calls that share one compiled kernel.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) rules: Rules,
    pub(crate) scope: Scope,
    pub(crate) kv_heads: usize,
    pub(crate) shape: KernelShape,
    pub(crate) calls: Vec<Call>,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelShape {
            dtype,
            out_dtype,
            d_qk,
            d_v,
            blocks,
        } = self.shape;
        write!(f, "{} {dtype}", self.name)?;
        if out_dtype != dtype {
            write!(f, " to {out_dtype}")?;
        }
        write!(f, " d{d_qk}")?;
        if d_v != d_qk {
            write!(f, ",{d_v}")?;
        }
        write!(f, " h{}:{}", self.scope.num_q_heads, self.kv_heads)?;
        match blocks.map(|blocks| blocks.block) {
            Some(block) if block != BlockSize::default() => {
                write!(f, " blocks {}x{}", block.q, block.kv)
            }
            Some(_) => Ok(()),
            None => f.write_str(" no blocks"),
        }
    }
}

/// Head dimensions of queries and values, with each element type.
const DIMS: [(u32, u32); 8] = [
    (16, 16),
    (40, 40),
    (64, 64),
    (96, 96),
    (128, 128),
    (192, 192),
    (256, 256),
    (192, 128),
];

const TYPES: [Float; 3] = [Float::F16, Float::BF16, Float::F32];

/// The second kernel of each rule of the catalogue takes the next of these; the first is bf16 with heads of 64.
const OTHER: [(Float, u32); 5] = [
    (Float::F16, 128),
    (Float::F32, 64),
    (Float::F16, 64),
    (Float::BF16, 128),
    (Float::F32, 32),
];

/// Lengths of self-attention: one row, around one and two tiles, and a few tiles.
const LENGTHS: [usize; 8] = [1, 63, 64, 65, 127, 128, 129, 320];

/// Lengths of queries and keys, and the position of the first query.
const UNEVEN: [(usize, usize, i64); 6] = [
    (1, 1, 0),
    (65, 129, 64),
    (129, 65, 0),
    (200, 264, 64),
    (0, 5, 0),
    (5, 0, 0),
];

/// The groups of a list.
pub(crate) fn groups(list: List) -> Result<Vec<Group>, RunError> {
    match list {
        List::Full => full(),
        List::Quick => quick(),
    }
}

fn full() -> Result<Vec<Group>, RunError> {
    let mut groups = Vec::new();
    for (at, entry) in catalogue::entries().iter().enumerate() {
        let (dtype, dim) = OTHER[at % OTHER.len()];
        groups.push(of_catalogue(entry, Float::BF16, 64, &LENGTHS)?);
        groups.push(of_catalogue(entry, dtype, dim, &LENGTHS)?);
    }
    for dims in DIMS {
        for dtype in TYPES {
            groups.push(windowed(dtype, dims)?);
        }
    }
    for (heads, kv_heads) in [(3, 3), (6, 2), (7, 1), (8, 1)] {
        groups.push(grouped(heads, kv_heads)?);
    }
    for dtype in TYPES {
        groups.push(empty_rows(dtype));
        groups.push(dense(dtype));
    }
    groups.push(empty_by_score());
    groups.extend([strided(Float::BF16)?, strided(Float::F32)?]);
    groups.extend(blocks()?);
    Ok(groups)
}

/// One group of most kinds, with short calls.
fn quick() -> Result<Vec<Group>, RunError> {
    let entry = |name| {
        catalogue::find(name).ok_or_else(|| RunError::Rule {
            name: String::from(name),
            reason: "the catalogue has no such rule".to_owned(),
        })
    };
    let mut groups = vec![
        of_catalogue(entry("document_causal")?, Float::BF16, 64, &[1, 65])?,
        of_catalogue(entry("alibi")?, Float::F16, 16, &[65])?,
        windowed(Float::F32, (16, 16))?,
        empty_rows(Float::BF16),
        dense(Float::F16),
        strided(Float::BF16)?,
    ];
    for group in &mut groups[2..] {
        group.calls.retain(|call| call.q_len < 100);
    }
    Ok(groups)
}

fn shape(dtype: Float, (d_qk, d_v): (u32, u32), block: Option<BlockSize>) -> KernelShape {
    KernelShape {
        dtype,
        out_dtype: dtype,
        d_qk,
        d_v,
        blocks: block.map(|block| MaskBlocks {
            block,
            authority: Authority::Rule,
        }),
    }
}

fn longest(calls: &[Call]) -> u64 {
    let lengths = calls.iter().map(|call| call.q_len.max(call.kv_len));
    lengths.max().unwrap_or(0) as u64
}

/// Any lengths up to the longest, from any position up to 64.
fn free_scope(calls: &[Call], batch: u32, heads: u32) -> Scope {
    let longest = longest(calls);
    let bucket = Bucket {
        q_len: 0..=longest,
        kv_len: 0..=longest,
        relation: Relation::Free,
        q_offset: 0..=64,
    };
    Scope::new(bucket, batch, heads)
}

fn uneven() -> Vec<Call> {
    let calls = UNEVEN.iter();
    calls
        .map(|&(q_len, kv_len, q_offset)| Call::new(q_len, kv_len, q_offset))
        .collect()
}

/// A rule as the catalogue shows it; a score rule goes with a causal mask.
fn of_catalogue(
    entry: &catalogue::CatalogueEntry,
    dtype: Float,
    dim: u32,
    lengths: &[usize],
) -> Result<Group, RunError> {
    let (batch, heads) = (2, 4);
    let calls: Vec<Call> = lengths.iter().map(|&len| Call::new(len, len, 0)).collect();
    let longest = longest(&calls);
    let rules = sampled(
        entry,
        &Sizes {
            batch: batch as i32,
            num_q_heads: heads as i32,
            q_len: longest as i32,
            kv_len: longest as i32,
        },
    )?;
    let rules = match entry.kind {
        RuleKind::Mask => rules,
        RuleKind::Score => together(named("causal", Vec::new())?, rules),
    };
    Ok(Group {
        name: entry.name.to_owned(),
        rules,
        scope: Scope::new(Bucket::self_attention(1..=longest), batch, heads),
        kv_heads: 2,
        shape: shape(dtype, (dim, dim), Some(BlockSize::default())),
        calls,
    })
}

/// A window, from several positions and with more keys than queries or fewer.
fn windowed(dtype: Float, dims: (u32, u32)) -> Result<Group, RunError> {
    let calls = uneven();
    Ok(Group {
        name: "window".to_owned(),
        rules: named("sliding_window", vec![("window", int(100))])?,
        scope: free_scope(&calls, 1, 2),
        kv_heads: 1,
        shape: shape(dtype, dims, Some(BlockSize::default())),
        calls,
    })
}

/// Query heads that share key heads, with rules that tell query heads apart.
fn grouped(heads: u32, kv_heads: usize) -> Result<Group, RunError> {
    let windows = crate::rule::ints((0..heads as i32).map(|h| 20 + 30 * h).collect());
    let slopes = crate::rule::floats((0..heads as i32).map(|h| 0.5_f32.powi(h + 1)).collect());
    let rules = together(
        named("per_head_window", vec![("window", windows)])?,
        named("alibi", vec![("slope", slopes)])?,
    );
    let calls = vec![Call::new(65, 65, 0), Call::new(200, 200, 0)];
    Ok(Group {
        name: "window and slope by head".to_owned(),
        rules,
        scope: Scope::new(Bucket::self_attention(1..=200), 2, heads),
        kv_heads,
        shape: shape(Float::BF16, (64, 64), Some(BlockSize::default())),
        calls,
    })
}

/// Rows that see no key, alone and by the tile.
fn empty_rows(dtype: Float) -> Group {
    let calls = vec![Call::new(90, 90, 0), Call::new(200, 200, 0)];
    Group {
        name: "empty rows".to_owned(),
        rules: mask!(|q, kv| q % 3 != 0 && kv + 70 <= q).into(),
        scope: free_scope(&calls, 1, 2),
        kv_heads: 2,
        shape: shape(dtype, (64, 64), Some(BlockSize::default())),
        calls,
    }
}

/// Rows whose scores are all sent to −∞.
fn empty_by_score() -> Group {
    let calls = vec![Call::new(90, 90, 0)];
    Group {
        name: "empty by score".to_owned(),
        rules: score!(|score, q, kv| if q < kv { score } else { -f32::INFINITY }).into(),
        scope: free_scope(&calls, 1, 2),
        kv_heads: 2,
        shape: shape(Float::F16, (64, 64), Some(BlockSize::default())),
        calls,
    }
}

fn dense(dtype: Float) -> Group {
    let calls = uneven();
    Group {
        name: "dense".to_owned(),
        rules: Rules::dense(),
        scope: free_scope(&calls, 2, 3),
        kv_heads: 1,
        shape: shape(dtype, (64, 64), None),
        calls,
    }
}

/// Tensors that do not lie in row-major order.
fn strided(dtype: Float) -> Result<Group, RunError> {
    let call = Call::new(70, 90, 20);
    let layouts = [
        (Layout::HeadsInRows, Layout::HeadsInRows),
        (Layout::Padded, Layout::Padded),
        (Layout::RowMajor, Layout::OneBatch),
        (Layout::HeadsInRows, Layout::Padded),
    ];
    let calls: Vec<Call> = layouts
        .map(|(q_layout, kv_layout)| Call {
            q_layout,
            kv_layout,
            ..call
        })
        .to_vec();
    Ok(Group {
        name: "strided".to_owned(),
        rules: named("causal", Vec::new())?,
        scope: free_scope(&calls, 2, 4),
        kv_heads: 2,
        shape: shape(dtype, (40, 40), Some(BlockSize::default())),
        calls,
    })
}

/// Other block sizes, a mask whose blocks nobody knows, and an output that is wider than the inputs.
fn blocks() -> Result<Vec<Group>, RunError> {
    let calls = uneven();
    let group = |name: &str, rules: Rules, shape: KernelShape| Group {
        name: name.to_owned(),
        rules,
        scope: free_scope(&calls, 1, 2),
        kv_heads: 1,
        shape,
        calls: calls.clone(),
    };
    let window = || named("sliding_window", vec![("window", int(70))]);
    let softcap = named("softcap", vec![("cap", float(5.0))])?;
    let block = |q, kv| Some(BlockSize { q, kv });
    let dims = (64, 64);
    Ok(vec![
        group("window", window()?, shape(Float::BF16, dims, block(64, 64))),
        group("window", window()?, shape(Float::F16, dims, block(32, 16))),
        group(
            "window",
            window()?,
            shape(Float::BF16, dims, block(256, 256)),
        ),
        group("window", window()?, shape(Float::F16, dims, None)),
        group(
            "window and softcap",
            together(window()?, softcap),
            KernelShape {
                out_dtype: Float::F32,
                ..shape(Float::BF16, dims, block(128, 128))
            },
        ),
    ])
}
