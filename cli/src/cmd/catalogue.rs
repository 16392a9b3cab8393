//! `maskwright catalogue`: the rules that ship with the program.

use std::fmt::Write as _;

use maskwright_dsl::catalogue::{CatalogueEntry, entries, find};
use maskwright_dsl::ir::RuleKind;
use serde_json::json;

use crate::args::CatalogueArgs;
use crate::error::{CliError, suggest};
use crate::{Outcome, output};

pub(crate) fn run(args: &CatalogueArgs) -> Result<Outcome, CliError> {
    if let Some(name) = &args.name {
        let entry = find(name).ok_or_else(|| CliError::NoSuchRule {
            name: name.clone(),
            suggestion: suggest(name, entries().iter().map(|entry| entry.name)),
        })?;
        if args.json {
            output::print_json(&entry_json(entry))?;
        } else {
            output::print(entry.text)?;
        }
        return Ok(Outcome::Done);
    }
    if args.json {
        let all: Vec<_> = entries().iter().map(entry_json).collect();
        output::print_json(&all)?;
        return Ok(Outcome::Done);
    }
    let widest = |of: fn(&CatalogueEntry) -> usize| entries().iter().map(of).max().unwrap_or(0);
    let name_width = widest(|entry| entry.name.len());
    let paper_width = widest(|entry| entry.paper.len());
    let mut text = String::new();
    for entry in entries() {
        let _ = writeln!(
            text,
            "{:name_width$}  {:5}  {:paper_width$}  {}",
            entry.name,
            kind(entry),
            entry.paper,
            summary(entry)
        );
    }
    output::print(&text)?;
    Ok(Outcome::Done)
}

fn kind(entry: &CatalogueEntry) -> &'static str {
    match entry.kind {
        RuleKind::Mask => "mask",
        RuleKind::Score => "score",
    }
}

fn entry_json(entry: &CatalogueEntry) -> serde_json::Value {
    json!({
        "name": entry.name,
        "kind": kind(entry),
        "paper": entry.paper,
        "summary": summary(entry),
        "text": entry.text,
    })
}

/// The first sentence of its documentation, without the paper in parentheses.
fn summary(entry: &CatalogueEntry) -> String {
    let lines: Vec<&str> = entry
        .text
        .lines()
        .map_while(|line| line.strip_prefix("///"))
        .map(str::trim)
        .take_while(|line| !line.is_empty() && !line.starts_with("```"))
        .collect();
    let text = lines.join(" ");
    let end = [" (", ". ", ": "]
        .iter()
        .filter_map(|stop| text.find(stop))
        .min();
    text[..end.unwrap_or(text.len())]
        .trim_end_matches('.')
        .to_owned()
}
