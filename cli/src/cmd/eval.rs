//! `maskwright eval`: what the compiled rule gives at every cell.

use std::sync::Arc;

use maskwright::cuda::{Cells, CudaEvaluator, KernelStore, Machine};
use maskwright::jit::{BoundEvaluator, CompiledRule};
use maskwright::tensor::{Dtype, Tensor, TensorData, check_destination, read_tensor, write_tensor};
use maskwright_dsl::block_mask::MaskEvaluator;
use maskwright_dsl::eval::RowEvaluator;
use maskwright_dsl::ir::RuleKind;
use maskwright_dsl::pipeline::{Prepared, prepare};

use crate::Outcome;
use crate::args::{BackendArg, EvalArgs};
use crate::engine::{MaskEngine, longest};
use crate::error::CliError;
use crate::{bucket, gpu, output, progress, rule};

/// Rows that are evaluated at once.
const ROWS: usize = 64;

/// Cells that are written at most: 16 GiB of scores.
const MOST_CELLS: u128 = 1 << 32;

pub(crate) fn run(args: &EvalArgs) -> Result<Outcome, CliError> {
    let bound = rule::resolve(&args.rule, &args.flags)?;
    let scope = bucket::single(&args.flags, args.lengths.q_len, args.lengths.kv_len);
    let prepared = prepare(&bound, &scope)?;
    // A bucket says for which calls the rule must be right; this is one of them.
    for scope in bucket::scopes(&args.flags, Some((args.lengths.q_len, args.lengths.kv_len)))? {
        bucket::check_scalars(&scope, &[bound.rule()])?;
        prepare(&bound, &scope)?;
    }
    let shape = vec![
        args.flags.batch as usize,
        args.flags.heads as usize,
        args.lengths.q_len as usize,
        args.lengths.kv_len as usize,
    ];
    let cells = shape
        .iter()
        .fold(1_u128, |cells, &n| cells.saturating_mul(n as u128));
    if MOST_CELLS < cells {
        return Err(CliError::TooLarge {
            what: "a result",
            cells,
            help: "evaluate fewer rows, with --q-offset",
        });
    }
    if let (RuleKind::Mask, Some(file)) = (prepared.rule().kind, &args.scores) {
        return Err(CliError::NoScoreRead {
            file: file.clone(),
            rule: prepared.original().rule().name.clone(),
        });
    }
    check_destination(&args.out, Dtype::F32).map_err(|source| CliError::Tensor {
        what: format!("the result cannot be written to {}", args.out),
        source: Box::new(source),
    })?;
    let cells = cells as usize;
    let data = match prepared.rule().kind {
        RuleKind::Mask => progress::spinning("evaluating", || mask(&prepared, args, cells))?,
        RuleKind::Score => {
            let scores = scores(args, &shape)?;
            progress::spinning("evaluating", || score(&prepared, args, scores))?
        }
    };
    write_tensor(&args.out, &Tensor { shape, data }).map_err(|source| CliError::Tensor {
        what: format!("the result cannot be written to {}", args.out),
        source: Box::new(source),
    })?;
    output::note(&format!("wrote {}", args.out));
    Ok(Outcome::Done)
}

/// Row ranges `(b, h, first row, rows)` that cover every row, in order.
fn strips(args: &EvalArgs) -> impl Iterator<Item = (u32, u32, usize, usize)> {
    let (batch, heads) = (args.flags.batch, args.flags.heads);
    let rows = args.lengths.q_len as usize;
    (0..batch).flat_map(move |b| {
        (0..heads).flat_map(move |h| {
            (0..rows)
                .step_by(ROWS)
                .map(move |first| (b, h, first, ROWS.min(rows - first)))
        })
    })
}

fn mask(prepared: &Prepared, args: &EvalArgs, cells: usize) -> Result<TensorData, CliError> {
    if let Some(machine) = gpu::machine(args.flags.backend)? {
        return mask_on(&machine, prepared, args, cells);
    }
    let engine = MaskEngine::new(prepared, args.flags.backend)?;
    let kv_len = args.lengths.kv_len as usize;
    let words = kv_len.div_ceil(64);
    let mut bits = vec![0_u64; words * ROWS];
    let mut out = Vec::with_capacity(cells);
    for (b, h, first, rows) in strips(args) {
        if kv_len == 0 {
            continue;
        }
        let q0 = args.flags.q_offset + first as i64;
        engine.tile(b, h, q0, rows, 0, kv_len, &mut bits, words);
        for row in bits.chunks_exact(words).take(rows) {
            out.extend((0..kv_len).map(|j| row[j / 64] >> (j % 64) & 1 == 1));
        }
    }
    Ok(out.into())
}

