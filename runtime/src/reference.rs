//! Dense attention in `f64` by the law of the rules: what every engine is compared with.

use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::block_mask::{Authority, BlockClass, BlockMask};
use maskwright_dsl::eval::{Point, ScalarEvaluator, Sizes};
use maskwright_dsl::ir::{Const, Ty};
use rayon::prelude::*;

use crate::attention::{AttentionError, Call, Rules, TensorRef};

/// A call of the reference.
#[derive(Clone, Copy, Debug)]
pub struct DenseCall<'a> {
    /// `[B, Hq, Lq, Dqk]`.
    pub q: TensorRef<'a>,
    /// `[B, Hkv, Lkv, Dqk]`.
    pub k: TensorRef<'a>,
    /// `[B, Hkv, Lkv, Dv]`.
    pub v: TensorRef<'a>,
    /// Mask and score rule.
    pub rules: &'a Rules,
    /// Factor of the dot products; `1 / sqrt(d_qk)`, rounded to `f32`, unless given.
    pub sm_scale: Option<f32>,
    /// Position of the first query row.
    pub q_offset: i64,
    /// A block mask whose lists are the law decides outside its partial blocks. Any other only says where positions
    /// begin, since its classes add nothing to the rule.
    pub block_mask: Option<&'a BlockMask>,
}

impl<'a> DenseCall<'a> {
    /// A call with the scale that is usual, from position 0.
    pub fn new(q: TensorRef<'a>, k: TensorRef<'a>, v: TensorRef<'a>, rules: &'a Rules) -> Self {
        Self {
            q,
            k,
            v,
            rules,
            sm_scale: None,
            q_offset: 0,
            block_mask: None,
        }
    }
}

/// What the reference computed.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseOutput {
    /// `[B, Hq, Lq, Dv]`.
    pub out: Vec<f64>,
    /// `[B, Hq, Lq]`: the natural logarithm of the sum of `exp(score)` over attended keys.
    pub lse: Vec<f64>,
    /// `[B, Hq, Lq]`: the largest score over attended keys.
    pub row_max: Vec<f64>,
}

/// Computes attention cell by cell, in `f64`.
///
/// The law of a rule is the author's own function where it has one, and the interpreter otherwise. A score rule is
/// defined over `f32`: it gets `sm_scale · q·k` rounded to `f32` and gives an `f32`; everything else stays `f64`.
///
/// A masked cell never matters, whatever K and V hold there. A row that attends to nothing, or only to scores of −∞,
/// gets output 0, lse −∞ and row max −∞. A NaN or +∞ score at an attended cell makes output, lse and row max of its row
/// NaN.
///
/// Rules see the sizes of the call. Rows are spread over the current rayon pool; each is summed in order.
///
/// # Errors
/// [`AttentionError`] if shapes do not fit one another, the block mask does not hold for the call, or the law has no
/// value at a cell.
pub fn dense_attention(dense: &DenseCall<'_>) -> Result<DenseOutput, AttentionError> {
    let call = Call::new(dense.q, dense.k, dense.v, dense.q_offset, dense.block_mask)?;
    let shape = call.shape;
    let sizes = Sizes {
        batch: shape.batch as i32,
        num_q_heads: shape.heads as i32,
        q_len: shape.q_len as i32,
        kv_len: shape.kv_len as i32,
    };
    let default_scale = (1.0 / (call.d_qk as f64).sqrt()) as f32;
    let plan = Plan {
        call: &call,
        lists: dense
            .block_mask
            .filter(|mask| mask.authority() == Authority::Lists),
        sm_scale: f64::from(dense.sm_scale.unwrap_or(default_scale)),
    };
    let n_rows = call.n_rows().ok_or(AttentionError::TooLong {
        axis: "the number of query rows",
        found: usize::MAX,
    })?;
    let rows: Vec<Result<Row, AttentionError>> = (0..n_rows)
        .into_par_iter()
        .map_init(
            || Scratch {
                mask: dense
                    .rules
                    .mask
                    .as_ref()
                    .map(|r| Law::new(r.bound(), sizes)),
                score: dense
                    .rules
                    .score
                    .as_ref()
                    .map(|r| Law::new(r.bound(), sizes)),
                q: vec![0.0; call.d_qk],
                k: vec![0.0; call.d_qk],
                v: vec![0.0; call.d_v],
                attended: Vec::new(),
            },
            |scratch, row| plan.row(row, scratch),
        )
        .collect();
    let mut output = DenseOutput {
        out: Vec::with_capacity(n_rows * call.d_v),
        lse: Vec::with_capacity(n_rows),
        row_max: Vec::with_capacity(n_rows),
    };
    for row in rows {
        let row = row?;
        output.out.extend(row.out);
        output.lse.push(row.lse);
        output.row_max.push(row.max);
    }
    Ok(output)
}

/// The law of one bound rule.
struct Law<'a> {
    bound: &'a BoundRule,
    sizes: Sizes,
    interpreter: ScalarEvaluator<'a>,
}

impl<'a> Law<'a> {
    fn new(bound: &'a BoundRule, sizes: Sizes) -> Self {
        Self {
            bound,
            sizes,
            interpreter: ScalarEvaluator::new(bound.rule(), bound.bindings(), sizes),
        }
    }

