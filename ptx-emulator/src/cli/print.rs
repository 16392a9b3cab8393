//! Counters, profiles and results as text and as JSON.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use ptx_emulator::{Counters, Report};
use serde_json::{Value, json};

use super::run::Ran;

/// Lines of a profile that are printed.
const PROFILE_LINES: usize = 20;

/// Elements of a result that are printed.
const RESULT_WORDS: usize = 8;

/// Writes to stdout. A reader that went away, such as `head`, is no error, and nobody is left to hear of another.
pub(crate) fn print(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// What a launch did, for people.
pub(super) fn as_text(ran: &Ran, ptx: &str) -> String {
    let mut out = String::new();
    let counters = &ran.counters;
    for (name, value) in rows(counters) {
        let _ = writeln!(out, "{name:<24}{value:>16}");
    }
    let mut kinds: Vec<_> = counters.by_kind.iter().collect();
    kinds.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    out.push_str("warp instructions by kind\n");
    for (kind, count) in kinds {
        let _ = writeln!(out, "{count:>12}  {kind}");
    }
    if !counters.by_line.is_empty() {
        let lines: Vec<_> = ptx.lines().collect();
        let mut counts: Vec<_> = counters.by_line.iter().collect();
        counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        out.push_str("hottest lines of the PTX\n");
        for (&line, count) in counts.into_iter().take(PROFILE_LINES) {
            let text = lines.get((line as usize).wrapping_sub(1)).unwrap_or(&"");
            let _ = writeln!(out, "{count:>12}  {line:>6}: {}", text.trim());
        }
    }
    if !counters.by_source_line.is_empty() {
        let mut counts: Vec<_> = counters.by_source_line.iter().collect();
        counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        out.push_str("hottest lines of the source\n");
        for ((file, line), count) in counts.into_iter().take(PROFILE_LINES) {
            let _ = writeln!(out, "{count:>12}  {file}:{line}");
        }
    }
    for result in &ran.results {
        let place = match &result.output.to {
            Some(path) => format!("written to {}", path.display()),
            None => words(&result.bytes),
        };
        let unwritten = if result.is_whole {
            ""
        } else {
            " (not all of them written)"
        };
        let (index, name) = (result.output.index, &result.output.name);
        let bytes = result.bytes.len();
        let _ = writeln!(
            out,
            "argument {index}, {name}: {bytes} bytes{unwritten}, {place}"
        );
    }
    out
}

/// The same, for scripts.
pub(super) fn as_json(ran: &Ran) -> Value {
    let counters = &ran.counters;
    let sources = counters.by_source_line.iter();
    let sources =
        sources.map(|((file, line), count)| json!({"file": file, "line": line, "count": count}));
    let results = ran.results.iter().map(|result| {
        json!({
            "argument": result.output.index,
            "name": result.output.name,
            "bytes": result.bytes.len(),
            "all_written": result.is_whole,
            "file": result.output.to,
        })
    });
    json!({
        "counters": rows(counters).into_iter().map(|(name, value)| (name.replace(' ', "_"), json!(value))).collect::<serde_json::Map<_, _>>(),
        "by_kind": counters.by_kind,
        "by_line": counters.by_line,
        "by_source_line": sources.collect::<Vec<_>>(),
        "results": results.collect::<Vec<_>>(),
    })
}

/// A report, for scripts.
pub(super) fn report_json(report: &Report) -> Value {
    json!({
        "report": {
            "fault": report.fault.to_string(),
            "kernel": report.kernel,
            "line": report.location.line,
            "text": report.text,
            "file": report.file,
            "source_line": report.location.source_line,
            "block": report.block,
            "warp": report.warp,
            "lane": report.lane,
            "address": report.address,
            "notes": report.notes,
        }
    })
}

fn rows(counters: &Counters) -> Vec<(&'static str, u64)> {
    vec![
        ("blocks", counters.blocks),
        ("warp instructions", counters.instructions),
        ("mma", counters.tensor.mma),
        ("wgmma", counters.tensor.wgmma),
        ("multiply adds", counters.tensor.multiply_adds),
        ("global bytes read", counters.global.read),
        ("global bytes written", counters.global.written),
        ("shared bytes read", counters.shared.read),
        ("shared bytes written", counters.shared.written),
        ("local bytes read", counters.local.read),
        ("local bytes written", counters.local.written),
        ("constant bytes read", counters.constant.read),
        ("global sectors", counters.global_sectors),
        ("ideal global sectors", counters.ideal_global_sectors),
        ("bank conflicts", counters.bank_conflicts),
        ("barrier waits", counters.barrier_waits),
    ]
}

/// The first words of a result, as integers and as floats.
fn words(bytes: &[u8]) -> String {
    let words = bytes.as_chunks::<4>().0.iter().take(RESULT_WORDS);
    let integers: Vec<_> = words
        .clone()
        .map(|it| i32::from_le_bytes(*it).to_string())
        .collect();
    let floats: Vec<_> = words
        .map(|it| f32::from_le_bytes(*it).to_string())
        .collect();
    format!("as i32 {}, as f32 {}", integers.join(" "), floats.join(" "))
}
