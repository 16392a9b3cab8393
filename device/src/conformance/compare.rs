//! How near results are to float64 and to the emulator, each error in units of what is tolerated.

use std::fmt::Write as _;

use maskwright::TensorRef;
use maskwright::cuda::Float;
use maskwright::reference::{DenseCall, dense_attention};

use super::groups::{Call, Group};
use super::launch::{Results, inputs};
use crate::error::RunError;

/// Of `f16`: the weight of each key is rounded to 11 bits before it meets V, the output once more.
const OUT_F16: f64 = 2.0e-3;

/// Of `bf16`: the same with 8 bits.
const OUT_BF16: f64 = 1.6e-2;

/// Of `f32`: each factor is two parts of 11 bits, and the product of the two low ones is left out, which leaves about
/// 21 bits; sums have up to 320 terms.
const OUT_F32: f64 = 5.0e-5;

/// Of log-sum-exps and maxima: scores are sums in `f32`, which tensor cores truncate, of up to 256 products, and score
/// rules compute in `f32`.
const SIDE: f64 = 5.0e-5;

/// Two machines that are both within a tolerance of the truth are within twice that of each other.
const BOTH: f64 = 2.0;

/// The largest error of one result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Worst {
    /// In units of what is tolerated; infinite where one is a number and the other none.
    pub(super) error: f64,
    /// Where.
    at: usize,
    expected: f64,
    found: f64,
    /// The largest absolute difference of two numbers.
    pub(super) difference: f64,
}

impl Worst {
    fn of(expected: &[f64], found: &[f32], tolerance: f64) -> Self {
        let mut worst = Self::default();
        if expected.len() != found.len() {
            worst.error = f64::INFINITY;
            return worst;
        }
        for (at, (&expected, &found)) in expected.iter().zip(found).enumerate() {
            let found = f64::from(found);
            if expected == found {
                continue;
            }
            let difference = (found - expected).abs();
            let error = difference / (tolerance * (1.0 + expected.abs()));
            // NaN is no distance, and as far as can be; so is one infinity from a number.
            let error = if error.is_nan() { f64::INFINITY } else { error };
            if difference.is_finite() {
                worst.difference = worst.difference.max(difference);
            }
            if worst.error < error {
                worst = Self {
                    error,
                    at,
                    expected,
                    found,
                    difference: worst.difference,
                };
            }
        }
        worst
    }

    fn failure(&self, what: &str, limit: f64) -> Option<String> {
        let Self {
            error,
            at,
            expected,
            found,
            ..
        } = self;
        (limit < *error).then(|| {
            format!(
                "{what} {at}: expected {expected}, found {found}, {:.1} times the tolerance",
                error / limit
            )
        })
    }
}

/// The three results of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Three {
    pub(super) out: Worst,
    pub(super) lse: Worst,
    pub(super) row_max: Worst,
    /// Whether all bits are the same.
    pub(super) same: bool,
}

impl Three {
    fn failure(&self, limit: f64) -> Option<String> {
        let parts = [
            ("out", self.out),
            ("lse", self.lse),
            ("row max", self.row_max),
        ];
        parts
            .iter()
            .find_map(|(what, worst)| worst.failure(what, limit))
    }
}

/// How one call agrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Agreement {
    pub(super) float64: Three,
    pub(super) emulator: Option<Three>,
}

impl Agreement {
    /// What lies beyond the tolerance, if something does.
    pub(super) fn failure(&self) -> Option<String> {
        self.float64.failure(1.0)
    }
}

/// What lies too far from the emulator's results, if something does.
pub(super) fn against_emulator_failure(three: &Three) -> Option<String> {
    let failure = three.failure(BOTH)?;
    Some(format!("against the emulator: {failure}"))
}

fn out_tolerance(dtype: Float) -> f64 {
    match dtype {
        Float::F16 => OUT_F16,
        Float::BF16 => OUT_BF16,
        Float::F32 => OUT_F32,
    }
}

/// Compares results with dense attention in float64 on the same, rounded inputs.
pub(super) fn against_float64(
    group: &Group,
    call: &Call,
    found: &Results,
) -> Result<Agreement, RunError> {
    let tensors = inputs(group, call);
    let mut views = Vec::new();
    for tensor in &tensors {
        let strides = tensor.strides.map(|stride| stride as isize);
        views.push(TensorRef::new(
            tensor.elements.view(),
            tensor.shape,
            strides,
            0,
        )?);
    }
    let expected = dense_attention(&DenseCall {
        q_offset: call.q_offset,
        ..DenseCall::new(views[0], views[1], views[2], &group.rules)
    })?;
    let out = out_tolerance(group.shape.dtype);
    Ok(Agreement {
        float64: Three {
            out: Worst::of(&expected.out, &found.out(group), out),
            lse: Worst::of(&expected.lse, &found.lse, SIDE),
            row_max: Worst::of(&expected.row_max, &found.row_max, SIDE),
            same: false,
        },
        emulator: None,
    })
}

