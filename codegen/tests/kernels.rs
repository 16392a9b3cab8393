//! Every spec has a plan, and the text of a few kernels is kept to be read.

use std::sync::Arc;

use maskwright_codegen::back::cuda::{CudaError, emit_forward};
use maskwright_codegen::plan::{KernelPlan, PlanError, plan};
use maskwright_codegen::spec::{Float, KernelKind, KernelSpec, Target, TileSize};
use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::catalogue::{Catalogue, find};
use maskwright_dsl::eval::Sizes;
use maskwright_dsl::pipeline::{Prepared, Scope, prepare};
use maskwright_dsl::text::{LowerOptions, lower, parse};

const FLOATS: [Float; 3] = [Float::F16, Float::BF16, Float::F32];

/// Shared memory that a block may have on every GPU from `sm_80` on.
const SHARED_ANYWHERE: u32 = 99 * 1024;

fn spec(dtype: Float, d_qk: u32, d_v: u32) -> KernelSpec {
    KernelSpec {
        kind: KernelKind::Forward,
        target: Target::SM80,
        dtype,
        out_dtype: dtype,
        d_qk,
        d_v,
        tile: None,
    }
}

/// A rule of the catalogue with its sample, for self-attention up to 4,096 tokens.
fn rule(name: &str) -> Prepared {
    let entry = find(name).expect("the catalogue has it");
    let module = parse(entry.source()).expect("the catalogue is well-formed");
    let rule = lower(
        &module,
        Some(entry.name),
        &LowerOptions::default(),
        &Catalogue,
    )
    .expect("the catalogue is well-formed");
    let sizes = Sizes {
        batch: 1,
        num_q_heads: 8,
        q_len: 4096,
        kv_len: 4096,
    };
    let values = entry.sample(&sizes).into_iter().map(|(_, value)| value);
    let bound = BoundRule::new(Arc::new(rule), values.collect(), &[]).expect("the sample fits");
    let scope = Scope::new(Bucket::self_attention(1..=4096), 1, 8);
    prepare(&bound, &scope).expect("the rule keeps its promises")
}

/// Whether every warp has whole fragments, every copy whole rows, and no tile lies in another.
#[track_caller]
fn check_legal(plan: &KernelPlan) {
    let KernelPlan { spec, shared, .. } = plan;
    let name = format!("{spec:?}");
    assert_eq!(plan.tile.q, 16 * plan.row_blocks * plan.warps, "{name}");
    assert!(plan.tile.kv.is_multiple_of(16), "{name}");
    assert!(matches!(plan.warps, 4 | 8), "{name}");
    for block in [128, 256] {
        assert!(plan.tile.q <= block && block % plan.tile.q == 0, "{name}");
        assert!(plan.tile.kv <= block && block % plan.tile.kv == 0, "{name}");
    }
    let mut end = 0;
    for (tile, rows, d, stages) in [
        (&shared.q, plan.tile.q, spec.d_qk, 1),
        (&shared.k, plan.tile.kv, spec.d_qk, plan.stages),
        (&shared.v, plan.tile.kv, spec.d_v, plan.stages),
    ] {
        assert_eq!(tile.at, end, "{name}");
        assert!(tile.at.is_multiple_of(16), "{name}");
        assert_eq!(tile.rows, rows, "{name}");
        assert_eq!(tile.filled * 16, d * spec.dtype.bytes(), "{name}");
        assert!(tile.filled <= tile.chunks, "{name}");
        assert!(tile.chunks * 16 <= tile.pitch, "{name}");
        assert!(tile.chunks.is_multiple_of(tile.lanes), "{name}");
        assert!(plan.threads().is_multiple_of(tile.lanes), "{name}");
        assert!(tile.mask < tile.chunks, "{name}");
        end += stages * tile.bytes();
    }
    assert_eq!(shared.bytes, end, "{name}");
    // Q and K are multiplied chunk by chunk, two at a time.
    assert_eq!(shared.q.chunks, shared.k.chunks, "{name}");
    assert!(shared.k.chunks.is_multiple_of(2), "{name}");
}

#[test]
fn every_spec_has_a_plan() {
    for dtype in FLOATS {
        for out_dtype in [dtype, Float::F32] {
            for d_qk in (16..=256).step_by(8) {
                for d_v in (16..=256).step_by(8) {
                    let spec = KernelSpec {
                        out_dtype,
                        ..spec(dtype, d_qk, d_v)
                    };
                    let plan = plan(&spec, None, None).expect("the table has a row");
                    check_legal(&plan);
                    assert!(plan.shared.bytes <= SHARED_ANYWHERE, "{spec:?}");
                }
            }
        }
    }
}

