//! Artifacts in a store: round trips, misses, the mode without compilation, precompilation.

use std::fs;

use maskwright_dsl::block_mask::BlockSize;
use tempfile::TempDir;

use super::*;
use crate::cache::Store;
use crate::verify::tests::{causal, last_keys, packed_window_of, scope, soft_alibi};
use crate::verify::{VerifyRequest, verify};

type Sections = Vec<(String, Vec<u8>)>;

fn cache(mode: CacheMode) -> (TempDir, ArtifactCache) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    (dir, ArtifactCache::with_mode(store, mode))
}

#[test]
fn an_artifact_survives_the_store() {
    let (_dir, cache) = cache(CacheMode::ReadWrite);
    let (mask, score) = (
        packed_window_of(&[0, 0, 1, 1, 1, 2], 3),
        soft_alibi(&[0.5, 1.0]),
    );
    let mut request = VerifyRequest::new(Some(&mask), Some(&score), scope("1..=6", 1, 2));
    request.blocks.push(BlockSize { q: 2, kv: 3 });
    let verified = verify(&request).unwrap();
    assert_eq!(*verified.key(), artifact_key(&request));
    cache.put(&verified).unwrap();
    let found = cache.get(verified.key()).unwrap();
    assert_eq!(found, verified);
    assert_eq!(found.masks(), verified.masks());
    assert_eq!(
        found.mask().unwrap().identity(),
        mask.bound().rule().identity()
    );
    assert!(found.block_mask(BlockSize { q: 2, kv: 3 }).is_some());
    let names: Vec<String> = verified
        .to_entry()
        .sections
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        [
            "rule.mask",
            "rule.score",
            "mask.128x128",
            "mask.2x3",
            "certificate.json",
            "report.json"
        ]
    );
}

#[test]
fn what_was_stored_is_found_and_what_is_damaged_is_verified_again() {
    let (_dir, cache) = cache(CacheMode::ReadWrite);
    let rule = causal();
    let request = VerifyRequest::of_mask(&rule, scope("1..=90", 1, 1));
    assert!(!cache.get_or_verify(&request).unwrap().cached);
    assert!(cache.get_or_verify(&request).unwrap().cached);

    let path = cache.store().entry_path(&artifact_key(&request));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(cache.get(&artifact_key(&request)).is_none());
    assert!(!cache.get_or_verify(&request).unwrap().cached);
    assert!(cache.get_or_verify(&request).unwrap().cached);

    // Hashes that were not asked for before.
    let request = VerifyRequest {
        want_packbits: true,
        ..request
    };
    assert!(!cache.get_or_verify(&request).unwrap().cached);
    assert!(cache.get_or_verify(&request).unwrap().cached);
}

#[test]
fn an_entry_of_other_versions_or_parts_is_a_miss() {
    let (_dir, cache) = cache(CacheMode::ReadWrite);
    let rule = causal();
    let request = VerifyRequest::of_mask(&rule, scope("1..=20", 1, 1));
    let verified = verify(&request).unwrap();
    let key = verified.key();
    let miss = |change: &dyn Fn(&mut Sections)| {
        let mut entry = verified.to_entry();
        change(&mut entry.sections);
        cache.store().put(key, &entry).unwrap();
        cache.get_explained(key).unwrap_err().to_string()
    };
    let certificate = |sections: &mut Sections, from: &str, to: &str| {
        let (_, bytes) = sections
            .iter_mut()
            .find(|(name, _)| name == "certificate.json")
            .unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.contains(from));
        *bytes = text.replace(from, to).into_bytes();
    };
    let cranelift = format!(
        "\"cranelift\": \"{}\"",
        verified.certificate().versions.cranelift
    );
    let text = miss(&|sections| certificate(sections, &cranelift, "\"cranelift\": \"0.1.0\""));
    assert!(
        text.starts_with("expected an artifact of Versions"),
        "{text}"
    );
    let text = miss(&|sections| certificate(sections, "1..=20", "1..=21"));
    assert_eq!(
        text,
        "section `mask.128x128` holds a mask of [B=1, H=1, 1..=20, block 128x128]"
    );
    let text = miss(&|sections| sections.retain(|(name, _)| name != "rule.mask"));
    assert_eq!(text, "expected a section `rule.mask`, found none");
    let text = miss(&|sections| sections[0].1.truncate(3));
    assert_eq!(text, "section `rule.mask` is no rule");
}

#[test]
fn without_compilation_a_miss_says_what_is_missing() {
    let (dir, cache) = cache(CacheMode::NoCompile);
    let rule = causal();
    let request = VerifyRequest::of_mask(&rule, scope("1..=90", 2, 3));
    let error = cache.get_or_verify(&request).unwrap_err();
    let key = artifact_key(&request);
    assert_eq!(
        error.to_string(),
        format!(
            "there is no verified artifact of rule causal for bucket 1..=90, batch 2, 3 heads, blocks of 128x128: expected key {key} at {}, and may not compile (MASKWRIGHT_NO_COMPILE)",
            dir.path().join(format!("{key}.mwentry")).display()
        )
    );
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "no such entry");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

    cache.put(&verify(&request).unwrap()).unwrap();
    assert!(cache.get_or_verify(&request).unwrap().cached);
}

