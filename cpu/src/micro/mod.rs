//! Micro-kernels: the inner loops, once per instruction set, behind one interface.
//!
//! A kernel works on a *band* of rows of one tile. Rows come in groups of [`GROUP`], columns in
//! strips of [`STRIP`], and each group names the strips that it needs ([`Extent`]).

#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "intrinsics on raw pointers; every block states the bounds it relies on"
)]
mod avx2;
mod portable;

use std::ffi::OsStr;

use crate::error::CpuError;

/// Rows that a kernel holds in registers.
pub(crate) const GROUP: usize = 6;
/// Columns that a kernel holds in registers.
pub(crate) const STRIP: usize = 16;
/// Rows of a band: its scores (12 KiB) stay in the first cache between the two products.
pub(crate) const BAND: usize = 4 * GROUP;

/// The environment variable that forces a micro-kernel.
const VARIABLE: &str = "MASKWRIGHT_MICRO";

/// A family of micro-kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Micro {
    /// Plain Rust, for every processor.
    Portable,
    /// AVX2 and FMA, for x86-64.
    Avx2,
}

impl Micro {
    /// The name that `MASKWRIGHT_MICRO` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
        }
    }

    /// Whether this processor can run it.
    pub fn is_available(self) -> bool {
        self.kernels().is_some()
    }

    /// The micro-kernel that the environment asks for, or else the best that there is.
    ///
    /// # Errors
    /// [`CpuError::UnknownMicro`] if `MASKWRIGHT_MICRO` names none, [`CpuError::MicroUnavailable`] if
    /// this processor cannot run the one it names.
    pub fn from_environment() -> Result<Self, CpuError> {
        let value = std::env::var_os(VARIABLE);
        Self::choose(value.as_deref().map(OsStr::to_string_lossy).as_deref())
    }

    fn choose(wanted: Option<&str>) -> Result<Self, CpuError> {
        let micro = match wanted {
            None | Some("") if Self::Avx2.is_available() => Self::Avx2,
            None | Some("" | "portable") => Self::Portable,
            Some("avx2") => Self::Avx2,
            Some(other) => {
                return Err(CpuError::UnknownMicro {
                    found: other.to_owned(),
                });
            }
        };
        micro.require()?;
        Ok(micro)
    }

    pub(crate) fn require(self) -> Result<&'static dyn Kernels, CpuError> {
        self.kernels().ok_or(CpuError::MicroUnavailable {
            micro: self.name(),
            needs: "AVX2 and FMA",
        })
    }

    fn kernels(self) -> Option<&'static dyn Kernels> {
        match self {
            Self::Portable => Some(&portable::Portable),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::detect(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 => None,
        }
    }

    /// Multiply-adds a microsecond that may be counted on, to tell small work from large.
    pub(crate) fn pairs_per_us(self) -> u64 {
        match self {
            Self::Portable => 4_000,
            Self::Avx2 => 25_000,
        }
    }
}

/// Strips of columns that a group of rows needs, `from..to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A band's scores, later its weights: `rows` rows at `s[i * ld]`.
pub(crate) struct Scores<'a> {
    pub(crate) s: &'a mut [f32],
    pub(crate) ld: usize,
    pub(crate) rows: usize,
    /// One for each group of rows.
    pub(crate) extents: &'a [Extent],
}

impl Scores<'_> {
    /// Panics unless every row and strip lies in the buffer, which the kernels rely on.
    fn check(&self) {
        assert_eq!(self.extents.len(), self.rows.div_ceil(GROUP));
        assert!(self.rows * self.ld <= self.s.len());
        assert!(self.max_strip() * STRIP <= self.ld);
    }

    /// One past the last strip of any group.
    fn max_strip(&self) -> usize {
        self.extents.iter().map(|e| e.to).max().unwrap_or(0)
    }

    /// Each group of rows that has something to compute.
    fn groups(&self) -> impl Iterator<Item = Group> + use<'_> {
        self.extents.iter().enumerate().filter_map(|(g, extent)| {
            let row = g * GROUP;
            (extent.from < extent.to).then(|| Group {
                row,
                rows: GROUP.min(self.rows - row),
                extent: *extent,
            })
        })
    }
}

