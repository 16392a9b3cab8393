//! The dense model that the tests compare block masks with.

use proptest::prelude::*;
use std::ops::Range;

use super::{
    BlockClass, BlockMask, BlockSize, CellFn, Geometry, MaskEvaluator, Plane, PlaneBuilder,
};

pub(super) fn block(q: u32, kv: u32) -> BlockSize {
    BlockSize { q, kv }
}

pub(super) fn causal() -> CellFn<impl Fn(u32, u32, i64, i64) -> bool> {
    CellFn(|_, _, q, kv| kv <= q)
}

pub(super) fn all() -> CellFn<impl Fn(u32, u32, i64, i64) -> bool> {
    CellFn(|_, _, _, _| true)
}

/// The exact mask of one batch entry and head.
pub(super) fn exact(
    q_len: u64,
    kv_len: u64,
    size: (u32, u32),
    rule: &dyn MaskEvaluator,
) -> BlockMask {
    let geometry = Geometry::exact(1, 1, q_len, kv_len, block(size.0, size.1)).unwrap();
    BlockMask::from_evaluator(&geometry, rule).unwrap()
}

/// Full, partial and empty blocks as reported.
pub(super) fn counted(mask: &BlockMask) -> (u128, u128, u128) {
    let counts = mask.counts();
    (counts.full, counts.partial, counts.empty)
}

/// A dense mask as an evaluator; cells outside it are masked, and axes of 1 are broadcast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dense {
    pub(super) batch: u32,
    pub(super) heads: u32,
    pub(super) q_len: u64,
    pub(super) kv_len: u64,
    pub(super) cells: Vec<bool>,
}

impl Dense {
    pub(super) fn from_fn(
        (batch, heads, q_len, kv_len): (u32, u32, u64, u64),
        cell: impl Fn(u32, u32, i64, i64) -> bool,
    ) -> Self {
        let mut cells = Vec::new();
        for b in 0..batch {
            for h in 0..heads {
                for q in 0..q_len as i64 {
                    cells.extend((0..kv_len as i64).map(|kv| cell(b, h, q, kv)));
                }
            }
        }
        Self {
            batch,
            heads,
            q_len,
            kv_len,
            cells,
        }
    }

    pub(super) fn at(&self, b: u32, h: u32, q: i64, kv: i64) -> bool {
        let b = if self.batch == 1 { 0 } else { b };
        let h = if self.heads == 1 { 0 } else { h };
        let inside = (0..self.q_len as i64).contains(&q) && (0..self.kv_len as i64).contains(&kv);
        let row = (u64::from(b) * u64::from(self.heads) + u64::from(h)) * self.q_len + q as u64;
        inside && self.cells[(row * self.kv_len) as usize + kv as usize]
    }

    pub(super) fn rule(&self) -> CellFn<impl Fn(u32, u32, i64, i64) -> bool> {
        CellFn(|b, h, q, kv| self.at(b, h, q, kv))
    }

    pub(super) fn geometry(&self, size: BlockSize) -> Geometry {
        Geometry::exact(self.batch, self.heads, self.q_len, self.kv_len, size).unwrap()
    }

    pub(super) fn mask(&self, size: BlockSize) -> BlockMask {
        BlockMask::from_evaluator(&self.geometry(size), &self.rule()).unwrap()
    }
}

/// Checks every class of a mask against the cells, and exactness where the mask claims it.
#[track_caller]
pub(super) fn check_classes(mask: &BlockMask, cell: impl Fn(u32, u32, i64, i64) -> bool) {
    let geometry = mask.geometry();
    for b in 0..mask.batch() {
        for h in 0..mask.heads() {
            for row in 0..mask.rows() {
                for col in 0..mask.cols() {
                    let (mut allowed, mut masked) = (false, false);
                    for q in geometry.row_span(row) {
                        for kv in geometry.col_span(col) {
                            let (b, h) = (b + geometry.batch_offset(), h + geometry.head_offset());
                            if cell(b, h, geometry.q_idx(q), geometry.kv_idx(kv)) {
                                allowed = true;
                            } else {
                                masked = true;
                            }
                        }
                    }
                    let actual = match (allowed, masked) {
                        (true, true) => BlockClass::Partial,
                        (true, false) => BlockClass::Full,
                        (false, _) => BlockClass::Empty,
                    };
                    let class = mask.class(b, h, row, col);
                    let coarse = class == BlockClass::Partial && !mask.is_exact();
                    assert!(
                        class == actual || coarse,
                        "block ({row}, {col}) of ({b}, {h}) is {actual:?} but called {class:?} in {geometry}"
                    );
                }
            }
        }
    }
}

/// Dense masks with stretches of equal cells, so that blocks of every class are common.
pub(super) fn any_dense() -> impl Strategy<Value = Dense> {
    any_dense_of(1..3, 1..3, 0..20, 0..20)
}

pub(super) fn any_dense_of(
    batch: Range<u32>,
    heads: Range<u32>,
    q_len: Range<u64>,
    kv_len: Range<u64>,
) -> impl Strategy<Value = Dense> {
    (batch, heads, q_len, kv_len).prop_flat_map(|shape| {
        let rectangle = (
            0..2_u32,
            0..2_u32,
            0..20_i64,
            0..12_i64,
            0..20_i64,
            0..12_i64,
            any::<bool>(),
        );
        proptest::collection::vec(rectangle, 0..6).prop_map(move |rectangles| {
            Dense::from_fn(shape, |b, h, q, kv| {
                let covers =
                    |&&(rb, rh, q0, n_q, kv0, n_kv, _): &&(u32, u32, i64, i64, i64, i64, bool)| {
                        (shape.0 == 1 || rb == b)
                            && (shape.1 == 1 || rh == h)
                            && (q0..q0 + n_q).contains(&q)
                            && (kv0..kv0 + n_kv).contains(&kv)
                    };
                rectangles
                    .iter()
                    .rev()
                    .find(covers)
                    .is_some_and(|rectangle| rectangle.6)
            })
        })
    })
}

pub(super) fn any_block() -> impl Strategy<Value = BlockSize> {
    (1..6_u32, 1..6_u32).prop_map(|(q, kv)| block(q, kv))
}

pub(super) fn any_plane(rows: Range<u32>, cols: Range<u32>) -> impl Strategy<Value = Plane> {
    (rows, cols).prop_flat_map(|(rows, cols)| {
        let class = prop_oneof![
            Just(BlockClass::Empty),
            Just(BlockClass::Partial),
            Just(BlockClass::Full)
        ];
        proptest::collection::vec(class, (rows * cols) as usize).prop_map(move |classes| {
            let mut builder = PlaneBuilder::new(rows, cols);
            for row in 0..rows {
                for col in 0..cols {
                    builder.push(row, col, 1, classes[(row * cols + col) as usize]);
                }
            }
            builder.finish()
        })
    })
}
