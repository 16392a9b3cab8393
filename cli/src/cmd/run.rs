//! `maskwright run`: attention over tensors in files.

use std::fmt::Write as _;
use std::path::PathBuf;

use maskwright::tensor::{Dtype, Tensor, check_destination, read_tensor, write_tensor};
use maskwright::{Backend, ForwardOptions, MaskRule, Rules, ScoreRule, TensorRef, attention};
use maskwright_dsl::ir::RuleKind;
use maskwright_dsl::pipeline::prepare;

use crate::args::{BackendArg, RunArgs};
use crate::error::CliError;
use crate::rule::{Wanted, resolve_all};
use crate::{Outcome, bucket, output, progress};

pub(crate) fn run(args: &RunArgs) -> Result<Outcome, CliError> {
    let rules = rules(args)?;
    let (q, k, v) = (
        read("q", &args.q)?,
        read("k", &args.k)?,
        read("v", &args.v)?,
    );
    let view = |tensor| TensorRef::try_from(tensor).map_err(CliError::from);
    let (q_view, k_view, v_view) = (view(&q)?, view(&k)?, view(&v)?);
    let [batch, heads, q_len, _] = q_view.shape();
    let kv_len = k_view.shape()[2];
    for (flag, given, found) in [
        ("--batch", args.flags.batch, batch),
        ("--heads", args.flags.heads, heads),
    ] {
        if given != 1 && given as usize != found {
            return Err(CliError::Count { flag, given, found });
        }
    }
    check_bucket(args, &rules, (batch, heads), (q_len as u64, kv_len as u64))?;
    check_destinations(args, &q)?;
    let options = ForwardOptions {
        sm_scale: args.scale,
        q_offset: args.flags.q_offset,
        block: bucket::one_block(&args.flags)?,
        backend: match args.flags.backend {
            BackendArg::Auto => Backend::Auto,
            BackendArg::Reference => Backend::Reference,
            BackendArg::Cpu => Backend::Cpu,
            BackendArg::Cuda => Backend::Cuda,
            BackendArg::Emulator => Backend::Emulator,
        },
        ..ForwardOptions::default()
    };
    let done = progress::spinning("attending", || {
        attention(q_view, k_view, v_view, &rules, &options)
    })?;
    write("the output", &args.o, &done.out)?;
    if let Some(file) = &args.lse {
        let lse = Tensor {
            shape: vec![batch, heads, q_len],
            data: done.lse.into(),
        };
        write("the sums", file, &lse)?;
    }
    if args.json {
        output::print_json(&done.record)?;
    } else {
        output::print(&record_text(&done.record))?;
    }
    Ok(Outcome::Done)
}

/// A long run must not end at a file that cannot be written.
fn check_destinations(args: &RunArgs, q: &Tensor) -> Result<(), CliError> {
    let outputs = [("--o", Some(&args.o)), ("--lse", args.lse.as_ref())];
    let inputs = [("--q", &args.q), ("--k", &args.k), ("--v", &args.v)];
    let mut taken: Vec<(&str, PathBuf)> = inputs
        .iter()
        .map(|(flag, file)| (*flag, path_of(file)))
        .collect();
    for (flag, file) in outputs {
        let Some(file) = file else { continue };
        let path = path_of(file);
        if let Some((other, _)) = taken.iter().find(|(_, taken)| *taken == path) {
            return Err(CliError::SameFile {
                flag,
                other: (*other).to_owned(),
                path,
            });
        }
        taken.push((flag, path));
    }
    let lse = args.lse.as_deref().map(|file| (file, Dtype::F32));
    for (file, dtype) in [(args.o.as_str(), q.dtype())].into_iter().chain(lse) {
        check_destination(file, dtype).map_err(|source| CliError::Tensor {
            what: format!("the result cannot be written to {file}"),
            source: Box::new(source),
        })?;
    }
    Ok(())
}

/// The file of a tensor without the tensor's name, as one path however it is spelled.
fn path_of(spec: &str) -> PathBuf {
    let end = spec
        .find(".safetensors:")
        .map(|at| at + ".safetensors".len());
    let path = PathBuf::from(&spec[..end.unwrap_or(spec.len())]);
    path.canonicalize().unwrap_or(path)
}

fn rules(args: &RunArgs) -> Result<Rules, CliError> {
    let mask = args
        .mask
        .as_deref()
        .map(|text| Wanted::of(text, RuleKind::Mask));
    let score = args
        .score
        .as_deref()
        .map(|text| Wanted::of(text, RuleKind::Score));
    let wanted: Vec<Wanted<'_>> = mask.into_iter().chain(score).collect();
    let mut rules = Rules::dense();
    for bound in resolve_all(&wanted, &args.flags)? {
        match bound.rule().kind {
            RuleKind::Mask => rules.mask = MaskRule::new(bound).ok(),
            RuleKind::Score => rules.score = ScoreRule::new(bound).ok(),
        }
    }
    Ok(rules)
}

/// A bucket says for which calls the rules must be right; this call is one of them.
fn check_bucket(
    args: &RunArgs,
    rules: &Rules,
    (batch, heads): (usize, usize),
    (q_len, kv_len): (u64, u64),
) -> Result<(), CliError> {
    let bound: Vec<_> = [
        rules.mask.as_ref().map(MaskRule::bound),
        rules.score.as_ref().map(ScoreRule::bound),
    ]
    .into_iter()
    .flatten()
    .collect();
    for mut scope in bucket::scopes(&args.flags, Some((q_len, kv_len)))? {
        let declared: Vec<_> = bound.iter().map(|bound| bound.rule().as_ref()).collect();
        bucket::check_scalars(&scope, &declared)?;
        if !scope.bucket.contains(q_len, kv_len, args.flags.q_offset) {
            return Err(CliError::NotInBucket {
                bucket: scope.bucket.to_string(),
                q_len,
                kv_len,
                q_offset: args.flags.q_offset,
            });
        }
        scope.batch = u32::try_from(batch).unwrap_or(u32::MAX);
        scope.num_q_heads = u32::try_from(heads).unwrap_or(u32::MAX);
        for bound in &bound {
            prepare(bound, &scope)?;
        }
    }
    Ok(())
}

fn read(name: &str, file: &str) -> Result<Tensor, CliError> {
    read_tensor(file).map_err(|source| CliError::Tensor {
        what: format!("{name} cannot be read from {file}"),
        source: Box::new(source),
    })
}

fn write(what: &str, file: &str, tensor: &Tensor) -> Result<(), CliError> {
    write_tensor(file, tensor).map_err(|source| CliError::Tensor {
        what: format!("{what} cannot be written to {file}"),
        source: Box::new(source),
    })
}

/// What ran, a line each.
pub(crate) fn record_text(record: &maskwright::LaunchRecord) -> String {
    let tiles = record.tiles;
    let mut text = output::pairs(&[
        (
            "ran",
            format!("{} {} on {}", record.backend, record.kernel, record.device),
        ),
        (
            "tiles",
            format!(
                "{} full, {} partial, {} skipped",
                tiles.full, tiles.partial, tiles.skipped
            ),
        ),
        ("threads", record.threads.to_string()),
        ("time", format!("{:.3} ms", record.seconds * 1e3)),
    ]);
    for refusal in &record.refusals {
        let _ = writeln!(text, "not {refusal}");
    }
    text
}
