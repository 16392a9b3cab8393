//! The forward kernel for GPUs, compiled by NVRTC and executed in the emulator.

use std::path::Path;

use maskwright::cache::{CacheMode, Store};
use maskwright::cuda::{Float, KernelStore};
use maskwright::{BlockMask, BlockSize, Kernel, MaskRule, Rules, ScoreRule};

use super::{Engine, NoOutcome, Outcome, kind, unit_matrix};
use crate::call::{Extents, Inputs, LSE_TOLERANCE, Ran, Setting, compare, run};
use crate::case::Kind;
use crate::expect::Attention;
use crate::program::{Form, Program};
use crate::recipe::score_input;
use crate::work::check_products;

/// Keys whose cells one element of the output tells.
const KEYS_PER_COLUMN: usize = 16;

/// The greatest head dimension, and so the most keys that a unit matrix can pick one by one.
const MOST_DIMENSIONS: usize = 256;

/// Runs the forward kernel under the rule.
///
/// Of a mask, all scores are 0, and element `c` of key `kv` is `2^(kv % 16)` if `kv / 16 == c`, 0 otherwise: the output
/// times the number of attended keys is a row of the mask, bit by bit, and exact in every type. Scores come in through the
/// queries, with the unit matrix as keys, and weights are read off with the unit matrix as values.
#[derive(Clone, Debug)]
pub struct EmulatedKernel {
    kernels: KernelStore,
}

impl EmulatedKernel {
    /// With compiled kernels kept in a folder: rules of the same text share one.
    ///
    /// # Panics
    /// If the folder cannot be used.
    pub fn new(folder: &Path) -> Self {
        let store = Store::open(folder).expect("the folder can be used");
        Self {
            kernels: KernelStore::new(store, CacheMode::ReadWrite),
        }
    }

    fn mask(&self, program: &Program) -> Result<Outcome, String> {
        let rule = MaskRule::new(program.bound.clone()).map_err(|_| "the rule is no mask")?;
        let kernel = compile(&Rules::mask(rule), program)?;
        let size = match program.form {
            Form::RunTime => 128,
            Form::Const => 64,
        };
        let [batch, heads, q_len, kv_len] = program.case.size.map(|n| n as usize);
        let columns = kv_len.div_ceil(KEYS_PER_COLUMN);
        let extents = Extents {
            batch,
            heads,
            kv_heads: 1,
            q_len,
            kv_len,
            d_qk: 16,
            // Few kernels serve all sizes.
            d_v: dimension(columns, &[16, 64, 128, MOST_DIMENSIONS])?,
        };
        let call = KernelCall {
            kernel: &kernel,
            mask: Some(exact_mask(&kernel, program, size)?),
            kernels: &self.kernels,
        };
        let cells = call.cells(extents, dtype_of(program), 0)?;
        Ok(Outcome::Mask(cells))
    }

    fn score(&self, program: &Program) -> Result<Outcome, String> {
        let rule = ScoreRule::new(program.bound.clone()).map_err(|_| "the rule is a mask")?;
        let rules = Rules::score(rule);
        let kernel = compile(&rules, program)?;
        let [batch, heads, q_len, kv_len] = program.case.size.map(|n| n as usize);
        let mask = match kernel.prepared_mask() {
            Some(_) => Some(exact_mask(&kernel, program, 64)?),
            None => None,
        };
        let call = KernelCall {
            kernel: &kernel,
            mask,
            kernels: &self.kernels,
        };
        let extents = |kv_heads, d| Extents {
            batch,
            heads,
            kv_heads,
            q_len,
            kv_len,
            d_qk: d,
            d_v: d,
        };
        if MOST_DIMENSIONS < kv_len {
            let inputs = Inputs::drawn(extents(heads, 64), Float::F32, 5);
            let ran = call.run(&inputs, None)?;
            ran.compare(&inputs.reference(&rules, 0, None), Float::F32)?;
            return Ok(Outcome::Compared);
        }
        let d = dimension(kv_len, &[16, 128, MOST_DIMENSIONS])?;
        let scores = score_input(program.case.cells());
        let matrix = padded(&unit_matrix(kv_len), kv_len, d).repeat(batch);
        let inputs = Inputs {
            extents: extents(1, d),
            dtype: Float::F32,
            q: padded(&scores, kv_len, d),
            k: matrix.clone(),
            v: matrix,
        };
        let ran = call.run(&inputs, Some(1.0))?;
        let rows = ran.out.chunks(d);
        Ok(Outcome::Attention(Attention {
            weights: rows.flat_map(|row| &row[..kv_len]).copied().collect(),
            lse: ran.lse,
        }))
    }
}

impl Engine for EmulatedKernel {
    fn name(&self) -> &'static str {
        "forward kernel, in the emulator"
    }

    fn run(&self, program: &Program) -> Result<Outcome, NoOutcome> {
        match kind(program) {
            Kind::Mask => self.mask(program),
            Kind::Score => self.score(program),
        }
        .map_err(NoOutcome::Fault)
    }
}

/// A kernel with the mask of a call.
pub struct KernelCall<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The mask of the blocks; without one, the rule is asked about every cell.
    pub mask: Option<BlockMask>,
    /// Where compiled code is kept.
    pub kernels: &'a KernelStore,
}