    fn at(&mut self, point: Point) -> Result<Const, AttentionError> {
        match self.bound.reference() {
            Some(reference) => Ok(reference(&point, &self.sizes)),
            None => self
                .interpreter
                .eval(&point)
                .map_err(|source| AttentionError::Law {
                    rule: self.bound.rule().name.clone(),
                    point,
                    source,
                }),
        }
    }

    fn wrong_type(&self, expected: Ty, found: Const) -> AttentionError {
        AttentionError::LawType {
            rule: self.bound.rule().name.clone(),
            expected,
            found: found.ty(),
        }
    }

    fn allows(&mut self, point: Point) -> Result<bool, AttentionError> {
        match self.at(point)? {
            Const::Bool(allowed) => Ok(allowed),
            other @ (Const::I32(_) | Const::I64(_) | Const::U32(_) | Const::F32(_)) => {
                Err(self.wrong_type(Ty::Bool, other))
            }
        }
    }

    fn score(&mut self, point: Point) -> Result<f32, AttentionError> {
        match self.at(point)? {
            Const::F32(score) => Ok(score),
            other @ (Const::I32(_) | Const::I64(_) | Const::U32(_) | Const::Bool(_)) => {
                Err(self.wrong_type(Ty::F32, other))
            }
        }
    }
}

struct Scratch<'a> {
    mask: Option<Law<'a>>,
    score: Option<Law<'a>>,
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    /// Keys that are attended, with their scores.
    attended: Vec<(usize, f64)>,
}

struct Row {
    out: Vec<f64>,
    lse: f64,
    max: f64,
}

struct Plan<'a> {
    call: &'a Call<'a>,
    /// A block mask whose lists are the law.
    lists: Option<&'a BlockMask>,
    sm_scale: f64,
}

impl Plan<'_> {
    fn row(&self, row: usize, scratch: &mut Scratch<'_>) -> Result<Row, AttentionError> {
        let call = self.call;
        let (heads, q_len) = (call.shape.heads as usize, call.shape.q_len as usize);
        let (b, h, i) = (row / q_len / heads, row / q_len % heads, row % q_len);
        let kv_head = call.kv_head(h);
        call.q.read_row(b, h, i, &mut scratch.q);
        scratch.attended.clear();
        for j in 0..call.shape.kv_len as usize {
            let mut point = Point {
                b: (i64::from(call.origin.b) + b as i64) as i32,
                h: (i64::from(call.origin.h) + h as i64) as i32,
                q_idx: (call.shape.q_offset + i as i64) as i32,
                kv_idx: (call.origin.kv + j as i64) as i32,
                score: 0.0,
            };
            if !self.attends(point, (b, h, i, j), scratch.mask.as_mut())? {
                continue;
            }
            call.k.read_row(b, kv_head, j, &mut scratch.k);
            let dot: f64 = scratch.q.iter().zip(&scratch.k).map(|(q, k)| q * k).sum();
            let mut score = dot * self.sm_scale;
            if let Some(rule) = &mut scratch.score {
                point.score = score as f32;
                score = f64::from(rule.score(point)?);
            }
            scratch.attended.push((j, score));
        }
        let not_finite = |score: f64| score.is_nan() || score == f64::INFINITY;
        if scratch.attended.iter().any(|(_, score)| not_finite(*score)) {
            return Ok(Row {
                out: vec![f64::NAN; call.d_v],
                lse: f64::NAN,
                max: f64::NAN,
            });
        }
        let scores = scratch.attended.iter().map(|(_, score)| *score);
        let max = scores.fold(f64::NEG_INFINITY, f64::max);
        let mut out = vec![0.0; call.d_v];
        if max == f64::NEG_INFINITY {
            return Ok(Row { out, lse: max, max });
        }
        let mut sum = 0.0;
        for &(j, score) in &scratch.attended {
            // A score of −∞ masks its cell, and what V holds there does not matter.
            if score == f64::NEG_INFINITY {
                continue;
            }
            let weight = (score - max).exp();
            sum += weight;
            call.v.read_row(b, kv_head, j, &mut scratch.v);
            // O += P V
            for (o, v) in out.iter_mut().zip(&scratch.v) {
                *o += weight * v;
            }
        }
        for o in &mut out {
            *o /= sum;
        }
        let lse = max + sum.ln();
        Ok(Row { out, lse, max })
    }

    /// Whether a cell is attended: by the lists where they are the law, by the rule within their partial blocks and
    /// where there are none.
    fn attends(
        &self,
        point: Point,
        (b, h, i, j): (usize, usize, usize, usize),
        mask: Option<&mut Law<'_>>,
    ) -> Result<bool, AttentionError> {
        if let Some(lists) = self.lists {
            let block = lists.block();
            let (row, col) = (i / block.q as usize, j / block.kv as usize);
            match lists.class(b as u32, h as u32, row as u32, col as u32) {
                BlockClass::Full => return Ok(true),
                BlockClass::Empty => return Ok(false),
                BlockClass::Partial => {}
            }
        }
        mask.map_or(Ok(true), |mask| mask.allows(point))
    }
}
