//! What range analysis is given: the sizes of the calls, and what may be assumed of captured values.

use std::ops::RangeInclusive;

use super::{CaptureId, CaptureKind, IntRange, Relation, Rule, Var};
use crate::bind::BoundRule;
use crate::pipeline::Scope;

/// The sizes and offsets of all calls of a scope that have a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeRanges {
    pub(crate) q_len: IntRange,
    pub(crate) kv_len: IntRange,
    pub(crate) q_offset: IntRange,
    pub(crate) batch: IntRange,
    pub(crate) num_q_heads: IntRange,
    pub(crate) relation: Relation,
}

impl SizeRanges {
    /// The sizes of a scope; `None` if no call has a cell.
    pub(crate) fn of(scope: &Scope) -> Option<Self> {
        Self::of_lengths_to(scope, u64::MAX)
    }

    /// The same, of calls whose lengths are no greater than `longest`.
    pub(crate) fn of_lengths_to(scope: &Scope, longest: u64) -> Option<Self> {
        let bucket = &scope.bucket;
        let lengths = |range: &RangeInclusive<u64>| {
            IntRange::new(
                i128::from(*range.start()).max(1),
                i128::from(*range.end()).min(i128::from(longest)),
            )
        };
        let (mut q_len, mut kv_len) = (lengths(&bucket.q_len), lengths(&bucket.kv_len));
        match bucket.relation {
            Relation::Equal => {
                q_len = q_len.meet(kv_len);
                kv_len = q_len;
            }
            Relation::AtMost => {
                q_len = IntRange::new(q_len.lo, q_len.hi.min(kv_len.hi));
                kv_len = IntRange::new(kv_len.lo.max(q_len.lo), kv_len.hi);
            }
            Relation::Free => {}
        }
        let q_offset = IntRange::new(
            i128::from(*bucket.q_offset.start()),
            i128::from(*bucket.q_offset.end()),
        );
        let sizes = Self {
            q_len,
            kv_len,
            q_offset,
            batch: IntRange::new(1, i128::from(scope.batch)),
            num_q_heads: IntRange::new(
                i128::from(scope.num_q_heads.max(1)),
                i128::from(scope.num_q_heads),
            ),
            relation: bucket.relation,
        };
        let empty = [q_len, kv_len, q_offset, sizes.batch, sizes.num_q_heads]
            .iter()
            .any(|range| range.is_empty());
        (!empty).then_some(sizes)
    }

    pub(super) fn of_var(&self, var: Var) -> IntRange {
        let up_to = |count: IntRange| IntRange::new(0, count.hi - 1);
        match var {
            Var::B => up_to(self.batch),
            Var::H => up_to(self.num_q_heads),
            Var::QIdx => IntRange::new(self.q_offset.lo, self.q_offset.hi + self.q_len.hi - 1),
            Var::KvIdx => up_to(self.kv_len),
            Var::QLen => self.q_len,
            Var::KvLen => self.kv_len,
            Var::Batch => self.batch,
            Var::NumQHeads => self.num_q_heads,
            Var::Score => unreachable!("the score is no integer"),
        }
    }
}

/// What an analysis takes for granted of run-time values, beyond declarations and types; `None` is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assumptions {
    /// Of integer scalars, by capture slot.
    pub(crate) scalars: Vec<Option<(i64, i64)>>,
    /// Of the contents of integer buffers, by capture slot.
    pub(crate) contents: Vec<Option<(i64, i64)>>,
    /// Of dimension names, by slot.
    pub(crate) dims: Vec<Option<(i64, i64)>>,
}

impl Assumptions {
    /// Nothing.
    pub(crate) fn none(rule: &Rule) -> Self {
        Self {
            scalars: vec![None; rule.captures.len()],
            contents: vec![None; rule.captures.len()],
            dims: vec![None; rule.dims.len()],
        }
    }

    /// Scalars and dimension names as they are bound.
    pub(crate) fn pinned(bound: &BoundRule) -> Self {
        let mut pinned = Self::none(bound.rule());
        let bindings = bound.bindings();
        for (slot, decl) in bound.rule().captures.iter().enumerate() {
            if let CaptureKind::Scalar(_) = decl.kind {
                let value = bindings.scalar(CaptureId(slot as u32)).as_int();
                pinned.scalars[slot] = value.map(|v| (v, v));
            }
        }
        pinned.dims = bindings
            .dims
            .iter()
            .map(|&v| Some((i64::from(v), i64::from(v))))
            .collect();
        pinned
    }
}
