//! A compiled rule with the captured values and sizes of a call: safe evaluation of tiles.

use std::sync::Arc;

use maskwright_codegen::back::cranelift::{ArgsLayout, BufferSlots, CaptureSlots, unit_stride};
use maskwright_dsl::bucket::Relation;
use maskwright_dsl::capture::{Bindings, CaptureValue, CapturedBuffer};
use maskwright_dsl::eval::Sizes;
use maskwright_dsl::ir::{Const, DimId, Elem, RuleKind, Var};
use maskwright_dsl::pipeline::{Prepared, Scope};

use super::cranelift::CompiledRule;

/// Why compiled code cannot be used for a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluatorError {
    /// The code was compiled from other expressions, or for other element types.
    #[error("the compiled code is not that of rule {rule}, or its captures have other types")]
    OtherRule {
        /// The prepared rule.
        rule: String,
    },
    /// A size lies outside the scope that the rule was prepared for.
    #[error("{size} is {found}, but the rule was prepared for {expected}")]
    OutOfScope {
        /// Which size.
        size: &'static str,
        /// What the scope allows.
        expected: String,
        /// What was asked for.
        found: i64,
    },
}

/// What code reads in place of an element that a guard excludes, where a buffer has none.
static NOTHING: u64 = 0;

/// A compiled rule, ready to evaluate tiles with certain captured values at certain sizes.
#[derive(Clone, Debug)]
pub struct BoundEvaluator {
    compiled: Arc<CompiledRule>,
    args: Vec<u64>,
    /// Keeps the buffers alive that `args` points into.
    _bindings: Bindings,
    sizes: Sizes,
    /// Positions of queries for which the rule was proved.
    queries: std::ops::Range<i64>,
}

impl BoundEvaluator {
    /// Binds the captured values of a prepared rule to code that was compiled from it, or from the same rule with other
    /// captured values.
    ///
    /// # Errors
    /// [`EvaluatorError`] if the code is that of another rule, or the sizes leave the scope of `prepared`.
    pub fn new(
        compiled: Arc<CompiledRule>,
        prepared: &Prepared,
        sizes: Sizes,
    ) -> Result<Self, EvaluatorError> {
        if !compiled.fits(prepared) {
            return Err(EvaluatorError::OtherRule {
                rule: prepared.rule().name.clone(),
            });
        }
        check_sizes(prepared.scope(), sizes)?;
        let offsets = &prepared.scope().bucket.q_offset;
        let queries = *offsets.start()..offsets.end().saturating_add(i64::from(sizes.q_len));
        let bindings = prepared.bindings().clone();
        let args = fill(compiled.layout(), &bindings, sizes);
        Ok(Self {
            compiled,
            args,
            _bindings: bindings,
            sizes,
            queries,
        })
    }

    /// The code.
    pub fn compiled(&self) -> &Arc<CompiledRule> {
        &self.compiled
    }

