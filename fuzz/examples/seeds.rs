//! Writes the seeds that are not text, from the catalogue: `cargo run --example seeds`, after a change of a format.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::block_mask::{BlockMask, BlockSize};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::catalogue::{Catalogue, find};
use maskwright_dsl::eval::Sizes;
use maskwright_dsl::ir::{RuleKind, encode};
use maskwright_dsl::pipeline::{Scope, prepare};
use maskwright_dsl::text::{LowerOptions, lower, parse};

const RULES: [&str; 10] = [
    "bigbird_random",
    "block_causal_diffusion",
    "document_prefix_lm",
    "per_head_window",
    "padding_left",
    "relative_bias",
    "sliding_window_left_right",
    "strided",
    "t5_buckets",
    "tree",
];

fn main() -> Result<(), Box<dyn Error>> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let sizes = Sizes {
        batch: 2,
        num_q_heads: 2,
        q_len: 37,
        kv_len: 40,
    };
    for name in RULES {
        let entry = find(name).ok_or("the catalogue has no such rule")?;
        let module = parse(entry.source())?;
        let mut rule = lower(&module, Some(name), &LowerOptions::default(), &Catalogue)?;
        // Nothing but the rule itself, so that little of a seed is prose.
        rule.doc.clear();
        rule.source = None;
        fs::write(seeds.join("rule_decode").join(name), encode(&rule))?;
        if entry.kind == RuleKind::Mask {
            let values = entry.sample(&sizes).into_iter().map(|(_, value)| value);
            let bound = BoundRule::new(Arc::new(rule), values.collect(), &[])?;
            let scope = Scope::new(Bucket::single(37, 40, 0), 2, 2);
            let (mask, _) = BlockMask::build(&prepare(&bound, &scope)?, BlockSize { q: 8, kv: 8 })?;
            fs::write(seeds.join("block_mask_import").join(name), mask.to_bytes())?;
        }
    }
    Ok(())
}
