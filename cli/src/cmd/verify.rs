//! `maskwright verify`: the compiled rule and its blocks against every cell.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Instant;

use maskwright::cuda::KernelStore;
use maskwright::verify::{
    BlockReport, Certificate, GpuRequest, MismatchReport, VerifyError, VerifyReport, VerifyRequest,
    verify,
};
use maskwright::{BoundRule, MaskRule, ScoreRule};
use maskwright_dsl::block_mask::BlockSize;
use maskwright_dsl::ir::RuleKind;
use maskwright_dsl::pipeline::Scope;
use serde::Serialize;

use crate::args::{BackendArg, VerifyArgs};
use crate::engine::mask_of;
use crate::error::CliError;
use crate::{Outcome, bucket, gpu, output, progress, rule};

/// Calls up to so many cells are compared at every one of them, and hashed; larger ones may be sampled.
const WHOLE_CELLS: u128 = 1 << 28;

/// Blocks whose classes are hashed, one byte each, at most.
const MOST_BLOCKS: u128 = 1 << 35;

/// What `--backend reference` comes to where compiled rules are what is verified.
pub(super) const REFERENCE_NOTE: &str = "--backend reference changes nothing here: the compiled rule is compared with the interpreter in any case";

/// What a script reads.
#[derive(Debug, Serialize)]
struct Report<'a> {
    rule: &'a str,
    verdict: &'static str,
    batch: u32,
    heads: u32,
    q_len: u64,
    kv_len: u64,
    allowed: Option<u64>,
    rows_without_any_key: Option<u64>,
    packbits_sha256: Option<String>,
    blocks: Vec<BlockReport>,
    cells_checked: u64,
    exhaustive: bool,
    seconds: f64,
    preconditions: Vec<String>,
    refusals: Vec<String>,
}

/// What was verified.
struct Done {
    /// At the given lengths.
    report: VerifyReport,
    certificates: Vec<Certificate>,
}

/// Why not.
enum Failure {
    Mismatch(Box<MismatchReport>),
    Refused(Box<CliError>),
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl From<VerifyError> for Failure {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Mismatch(report) => Self::Mismatch(report),
            error => Self::Refused(Box::new(CliError::Verify(Box::new(error)))),
        }
    }
}

pub(crate) fn run(args: &VerifyArgs) -> Result<Outcome, CliError> {
    let started = Instant::now();
    if args.flags.backend == BackendArg::Reference {
        output::note(REFERENCE_NOTE);
    }
    let mut json = Report {
        rule: &args.rule,
        verdict: "verified",
        batch: args.flags.batch,
        heads: args.flags.heads,
        q_len: args.lengths.q_len,
        kv_len: args.lengths.kv_len,
        allowed: None,
        rows_without_any_key: None,
        packbits_sha256: None,
        blocks: Vec::new(),
        cells_checked: 0,
        exhaustive: false,
        seconds: 0.0,
        preconditions: Vec::new(),
        refusals: Vec::new(),
    };
    let outcome = match progress::spinning("verifying", || check(args)) {
        Ok(Done {
            report,
            certificates,
        }) => {
            json.allowed = report.allowed;
            json.rows_without_any_key = report.rows_without_any_key;
            json.packbits_sha256 = report.packbits_sha256;
            json.blocks = report.blocks;
            json.cells_checked = certificates.iter().map(|one| one.cells_checked).sum();
            json.exhaustive = certificates.iter().all(|one| one.exhaustive);
            for line in certificates.iter().flat_map(|one| &one.preconditions) {
                if !json.preconditions.contains(line) {
                    json.preconditions.push(line.clone());
                }
            }
            if !args.json {
                output::print(&verified_text(&json, &certificates))?;
            }
            Outcome::Done
        }
        Err(Failure::Mismatch(report)) => {
            json.verdict = "mismatch";
            json.refusals = vec![report.to_string()];
            output::note(&format!("mismatch: {report}\n{}", report.draw()));
            Outcome::Mismatch
        }
        Err(Failure::Refused(error)) => {
            json.verdict = "refused";
            json.refusals = error.reasons();
            output::print_error(&error);
            Outcome::Refused
        }
    };
    if args.json {
        json.seconds = started.elapsed().as_secs_f64();
        output::print_json(&json)?;
    }
    Ok(outcome)
}