    /// The sizes of the call.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Evaluates a mask for queries `q0..q0 + n_q` and keys `kv0..kv0 + n_kv`, all absolute positions.
    ///
    /// # Shapes
    /// `bits` has `n_q` rows of `words_per_row` words; key `kv0 + j` of a row is bit `j % 64` of word `j / 64`. Every
    /// word is written, and bits beyond `n_kv` are zero.
    ///
    /// # Panics
    /// If the rule is a `score_mod`, the tile leaves the scope of the rule, or `bits` is too short.
    #[expect(
        clippy::too_many_arguments,
        reason = "a tile has two coordinates and two ranges"
    )]
    pub fn mask_tile(
        &self,
        b: u32,
        h: u32,
        q0: i64,
        n_q: usize,
        kv0: i64,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    ) {
        assert_eq!(self.compiled.kind(), RuleKind::Mask, "a mask has bits");
        let words = n_kv.div_ceil(64);
        assert!(
            words <= words_per_row,
            "{n_kv} keys need {words} words a row, found {words_per_row}"
        );
        let needed = n_q.checked_mul(words_per_row);
        assert!(
            needed.is_some_and(|needed| needed <= bits.len()),
            "{n_q} rows of {words_per_row} words, found {} words",
            bits.len()
        );
        // The code writes the bytes of the keys; the rest of their last word, and the words after it, are zero.
        let whole = n_kv / 64;
        if whole < words_per_row {
            for row in bits.chunks_exact_mut(words_per_row).take(n_q) {
                row[whole..].fill(0);
            }
        }
        let tile = self.check_tile(b, h, q0, n_q, kv0, n_kv);
        // SAFETY: every row has room for the words of its keys.
        unsafe { self.run(tile, bits.as_mut_ptr().cast(), words_per_row * 8) };
    }

    /// Changes scores in place, for queries `q0..q0 + n_q` and keys `kv0..kv0 + n_kv`, all absolute positions.
    ///
    /// # Shapes
    /// Row `i` of `scores` starts at `i * row_stride` and has `n_kv` scores.
    ///
    /// # Panics
    /// If the rule is a mask, the tile leaves the scope of the rule, or `scores` is too short.
    #[expect(
        clippy::too_many_arguments,
        reason = "a tile has two coordinates and two ranges"
    )]
    pub fn score_tile(
        &self,
        b: u32,
        h: u32,
        q0: i64,
        n_q: usize,
        kv0: i64,
        n_kv: usize,
        scores: &mut [f32],
        row_stride: usize,
    ) {
        assert_eq!(
            self.compiled.kind(),
            RuleKind::Score,
            "a score_mod has scores"
        );
        let needed = match n_q {
            0 => Some(0),
            _ => (n_q - 1)
                .checked_mul(row_stride)
                .and_then(|start| start.checked_add(n_kv)),
        };
        assert!(
            needed.is_some_and(|needed| needed <= scores.len()),
            "{n_q} rows of {n_kv} scores with stride {row_stride}, found {} scores",
            scores.len()
        );
        let tile = self.check_tile(b, h, q0, n_q, kv0, n_kv);
        // SAFETY: every row has room for the scores of its keys.
        unsafe { self.run(tile, scores.as_mut_ptr().cast(), row_stride * 4) };
    }

    /// The arguments of the compiled function for a tile within the scope.
    fn check_tile(&self, b: u32, h: u32, q0: i64, n_q: usize, kv0: i64, n_kv: usize) -> Tile {
        let within = |what: &str, at: i64, n: usize, range: std::ops::Range<i64>| {
            let end = i64::try_from(n).ok().and_then(|n| at.checked_add(n));
            assert!(
                end.is_some_and(|end| range.start <= at && end <= range.end),
                "{what} {at} and the {n} from there on must lie in {range:?}"
            );
        };
        within("b", i64::from(b), 1, 0..i64::from(self.sizes.batch));
        within("h", i64::from(h), 1, 0..i64::from(self.sizes.num_q_heads));
        within("q", q0, n_q, self.queries.clone());
        within("kv", kv0, n_kv, 0..i64::from(self.sizes.kv_len));
        Tile {
            b: b as i32,
            h: h as i32,
            q0: i32::try_from(q0).expect("positions are i32 in every scope"),
            n_q: n_q as i64,
            kv0: kv0 as i32,
            n_kv: n_kv as i64,
        }
    }

    /// Runs the compiled code over a tile that [`BoundEvaluator::check_tile`] let pass.
    ///
    /// # Safety
    /// From `out` on there are `n_q` rows, `row_bytes` apart, each with room for `n_kv` bits in whole words (a mask) or
    /// `n_kv` scores (a `score_mod`).
    unsafe fn run(&self, tile: Tile, out: *mut u8, row_bytes: usize) {
        // SAFETY: the code reads the table and the buffers in it, which live as long as `self`, where validation proved
        // or clamping ensures that they are read in range; it writes to `out` only, as the caller allows.
        unsafe {
            (self.compiled.function())(
                self.args.as_ptr(),
                tile.b,
                tile.h,
                tile.q0,
                tile.n_q,
                tile.kv0,
                tile.n_kv,
                out,
                row_bytes as i64,
            );
        }
    }
}

impl maskwright_dsl::block_mask::MaskEvaluator for BoundEvaluator {
    fn tile(
        &self,
        b: u32,
        h: u32,
        q0: i64,
        n_q: usize,
        kv0: i64,
        n_kv: usize,
        bits: &mut [u64],
        words_per_row: usize,
    ) {
        self.mask_tile(b, h, q0, n_q, kv0, n_kv, bits, words_per_row);
    }
}

