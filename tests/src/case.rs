//! The case files: a rule in the language, and what it must come to at some sizes and captured values.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use maskwright_dsl::eval::Sizes;
use serde::Deserialize;

use crate::expect::Expected;
use crate::recipe::Recipe;

/// One rule with its cases, as a file of `cases/` holds it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleFile {
    /// Short name, unique in the corpus.
    pub id: String,
    /// What the rule is.
    pub name: String,
    /// Mask or score.
    pub kind: Kind,
    /// Where it was seen: public repositories and papers.
    pub seen: Vec<String>,
    /// What is worth knowing about it.
    #[serde(default)]
    pub note: String,
    /// Scalars that bound loops, and so are declared `const`. All other integers are tried both ways.
    #[serde(default)]
    pub consts: Vec<String>,
    /// The rule, after the functions that it calls.
    pub rule: String,
    /// What it is tried on.
    pub cases: Vec<Case>,
}

/// What a rule computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Which query may see which key.
    Mask,
    /// How a score changes.
    Score,
}

/// Sizes, captured values and expected results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique within the file.
    pub id: String,
    /// Batch rows, query heads, queries, keys.
    pub size: [u32; 4],
    /// Values of scalars, by name.
    #[serde(default)]
    pub scalars: BTreeMap<String, Scalar>,
    /// Captured buffers, by name.
    #[serde(default)]
    pub buffers: BTreeMap<String, BufferSpec>,
    /// Dimension names that no buffer has as a whole extent.
    #[serde(default)]
    pub dims: BTreeMap<String, i32>,
    /// What the rule must come to.
    pub expected: Expected,
}

impl Case {
    /// The sizes of the call.
    pub fn sizes(&self) -> Sizes {
        let [batch, num_q_heads, q_len, kv_len] = self.size.map(|n| n as i32);
        Sizes {
            batch,
            num_q_heads,
            q_len,
            kv_len,
        }
    }

    /// Cells of the score matrix, over all batch rows and heads.
    pub fn cells(&self) -> usize {
        self.size.iter().map(|n| *n as usize).product()
    }
}

/// A scalar as a file spells it; the rule says of what type it is.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer of any type.
    Int(i64),
    /// A float.
    Float(f64),
}

/// A captured buffer.
#[derive(Debug, Deserialize)]
pub struct BufferSpec {
    /// Element type, by its name in the language.
    pub elem: String,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// The elements.
    #[serde(flatten)]
    pub recipe: Recipe,
}

/// All files, in the order of their names.
///
/// # Panics
/// If a file cannot be read.
pub fn corpus() -> &'static [RuleFile] {
    static FILES: OnceLock<Vec<RuleFile>> = OnceLock::new();
    FILES.get_or_init(load)
}

fn load() -> Vec<RuleFile> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("cases");
    let entries = std::fs::read_dir(&folder).expect("the corpus lies beside this package");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).expect("a case file is text");
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
        .collect()
}