#[test]
fn a_key_depends_on_what_the_artifact_depends_on() {
    let mask = packed_window_of(&[0, 0, 1], 3);
    let same = packed_window_of(&[0, 0, 1], 3);
    let score = soft_alibi(&[0.5]);
    let base = VerifyRequest::new(Some(&mask), Some(&score), scope("1..=3", 1, 1));
    let key = artifact_key(&base);
    let with = |change: &dyn Fn(&mut VerifyRequest<'_>)| {
        let mut request = base.clone();
        change(&mut request);
        artifact_key(&request)
    };
    // What an artifact does not depend on.
    let other_score = soft_alibi(&[0.25]);
    assert_eq!(
        key,
        artifact_key(&VerifyRequest {
            mask: Some(&same),
            ..base.clone()
        })
    );
    assert_eq!(
        key,
        artifact_key(&VerifyRequest {
            score: Some(&other_score),
            ..base.clone()
        })
    );
    assert_eq!(key, with(&|request| request.seed = 9));
    assert_eq!(
        key,
        with(&|request| request.blocks = vec![BlockSize::default(); 2])
    );
    assert_eq!(key, with(&|request| request.budget_secs = 9.0));
    // What it depends on.
    let (docs, window) = (
        packed_window_of(&[0, 1, 1], 3),
        packed_window_of(&[0, 0, 1], 2),
    );
    let causal = causal();
    let others = [
        artifact_key(&VerifyRequest {
            mask: Some(&docs),
            ..base.clone()
        }),
        artifact_key(&VerifyRequest {
            mask: Some(&window),
            ..base.clone()
        }),
        artifact_key(&VerifyRequest {
            mask: Some(&causal),
            ..base.clone()
        }),
        artifact_key(&VerifyRequest {
            score: None,
            ..base.clone()
        }),
        with(&|request| request.scope.batch = 2),
        with(&|request| request.scope.num_q_heads = 2),
        with(&|request| request.scope = scope("1..=2", 1, 1)),
        with(&|request| request.blocks = vec![BlockSize { q: 64, kv: 64 }]),
    ];
    for (i, other) in others.iter().enumerate() {
        assert_ne!(key, *other, "{i}");
        assert!(!others[..i].contains(other), "{i}");
    }
}

#[test]
fn rules_and_buckets_are_precompiled_with_progress() {
    let (_dir, cache) = cache(CacheMode::ReadWrite);
    let (causal, last) = (causal(), last_keys());
    let rules = [&causal, &last].map(|mask| RulePair {
        mask: Some(mask),
        score: None,
    });
    let scopes = [scope("1..=64", 1, 2), scope("q=1,kv=200..=300", 1, 2)];
    let settings = PrecompileSettings {
        blocks: vec![BlockSize { q: 16, kv: 16 }],
        ..PrecompileSettings::default()
    };
    let mut seen = Vec::new();
    let mut run = || {
        precompile(
            &rules,
            &scopes,
            &settings,
            &cache,
            |progress| match progress {
                PrecompileProgress::Started { index, total, .. } => seen.push((*index, *total)),
                PrecompileProgress::Done { outcome, .. } => assert!(outcome.is_verified()),
            },
        )
    };
    let (first, second) = (run(), run());
    assert_eq!(seen[..4], [(0, 4), (1, 4), (2, 4), (3, 4)]);
    for (outcomes, was_cached) in [(&first, false), (&second, true)] {
        for outcome in outcomes {
            let Verdict::Verified {
                cached,
                exhaustive,
                mask_bytes,
                coarse,
                ..
            } = &outcome.verdict
            else {
                panic!("{outcome:?}");
            };
            assert_eq!(*cached, was_cached);
            assert!(*exhaustive && 0 < *mask_bytes);
            // Only the rule that reads a length has a mask that is coarser than it could be.
            assert_eq!(coarse.is_empty(), outcome.rule == "causal", "{outcome:?}");
            for coarse in coarse {
                assert!(coarse.decided <= coarse.partial && coarse.partial <= coarse.blocks);
            }
        }
    }
    let Verdict::Verified { coarse, .. } = &first[3].verdict else {
        panic!("{first:?}");
    };
    // With 300 keys the last 40 are seen by head 1: blocks 0..=15 of 19 are empty, of which the bucket proves none.
    let longest = coarse
        .iter()
        .find(|coarse| coarse.member.kv_len == 300)
        .unwrap();
    assert_eq!((longest.blocks, longest.member.q_len), (2 * 19, 1));
    assert!(0.0 < longest.percent() && longest.percent() <= 100.0);
    assert!(
        longest
            .to_string()
            .starts_with("at q=1 kv=300 offset 0, blocks of 16x16: ")
    );
}

#[test]
fn a_rule_that_fails_does_not_stop_the_others() {
    let (_dir, cache) = cache(CacheMode::ReadWrite);
    let causal = causal();
    let rules = [
        RulePair {
            mask: None,
            score: None,
        },
        RulePair {
            mask: Some(&causal),
            score: None,
        },
    ];
    let outcomes = precompile(
        &rules,
        &[scope("1..=9", 1, 1)],
        &PrecompileSettings::default(),
        &cache,
        |_| {},
    );
    assert_eq!(
        outcomes
            .iter()
            .map(PrecompileOutcome::is_verified)
            .collect::<Vec<_>>(),
        [false, true]
    );
}
