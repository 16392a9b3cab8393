//! `maskwright emit`: the stages between a rule and its machine code.

mod kernel;

use std::fmt::Write as _;
use std::fs;

use maskwright::jit::clif;
use maskwright_dsl::block_mask::{BlockMask, FlashMaskKind, MaskEvaluator, TorchTensor};
use maskwright_dsl::pipeline::prepare;
use serde_json::{Value, json};

use crate::args::{BlocksFormat, EmitArgs};
use crate::engine::{Built, build};
use crate::error::CliError;
use crate::{Outcome, bucket, output, rule};

const STAGES: [&str; 4] = ["ir", "simplified", "blocks", "clif"];

/// Stages that other versions have or will have.
const ABSENT: [&str; 2] = ["plan", "rust"];

pub(crate) fn run(args: &EmitArgs) -> Result<Outcome, CliError> {
    let bytes = match args.stage.as_str() {
        "ir" => rule::resolve(&args.rule, &args.flags)?
            .rule()
            .to_listing()
            .into_bytes(),
        "simplified" | "clif" => {
            let bound = rule::resolve(&args.rule, &args.flags)?;
            let scope = bucket::one_scope(&args.flags, args.lengths.given())?;
            bucket::check_scalars(&scope, &[bound.rule()])?;
            let prepared = prepare(&bound, &scope)?;
            if args.stage == "clif" {
                clif(&prepared)?.into_bytes()
            } else {
                prepared.rule().to_listing().into_bytes()
            }
        }
        "blocks" => blocks(args)?,
        stage if kernel::STAGES.contains(&stage) => kernel::emit(args)?,
        found => {
            let reason = if ABSENT.contains(&found) {
                format!("; {found} is not in this version")
            } else {
                String::new()
            };
            return Err(CliError::Stage {
                stages: [&STAGES[..], &kernel::STAGES].concat(),
                found: found.to_owned(),
                reason,
            });
        }
    };
    match &args.out {
        Some(path) => {
            fs::write(path, &bytes).map_err(|source| CliError::Write {
                path: path.clone(),
                source,
            })?;
            output::note(&format!("wrote {}", path.display()));
        }
        None => output::print_bytes(&bytes)?,
    }
    Ok(Outcome::Done)
}

fn blocks(args: &EmitArgs) -> Result<Vec<u8>, CliError> {
    let bound = rule::resolve(&args.rule, &args.flags)?;
    let scope = bucket::one_scope(&args.flags, args.lengths.given())?;
    bucket::check_scalars(&scope, &[bound.rule()])?;
    let block = bucket::one_block(&args.flags)?;
    let Built { mask, engine, .. } = build(&bound, &scope, block, args.flags.backend)?;
    match args.format {
        BlocksFormat::Text => Ok(runs_text(&mask).into_bytes()),
        BlocksFormat::Torch => json_bytes(&torch(&mask)?),
        BlocksFormat::Flashmask => json_bytes(&flashmask(&mask, &engine)?),
        BlocksFormat::File if args.out.is_none() => Err(CliError::NeedsOut),
        BlocksFormat::File => Ok(mask.to_bytes()),
    }
}

fn json_bytes(value: &Value) -> Result<Vec<u8>, CliError> {
    let mut bytes = serde_json::to_vec(value).map_err(CliError::Json)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// A line per block row of each stored plane: `F` and `P` runs as ranges of columns.
fn runs_text(mask: &BlockMask) -> String {
    let mut text = format!(
        "{} x {} blocks of {}, {} batch x {} heads, {}\n",
        mask.rows(),
        mask.cols(),
        mask.block(),
        mask.batch(),
        mask.heads(),
        if mask.is_exact() {
            "exact"
        } else {
            "partial means not proved"
        }
    );
    for b in 0..mask.stored_batch() {
        for h in 0..mask.stored_heads() {
            let name = |stored: u32, at: u32| {
                if stored == 1 {
                    "*".to_owned()
                } else {
                    at.to_string()
                }
            };
            let _ = writeln!(
                text,
                "b={} h={}",
                name(mask.stored_batch(), b),
                name(mask.stored_heads(), h)
            );
            for row in 0..mask.rows() {
                let _ = write!(text, "  {row}:");
                for run in mask.row(b, h, row) {
                    let class = if run.is_full() { 'F' } else { 'P' };
                    let (first, end) = (run.first(), run.end());
                    let _ = if run.count() == 1 {
                        write!(text, " {class} {first}")
                    } else {
                        write!(text, " {class} {first}..{end}")
                    };
                    text.push(';');
                }
                if text.ends_with(';') {
                    text.pop();
                }
                text.push('\n');
            }
        }
    }
    text
}

fn torch(mask: &BlockMask) -> Result<Value, CliError> {
    let tensors = mask.to_torch()?;
    let value = |tensor: &TorchTensor| json!({ "shape": tensor.shape, "data": tensor.data });
    let some = |tensor: &Option<TorchTensor>| tensor.as_ref().map(value);
    Ok(json!({
        "BLOCK_SIZE": [mask.block().q, mask.block().kv],
        "seq_lengths": [mask.q_len(), mask.kv_len()],
        "kv_num_blocks": value(&tensors.kv_num_blocks),
        "kv_indices": value(&tensors.kv_indices),
        "full_kv_num_blocks": some(&tensors.full_kv_num_blocks),
        "full_kv_indices": some(&tensors.full_kv_indices),
        "q_num_blocks": some(&tensors.q_num_blocks),
        "q_indices": some(&tensors.q_indices),
        "full_q_num_blocks": some(&tensors.full_q_num_blocks),
        "full_q_indices": some(&tensors.full_q_indices),
    }))
}

/// The form with the fewest bounds that holds the mask.
fn flashmask(mask: &BlockMask, engine: &dyn MaskEvaluator) -> Result<Value, CliError> {
    let mut last_fault = None;
    for kind in FlashMaskKind::ALL {
        match mask.to_flashmask(kind, engine) {
            Ok(columns) => {
                return Ok(json!({
                    "causal": kind.is_causal(),
                    "bounds": kind.bounds(),
                    "shape": [mask.batch() as u64, mask.heads() as u64, mask.kv_len(), kind.bounds().len() as u64],
                    "startend_row_indices": columns.bounds(),
                }));
            }
            // The richest form's reason is the one that counts.
            Err(fault) => last_fault = Some(fault),
        }
    }
    Err(last_fault.expect("there is at least one form").into())
}