#[derive(Clone, Copy)]
struct Tile {
    b: i32,
    h: i32,
    q0: i32,
    n_q: i64,
    kv0: i32,
    n_kv: i64,
}

fn check_sizes(scope: &Scope, sizes: Sizes) -> Result<(), EvaluatorError> {
    let bucket = &scope.bucket;
    let check = |holds: bool, size, found: i32, expected: String| {
        if holds {
            return Ok(());
        }
        Err(EvaluatorError::OutOfScope {
            size,
            expected,
            found: i64::from(found),
        })
    };
    let within = |v: i32, range: &std::ops::RangeInclusive<u64>| {
        u64::try_from(v).is_ok_and(|v| range.contains(&v))
    };
    let Sizes {
        batch,
        num_q_heads,
        q_len,
        kv_len,
    } = sizes;
    let at_most_batch = u32::try_from(batch).is_ok_and(|batch| batch <= scope.batch);
    check(
        at_most_batch,
        "batch",
        batch,
        format!("at most {}", scope.batch),
    )?;
    check(
        u32::try_from(num_q_heads) == Ok(scope.num_q_heads),
        "num_q_heads",
        num_q_heads,
        scope.num_q_heads.to_string(),
    )?;
    let range = format!("{:?}", bucket.q_len);
    check(within(q_len, &bucket.q_len), "q_len", q_len, range)?;
    let range = format!("{:?}", bucket.kv_len);
    check(within(kv_len, &bucket.kv_len), "kv_len", kv_len, range)?;
    match bucket.relation {
        Relation::Equal => check(
            q_len == kv_len,
            "q_len",
            q_len,
            format!("q_len equal to kv_len {kv_len}"),
        ),
        Relation::AtMost => check(
            q_len <= kv_len,
            "q_len",
            q_len,
            format!("q_len at most kv_len {kv_len}"),
        ),
        Relation::Free => Ok(()),
    }
}

/// The table of sizes and captures that compiled code reads.
fn fill(layout: &ArgsLayout, bindings: &Bindings, sizes: Sizes) -> Vec<u64> {
    let mut args = vec![0; layout.len()];
    for (var, value) in [
        (Var::QLen, sizes.q_len),
        (Var::KvLen, sizes.kv_len),
        (Var::Batch, sizes.batch),
        (Var::NumQHeads, sizes.num_q_heads),
    ] {
        let slot = layout.size(var).expect("every size has a slot");
        args[slot] = Const::I32(value).key().1;
    }
    for (dim, value) in bindings.dims.iter().enumerate() {
        args[layout.dim(DimId(dim as u32))] = Const::I32(*value).key().1;
    }
    for (slots, value) in layout.captures().iter().zip(&bindings.values) {
        match (slots, value) {
            (CaptureSlots::Scalar(slot), CaptureValue::Scalar(value)) => {
                args[*slot] = value.key().1;
            }
            (CaptureSlots::Buffer(slots), CaptureValue::Buffer(buffer)) => {
                fill_buffer(&mut args, slots, buffer);
            }
            (CaptureSlots::Scalar(_), CaptureValue::Buffer(_))
            | (CaptureSlots::Buffer(_), CaptureValue::Scalar(_)) => {
                unreachable!("the layout was made for these bindings")
            }
        }
    }
    args
}

fn fill_buffer(args: &mut [u64], slots: &BufferSlots, buffer: &CapturedBuffer) {
    if buffer.is_empty() {
        // All strides and last indices stay 0, so that every index reaches this one cell.
        args[slots.address] = (&raw const NOTHING).expose_provenance() as u64;
        return;
    }
    let unit = unit_stride(slots.elem);
    let start = buffer.data().as_ptr().expose_provenance() as u64;
    if slots.elem == Elem::Bits {
        args[slots.address] = start;
        args[slots.bit_offset] = buffer.offset() as u64;
    } else {
        args[slots.address] = start + buffer.offset() as u64 * unit as u64;
    }
    for ((axis, &extent), &stride) in slots.axes.iter().zip(buffer.shape()).zip(buffer.strides()) {
        args[axis.stride] = (stride * unit) as u64;
        args[axis.last] = extent as u64 - 1;
    }
}