/// The mask as kernels for GPUs have it.
fn mask_on(
    machine: &Machine,
    prepared: &Prepared,
    args: &EvalArgs,
    cells: usize,
) -> Result<TensorData, CliError> {
    let evaluator = CudaEvaluator::new(prepared, machine, &KernelStore::from_env())?;
    let sizes = longest(prepared.scope());
    let kv_len = args.lengths.kv_len as usize;
    let mut out = Vec::with_capacity(cells);
    for (b, h, first, rows) in strips(args) {
        let bits = evaluator.mask(sizes, &strip_cells(args, (b, h, first, rows)))?;
        for row in bits.chunks_exact(kv_len.div_ceil(64).max(1)) {
            out.extend((0..kv_len).map(|j| row[j / 64] >> (j % 64) & 1 == 1));
        }
    }
    Ok(out.into())
}

fn strip_cells(args: &EvalArgs, (b, h, first, rows): (u32, u32, usize, usize)) -> Cells {
    Cells {
        b,
        h,
        q0: args.flags.q_offset + first as i64,
        n_q: rows as u32,
        kv0: 0,
        n_kv: args.lengths.kv_len as u32,
    }
}

fn scores(args: &EvalArgs, shape: &[usize]) -> Result<Vec<f32>, CliError> {
    let Some(file) = &args.scores else {
        output::note("no --scores: the rule is applied to zeros");
        return Ok(vec![0.0; shape.iter().product()]);
    };
    let what = || format!("--scores {file}");
    let tensor = read_tensor(file).map_err(|source| CliError::Tensor {
        what: format!("{} cannot be read", what()),
        source: Box::new(source),
    })?;
    if tensor.shape != shape {
        return Err(CliError::Shape {
            what: what(),
            expected: shape.to_vec(),
            found: tensor.shape,
        });
    }
    match &tensor.data {
        TensorData::F32(data) => Ok(data.to_vec()),
        TensorData::F16(data) => Ok(data.iter().map(|x| x.to_f32()).collect()),
        TensorData::BF16(data) => Ok(data.iter().map(|x| x.to_f32()).collect()),
        TensorData::Bool(_)
        | TensorData::I8(_)
        | TensorData::U8(_)
        | TensorData::I16(_)
        | TensorData::U16(_)
        | TensorData::I32(_)
        | TensorData::U32(_)
        | TensorData::I64(_)
        | TensorData::U64(_)
        | TensorData::F64(_) => Err(CliError::Dtype {
            what: what(),
            expected: "f32, f16 or bf16",
            found: tensor.data.dtype(),
        }),
    }
}

fn score(
    prepared: &Prepared,
    args: &EvalArgs,
    mut scores: Vec<f32>,
) -> Result<TensorData, CliError> {
    let kv_len = args.lengths.kv_len as usize;
    if scores.is_empty() {
        return Ok(scores.into());
    }
    let sizes = longest(prepared.scope());
    match args.flags.backend {
        BackendArg::Auto | BackendArg::Cpu => {
            let code = Arc::new(CompiledRule::compile(prepared)?);
            let code = BoundEvaluator::new(code, prepared, sizes)?;
            let mut rest = scores.as_mut_slice();
            for (b, h, first, rows) in strips(args) {
                let (strip, after) = rest.split_at_mut(rows * kv_len);
                let q0 = args.flags.q_offset + first as i64;
                code.score_tile(b, h, q0, rows, 0, kv_len, strip, kv_len);
                rest = after;
            }
        }
        BackendArg::Cuda | BackendArg::Emulator => {
            let machine = gpu::machine(args.flags.backend)?;
            let machine = machine.expect("both backends have a machine");
            let evaluator = CudaEvaluator::new(prepared, &machine, &KernelStore::from_env())?;
            let mut rest = scores.as_mut_slice();
            for strip in strips(args) {
                let (changed, after) = rest.split_at_mut(strip.3 * kv_len);
                let found = evaluator.scores(sizes, &strip_cells(args, strip), changed)?;
                changed.copy_from_slice(&found);
                rest = after;
            }
        }
        BackendArg::Reference => {
            // The rule as it was written, before anything simplified it.
            let original = prepared.original();
            let mut interpreter = RowEvaluator::new(original.rule(), original.bindings(), sizes);
            let mut rest = scores.as_mut_slice();
            for (b, h, first, rows) in strips(args) {
                let (strip, after) = rest.split_at_mut(rows * kv_len);
                for (i, row) in strip.chunks_exact_mut(kv_len).enumerate() {
                    let q = args.flags.q_offset + (first + i) as i64;
                    let q =
                        i32::try_from(q).expect("the scope was validated, so positions are i32");
                    interpreter.score_row(b as i32, h as i32, q, 0, row)?;
                }
                rest = after;
            }
        }
    }
    Ok(scores.into())
}
