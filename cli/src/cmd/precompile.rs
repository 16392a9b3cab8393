//! `maskwright precompile`: rules times buckets, verified and kept.

use std::fmt::Write as _;

use maskwright::artifact::{
    ArtifactCache, ArtifactError, PrecompileOutcome, PrecompileProgress, PrecompileSettings,
    RulePair, Verdict, precompile,
};
use maskwright::cuda::KernelStore;
use maskwright::verify::VerifyError;
use maskwright::{MaskRule, ScoreRule};
use maskwright_dsl::ir::RuleKind;
use serde_json::json;

use super::cache::open;
use crate::args::{BackendArg, PrecompileArgs};
use crate::error::{CliError, chain, diagnostics_in};
use crate::rule::{Wanted, resolve_all};
use crate::{Outcome, bucket, gpu, output, progress};

pub(crate) fn run(args: &PrecompileArgs) -> Result<Outcome, CliError> {
    let wanted: Vec<Wanted<'_>> = args.rules.iter().map(|text| Wanted::any(text)).collect();
    let bound = resolve_all(&wanted, &args.flags)?;
    let scopes = bucket::scopes(&args.flags, None)?;
    if scopes.is_empty() {
        return Err(CliError::NoBucket);
    }
    if args.flags.q_offset != 0 {
        return Err(CliError::OffsetBesideBucket {
            q_offset: args.flags.q_offset,
        });
    }
    if args.flags.backend == BackendArg::Reference {
        output::note(super::verify::REFERENCE_NOTE);
    }
    for scope in &scopes {
        let rules: Vec<_> = bound.iter().map(|bound| bound.rule().as_ref()).collect();
        bucket::check_scalars(scope, &rules)?;
    }
    let store = open(args.cache.as_deref())?;
    let root = store.root().to_owned();
    let cache = ArtifactCache::new(store.clone());
    let rules: Vec<(Option<MaskRule>, Option<ScoreRule>)> = bound
        .into_iter()
        .map(|bound| match bound.rule().kind {
            RuleKind::Mask => (MaskRule::new(bound).ok(), None),
            RuleKind::Score => (None, ScoreRule::new(bound).ok()),
        })
        .collect();
    let pairs: Vec<RulePair<'_>> = rules
        .iter()
        .map(|(mask, score)| RulePair {
            mask: mask.as_ref(),
            score: score.as_ref(),
        })
        .collect();
    let mut settings = PrecompileSettings::default();
    if !args.flags.block.is_empty() {
        settings.blocks.clone_from(&args.flags.block);
        settings.blocks.dedup();
    }
    let kernels = KernelStore::new(store, cache.mode());
    settings.gpu = gpu::request(args.flags.backend, &args.gpu, kernels)?;
    let bar = progress::bar((pairs.len() * scopes.len()) as u64);
    let outcomes = precompile(&pairs, &scopes, &settings, &cache, |step| match step {
        PrecompileProgress::Started { rule, bucket, .. } => {
            bar.set_message(format!("{rule} over {bucket}"));
            bar.tick();
        }
        PrecompileProgress::Done { .. } => bar.inc(1),
    });
    bar.finish_and_clear();
    // One rule after another, each over every bucket.
    let named: Vec<(&str, &PrecompileOutcome)> = args
        .rules
        .iter()
        .flat_map(|rule| std::iter::repeat_n(rule.as_str(), scopes.len()))
        .zip(&outcomes)
        .collect();
    let mut worst = Outcome::Done;
    for (rule, outcome) in &named {
        if let Verdict::Failed(error) = &outcome.verdict {
            output::note(&format!("{rule} over {}:", outcome.bucket));
            output::note(&describe(error.as_ref()));
            worst = match (error.as_ref(), worst) {
                (ArtifactError::Verify(VerifyError::Mismatch(_)), _) | (_, Outcome::Mismatch) => {
                    Outcome::Mismatch
                }
                _ => Outcome::Refused,
            };
        }
    }
    if args.json {
        let outcomes: Vec<_> = named
            .iter()
            .map(|(rule, outcome)| outcome_json(rule, outcome))
            .collect();
        output::print_json(&json!({ "cache": root, "outcomes": outcomes }))?;
    } else {
        output::print(&outcomes_text(&named))?;
    }
    Ok(worst)
}

/// An error as it is shown: drawn, if it is faults of a rule.
fn describe(error: &ArtifactError) -> String {
    match diagnostics_in(error) {
        Some(faults) => faults.render(output::colored()),
        None => chain(error),
    }
}

fn outcome_json(rule: &str, outcome: &PrecompileOutcome) -> serde_json::Value {
    let base = json!({
        "rule": rule,
        "bucket": outcome.bucket,
        "key": outcome.key.to_string(),
        "seconds": outcome.seconds,
    });
    let rest = match &outcome.verdict {
        Verdict::Verified {
            cached,
            exhaustive,
            cells_checked,
            mask_bytes,
            coarse,
            kernels,
        } => json!({
            "verdict": "verified",
            "cached": cached,
            "exhaustive": exhaustive,
            "cells_checked": cells_checked,
            "mask_bytes": mask_bytes,
            "kernels": kernels,
            "coarse": coarse.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }),
        Verdict::Failed(error) => json!({
            "verdict": "failed",
            "error": chain(error.as_ref()),
        }),
    };
    let mut merged = base;
    if let (Some(merged), Some(rest)) = (merged.as_object_mut(), rest.as_object()) {
        merged.extend(rest.clone());
    }
    merged
}

fn outcomes_text(outcomes: &[(&str, &PrecompileOutcome)]) -> String {
    let head = ["rule", "bucket", "verdict", "cells", "mask", "time"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (rule, outcome) in outcomes {
        let (verdict, cells, mask) = match &outcome.verdict {
            Verdict::Verified {
                cached,
                exhaustive,
                cells_checked,
                mask_bytes,
                ..
            } => (
                match (cached, exhaustive) {
                    (true, _) => "in the cache",
                    (false, true) => "verified",
                    (false, false) => "verified, sampled",
                },
                output::count_text(*cells_checked),
                output::bytes_text(*mask_bytes),
            ),
            Verdict::Failed(_) => ("failed", String::new(), String::new()),
        };
        rows.push(vec![
            (*rule).to_owned(),
            outcome.bucket.clone(),
            verdict.to_owned(),
            cells,
            mask,
            format!("{:.2} s", outcome.seconds),
        ]);
    }
    let mut text = output::table(&rows);
    for (rule, outcome) in outcomes {
        if let Verdict::Verified {
            coarse, kernels, ..
        } = &outcome.verdict
        {
            for line in coarse {
                let _ = writeln!(text, "{rule} {line}");
            }
            for kernel in kernels {
                let _ = writeln!(text, "{rule} holds {kernel}");
            }
        }
    }
    text
}
