//! Captured values for a check: what keeps the preconditions of a rule, so that the same code must serve it.

use std::fmt;
use std::sync::Arc;

use half::{bf16, f16};
use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::eval::{Point, ScalarEvaluator, Sizes};
use maskwright_dsl::ir::{CaptureKind, Const, Elem, Expr, ExprId, Extent, Rule, Ty};
use maskwright_dsl::pipeline::{Prepared, Scope, prepare};

use super::random::Random;

/// The integers that a capture may hold: as declared, and as bound where nothing is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) least: i64,
    pub(super) greatest: i64,
    pub(super) declared: bool,
}

/// How captured values are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// The elements that were bound, in another order.
    Shuffled,
    /// Scalars at their least value, elements at random.
    LeastScalars,
    /// Scalars at their greatest value, elements at random.
    GreatestScalars,
    /// All at random.
    Random,
    /// Scalars at random, each element at one end of its range.
    Extremes,
}

impl Generation {
    pub(super) const ALL: [Generation; 5] = [
        Generation::Shuffled,
        Generation::LeastScalars,
        Generation::GreatestScalars,
        Generation::Random,
        Generation::Extremes,
    ];
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Generation::Shuffled => "shuffled",
            Generation::LeastScalars => "scalars at their least value",
            Generation::GreatestScalars => "scalars at their greatest value",
            Generation::Random => "random",
            Generation::Extremes => "elements at the ends of their ranges",
        })
    }
}

/// The range of each capture, by slot; `None` for floats and empty buffers.
pub(super) fn bounds(bound: &BoundRule, scope: &Scope) -> Vec<Option<Bounds>> {
    let rule = bound.rule();
    let pairs = rule.captures.iter().zip(&bound.bindings().values);
    pairs
        .map(|(decl, value)| {
            let (observed, ty) = match value {
                CaptureValue::Scalar(value) => {
                    (value.as_int().map(|v| (v, v)), value.ty().int_range())
                }
                CaptureValue::Buffer(buffer) => (buffer.int_range(), buffer.elem().int_range()),
            };
            let ((low, high), (ty_low, ty_high)) = (observed?, ty?);
            // A declared bound may follow the lengths; what holds at every end of the bucket is kept.
            let least = at_ends(bound, scope, decl.min).map(|(_, most)| most);
            let greatest = at_ends(bound, scope, decl.max).map(|(least, _)| least);
            let declared = least.is_some() && greatest.is_some();
            let range = (
                least.unwrap_or(low).clamp(ty_low, ty_high),
                greatest.unwrap_or(high).clamp(ty_low, ty_high),
            );
            let crossed = range.1 < range.0;
            Some(Bounds {
                least: if crossed { low } else { range.0 },
                greatest: if crossed { high } else { range.1 },
                declared: declared && !crossed,
            })
        })
        .collect()
}

/// Least and greatest value of a declaration's expression at the ends of the bucket.
fn at_ends(bound: &BoundRule, scope: &Scope, expr: Option<ExprId>) -> Option<(i64, i64)> {
    let expr = expr?;
    let values = scope.bucket.ends().into_iter().filter_map(|member| {
        let sizes = Sizes {
            batch: scope.batch as i32,
            num_q_heads: scope.num_q_heads as i32,
            q_len: member.q_len as i32,
            kv_len: member.kv_len as i32,
        };
        let nowhere = Point {
            b: 0,
            h: 0,
            q_idx: 0,
            kv_idx: 0,
            score: 0.0,
        };
        let mut scalar = ScalarEvaluator::new(bound.rule(), bound.bindings(), sizes);
        scalar.eval_expr(expr, &nowhere).ok()?.as_int()
    });
    values.fold(None, |range, value| {
        let (least, greatest) = range.unwrap_or((value, value));
        Some((value.min(least), value.max(greatest)))
    })
}

/// What each capture is taken to keep, in words.
pub(super) fn describe(bound: &BoundRule, scope: &Scope) -> Vec<String> {
    let rule = bound.rule();
    let captures = rule.captures.iter().zip(&bound.bindings().values);
    captures
        .zip(bounds(bound, scope))
        .map(|((decl, value), bounds)| {
            let what = match value {
                CaptureValue::Scalar(value) => format!("{}: {}", decl.name, value.ty()),
                CaptureValue::Buffer(buffer) => format!(
                    "{}: {} of shape {:?} at least",
                    decl.name,
                    buffer.elem(),
                    buffer.shape()
                ),
            };
            let Some(bounds) = bounds else { return what };
            let why = if bounds.declared {
                "declared"
            } else {
                "as bound"
            };
            let (least, greatest) = (bounds.least, bounds.greatest);
            format!("{what} in {least}..={greatest} ({why})")
        })
        .collect()
}

/// The rule with generated captured values; `None` if they breach what its proofs rest on, so that they are no legal
/// values of it.
pub(super) fn generated(
    prepared: &Prepared,
    how: Generation,
    random: &mut Random,
) -> Option<Prepared> {
    let bound = prepared.original();
    let rule = bound.rule();
    let keep = scalars_of_extents(rule);
    let values = bound
        .bindings()
        .values
        .iter()
        .zip(bounds(bound, prepared.scope()))
        .enumerate()
        .map(|(slot, (value, bounds))| match value {
            CaptureValue::Scalar(value) if keep[slot] => CaptureValue::Scalar(*value),
            CaptureValue::Scalar(value) => {
                CaptureValue::Scalar(scalar(*value, bounds, how, random))
            }
            CaptureValue::Buffer(view) => CaptureValue::Buffer(buffer(view, bounds, how, random)),
        })
        .collect();
    let dims: Vec<(&str, i32)> = rule
        .dims
        .iter()
        .zip(&bound.bindings().dims)
        .map(|(decl, value)| (decl.name.as_str(), *value))
        .collect();
    let bound = BoundRule::new(Arc::clone(rule), values, &dims).ok()?;
    prepare(&bound, prepared.scope()).ok()
}

