//! A rule alone on a machine: the very text that kernels hold, asked for cells, so that it can be compared.

use maskwright_codegen::back::cuda::{CudaSource, emit_evaluator};
use maskwright_dsl::eval::Sizes;
use maskwright_dsl::ir::RuleKind;
use maskwright_dsl::pipeline::Prepared;

use super::captures::UploadedCaptures;
use super::compiled::{KernelStore, find_or_compile};
use super::error::KernelError;
use super::machine::{Code, Machine, MachineError};
use super::params::{EvalAt, Values, pack_params};
use super::text::{RuleIdentity, Unit};
use crate::device::Launch;
use crate::jit::nvrtc::Output;

/// A rule that was compiled for a machine alone.
#[derive(Debug)]
pub struct CudaEvaluator {
    kind: RuleKind,
    source: CudaSource,
    code: Code,
    machine: Machine,
    captures: UploadedCaptures,
}

/// A rectangle of cells of one batch entry and head, in absolute positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Batch index.
    pub b: u32,
    /// Query head index.
    pub h: u32,
    /// Position of the first query.
    pub q0: i64,
    /// Queries.
    pub n_q: u32,
    /// Position of the first key.
    pub kv0: i64,
    /// Keys.
    pub n_kv: u32,
}

impl CudaEvaluator {
    /// Compiles a rule for a machine, or takes it from the store, and uploads its captured values.
    ///
    /// # Errors
    /// [`KernelError`] if the rule has no text, can be neither found nor compiled, or the machine does not take it.
    pub fn new(
        prepared: &Prepared,
        machine: &Machine,
        kernels: &KernelStore,
    ) -> Result<Self, KernelError> {
        let source = emit_evaluator(prepared)?;
        let kind = prepared.rule().kind;
        let role = match kind {
            RuleKind::Mask => "mask",
            RuleKind::Score => "score",
        };
        let output = match machine.gpu() {
            Some(_) => Output::Cubin,
            None => Output::Ptx,
        };
        let target = machine.target();
        let unit = Unit {
            name: format!("{} {target}", source.entry),
            target,
            spec: "evaluator".to_owned(),
            source: &source,
            rules: &[RuleIdentity::of(role, prepared)],
        };
        let (image, _) = find_or_compile(&unit, output, kernels)?;
        let cubin = image.cubin.as_deref();
        let code = Code::load(
            machine,
            &image.ptx,
            cubin,
            &source.entry,
            source.shared_bytes,
        )?;
        Ok(Self {
            kind,
            code,
            machine: machine.clone(),
            captures: UploadedCaptures::upload(machine, prepared.bindings())?,
            source,
        })
    }

    /// The bits of a mask.
    ///
    /// # Shapes
    /// `n_q` rows of `ceil(n_kv / 64)` words; key `kv0 + j` is bit `j % 64` of word `j / 64`, and what follows the last
    /// key is 0.
    ///
    /// # Errors
    /// [`KernelError::Machine`], with the fault that an emulator found.
    ///
    /// # Panics
    /// If the rule is a `score_mod`.
    pub fn mask(&self, sizes: Sizes, cells: &Cells) -> Result<Vec<u64>, KernelError> {
        assert!(self.kind == RuleKind::Mask, "a score_mod has no bits");
        let (rows, cols) = (cells.n_q as usize, cells.n_kv as usize);
        let words = cols.div_ceil(32);
        // A warp for each word of 32 keys.
        let threads = rows as u64 * words as u64 * 32;
        let bytes = self.run(sizes, cells, threads, &vec![0; rows * words * 4])?;
        let (found, _) = bytes.as_chunks::<4>();
        let mut bits = Vec::with_capacity(rows * cols.div_ceil(64));
        for row in found.chunks(words.max(1)) {
            bits.extend(row.chunks(2).map(|pair| {
                let word = |at: usize| pair.get(at).map_or(0, |word| u32::from_le_bytes(*word));
                u64::from(word(0)) | u64::from(word(1)) << 32
            }));
        }
        Ok(bits)
    }

    /// The scores of a `score_mod`, `[n_q, n_kv]`, from those before.
    ///
    /// # Errors
    /// As [`CudaEvaluator::mask`].
    ///
    /// # Panics
    /// If the rule is a mask, or there are not as many scores as cells.
    pub fn scores(
        &self,
        sizes: Sizes,
        cells: &Cells,
        before: &[f32],
    ) -> Result<Vec<f32>, KernelError> {
        assert!(self.kind == RuleKind::Score, "a mask has no scores");
        assert_eq!(before.len(), cells.n_q as usize * cells.n_kv as usize);
        let bytes: Vec<u8> = before.iter().flat_map(|x| x.to_le_bytes()).collect();
        let bytes = self.run(sizes, cells, before.len() as u64, &bytes)?;
        let (found, _) = bytes.as_chunks::<4>();
        Ok(found.iter().map(|x| f32::from_le_bytes(*x)).collect())
    }

    fn run(
        &self,
        sizes: Sizes,
        cells: &Cells,
        threads: u64,
        content: &[u8],
    ) -> Result<Vec<u8>, KernelError> {
        if threads == 0 {
            return Ok(Vec::new());
        }
        let memory = self.machine.upload(content)?;
        let blocks = threads.div_ceil(self.source.threads.into());
        let grid = i32::try_from(blocks).map_err(|_| KernelError::Grid {
            found: blocks.into(),
        })?;
        let captures = Some(&self.captures);
        let (mask_captures, score_captures) = match self.kind {
            RuleKind::Mask => (captures, None),
            RuleKind::Score => (None, captures),
        };
        let values = Values {
            q_len: sizes.q_len as u64,
            kv_len: sizes.kv_len as u64,
            batch: sizes.batch as u32,
            num_q_heads: sizes.num_q_heads as u32,
            eval: Some(EvalAt {
                b: cells.b,
                h: cells.h,
                q: cells.q0,
                kv: cells.kv0,
                rows: cells.n_q,
                cols: cells.n_kv,
                result: memory.address(),
            }),
            mask_captures,
            score_captures,
            ..Values::default()
        };
        let params = pack_params(&self.source.params, &values).map_err(MachineError::from)?;
        let launch = Launch {
            grid: [grid as u32, 1, 1],
            threads: self.source.threads,
            shared_bytes: self.source.shared_bytes,
        };
        self.machine.launch(&self.code, launch, &params, None)?;
        Ok(memory.download()?)
    }
}
