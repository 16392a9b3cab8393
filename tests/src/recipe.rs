//! Recipes of captured buffers: a few words in a case file stand for thousands of elements.

use half::{bf16, f16};
use maskwright_dsl::capture::{BufferData, CapturedBuffer};
use maskwright_dsl::ir::Elem;
use serde::Deserialize;

/// How the elements of a buffer come about, in row-major order; `i` is the flat index.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipe {
    /// The values.
    Lit(Nested),
    /// One value everywhere.
    Const(f64),
    /// `[a, c]`: `a * i + c`.
    Affine(f64, f64),
    /// `[a, c, lo, hi]`: `a * i + c` between `lo` and `hi`.
    AffineClip(f64, f64, f64, f64),
    /// Lengths: 0 repeated `lengths[0]` times, then 1 and so on.
    Segments(Vec<usize>),
    /// `[[v, count], …]`: `v` repeated `count` times, and so on.
    SegmentValues(Vec<(f64, usize)>),
    /// Lengths: their prefix sums from 0, one entry more than there are lengths.
    Offsets(Vec<u32>),
    /// `[seed, lo, hi]`: drawn integers of `lo..hi`.
    HashInt(u64, i64, i64),
    /// `[seed, lo, hi]`: drawn floats of `lo..hi`.
    HashF32(u64, f64, f64),
    /// `[seed, num, den]`: true in `num` of `den` cases.
    HashBool(u64, u64, u64),
    /// One recipe per leading index.
    Rows(Vec<Recipe>),
    /// One recipe per trailing index.
    Cols(Vec<Recipe>),
    /// Another recipe, with the first `n` elements replaced.
    HeadOverride {
        /// The other recipe.
        of: Box<Recipe>,
        /// How many elements.
        n: usize,
        /// What replaces them.
        v: f64,
    },
    /// `[seed, n]`: each row of the last axis holds distinct integers below `n`.
    Distinct(u64, u64),
    /// `[heads, variant]`: `ALiBi` slopes of any head count.
    Alibi(usize, AlibiVariant),
    /// Parents: a square table, true where the column is the row or an ancestor of it; a root has parent -1.
    Ancestors(Vec<i64>),
    /// Truth values packed into bytes, element `8 * n + j` in bit `j` of byte `n`.
    PackLsb {
        /// The truth values.
        of: Box<Recipe>,
        /// Their shape.
        shape: Vec<usize>,
    },
    /// Logical page of each physical page, -1 where unused; a later logical page wins.
    InversePages {
        /// Physical page of each logical page, one row per batch entry; -1 where there is none.
        table: Vec<Vec<i64>>,
        /// Physical pages.
        n_phys: usize,
    },
    /// `[l, d]`: sum over `i < d / 2` of `cos(abs(n - (l - 1)) / 10000^(2i / d))`.
    Sandwich(i64, u32),
    /// `[a, b]`: `a / (b * (i + 1))`.
    AffineRecip(f64, f64),
    /// `[n, max]`: distance of row and column on a ring of `n`, at most `max + 1`.
    ClippedHashDist(usize, usize),
}

/// How slopes are chosen where the head count is no power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlibiVariant {
    /// Those of the power of two below, then every other one of twice that.
    Interleave,
    /// Those of the power of two above, odd ones first.
    Ceil,
}

/// A literal of any rank.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Nested {
    /// A truth value.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A list of such.
    List(Vec<Nested>),
}

/// Why a recipe gives no buffer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecipeError {
    /// It gives another number of elements than the shape has.
    #[error("expected {expected} elements for shape {shape:?}, found {found}")]
    Count {
        /// The shape.
        shape: Vec<usize>,
        /// Its elements.
        expected: usize,
        /// What the recipe gives.
        found: usize,
    },
    /// Nested recipes need an axis to run along.
    #[error("expected a shape with {expected} entries on that axis, found {shape:?}")]
    Axis {
        /// The shape.
        shape: Vec<usize>,
        /// Nested recipes.
        expected: usize,
    },
}

