//! Every rule of the catalogue, with its sample of captures, through the whole of verification.

use std::sync::Arc;

use maskwright::bucket::Bucket;
use maskwright::catalogue::{self, Catalogue, CatalogueEntry};
use maskwright::ir::RuleKind;
use maskwright::text::{self, LowerOptions};
use maskwright::verify::{VerifyRequest, verify};
use maskwright::{BlockSize, BoundRule, MaskRule, Scope, ScoreRule};

const BATCH: u32 = 2;
const HEADS: u32 = 4;

/// The rule with its sample at these lengths.
pub(crate) fn bound(entry: &CatalogueEntry, q_len: i32, kv_len: i32) -> BoundRule {
    let module = text::parse(entry.source()).unwrap();
    let rule = text::lower(
        &module,
        Some(entry.name),
        &LowerOptions::default(),
        &Catalogue,
    )
    .unwrap();
    let sizes = maskwright::eval::Sizes {
        batch: BATCH as i32,
        num_q_heads: HEADS as i32,
        q_len,
        kv_len,
    };
    let mut sample = entry.sample(&sizes);
    let values = rule.captures.iter().map(|capture| {
        let at = sample.iter().position(|(name, _)| *name == capture.name);
        sample
            .swap_remove(at.expect("the sample has every capture"))
            .1
    });
    let values = values.collect();
    BoundRule::new(Arc::new(rule), values, &[]).unwrap()
}

/// Verifies compiled rule, classes and attention with the dense reference, at every cell.
fn check(entry: &CatalogueEntry) -> Result<(), String> {
    // An odd length, and one that several blocks divide.
    for len in [77, 256] {
        let bound = bound(entry, len, len);
        let scope = Scope::new(Bucket::single(len as u64, len as u64, 0), BATCH, HEADS);
        let (mask, score) = match bound.rule().kind {
            RuleKind::Mask => (Some(MaskRule::new(bound).unwrap()), None),
            RuleKind::Score => (None, Some(ScoreRule::new(bound).unwrap())),
        };
        let mut request = VerifyRequest::new(mask.as_ref(), score.as_ref(), scope);
        request.blocks = vec![BlockSize { q: 64, kv: 64 }, BlockSize { q: 16, kv: 48 }];
        let verified =
            verify(&request).map_err(|fault| format!("{} at {len}: {fault}", entry.name))?;
        let certificate = verified.certificate();
        if mask.is_some() && !certificate.exhaustive {
            return Err(format!(
                "{} at {len}: only a sample was checked",
                entry.name
            ));
        }
    }
    Ok(())
}

#[test]
fn every_rule_is_verified_on_every_engine() {
    let entries = catalogue::entries();
    assert!(24 <= entries.len(), "{} rules", entries.len());
    let faults: Vec<String> = entries
        .iter()
        .filter_map(|entry| check(entry).err())
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
