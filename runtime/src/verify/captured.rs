//! Captured values for a check: what keeps the preconditions of a rule, so that the same code must serve it.

use std::fmt;

use half::{bf16, f16};
use maskwright_dsl::capture::{BufferData, CaptureValue, CapturedBuffer};
use maskwright_dsl::ir::{CaptureKind, Const, Elem, Expr, Extent, Rule, Ty};
use maskwright_dsl::pipeline::Prepared;
use maskwright_dsl::validate::PreconditionKind;

use super::random::Random;

/// The integers that a capture may hold: what proofs rest on, and what is bound where none does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    least: i64,
    greatest: i64,
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
fn bounds(prepared: &Prepared) -> Vec<Option<Bounds>> {
    let bound = prepared.original();
    let captures = bound.rule().captures.iter().zip(&bound.bindings().values);
    captures
        .map(|(decl, value)| {
            let observed = match value {
                CaptureValue::Scalar(value) => value.as_int().map(|value| (value, value)),
                CaptureValue::Buffer(buffer) => buffer.int_range(),
            };
            let (least, greatest) = observed?;
            let ranges = prepared
                .preconditions()
                .iter()
                .filter_map(|known| match known.kind {
                    PreconditionKind::ScalarRange { min, max }
                    | PreconditionKind::ContentRange { min, max } => {
                        (known.capture == decl.name).then_some((min, max))
                    }
                    PreconditionKind::MinExtent { .. } | PreconditionKind::DimRange { .. } => None,
                });
            // Several preconditions of one capture all hold.
            let range = ranges.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)));
            let (least, greatest) = range.unwrap_or((least, greatest));
            Some(Bounds { least, greatest })
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
        .zip(bounds(prepared))
        .enumerate()
        .map(|(slot, (value, bounds))| match value {
            CaptureValue::Scalar(value) if keep[slot] => CaptureValue::Scalar(*value),
            CaptureValue::Scalar(value) => {
                CaptureValue::Scalar(scalar(*value, bounds, how, random))
            }
            CaptureValue::Buffer(view) => CaptureValue::Buffer(buffer(view, bounds, how, random)),
        })
        .collect();
    prepared.rebind(values).ok()
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
