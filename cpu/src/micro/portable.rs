//! The portable micro-kernels: plain loops over arrays of 16, which any compiler turns into vectors.
//!
//! | symbol | meaning |
//! | --- | --- |
//! | `S`, `P` | scores of a band, and the weights that replace them |
//! | `m`, `l` | a row's largest score, and the sum of its weights relative to `m` |
//! | `α` | `exp(m_old - m_new)`: what earlier weights are worth now |
//! | `O` | a row's weighted sum of values, relative to `m` |

use super::{Bits, Kernels, RowState, STRIP, Scores, check_accumulate, check_scores};
use crate::exp::exp;

pub(super) struct Portable;

/// Rows that fit into the 16 registers of the smallest x86-64, three vectors of four columns left.
const ROWS: usize = 3;

impl Kernels for Portable {
    fn name(&self) -> &'static str {
        "forward-portable"
    }

    fn scores(&self, out: &mut Scores<'_>, q: &[f32], k: &[f32], depth: usize, scale: f32) {
        check_scores(out, q, k, depth);
        let ld = out.ld;
        for strip in 0..out.max_strip() {
            let panel = &k[strip * STRIP * depth..][..STRIP * depth];
            for g in 0..out.extents.len() {
                let extent = out.extents[g];
                if strip < extent.from || extent.to <= strip {
                    continue;
                }
                let first = g * super::GROUP;
                let last = (first + super::GROUP).min(out.rows);
                for row in (first..last).step_by(ROWS) {
                    let rows = ROWS.min(last - row);
                    let a = &q[row * depth..];
                    let mut acc = [[0.0; STRIP]; ROWS];
                    // S = scale · Q Kᵀ
                    product(&mut acc, rows, a, depth, panel);
                    for (i, acc) in acc.iter().enumerate().take(rows) {
                        let s = &mut out.s[(row + i) * ld + strip * STRIP..][..STRIP];
                        for (s, x) in s.iter_mut().zip(acc) {
                            *s = x * scale;
                        }
                    }
                }
            }
        }
    }

    fn softmax(&self, scores: &mut Scores<'_>, bits: Option<Bits<'_>>, state: &mut RowState<'_>) {
        scores.check();
        state.check(scores.rows);
        if let Some(bits) = bits {
            bits.check(scores);
        }
        let groups: Vec<_> = scores.groups().collect();
        for group in groups {
            for i in group.row..group.row + group.rows {
                let row = &mut scores.s[i * scores.ld..][..scores.ld];
                let strips = group.extent.from..group.extent.to;

                // m_tile = max S over attended cells; NaN is passed over here and met again below.
                let mut largest = [f32::NEG_INFINITY; STRIP];
                for strip in strips.clone() {
                    let s = &mut row[strip * STRIP..][..STRIP];
                    if let Some(bits) = bits {
                        let keep = bits.strip(i, strip);
                        for (j, s) in s.iter_mut().enumerate() {
                            // A masked score is replaced, not added to: it may be NaN.
                            *s = if keep >> j & 1 == 1 {
                                *s
                            } else {
                                f32::NEG_INFINITY
                            };
                        }
                    }
                    for (m, s) in largest.iter_mut().zip(s) {
                        *m = if *m < *s { *s } else { *m };
                    }
                }
                let old = state.max[i];
                let new = largest.iter().fold(old, |m, x| if m < *x { *x } else { m });
                // With nothing attended yet, -inf - -inf would be NaN; any finite reference does.
                let reference = if new == f32::NEG_INFINITY { 0.0 } else { new };

                // P = exp(S - m)
                let mut sums = [0.0; STRIP];
                for strip in strips {
                    let s = &mut row[strip * STRIP..][..STRIP];
                    for (sum, s) in sums.iter_mut().zip(s) {
                        *s = exp(*s - reference);
                        *sum += *s;
                    }
                }
                // α = exp(m_old - m_new)
                let alpha = if old == new {
                    1.0
                } else {
                    exp(old - reference)
                };
                // l = α l + Σ P
                state.sum[i] = state.sum[i] * alpha + sums.iter().sum::<f32>();
                state.max[i] = new;
                state.alpha[i] = alpha;
            }
        }
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
        for panel in 0..panels {
            let columns = &v[panel * n_kv * STRIP..][..n_kv * STRIP];
            for group in weights.groups() {
                let from = group.extent.from * STRIP;
                let to = (group.extent.to * STRIP).min(n_kv);
                for row in (group.row..group.row + group.rows).step_by(ROWS) {
                    let rows = ROWS.min(group.row + group.rows - row);
                    let at = |i: usize| ((row + i) * panels + panel) * STRIP;
                    let mut acc = [[0.0; STRIP]; ROWS];
                    // O = α O
                    for (i, acc) in acc.iter_mut().enumerate().take(rows) {
                        for (x, o) in acc.iter_mut().zip(&o[at(i)..]) {
                            *x = o * alpha[row + i];
                        }
                    }
                    // O += P V
                    let p = &weights.s[row * weights.ld + from..];
                    product(
                        &mut acc,
                        rows,
                        p,
                        weights.ld,
                        &columns[from * STRIP..to * STRIP],
                    );
                    for (i, acc) in acc.iter().enumerate().take(rows) {
                        o[at(i)..][..STRIP].copy_from_slice(acc);
                    }
                }
            }
        }
    }
}

/// `acc += A B` for up to [`ROWS`] rows `a[i * lda..]` and a panel `b` of `[depth][16]`.
///
/// Each cell adds its terms in ascending order, one after the other, however many rows there are.
#[inline]
fn product(acc: &mut [[f32; STRIP]; ROWS], rows: usize, a: &[f32], lda: usize, b: &[f32]) {
    let depth = b.len() / STRIP;
    let row = |i: usize| &a[i * lda..][..depth];
    if rows == ROWS {
        let (a0, a1, a2) = (row(0), row(1), row(2));
        let [mut c0, mut c1, mut c2] = *acc;
        for (((b, x0), x1), x2) in b.chunks_exact(STRIP).zip(a0).zip(a1).zip(a2) {
            for j in 0..STRIP {
                c0[j] += x0 * b[j];
                c1[j] += x1 * b[j];
                c2[j] += x2 * b[j];
            }
        }
        *acc = [c0, c1, c2];
        return;
    }
    for (i, acc) in acc.iter_mut().enumerate().take(rows) {
        for (b, x) in b.chunks_exact(STRIP).zip(row(i)) {
            for (c, b) in acc.iter_mut().zip(b) {
                *c += x * b;
            }
        }
    }
}