/// Compares results with those of another machine.
pub(super) fn against_emulator(group: &Group, found: &Results, emulated: &Results) -> Three {
    let wide = |values: &[f32]| values.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    let (expected, out) = (emulated.out(group), found.out(group));
    let bits = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
    let tolerance = out_tolerance(group.shape.dtype);
    Three {
        same: bits(&expected, &out)
            && bits(&emulated.lse, &found.lse)
            && bits(&emulated.row_max, &found.row_max),
        out: Worst::of(&wide(&expected), &out, tolerance),
        lse: Worst::of(&wide(&emulated.lse), &found.lse, SIDE),
        row_max: Worst::of(&wide(&emulated.row_max), &found.row_max, SIDE),
    }
}

/// All calls of one element type.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    calls: usize,
    passed: usize,
    /// Largest errors of output, log-sum-exp and row maximum.
    errors: [f64; 3],
    emulated: usize,
    same: usize,
    /// Largest differences from the emulator.
    differences: [f64; 3],
}

/// All calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary([Line; 3]);

impl Summary {
    fn line(&mut self, dtype: Float) -> &mut Line {
        match dtype {
            Float::F16 => &mut self.0[0],
            Float::BF16 => &mut self.0[1],
            Float::F32 => &mut self.0[2],
        }
    }

    /// Counts a call that did not run.
    pub(super) fn add_failure(&mut self, dtype: Float) {
        self.line(dtype).calls += 1;
    }

    /// Counts a call that ran.
    pub(super) fn add(&mut self, dtype: Float, agreement: &Agreement, passed: bool) {
        let line = self.line(dtype);
        line.calls += 1;
        line.passed += usize::from(passed);
        let Three {
            out, lse, row_max, ..
        } = agreement.float64;
        for (most, worst) in line.errors.iter_mut().zip([out, lse, row_max]) {
            *most = most.max(worst.error);
        }
        if let Some(emulated) = agreement.emulator {
            line.emulated += 1;
            line.same += usize::from(emulated.same);
            let found = [emulated.out, emulated.lse, emulated.row_max];
            for (most, worst) in line.differences.iter_mut().zip(found) {
                *most = most.max(worst.difference);
            }
        }
    }

    /// Calls that are within every tolerance.
    pub(crate) fn passed(&self) -> usize {
        self.0.iter().map(|line| line.passed).sum()
    }

    /// Calls that the emulator ran too, and those of them with the same bits.
    #[cfg(test)]
    pub(crate) fn emulated(&self) -> (usize, usize) {
        let lines = self.0.iter();
        lines.fold((0, 0), |(all, same), line| {
            (all + line.emulated, same + line.same)
        })
    }

    /// Whether something ran, and all of it passed.
    pub(crate) fn is_good(&self) -> bool {
        0 < self.passed() && self.0.iter().all(|line| line.passed == line.calls)
    }

    /// A table in Markdown.
    pub(super) fn table(&self) -> String {
        let mut table = String::from(
            "\n| type | calls | passed | out / lse / row max: largest error, in tolerances | in the emulator | same bits \
             | largest differences |\n|---|--:|--:|---|--:|--:|---|\n",
        );
        for (name, line) in ["f16", "bf16", "f32"].iter().zip(&self.0) {
            let Line {
                calls,
                passed,
                errors: [out, lse, row_max],
                emulated,
                same,
                differences,
            } = line;
            let differences = match emulated {
                0 => String::new(),
                _ => differences.map(|x| format!("{x:.1e}")).join(" / "),
            };
            let _ = writeln!(
                table,
                "| {name} | {calls} | {passed} | {out:.2} / {lse:.2} / {row_max:.2} | {emulated} | {same} | {differences} |"
            );
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_in_tolerances_with_its_place() {
        let worst = Worst::of(
            &[0.0, 1.0, f64::NEG_INFINITY],
            &[0.0, 1.5, f32::NEG_INFINITY],
            0.1,
        );
        assert_eq!((worst.error, worst.difference), (2.5, 0.5));
        assert_eq!(
            worst.failure("lse", 1.0).as_deref(),
            Some("lse 1: expected 1, found 1.5, 2.5 times the tolerance")
        );
        assert_eq!(worst.failure("lse", 3.0), None);
    }

    #[test]
    fn nothing_is_near_a_nan_or_another_infinity() {
        for (expected, found) in [
            (0.0, f32::NAN),
            (f64::NAN, 0.0),
            (f64::NEG_INFINITY, -3.0),
            (0.0, f32::INFINITY),
        ] {
            assert_eq!(Worst::of(&[expected], &[found], 0.1).error, f64::INFINITY);
        }
        assert_eq!(Worst::of(&[0.0], &[], 0.1).error, f64::INFINITY);
    }

    #[test]
    fn a_summary_with_one_failure_is_not_good() {
        let mut summary = Summary::default();
        assert!(!summary.is_good());
        summary.add(Float::F16, &Agreement::default(), true);
        assert!(summary.is_good());
        summary.add_failure(Float::F32);
        assert!(!summary.is_good());
        assert_eq!(summary.passed(), 1);
    }
}
