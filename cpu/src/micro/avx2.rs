//! AVX2 and FMA micro-kernels: 6 rows x 16 columns of f32 in twelve registers.
//!
//! | symbol | meaning |
//! | --- | --- |
//! | `S`, `P` | scores of a band, and the weights that replace them |
//! | `m`, `l` | a row's largest score, and the sum of its weights relative to `m` |
//! | `α` | `exp(m_old - m_new)`: what earlier weights are worth now |
//! | `O` | a row's weighted sum of values, relative to `m` |
//! | `R` | rows of a group: 6, or fewer at the lower edge of a band |

use std::arch::x86_64::{
    __m256, __m256i, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_max_ps, _mm_max_ss,
    _mm_movehdup_ps, _mm_movehl_ps, _mm256_add_epi32, _mm256_add_ps, _mm256_and_si256,
    _mm256_blendv_ps, _mm256_broadcast_ss, _mm256_castps_si256, _mm256_castps256_ps128,
    _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_extractf128_ps, _mm256_fmadd_ps,
    _mm256_fnmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_mul_ps, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_ps, _mm256_slli_epi32, _mm256_storeu_ps,
    _mm256_sub_ps,
};

use super::{Bits, GROUP, Group, Kernels, RowState, STRIP, Scores, check_accumulate, check_scores};
use crate::exp::{C2, C3, C4, C5, C6, LN2_HI, LN2_LO, LOG2_E, LOWEST, ROUND};

/// Made by [`detect`] alone, so that holding one proves that AVX2 and FMA are there.
pub(super) struct Avx2(());

/// The kernels, if this processor runs them.
pub(super) fn detect() -> Option<&'static dyn Kernels> {
    static AVX2: Avx2 = Avx2(());
    let there = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    there.then_some(&AVX2 as &dyn Kernels)
}

impl Kernels for Avx2 {
    fn name(&self) -> &'static str {
        "forward-avx2-6x16"
    }

    fn scores(&self, out: &mut Scores<'_>, q: &[f32], k: &[f32], depth: usize, scale: f32) {
        check_scores(out, q, k, depth);
        // SAFETY: `detect` saw both features, and the check above proves the operands' lengths.
        unsafe { scores(out, q, k, depth, scale) }
    }

    fn softmax(&self, scores: &mut Scores<'_>, bits: Option<Bits<'_>>, state: &mut RowState<'_>) {
        scores.check();
        state.check(scores.rows);
        if let Some(bits) = bits {
            bits.check(scores);
        }
        // SAFETY: `detect` saw both features, and the checks above prove the operands' lengths.
        unsafe { softmax(scores, bits, state) }
    }

    fn accumulate(
        &self,
        weights: &Scores<'_>,
        v: &[f32],
        n_kv: usize,
        panels: usize,
        alpha: &[f32],
        o: &mut [f32],
    ) {
        check_accumulate(weights, v, n_kv, panels, alpha, o);
        // SAFETY: `detect` saw both features, and the check above proves the operands' lengths.
        unsafe { accumulate(weights, v, n_kv, panels, alpha, o) }
    }
}

/// Calls a function that is generic over the rows of a group.
macro_rules! for_rows {
    ($rows:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $rows {
            1 => $function::<1>($($argument),*),
            2 => $function::<2>($($argument),*),
            3 => $function::<3>($($argument),*),
            4 => $function::<4>($($argument),*),
            5 => $function::<5>($($argument),*),
            _ => $function::<GROUP>($($argument),*),
        }
    };
}

/// # Safety
/// Needs what [`check_scores`] checks.
#[target_feature(enable = "avx2,fma")]
unsafe fn scores(out: &mut Scores<'_>, q: &[f32], k: &[f32], depth: usize, scale: f32) {
    let ld = out.ld;
    let s = out.s.as_mut_ptr();
    // A panel of K stays in the first cache while the groups of the band pass over it.
    for strip in 0..out.max_strip() {
        for group in out.groups() {
            if strip < group.extent.from || group.extent.to <= strip {
                continue;
            }
            // SAFETY: the caller's check holds for every group and strip within the extents.
            unsafe {
                let a = q.as_ptr().add(group.row * depth);
                let panel = k.as_ptr().add(strip * STRIP * depth);
                let c = s.add(group.row * ld + strip * STRIP);
                for_rows!(group.rows, scores_group(a, panel, depth, scale, c, ld));
            }
        }
    }
}