fn check(args: &VerifyArgs) -> Result<Done, Failure> {
    let bound = rule::resolve(&args.rule, &args.flags)?;
    let (q_len, kv_len) = (args.lengths.q_len, args.lengths.kv_len);
    let single = bucket::single(&args.flags, q_len, kv_len);
    let mut scopes = vec![single];
    scopes.extend(bucket::scopes(&args.flags, Some((q_len, kv_len)))?);
    let mut blocks: Vec<BlockSize> = Vec::new();
    for &block in &args.flags.block {
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    if blocks.is_empty() {
        blocks.push(BlockSize::default());
    }
    let gpu = gpu::request(args.flags.backend, &args.gpu, KernelStore::from_env())?;
    let mut report = None;
    let mut certificates = Vec::new();
    for scope in scopes {
        bucket::check_scalars(&scope, &[bound.rule()])?;
        check_blocks(&scope, &blocks)?;
        // The buckets come after the given lengths, whose figures are the ones to report.
        let artifact = one(&bound, &scope, &blocks, gpu.clone(), report.is_none())?;
        certificates.push(artifact.1);
        report.get_or_insert(artifact.0);
    }
    let report = report.expect("the given lengths were verified");
    Ok(Done {
        report,
        certificates,
    })
}

/// Checks that the class of every block can be hashed in reasonable time.
fn check_blocks(scope: &Scope, blocks: &[BlockSize]) -> Result<(), CliError> {
    for &block in blocks {
        let along = |range: &RangeInclusive<u64>, side: u32| {
            u128::from(range.end().div_ceil(u64::from(side)))
        };
        let count = u128::from(scope.batch)
            * u128::from(scope.num_q_heads)
            * along(&scope.bucket.q_len, block.q)
            * along(&scope.bucket.kv_len, block.kv);
        if MOST_BLOCKS < count {
            return Err(CliError::TooManyBlocks {
                blocks: count,
                block,
            });
        }
    }
    Ok(())
}

/// Verifies one scope; a score rule together with the mask that it implies, whose figures are reported.
fn one(
    bound: &BoundRule,
    scope: &Scope,
    blocks: &[BlockSize],
    gpu: Option<GpuRequest>,
    is_single: bool,
) -> Result<(VerifyReport, Certificate), Failure> {
    let (mask, score) = match bound.rule().kind {
        RuleKind::Mask => (MaskRule::new(bound.clone()).ok(), None),
        RuleKind::Score => {
            let derived = mask_of(bound, scope)?.original().clone();
            (
                MaskRule::new(derived).ok(),
                ScoreRule::new(bound.clone()).ok(),
            )
        }
    };
    let cells = u128::from(scope.batch)
        * u128::from(scope.num_q_heads)
        * u128::from(*scope.bucket.q_len.end())
        * u128::from(*scope.bucket.kv_len.end());
    let request = VerifyRequest {
        blocks: blocks.to_vec(),
        want_packbits: is_single && cells <= WHOLE_CELLS,
        gpu,
        ..VerifyRequest::new(mask.as_ref(), score.as_ref(), scope.clone())
    };
    let artifact = verify(&request)?;
    Ok((artifact.report().clone(), artifact.certificate().clone()))
}

fn verified_text(json: &Report<'_>, certificates: &[Certificate]) -> String {
    let mut text = String::new();
    if let (Some(allowed), Some(without)) = (json.allowed, json.rows_without_any_key) {
        let _ = writeln!(
            text,
            "verified: {} cells attend, {} rows see no key",
            output::count_text(allowed),
            output::count_text(without)
        );
    } else {
        text.push_str("verified on a sample of its cells\n");
    }
    let mut rows = vec![
        ["blocks", "full", "partial", "empty"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for block in &json.blocks {
        rows.push(vec![
            format!("{}x{}", block.q_block, block.kv_block),
            output::count_text(block.full),
            output::count_text(block.partial),
            output::count_text(block.empty),
        ]);
    }
    text.push_str(&output::table(&rows));
    for certificate in certificates {
        let _ = writeln!(text, "\n{certificate}");
    }
    text
}
