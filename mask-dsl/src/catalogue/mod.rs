//! The masks and score rules that ship with Maskwright: one file each, with the paper that introduced it.

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use crate::ir::Source;
use crate::text::{Library, Module, parse};

/// One rule of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// The name of the rule and of its file.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
    /// Where the rule was introduced.
    pub paper: &'static str,
}

macro_rules! entry {
    ($name:literal, $paper:literal) => {
        CatalogueEntry {
            name: $name,
            text: include_str!(concat!($name, ".mask")),
            paper: $paper,
        }
    };
}

static ENTRIES: [CatalogueEntry; 6] = [
    entry!("alibi", "arXiv:2108.12409"),
    entry!("causal", "arXiv:1706.03762"),
    entry!("causal_bottom_right", "arXiv:2307.08691"),
    entry!("full", "arXiv:1706.03762"),
    entry!("sliding_window", "arXiv:2004.05150"),
    entry!("softcap", "arXiv:2408.00118"),
];

/// Every rule of the catalogue, by name.
pub fn entries() -> &'static [CatalogueEntry] {
    &ENTRIES
}

/// The entry called `name`.
pub fn find(name: &str) -> Option<&'static CatalogueEntry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

impl CatalogueEntry {
    /// The text with its name.
    pub fn source(&self) -> Arc<Source> {
        Arc::new(Source {
            name: format!("{}.mask", self.name),
            text: self.text.to_owned(),
        })
    }
}

/// The catalogue as a library: texts may call its rules by name.
///
/// # Example
/// ```
/// use maskwright_dsl::catalogue::Catalogue;
/// use maskwright_dsl::ir::RuleKind;
/// use maskwright_dsl::text::{LowerOptions, lower_expression};
///
/// let options = LowerOptions::default();
/// let rule = lower_expression("causal() && h % 2 == 0", RuleKind::Mask, &options, &Catalogue)?;
/// assert!(rule.captures.is_empty());
/// # Ok::<(), maskwright_dsl::diagnostic::Diagnostics>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Catalogue;

impl Library for Catalogue {
    fn find(&self, name: &str) -> Option<(Arc<Module>, usize)> {
        static MODULES: OnceLock<Vec<Arc<Module>>> = OnceLock::new();
        let modules = MODULES.get_or_init(|| {
            ENTRIES
                .iter()
                .map(|entry| Arc::new(parse(entry.source()).expect("a test parses every entry")))
                .collect()
        });
        modules.iter().find_map(|module| {
            let at = module.items.iter().position(|i| i.name.text == name)?;
            Some((Arc::clone(module), at))
        })
    }
}