/// # Safety
/// `a` holds `R` rows of `depth`, `b` `depth` rows of 16, and `c` takes `R` rows of 16, `ld` apart.
#[target_feature(enable = "avx2,fma")]
unsafe fn scores_group<const R: usize>(
    a: *const f32,
    b: *const f32,
    depth: usize,
    scale: f32,
    c: *mut f32,
    ld: usize,
) {
    let scale = _mm256_set1_ps(scale);
    // SAFETY: by this function's contract.
    unsafe {
        // S = scale · Q Kᵀ
        let acc = product::<R>([[_mm256_setzero_ps(); 2]; R], a, depth, b, depth);
        for (i, [low, high]) in acc.into_iter().enumerate() {
            _mm256_storeu_ps(c.add(i * ld), _mm256_mul_ps(low, scale));
            _mm256_storeu_ps(c.add(i * ld + 8), _mm256_mul_ps(high, scale));
        }
    }
}

/// # Safety
/// Needs what [`check_accumulate`] checks.
#[target_feature(enable = "avx2,fma")]
unsafe fn accumulate(
    weights: &Scores<'_>,
    v: &[f32],
    n_kv: usize,
    panels: usize,
    alpha: &[f32],
    o: &mut [f32],
) {
    let (ld, o_ld) = (weights.ld, panels * STRIP);
    let p = weights.s.as_ptr();
    let o = o.as_mut_ptr();
    for panel in 0..panels {
        for group in weights.groups() {
            let from = group.extent.from * STRIP;
            let to = (group.extent.to * STRIP).min(n_kv);
            // SAFETY: the caller's check holds for every group and panel, and `from < to` is so for
            // extents that reach no strip past the last key; otherwise no step is taken.
            unsafe {
                let a = p.add(group.row * ld + from);
                let b = v.as_ptr().add((panel * n_kv + from.min(n_kv)) * STRIP);
                let c = o.add(group.row * o_ld + panel * STRIP);
                let alpha = alpha.as_ptr().add(group.row);
                let depth = to.saturating_sub(from);
                for_rows!(
                    group.rows,
                    accumulate_group(a, ld, b, depth, alpha, c, o_ld)
                );
            }
        }
    }
}

/// # Safety
/// `a` holds `R` rows of `depth`, `lda` apart, `b` `depth` rows of 16, `alpha` `R` factors, and `c`
/// holds `R` rows of 16, `ldc` apart.
#[target_feature(enable = "avx2,fma")]
unsafe fn accumulate_group<const R: usize>(
    a: *const f32,
    lda: usize,
    b: *const f32,
    depth: usize,
    alpha: *const f32,
    c: *mut f32,
    ldc: usize,
) {
    let mut acc = [[_mm256_setzero_ps(); 2]; R];
    // SAFETY: by this function's contract.
    unsafe {
        // O = α O
        for (i, acc) in acc.iter_mut().enumerate() {
            let alpha = _mm256_broadcast_ss(&*alpha.add(i));
            acc[0] = _mm256_mul_ps(_mm256_loadu_ps(c.add(i * ldc)), alpha);
            acc[1] = _mm256_mul_ps(_mm256_loadu_ps(c.add(i * ldc + 8)), alpha);
        }
        // O += P V
        let acc = product::<R>(acc, a, lda, b, depth);
        for (i, [low, high]) in acc.into_iter().enumerate() {
            _mm256_storeu_ps(c.add(i * ldc), low);
            _mm256_storeu_ps(c.add(i * ldc + 8), high);
        }
    }
}