/// Scalars on which the declared extent of a buffer depends: with another value the buffers would be too short.
fn scalars_of_extents(rule: &Rule) -> Vec<bool> {
    let mut needed = vec![false; rule.arena.len()];
    for decl in &rule.captures {
        if let CaptureKind::Buffer { extents, .. } = &decl.kind {
            for extent in extents {
                if let Extent::AtLeast(expr) = extent {
                    needed[expr.index()] = true;
                }
            }
        }
    }
    let mut keep = vec![false; rule.captures.len()];
    for id in rule
        .arena
        .ids()
        .rev()
        .filter(|_| !keep.is_empty())
        .collect::<Vec<_>>()
    {
        if !needed[id.index()] {
            continue;
        }
        let expr = rule.arena.expr(id);
        expr.for_each_operand(|operand| needed[operand.index()] = true);
        if let Expr::Scalar(slot) = expr {
            keep[slot.index()] = true;
        }
    }
    keep
}

fn scalar(value: Const, bounds: Option<Bounds>, how: Generation, random: &mut Random) -> Const {
    let Some(bounds) = bounds else {
        return match how {
            Generation::Shuffled => value,
            Generation::LeastScalars
            | Generation::GreatestScalars
            | Generation::Random
            | Generation::Extremes => Const::F32(random.small_float()),
        };
    };
    // A bool is bound as one value, and no proof rests on which.
    let (least, greatest) = match value.ty() {
        Ty::Bool => (0, 1),
        Ty::I32 | Ty::I64 | Ty::U32 | Ty::F32 => (bounds.least, bounds.greatest),
    };
    let chosen = match how {
        Generation::Shuffled => return value,
        Generation::LeastScalars => least,
        Generation::GreatestScalars => greatest,
        Generation::Random | Generation::Extremes => random.within(least, greatest),
    };
    Const::from_int(value.ty(), chosen).unwrap_or(value)
}

/// A contiguous buffer of the same shape and type.
fn buffer(
    view: &CapturedBuffer,
    bounds: Option<Bounds>,
    how: Generation,
    random: &mut Random,
) -> CapturedBuffer {
    let mut places = Vec::with_capacity(view.len());
    view.for_each_element(|at| places.push(at));
    if how == Generation::Shuffled {
        for at in 1..places.len() {
            places.swap(at, random.below(at as u64 + 1) as usize);
        }
    }
    let n = places.len();
    let mut int = || match bounds {
        Some(bounds) if how == Generation::Extremes => match random.below(2) {
            0 => bounds.least,
            _ => bounds.greatest,
        },
        Some(bounds) => random.within(bounds.least, bounds.greatest),
        None => 0,
    };
    macro_rules! elements {
        ($old:expr, $new:expr) => {
            match how {
                Generation::Shuffled => places.iter().map(|&at| $old[at]).collect(),
                Generation::LeastScalars
                | Generation::GreatestScalars
                | Generation::Random
                | Generation::Extremes => (0..n).map(|_| $new).collect(),
            }
        };
    }
    macro_rules! integers {
        ($variant:ident, $old:expr, $ty:ty) => {
            BufferData::$variant(elements!($old, int() as $ty))
        };
    }
    let data = match view.data() {
        BufferData::Bool(old) => BufferData::Bool(elements!(old, int() != 0)),
        BufferData::Bits(old) => {
            let old = |at: usize| old[at / 8] >> (at % 8) & 1;
            let mut bytes = vec![0_u8; n.div_ceil(8)];
            for (to, &at) in places.iter().enumerate() {
                let bit = match how {
                    Generation::Shuffled => old(at),
                    Generation::LeastScalars
                    | Generation::GreatestScalars
                    | Generation::Random
                    | Generation::Extremes => int() as u8 & 1,
                };
                bytes[to / 8] |= bit << (to % 8);
            }
            BufferData::Bits(bytes.into())
        }
        BufferData::I8(old) => integers!(I8, old, i8),
        BufferData::U8(old) => integers!(U8, old, u8),
        BufferData::I16(old) => integers!(I16, old, i16),
        BufferData::U16(old) => integers!(U16, old, u16),
        BufferData::I32(old) => integers!(I32, old, i32),
        BufferData::I64(old) => integers!(I64, old, i64),
        BufferData::U32(old) => integers!(U32, old, u32),
        BufferData::F16(old) => {
            BufferData::F16(elements!(old, f16::from_f32(random.small_float())))
        }
        BufferData::Bf16(old) => {
            BufferData::Bf16(elements!(old, bf16::from_f32(random.small_float())))
        }
        BufferData::F32(old) => BufferData::F32(elements!(old, random.small_float())),
        BufferData::F64(old) => BufferData::F64(elements!(old, f64::from(random.small_float()))),
    };
    debug_assert_eq!(data.elem() == Elem::Bits, view.elem() == Elem::Bits);
    CapturedBuffer::new(data, view.shape().to_vec())
        .expect("there are as many elements as the view has")
}
