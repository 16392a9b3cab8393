//! The masks and score rules that ship with Maskwright: one file each, with the paper that introduced it.

mod sample;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use crate::capture::CaptureValue;
use crate::eval::Sizes;
use crate::ir::{RuleKind, Source};
use crate::text::{Library, Module, parse};

/// Captured values by name, in the order in which a rule declares them.
type Captures = Vec<(&'static str, CaptureValue)>;

/// One rule of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct CatalogueEntry {
    /// The name of the rule and of its file.
    pub name: &'static str,
    /// Whether it is a mask or changes scores.
    pub kind: RuleKind,
    /// The file.
    pub text: &'static str,
    /// Where the rule was introduced: authors, year and arXiv number, as in the file.
    pub paper: &'static str,
    sample: fn(&Sizes) -> Captures,
}

macro_rules! entry {
    ($kind:ident $name:ident, $paper:literal) => {
        CatalogueEntry {
            name: stringify!($name),
            kind: RuleKind::$kind,
            text: include_str!(concat!(stringify!($name), ".mask")),
            paper: $paper,
            sample: sample::$name,
        }
    };
}

/// By name.
static ENTRIES: [CatalogueEntry; 39] = [
    entry!(Score alibi, "Press et al. 2022, arXiv:2108.12409"),
    entry!(Score alibi_computed, "Press et al. 2022, arXiv:2108.12409"),
    entry!(Mask bigbird_random, "Zaheer et al. 2020, arXiv:2007.14062"),
    entry!(Mask block_causal_diffusion, "Arriola et al. 2025, arXiv:2503.09573"),
    entry!(Mask causal, "Vaswani et al. 2017, arXiv:1706.03762"),
    entry!(Mask causal_bottom_right, "Dao 2023, arXiv:2307.08691"),
    entry!(Mask chunked, "Meta AI 2025, Llama 4"),
    entry!(Mask decode_offset, "Dong et al. 2024, arXiv:2412.05496"),
    entry!(Mask decode_offset_per_batch, "Kwon et al. 2023, arXiv:2309.06180"),
    entry!(Mask dilated_window, "Beltagy et al. 2020, arXiv:2004.05150"),
    entry!(Mask document, "Krell et al. 2021, arXiv:2107.02027"),
    entry!(Mask document_causal, "Grattafiori et al. 2024, arXiv:2407.21783"),
    entry!(Mask document_prefix_lm, "Wang et al. 2024, arXiv:2410.01359"),
    entry!(Mask flashmask_columns, "Wang et al. 2024, arXiv:2410.01359"),
    entry!(Mask full, "Vaswani et al. 2017, arXiv:1706.03762"),
    entry!(Mask global_window, "Beltagy et al. 2020, arXiv:2004.05150"),
    entry!(Score learned_bias, "Ying et al. 2021, arXiv:2106.05234"),
    entry!(Mask natten_1d, "Hassani et al. 2022, arXiv:2204.07143"),
    entry!(Mask natten_2d, "Hassani et al. 2022, arXiv:2204.07143"),
    entry!(Mask padding_left, "Wolf et al. 2020, arXiv:1910.03771"),
    entry!(Mask padding_right, "Wolf et al. 2020, arXiv:1910.03771"),
    entry!(Mask per_head_window, "Sukhbaatar et al. 2019, arXiv:1905.07799"),
    entry!(Mask prefix_lm, "Raffel et al. 2020, arXiv:1910.10683"),
    entry!(Mask prefix_lm_per_batch, "Raffel et al. 2020, arXiv:1910.10683"),
    entry!(Score relative_bias, "Shaw et al. 2018, arXiv:1803.02155"),
    entry!(Mask retrieval_heads, "Xiao et al. 2024, arXiv:2410.10819"),
    entry!(Mask shared_prefix, "Wang et al. 2024, arXiv:2410.01359"),
    entry!(Mask sinks_window, "Xiao et al. 2023, arXiv:2309.17453"),
    entry!(Mask sliding_window, "Beltagy et al. 2020, arXiv:2004.05150"),
    entry!(Mask sliding_window_left_right, "Dao 2023, arXiv:2307.08691"),
    entry!(Mask sliding_window_symmetric, "Beltagy et al. 2020, arXiv:2004.05150"),
    entry!(Score softcap, "Gemma Team 2024, arXiv:2408.00118"),
    entry!(Mask sparse_fixed, "Child et al. 2019, arXiv:1904.10509"),
    entry!(Mask strided, "Child et al. 2019, arXiv:1904.10509"),
    entry!(Score swin_bias, "Liu et al. 2021, arXiv:2103.14030"),
    entry!(Score t5_buckets, "Raffel et al. 2020, arXiv:1910.10683"),
    entry!(Score temperature, "Nakanishi 2025, arXiv:2501.19399"),
    entry!(Mask tree, "Miao et al. 2023, arXiv:2305.09781"),
    entry!(Mask var_levels, "Tian et al. 2024, arXiv:2404.02905"),
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

    /// Values for the captures of the rule, by name and in the order of its declaration: the same for the same sizes,
    /// and chosen so that the rule shows what it does at these lengths.
    ///
    /// They keep what the rule declares at every size up to the one given, so a bucket takes the sample of its
    /// greatest sizes. Rules that look queries up in a buffer of `kv_len` elements need `q_len <= kv_len`, with any
    /// values.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use maskwright_dsl::bind::BoundRule;
    /// use maskwright_dsl::bucket::Bucket;
    /// use maskwright_dsl::catalogue::{Catalogue, find};
    /// use maskwright_dsl::eval::Sizes;
    /// use maskwright_dsl::pipeline::{Scope, prepare};
    /// use maskwright_dsl::text::{LowerOptions, lower, parse};
    ///
    /// let entry = find("document_causal").expect("the catalogue has it");
    /// let module = parse(entry.source())?;
    /// let rule = lower(&module, Some(entry.name), &LowerOptions::default(), &Catalogue)?;
    /// let sizes = Sizes { batch: 1, num_q_heads: 8, q_len: 4096, kv_len: 4096 };
    /// let values = entry.sample(&sizes).into_iter().map(|(_, value)| value).collect();
    /// let bound = BoundRule::new(Arc::new(rule), values, &[])?;
    /// prepare(&bound, &Scope::new(Bucket::self_attention(1..=4096), 1, 8))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sample(&self, sizes: &Sizes) -> Vec<(&'static str, CaptureValue)> {
        (self.sample)(sizes)
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
        // What else a file defines is its own.
        let file = ENTRIES.iter().position(|entry| entry.name == name)?;
        let module = &modules[file];
        let at = module.items.iter().position(|i| i.name.text == name)?;
        Some((Arc::clone(module), at))
    }
}