/// `acc + A B`: each cell adds its terms in ascending order, whatever `R` is.
///
/// # Safety
/// `a` holds `R` rows of `depth`, `lda` apart, and `b` `depth` rows of 16.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn product<const R: usize>(
    mut acc: [[__m256; 2]; R],
    a: *const f32,
    lda: usize,
    b: *const f32,
    depth: usize,
) -> [[__m256; 2]; R] {
    // Four steps a turn: a tenth faster than one, at 64 steps.
    let mut k = 0;
    while k + 4 <= depth {
        // SAFETY: `k + 3 < depth`, and the contract holds.
        unsafe {
            for k in k..k + 4 {
                step(&mut acc, a.add(k), lda, b.add(k * STRIP));
            }
        }
        k += 4;
    }
    while k < depth {
        // SAFETY: `k < depth`, and the contract holds.
        unsafe { step(&mut acc, a.add(k), lda, b.add(k * STRIP)) }
        k += 1;
    }
    acc
}

/// Adds the product of a column of A and a row of B.
///
/// # Safety
/// `a` holds `R` elements, `lda` apart, and `b` 16.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn step<const R: usize>(
    acc: &mut [[__m256; 2]; R],
    a: *const f32,
    lda: usize,
    b: *const f32,
) {
    // SAFETY: by this function's contract.
    unsafe {
        let low = _mm256_loadu_ps(b);
        let high = _mm256_loadu_ps(b.add(8));
        for (i, acc) in acc.iter_mut().enumerate() {
            let x = _mm256_broadcast_ss(&*a.add(i * lda));
            acc[0] = _mm256_fmadd_ps(x, low, acc[0]);
            acc[1] = _mm256_fmadd_ps(x, high, acc[1]);
        }
    }
}

/// # Safety
/// Needs what the `check` functions of its arguments check.
#[target_feature(enable = "avx2,fma")]
unsafe fn softmax(scores: &mut Scores<'_>, bits: Option<Bits<'_>>, state: &mut RowState<'_>) {
    let s = scores.s.as_mut_ptr();
    for Group { row, rows, extent } in scores.groups() {
        for i in row..row + rows {
            // SAFETY: the extents lie within a row, as the caller checked.
            unsafe {
                let start = s.add(i * scores.ld + extent.from * STRIP);
                let strips = extent.to - extent.from;
                // m_tile = max S over attended cells
                let tile_max = match bits {
                    None => row_max(start, strips),
                    Some(bits) => masked_row_max(start, strips, |j| bits.strip(i, extent.from + j)),
                };
                let old = state.max[i];
                let new = if old < tile_max { tile_max } else { old };
                // With nothing attended yet, -inf - -inf would be NaN; any finite reference does.
                let reference = if new == f32::NEG_INFINITY { 0.0 } else { new };
                // P = exp(S - m)
                let sum = weights(start, strips, reference);
                // α = exp(m_old - m_new)
                let alpha = if old == new {
                    1.0
                } else {
                    _mm_cvtss_f32(_mm256_castps256_ps128(exp(_mm256_set1_ps(old - reference))))
                };
                // l = α l + Σ P
                state.sum[i] = state.sum[i] * alpha + sum;
                state.max[i] = new;
                state.alpha[i] = alpha;
            }
        }
    }
}

/// The largest of `strips * 16` scores, NaN passed over.
///
/// # Safety
/// `s` holds `strips * 16` elements.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn row_max(s: *const f32, strips: usize) -> f32 {
    let mut largest = [_mm256_set1_ps(f32::NEG_INFINITY); 2];
    for j in 0..strips {
        for (half, largest) in largest.iter_mut().enumerate() {
            // SAFETY: by this function's contract.
            let x = unsafe { _mm256_loadu_ps(s.add(j * STRIP + half * 8)) };
            // If either is NaN, `max` returns its second operand.
            *largest = _mm256_max_ps(x, *largest);
        }
    }
    horizontal_max(_mm256_max_ps(largest[0], largest[1]))
}

