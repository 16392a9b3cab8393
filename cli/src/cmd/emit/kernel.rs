//! The stages of a kernel for GPUs: its text, and what compilers make of it.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::process::Command;
use std::{env, fs, process};

use maskwright::cuda::{CompiledKernel, KernelShape, KernelStore, KernelText, MaskBlocks};
use maskwright::jit::nvrtc::{Output, PtxasStats};
use maskwright::{Kernel, MaskRule, Rules, ScoreRule};
use maskwright_dsl::block_mask::Authority;
use maskwright_dsl::ir::RuleKind;

use crate::args::EmitArgs;
use crate::error::CliError;
use crate::{bucket, gpu, rule};

/// What can be written of a kernel.
pub(super) const STAGES: [&str; 5] = ["cuda", "ptx", "cubin", "sass", "stats"];

/// The bytes of a stage.
pub(super) fn emit(args: &EmitArgs) -> Result<Vec<u8>, CliError> {
    if args.stage == "cubin" && args.out.is_none() {
        return Err(CliError::BinaryNeedsOut { stage: "cubin" });
    }
    let text = text(args)?;
    let kernels = KernelStore::from_env();
    match args.stage.as_str() {
        "cuda" => Ok(text.source().text.clone().into_bytes()),
        "ptx" => {
            let compiled = CompiledKernel::new(text, Output::Ptx, &kernels)?;
            Ok(compiled.ptx().as_bytes().to_vec())
        }
        stage => {
            let compiled = CompiledKernel::new(text, Output::Cubin, &kernels)?;
            let cubin = compiled.cubin().unwrap_or_default();
            match stage {
                "cubin" => Ok(cubin.to_vec()),
                "sass" => disassemble(cubin),
                _ => Ok(stats_text(&compiled).into_bytes()),
            }
        }
    }
}

fn text(args: &EmitArgs) -> Result<KernelText, CliError> {
    let bound = rule::resolve(&args.rule, &args.flags)?;
    let scope = bucket::one_scope(&args.flags, args.lengths.given())?;
    bucket::check_scalars(&scope, &[bound.rule()])?;
    let rules = match bound.rule().kind {
        RuleKind::Mask => Rules {
            mask: MaskRule::new(bound).ok(),
            score: None,
        },
        RuleKind::Score => Rules {
            mask: None,
            score: ScoreRule::new(bound).ok(),
        },
    };
    let kernel = Kernel::interpret(&rules, &scope).map_err(maskwright::AttentionError::from)?;
    let (target, dtype, head_dim) = gpu::one(&args.gpu)?;
    let blocks = match kernel.prepared_mask() {
        Some(_) => Some(MaskBlocks {
            block: bucket::one_block(&args.flags)?,
            authority: Authority::Rule,
        }),
        None => None,
    };
    let shape = KernelShape {
        dtype,
        out_dtype: dtype,
        d_qk: head_dim,
        d_v: head_dim,
        blocks,
    };
    let (mask, score) = (kernel.prepared_mask(), kernel.prepared_score());
    Ok(KernelText::new(mask, score, &shape, target)?)
}

fn stats_text(compiled: &CompiledKernel) -> String {
    let text = compiled.text();
    let source = text.source();
    let mut lines = format!(
        "{} by {}: {} threads, {} bytes of dynamic shared memory, {} bytes of parameters\n",
        text.name(),
        compiled.compiler(),
        source.threads,
        source.shared_bytes,
        source.params.size()
    );
    for stats in compiled.stats() {
        let PtxasStats {
            entry,
            target,
            registers,
            spill_stores,
            spill_loads,
            stack_frame,
            shared_bytes,
            barriers,
            constant_bytes,
            notes,
        } = stats;
        let _ = writeln!(
            lines,
            "{entry} {target}: {registers} registers, {spill_stores} + {spill_loads} bytes spilled, {stack_frame} bytes of \
             stack, {shared_bytes} bytes of static shared memory, {barriers} barriers, {constant_bytes} bytes of constants"
        );
        for note in notes {
            let _ = writeln!(lines, "  {note}");
        }
    }
    lines
}

/// Programs that print the instructions of a cubin, with their flags.
const DISASSEMBLERS: [(&str, &str); 2] = [("nvdisasm", "-c"), ("cuobjdump", "-sass")];

fn disassemble(cubin: &[u8]) -> Result<Vec<u8>, CliError> {
    let path = env::temp_dir().join(format!("maskwright-{}.cubin", process::id()));
    fs::write(&path, cubin).map_err(|source| CliError::Write {
        path: path.clone(),
        source,
    })?;
    let mut found = None;
    for (program, flag) in DISASSEMBLERS {
        match Command::new(program).arg(flag).arg(&path).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                found = Some(Err(CliError::Disassembler {
                    program,
                    reason: error.to_string(),
                }));
            }
            Ok(output) if output.status.success() => {
                found = Some(Ok(output.stdout));
                break;
            }
            Ok(output) => {
                found = Some(Err(CliError::Disassembler {
                    program,
                    reason: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                }));
            }
        }
    }
    // It is in the folder for temporaries, where what is left behind is swept.
    let _ = fs::remove_file(&path);
    found.unwrap_or(Err(CliError::NoDisassembler {
        programs: DISASSEMBLERS.map(|(program, _)| program),
    }))
}