/// Rows that are computed together.
#[derive(Debug, Clone, Copy)]
struct Group {
    row: usize,
    rows: usize,
    extent: Extent,
}

/// What the online softmax remembers of each row of a band.
pub(crate) struct RowState<'a> {
    /// The largest score so far.
    pub(crate) max: &'a mut [f32],
    /// The sum of the weights so far, relative to `max`.
    pub(crate) sum: &'a mut [f32],
    /// What the row's output so far must be multiplied by, now that `max` has moved.
    pub(crate) alpha: &'a mut [f32],
}

impl RowState<'_> {
    fn check(&self, rows: usize) {
        assert!(rows <= self.max.len());
        assert!(rows <= self.sum.len());
        assert!(rows <= self.alpha.len());
    }
}

/// The bits of a band's attended cells.
#[derive(Clone, Copy)]
pub(crate) struct Bits<'a> {
    pub(crate) words: &'a [u64],
    pub(crate) per_row: usize,
}

impl Bits<'_> {
    /// The bits of row `i` for the columns of one strip; none past the last word.
    #[inline]
    fn strip(&self, i: usize, strip: usize) -> u16 {
        const PER_WORD: usize = 64 / STRIP;
        let word = self.words[i * self.per_row + strip / PER_WORD];
        (word >> (strip % PER_WORD * STRIP)) as u16
    }

    /// Whether cell `j` of row `i` is attended.
    pub(crate) fn get(&self, i: usize, j: usize) -> bool {
        self.words[i * self.per_row + j / 64] >> (j % 64) & 1 == 1
    }

    fn check(&self, scores: &Scores<'_>) {
        assert!(scores.rows * self.per_row <= self.words.len());
        assert!(scores.max_strip() * STRIP <= self.per_row * 64);
    }
}

/// The three steps of a band; see [`portable`] for their plainest form.
pub(crate) trait Kernels: Sync {
    /// The kernel's name, for reports.
    fn name(&self) -> &'static str;

    /// `S = scale · Q Kᵀ` over the extents; `q` holds rows of `depth`, `k` panels of `[depth][16]`.
    fn scores(&self, out: &mut Scores<'_>, q: &[f32], k: &[f32], depth: usize, scale: f32);

    /// Masks the scores, moves the row state on, and turns scores into weights, in place.
    fn softmax(&self, scores: &mut Scores<'_>, bits: Option<Bits<'_>>, state: &mut RowState<'_>);

    /// `O = alpha · O + P V` over the extents; `v` holds panels of `[n_kv][16]`, `o` rows of
    /// `16 * panels`.
    fn accumulate(
        &self,
        weights: &Scores<'_>,
        v: &[f32],
        n_kv: usize,
        panels: usize,
        alpha: &[f32],
        o: &mut [f32],
    );
}

/// Panics unless the operands of [`Kernels::scores`] are long enough.
fn check_scores(out: &Scores<'_>, q: &[f32], k: &[f32], depth: usize) {
    out.check();
    assert!(out.rows * depth <= q.len());
    assert!(out.max_strip() * STRIP * depth <= k.len());
}

/// Panics unless the operands of [`Kernels::accumulate`] are long enough.
fn check_accumulate(
    weights: &Scores<'_>,
    v: &[f32],
    n_kv: usize,
    panels: usize,
    alpha: &[f32],
    o: &[f32],
) {
    weights.check();
    assert!(n_kv <= weights.ld);
    assert!(panels * n_kv * STRIP <= v.len());
    assert!(weights.rows <= alpha.len());
    assert!(weights.rows * panels * STRIP <= o.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses_or_is_refused() {
        let choose = |wanted: &str| Micro::choose(Some(wanted));
        assert_eq!(choose("portable"), Ok(Micro::Portable));
        assert_eq!(choose(""), Micro::choose(None));
        assert_eq!(
            choose("AVX").unwrap_err().to_string(),
            "MASKWRIGHT_MICRO must be `portable` or `avx2`, found `AVX`"
        );
        match choose("avx2") {
            Ok(micro) => assert_eq!(micro, Micro::Avx2),
            Err(error) => assert!(!Micro::Avx2.is_available(), "{error}"),
        }
    }
}