/// The same over the attended scores; the others become -inf, whatever they were.
///
/// # Safety
/// `s` holds `strips * 16` elements.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn masked_row_max(s: *mut f32, strips: usize, bits: impl Fn(usize) -> u16) -> f32 {
    let nothing = _mm256_set1_ps(f32::NEG_INFINITY);
    let mut largest = [nothing; 2];
    for j in 0..strips {
        let bits = _mm256_set1_epi32(i32::from(bits(j)));
        let places = [
            _mm256_setr_epi32(1, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7),
            _mm256_setr_epi32(
                1 << 8,
                1 << 9,
                1 << 10,
                1 << 11,
                1 << 12,
                1 << 13,
                1 << 14,
                1 << 15,
            ),
        ];
        for (half, largest) in largest.iter_mut().enumerate() {
            let keep = lanes(bits, places[half]);
            // SAFETY: by this function's contract.
            unsafe {
                let at = s.add(j * STRIP + half * 8);
                // A masked score is replaced, not added to: it may be NaN.
                let x = _mm256_blendv_ps(nothing, _mm256_loadu_ps(at), keep);
                _mm256_storeu_ps(at, x);
                *largest = _mm256_max_ps(x, *largest);
            }
        }
    }
    horizontal_max(_mm256_max_ps(largest[0], largest[1]))
}

/// All ones in the lanes whose place is among the bits.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn lanes(bits: __m256i, places: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(bits, places), places))
}

/// Turns scores into `exp(score - reference)` and returns their sum.
///
/// # Safety
/// `s` holds `strips * 16` elements.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn weights(s: *mut f32, strips: usize, reference: f32) -> f32 {
    let reference = _mm256_set1_ps(reference);
    let mut sums = [_mm256_setzero_ps(); 2];
    for j in 0..strips {
        for (half, sum) in sums.iter_mut().enumerate() {
            // SAFETY: by this function's contract.
            unsafe {
                let at = s.add(j * STRIP + half * 8);
                let p = exp(_mm256_sub_ps(_mm256_loadu_ps(at), reference));
                _mm256_storeu_ps(at, p);
                *sum = _mm256_add_ps(*sum, p);
            }
        }
    }
    horizontal_sum(_mm256_add_ps(sums[0], sums[1]))
}

/// [`crate::exp`], eight at a time.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp(x: __m256) -> __m256 {
    // If either is NaN, `max` returns its second operand: NaN passes.
    let y = _mm256_max_ps(_mm256_set1_ps(LOWEST), x);
    // n = round(x / ln 2)
    let round = _mm256_set1_ps(ROUND);
    let shifted = _mm256_fmadd_ps(y, _mm256_set1_ps(LOG2_E), round);
    let n = _mm256_sub_ps(shifted, round);
    // r = x - n ln 2, in two steps
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_HI), y);
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_LO), r);
    // p = exp(r)
    let p = _mm256_fmadd_ps(_mm256_set1_ps(C6), r, _mm256_set1_ps(C5));
    let p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(C4));
    let p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(C3));
    let p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(C2));
    let one = _mm256_set1_ps(1.0);
    let p = _mm256_fmadd_ps(p, r, one);
    let p = _mm256_fmadd_ps(p, r, one);
    // 2ⁿ, by moving n from the lowest bits into the exponent
    let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
    let two_n = _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_castps_si256(one)));
    _mm256_mul_ps(p, two_n)
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn horizontal_max(x: __m256) -> f32 {
    let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn horizontal_sum(x: __m256) -> f32 {
    let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn avx2_exp_is_within_its_bound() {
        if detect().is_none() {
            eprintln!("skipped: this processor has no AVX2 and FMA");
            return;
        }
        crate::exp::tests::check(|xs| {
            // SAFETY: `detect` saw the features, and slices of 8 hold 8 elements.
            unsafe {
                #[target_feature(enable = "avx2,fma")]
                fn apply(xs: &mut [f32]) {
                    for xs in xs.chunks_exact_mut(8) {
                        // SAFETY: the chunk holds 8 elements.
                        unsafe {
                            let y = exp(_mm256_loadu_ps(xs.as_ptr()));
                            _mm256_storeu_ps(xs.as_mut_ptr(), y);
                        }
                    }
                }
                apply(xs);
            }
        });
    }
}
