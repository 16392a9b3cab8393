//! Checks of the source tree: what no compiler looks at.

use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// Lines of a file that is no test, above which it surely holds two subjects.
const LINES_AT_MOST: usize = 700;

/// Marks that belong in no file.
const UNWANTED: &[&str] = &["TODO", "FIXME", "XXX"];

/// Reports every untidy file at once.
pub(crate) fn run() -> Result<(), String> {
    let mut faults = Vec::new();
    for path in files()? {
        let name = path
            .strip_prefix(root())
            .unwrap_or(&path)
            .display()
            .to_string();
        if name.ends_with(".snap.new") {
            faults.push(format!("{name}: a snapshot that was not accepted"));
        }
        let Some(extension) = path.extension().and_then(|e| e.to_str()) else {
            continue;
        };
        if !matches!(extension, "rs" | "mask" | "md" | "toml") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|fault| format!("{name}: {fault}"))?;
        check_text(&name, extension, &text, &mut faults);
    }
    check_catalogue(&mut faults)?;
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!("untidy:\n  {}", faults.join("\n  ")))
}

fn check_text(name: &str, extension: &str, text: &str, faults: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t']) && extension == "rs" {
            faults.push(format!("{name}:{}: trailing space", number + 1));
        }
        let is_this_list = name == "xtask/src/tidy.rs";
        if let Some(mark) = UNWANTED
            .iter()
            .find(|mark| line.contains(**mark))
            .filter(|_| !is_this_list)
        {
            faults.push(format!(
                "{name}:{}: {mark}: do it, or leave it out",
                number + 1
            ));
        }
    }
    if extension != "rs" {
        return;
    }
    let is_ui_case = name.starts_with("tests/ui/");
    let has_module_docs = text.starts_with("//!") || text.starts_with("#![doc = include_str!");
    if !has_module_docs && !is_ui_case {
        faults.push(format!(
            "{name}: opens without a `//!` sentence that says what it is"
        ));
    }
    let is_test =
        name.contains("/tests/") || name.ends_with("/tests.rs") || name.starts_with("tests/");
    let lines = text.lines().count();
    if LINES_AT_MOST < lines && !is_test {
        faults.push(format!("{name}: {lines} lines, at most {LINES_AT_MOST}"));
    }
}

/// Every rule file of the catalogue is listed: what is listed is verified on every engine by the tests.
fn check_catalogue(faults: &mut Vec<String>) -> Result<(), String> {
    let folder = root().join("mask-dsl/src/catalogue");
    let list =
        fs::read_to_string(folder.join("mod.rs")).map_err(|fault| format!("catalogue: {fault}"))?;
    let entries = fs::read_dir(&folder).map_err(|fault| format!("catalogue: {fault}"))?;
    for entry in entries {
        let path = entry.map_err(|fault| format!("catalogue: {fault}"))?.path();
        if path.extension().is_none_or(|e| e != "mask") {
            continue;
        }
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !list.contains(&format!(" {stem},")) {
            faults.push(format!("catalogue/{stem}.mask is not listed in mod.rs"));
        }
    }
    Ok(())
}

/// All files of the tree that are ours.
fn files() -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).map_err(|fault| format!("{}: {fault}", folder.display()))?;
        for entry in entries {
            let path = entry
                .map_err(|fault| format!("{}: {fault}", folder.display()))?
                .path();
            if path.is_dir() {
                if !is_foreign(&path) {
                    folders.push(path);
                }
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_foreign(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| {
        name == "target" || name == ".git" || name == "corpus" || name == "artifacts"
    })
}