#[test]
fn a_tile_that_is_asked_for_is_planned_or_refused() {
    for (dtype, d) in FLOATS
        .into_iter()
        .flat_map(|dtype| (16..=256).step_by(8).map(move |d| (dtype, d)))
    {
        for (q, kv) in [64, 128]
            .into_iter()
            .flat_map(|q| [16, 32, 64, 128].map(|kv| (q, kv)))
        {
            let spec = KernelSpec {
                tile: Some(TileSize { q, kv }),
                ..spec(dtype, d, d)
            };
            match plan(&spec, None, None) {
                Ok(plan) => {
                    check_legal(&plan);
                    assert_eq!(Some(plan.tile), spec.tile);
                    assert!(plan.shared.bytes <= 163 * 1024, "{spec:?}");
                }
                Err(
                    PlanError::Registers { needed, limit, .. }
                    | PlanError::SharedMemory { needed, limit, .. },
                ) => assert!(limit < needed),
                Err(error) => panic!("{spec:?}: {error}"),
            }
        }
    }
}

#[track_caller]
fn check_refused(spec: &KernelSpec, expected: &str) {
    let error = plan(spec, None, None).expect_err("the spec is refused");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn specs_without_a_kernel_are_refused() {
    let good = spec(Float::BF16, 64, 64);
    check_refused(
        &KernelSpec { d_qk: 20, ..good },
        "expected d_qk to be a multiple of 8 from 16 to 256, found 20",
    );
    check_refused(
        &KernelSpec { d_v: 264, ..good },
        "expected d_v to be a multiple of 8 from 16 to 256, found 264",
    );
    check_refused(
        &KernelSpec {
            out_dtype: Float::F16,
            ..good
        },
        "expected an output of bf16 or f32, found f16",
    );
    let tile = |q, kv| Some(TileSize { q, kv });
    check_refused(
        &KernelSpec {
            tile: tile(96, 64),
            ..good
        },
        "expected a tile of 64 or 128 rows by 16, 32, 64 or 128 keys, found 96 by 64",
    );
    check_refused(
        &KernelSpec {
            tile: tile(128, 128),
            ..spec(Float::BF16, 256, 256)
        },
        "a tile of 128 rows by 128 keys takes 196608 bytes of shared memory, sm_80 has 166912",
    );
    check_refused(
        &KernelSpec {
            tile: tile(128, 64),
            target: "sm_86".parse().expect("a target"),
            ..spec(Float::F32, 256, 64)
        },
        "a tile of 128 rows by 64 keys takes 214016 bytes of shared memory, sm_86 has 101376",
    );
}

#[test]
fn rules_stand_in_their_places() {
    let causal = rule("causal");
    let spec = spec(Float::BF16, 64, 64);
    let error = plan(&spec, None, Some(&causal)).expect_err("a mask is no score_mod");
    assert_eq!(
        error.to_string(),
        "expected a score_mod, found the rule `causal`"
    );
    let plan = plan(&spec, None, None).expect("the table has a row");
    let error = emit_forward(&plan, Some(&causal), None).expect_err("the plan knows no mask");
    assert!(matches!(error, CudaError::Planned { planned: false, .. }));
    assert_eq!(
        error.to_string(),
        "the kernel was planned without a mask, but got one"
    );
}

#[test]
fn tiles_leave_registers_to_the_rules() {
    let tile = |mask: &str, score: Option<&str>| {
        let (mask, score) = (rule(mask), score.map(rule));
        let plan = plan(&spec(Float::BF16, 128, 128), Some(&mask), score.as_ref());
        let plan = plan.expect("the table has a row");
        check_legal(&plan);
        (plan.tile.q, plan.tile.kv, plan.row_blocks)
    };
    assert_eq!(tile("causal", Some("alibi")), (128, 32, 2));
    assert_eq!(tile("sliding_window", None), (128, 32, 2));
    assert_eq!(tile("document_causal", None), (64, 64, 1));
    assert_eq!(tile("causal", Some("relative_bias")), (64, 32, 1));
}

#[track_caller]
fn emitted(spec: &KernelSpec, mask: Option<&str>, score: Option<&str>) -> String {
    let (mask, score) = (mask.map(rule), score.map(rule));
    let plan = plan(spec, mask.as_ref(), score.as_ref()).expect("the spec has a plan");
    let source = emit_forward(&plan, mask.as_ref(), score.as_ref()).expect("the rules have texts");
    assert_eq!(source.threads, plan.threads());
    assert_eq!(source.shared_bytes, plan.shared.bytes);
    source.text
}

#[test]
fn causal_bf16_64() {
    let text = emitted(&spec(Float::BF16, 64, 64), Some("causal"), None);
    insta::assert_snapshot!(text);
}

#[test]
fn sliding_window_alibi_f16_128() {
    let text = emitted(
        &spec(Float::F16, 128, 128),
        Some("sliding_window"),
        Some("alibi"),
    );
    insta::assert_snapshot!(text);
}

#[test]
fn dense_f32_64() {
    let text = emitted(&spec(Float::F32, 64, 64), None, None);
    insta::assert_snapshot!(text);
}