impl KernelCall<'_> {
    fn run(&self, inputs: &Inputs, sm_scale: Option<f32>) -> Result<Ran, String> {
        self.run_at(inputs, sm_scale, 0)
    }

    /// Runs it, and checks that the tensor cores computed the tiles that the record tells of.
    fn run_at(&self, inputs: &Inputs, sm_scale: Option<f32>, q_offset: i64) -> Result<Ran, String> {
        let setting = Setting {
            q_offset,
            sm_scale,
            block_mask: self.mask.as_ref(),
            out_dtype: Some(Float::F32),
            ..Setting::new(self.kernels)
        };
        let ran = run(self.kernel, inputs, &setting)?;
        check_products(&ran.plan, &ran.record, ran.counters.as_ref())?;
        Ok(ran)
    }

    /// The cells that a mask has in the kernel, `[batch, heads, queries, keys]`; of more keys than the values have bits for,
    /// as many at a time as they have.
    ///
    /// # Errors
    /// What refused the call, or a number that no mask gives.
    pub fn cells(
        &self,
        extents: Extents,
        dtype: Float,
        q_offset: i64,
    ) -> Result<Vec<bool>, String> {
        let Extents { kv_len, d_v, .. } = extents;
        let mut inputs = Inputs::drawn(extents, dtype, 3);
        inputs.k.fill(0.0);
        let mut cells = vec![false; extents.rows() * kv_len];
        let at_once = d_v * KEYS_PER_COLUMN;
        for first in (0..kv_len).step_by(at_once) {
            let keys = first..kv_len.min(first + at_once);
            for (at, v) in inputs.v.iter_mut().enumerate() {
                let (column, key) = (at % d_v, at / d_v % kv_len);
                let is_its = keys.contains(&key) && (key - first) / KEYS_PER_COLUMN == column;
                let bit = 1_u32 << (key % KEYS_PER_COLUMN);
                *v = if is_its { bit as f32 } else { 0.0 };
            }
            let ran = self.run_at(&inputs, None, q_offset)?;
            let rows = cells.chunks_mut(kv_len).zip(ran.out.chunks(d_v));
            for (row, (cells, out)) in rows.enumerate() {
                let count = count(ran.lse[row], ran.row_max[row])
                    .map_err(|fault| format!("row {row}: {fault}"))?;
                for key in keys.clone() {
                    let sum = f64::from(out[(key - first) / KEYS_PER_COLUMN]) * f64::from(count);
                    let bits = sum.round();
                    if !(0.0..65_536.0).contains(&bits) || 0.1 < (sum - bits).abs() {
                        return Err(format!("row {row}, key {key}: {sum} is no sum of bits"));
                    }
                    cells[key] = bits as u32 >> (key % KEYS_PER_COLUMN) & 1 == 1;
                }
                let attended = cells.iter().filter(|cell| **cell).count();
                if keys.end == kv_len && attended != count as usize {
                    return Err(format!(
                        "row {row} has {attended} keys, but exp(lse) is {count}"
                    ));
                }
            }
        }
        Ok(cells)
    }
}

/// The number of keys of a row whose scores are all 0.
fn count(lse: f32, row_max: f32) -> Result<u32, String> {
    if lse == f32::NEG_INFINITY {
        return match row_max {
            f32::NEG_INFINITY => Ok(0),
            other => Err(format!("the row max of no key is {other}")),
        };
    }
    let count = f64::from(lse).exp().round();
    compare("lse", &[count.ln()], &[lse], LSE_TOLERANCE)?;
    compare("row max", &[0.0], &[row_max], LSE_TOLERANCE)?;
    Ok(count as u32)
}

fn compile(rules: &Rules, program: &Program) -> Result<Kernel, String> {
    Kernel::compile(rules, &program.scope()).map_err(|error| error.to_string())
}

fn exact_mask(kernel: &Kernel, program: &Program, size: u32) -> Result<BlockMask, String> {
    let [_, _, q_len, kv_len] = program.case.size.map(u64::from);
    let block = BlockSize { q: size, kv: size };
    let mask = kernel.block_mask_at(q_len, kv_len, 0, block);
    mask.map_err(|error| error.to_string())
}

/// The first dimension that is enough.
fn dimension(needed: usize, dimensions: &[usize]) -> Result<usize, String> {
    let enough = dimensions.iter().find(|d| needed <= **d);
    enough
        .copied()
        .ok_or_else(|| format!("a head dimension of {needed} is too large"))
}

/// Rows with zeros behind them.
fn padded(rows: &[f32], from: usize, to: usize) -> Vec<f32> {
    let zeros = vec![0.0; to - from];
    let rows = rows.chunks(from);
    rows.flat_map(|row| row.iter().chain(&zeros))
        .copied()
        .collect()
}

/// A type, another one for each rule and form.
fn dtype_of(program: &Program) -> Float {
    let types = [Float::BF16, Float::F16, Float::F32];
    let name: usize = program.file.id.bytes().map(usize::from).sum();
    let form = match program.form {
        Form::RunTime => 0,
        Form::Const => 1,
    };
    types[(name + form) % types.len()]
}