/// Output `i` of splitmix64 started at `seed`.
pub fn splitmix(seed: u64, i: u64) -> u64 {
    let mut z = seed.wrapping_add(i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Float `i` of the stream `seed`, between `lo` and `hi`.
pub fn hash_f32(seed: u64, lo: f64, hi: f64, i: u64) -> f32 {
    let unit = (splitmix(seed, i) >> 40) as f64 / f64::from(1 << 24);
    (lo + (hi - lo) * unit) as f32
}

/// The scores that score rules are applied to, and that attention runs on.
pub fn score_input(cells: usize) -> Vec<f32> {
    (0..cells as u64)
        .map(|i| hash_f32(777, -4.0, 4.0, i))
        .collect()
}

impl Recipe {
    /// The elements for a shape.
    ///
    /// # Errors
    /// [`RecipeError`] if they do not fill it.
    pub fn values(&self, shape: &[usize]) -> Result<Vec<f64>, RecipeError> {
        let n: usize = shape.iter().product();
        let each = |f: &dyn Fn(u64) -> f64| (0..n as u64).map(f).collect::<Vec<_>>();
        let values = match self {
            Recipe::Lit(nested) => {
                let mut values = Vec::new();
                nested.flatten(&mut values);
                values
            }
            Recipe::Const(v) => vec![*v; n],
            Recipe::Affine(a, c) => each(&|i| a * i as f64 + c),
            Recipe::AffineClip(a, c, lo, hi) => each(&|i| (a * i as f64 + c).max(*lo).min(*hi)),
            Recipe::Segments(lengths) => {
                repeat(lengths.iter().enumerate().map(|(v, n)| (v as f64, *n)))
            }
            Recipe::SegmentValues(runs) => repeat(runs.iter().copied()),
            Recipe::Offsets(lengths) => {
                let mut sum = 0.0;
                let rest = lengths.iter().map(|length| {
                    sum += f64::from(*length);
                    sum
                });
                let mut values: Vec<f64> = rest.collect();
                values.insert(0, 0.0);
                values
            }
            Recipe::HashInt(seed, lo, hi) => {
                each(&|i| (lo + (splitmix(*seed, i) % (hi - lo) as u64) as i64) as f64)
            }
            Recipe::HashF32(seed, lo, hi) => each(&|i| f64::from(hash_f32(*seed, *lo, *hi, i))),
            Recipe::HashBool(seed, num, den) => {
                each(&|i| f64::from(u8::from(splitmix(*seed, i) % den < *num)))
            }
            Recipe::Rows(rows) => {
                let inner = match shape {
                    [leading, inner @ ..] if *leading == rows.len() => inner,
                    _ => return Err(axis_error(shape, rows.len())),
                };
                let mut values = Vec::with_capacity(n);
                for row in rows {
                    values.extend(row.values(inner)?);
                }
                values
            }
            Recipe::Cols(cols) => {
                let inner = match shape {
                    [inner @ .., trailing] if *trailing == cols.len() => inner,
                    _ => return Err(axis_error(shape, cols.len())),
                };
                let cols: Vec<Vec<f64>> = cols
                    .iter()
                    .map(|col| col.values(inner))
                    .collect::<Result<_, _>>()?;
                (0..n)
                    .map(|i| cols[i % cols.len()][i / cols.len()])
                    .collect()
            }
            Recipe::HeadOverride { of, n, v } => {
                let mut values = of.values(shape)?;
                let head = (*n).min(values.len());
                values[..head].fill(*v);
                values
            }
            Recipe::Distinct(seed, below) => distinct(*seed, *below, shape),
            Recipe::Alibi(heads, variant) => alibi(*heads, *variant),
            Recipe::Ancestors(parents) => ancestors(parents),
            Recipe::PackLsb { of, shape } => {
                let bits = of.values(shape)?;
                bits.chunks(8).map(|eight| f64::from(pack(eight))).collect()
            }
            Recipe::InversePages { table, n_phys } => {
                let mut values = vec![-1.0; table.len() * n_phys];
                for (row, pages) in table.iter().enumerate() {
                    for (logical, &physical) in pages.iter().enumerate() {
                        if let Ok(physical) = usize::try_from(physical) {
                            values[row * n_phys + physical] = logical as f64;
                        }
                    }
                }
                values
            }
            Recipe::Sandwich(length, d) => each(&|i| {
                let distance = (i as i64 - (length - 1)).abs() as f64;
                (0..d / 2)
                    .map(|i| {
                        let weight = 1.0 / 10000_f64.powf(2.0 * f64::from(i) / f64::from(*d));
                        (distance * weight).cos()
                    })
                    .sum()
            }),
            Recipe::AffineRecip(a, b) => each(&|i| a / (b * (i as f64 + 1.0))),
            Recipe::ClippedHashDist(ring, max) => {
                let plane = ring * ring;
                each(&|i| {
                    let at = i as usize % plane.max(1);
                    let distance = (at / ring).abs_diff(at % ring);
                    distance.min(ring - distance).min(max + 1) as f64
                })
            }
        };
        if values.len() != n {
            return Err(RecipeError::Count {
                shape: shape.to_vec(),
                expected: n,
                found: values.len(),
            });
        }
        Ok(values)
    }

    /// A contiguous buffer of an element type.
    ///
    /// # Errors
    /// [`RecipeError`] if the elements do not fill the shape.
    pub fn buffer(&self, elem: Elem, shape: &[usize]) -> Result<CapturedBuffer, RecipeError> {
        let values = self.values(shape)?;
        let buffer = CapturedBuffer::new(data(elem, &values), shape.to_vec());
        Ok(buffer.expect("the elements fill the shape"))
    }
}

impl Nested {
    fn flatten(&self, into: &mut Vec<f64>) {
        match self {
            Nested::Bool(v) => into.push(f64::from(u8::from(*v))),
            Nested::Number(v) => into.push(*v),
            Nested::List(items) => items.iter().for_each(|item| item.flatten(into)),
        }
    }
}

fn axis_error(shape: &[usize], expected: usize) -> RecipeError {
    RecipeError::Axis {
        shape: shape.to_vec(),
        expected,
    }
}

fn repeat(runs: impl Iterator<Item = (f64, usize)>) -> Vec<f64> {
    runs.flat_map(|(v, n)| std::iter::repeat_n(v, n)).collect()
}

/// The beginning of a shuffle for each row of the last axis.
fn distinct(seed: u64, below: u64, shape: &[usize]) -> Vec<f64> {
    let picks = shape.last().copied().unwrap_or(1);
    let rows: usize = shape.iter().rev().skip(1).product();
    let mut values = Vec::with_capacity(rows * picks);
    for row in 0..rows {
        let mut pool: Vec<u64> = (0..below).collect();
        for j in 0..picks {
            let draw = splitmix(seed, (row * picks + j) as u64);
            pool.swap(j, j + (draw % (below - j as u64)) as usize);
        }
        values.extend(pool[..picks].iter().map(|v| *v as f64));
    }
    values
}

fn alibi(heads: usize, variant: AlibiVariant) -> Vec<f64> {
    let series = |n: usize| (0..n).map(move |i| (-8.0 * (i as f64 + 1.0) / n as f64).exp2());
    match variant {
        AlibiVariant::Interleave => {
            let below = if heads.is_power_of_two() {
                heads
            } else {
                heads.next_power_of_two() / 2
            };
            let rest = series(2 * below).step_by(2).take(heads - below);
            series(below).chain(rest).collect()
        }
        AlibiVariant::Ceil => {
            let above = heads.next_power_of_two();
            if above == heads {
                return series(heads).collect();
            }
            let odd = series(above).skip(1).step_by(2);
            odd.chain(series(above).step_by(2)).take(heads).collect()
        }
    }
}

fn ancestors(parents: &[i64]) -> Vec<f64> {
    let n = parents.len();
    let mut table = vec![0.0; n * n];
    for (i, &parent) in parents.iter().enumerate() {
        if let Ok(parent) = usize::try_from(parent) {
            let (above, row) = table.split_at_mut(i * n);
            row[..n].copy_from_slice(&above[parent * n..][..n]);
        }
        table[i * n + i] = 1.0;
    }
    table
}

/// Up to eight truth values as a byte, the first one least significant.
fn pack(bits: &[f64]) -> u8 {
    let bits = bits.iter().enumerate();
    bits.fold(0, |byte, (j, &bit)| byte | u8::from(bit != 0.0) << j)
}

/// Values as elements of a type; a fraction is cut off where the type is an integer.
fn data(elem: Elem, values: &[f64]) -> BufferData {
    let values = values.iter().copied();
    match elem {
        Elem::Bool => BufferData::Bool(values.map(|v| v != 0.0).collect()),
        Elem::Bits => {
            let bits: Vec<f64> = values.collect();
            BufferData::Bits(bits.chunks(8).map(pack).collect())
        }
        Elem::I8 => BufferData::I8(values.map(|v| v as i8).collect()),
        Elem::U8 => BufferData::U8(values.map(|v| v as u8).collect()),
        Elem::I16 => BufferData::I16(values.map(|v| v as i16).collect()),
        Elem::U16 => BufferData::U16(values.map(|v| v as u16).collect()),
        Elem::I32 => BufferData::I32(values.map(|v| v as i32).collect()),
        Elem::I64 => BufferData::I64(values.map(|v| v as i64).collect()),
        Elem::U32 => BufferData::U32(values.map(|v| v as u32).collect()),
        Elem::F16 => BufferData::F16(values.map(f16::from_f64).collect()),
        Elem::Bf16 => BufferData::Bf16(values.map(bf16::from_f64).collect()),
        Elem::F32 => BufferData::F32(values.map(|v| v as f32).collect()),
        Elem::F64 => BufferData::F64(values.collect()),
    }
}

#[cfg(test)]
mod tests;
