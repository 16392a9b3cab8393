//! `maskwright cache`: what is kept, whether it is whole, and its removal.

use std::fmt::Write as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use maskwright::cache::{Listed, Store};
use serde_json::json;

use crate::args::{CacheArgs, CacheDirArgs, CacheWhat};
use crate::error::CliError;
use crate::{Outcome, output};

pub(crate) fn run(args: &CacheArgs) -> Result<Outcome, CliError> {
    match &args.what {
        CacheWhat::List(args) => list(args),
        CacheWhat::Check(args) => check(args),
        CacheWhat::Clear(args) => clear(args),
    }
}

/// The store in a directory, or in the one that the environment says.
pub(crate) fn open(dir: Option<&Path>) -> Result<Store, CliError> {
    let root = match dir {
        Some(dir) => dir.to_owned(),
        None => Store::default_root()?,
    };
    Ok(Store::open(root)?)
}

fn list(args: &CacheDirArgs) -> Result<Outcome, CliError> {
    let store = open(args.cache.as_deref())?;
    let entries = store.list()?;
    let size = store.size()?;
    if args.json {
        let entries: Vec<_> = entries.iter().map(listed_json).collect();
        output::print_json(&json!({
            "root": store.root(),
            "entries": entries,
            "entry_bytes": size.entry_bytes,
            "temporaries": size.temporaries,
            "temporary_bytes": size.temporary_bytes,
        }))?;
        return Ok(Outcome::Done);
    }
    let mut text = String::new();
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| vec![entry.key.to_string(), output::bytes_text(entry.bytes)])
        .collect();
    text.push_str(&output::table(&rows));
    let _ = writeln!(
        text,
        "{} entries, {}, in {}",
        size.entries,
        output::bytes_text(size.entry_bytes),
        store.root().display()
    );
    if size.temporaries != 0 {
        let _ = writeln!(
            text,
            "{} files being written or left behind, {}",
            size.temporaries,
            output::bytes_text(size.temporary_bytes)
        );
    }
    output::print(&text)?;
    Ok(Outcome::Done)
}

fn listed_json(entry: &Listed) -> serde_json::Value {
    let modified = entry
        .modified
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    json!({
        "key": entry.key.to_string(),
        "path": entry.path,
        "bytes": entry.bytes,
        "modified_unix_secs": modified.map(|since| since.as_secs()),
    })
}

fn check(args: &CacheDirArgs) -> Result<Outcome, CliError> {
    let store = open(args.cache.as_deref())?;
    let report = store.check()?;
    let faulty = report.faulty().count();
    if args.json {
        let entries: Vec<_> = report
            .entries
            .iter()
            .map(|checked| {
                json!({
                    "key": checked.listed.key.to_string(),
                    "path": checked.listed.path,
                    "bytes": checked.listed.bytes,
                    "fault": checked.fault.as_ref().map(ToString::to_string),
                })
            })
            .collect();
        output::print_json(&json!({
            "root": store.root(),
            "entries": entries,
            "faulty": faulty,
        }))?;
    } else {
        let mut text = String::new();
        for checked in report.faulty() {
            if let Some(fault) = &checked.fault {
                let _ = writeln!(text, "{}: {fault}", checked.listed.path.display());
            }
        }
        let _ = writeln!(
            text,
            "{} of {} entries are whole, in {}",
            report.entries.len() - faulty,
            report.entries.len(),
            store.root().display()
        );
        output::print(&text)?;
    }
    Ok(if faulty == 0 {
        Outcome::Done
    } else {
        Outcome::Mismatch
    })
}

fn clear(args: &CacheDirArgs) -> Result<Outcome, CliError> {
    let store = open(args.cache.as_deref())?;
    let cleared = store.clear()?;
    if args.json {
        output::print_json(&json!({
            "root": store.root(),
            "entries": cleared.entries,
            "temporaries": cleared.temporaries,
            "bytes": cleared.bytes,
        }))?;
    } else {
        output::print(&format!(
            "removed {} entries and {} leftovers, {}, from {}\n",
            cleared.entries,
            cleared.temporaries,
            output::bytes_text(cleared.bytes),
            store.root().display()
        ))?;
    }
    Ok(Outcome::Done)
}
