//! What compilers make of the kernels: instructions of a few, and registers and notes of all.

use maskwright::catalogue;
use maskwright::cuda::{Float, KernelShape, KernelText, Target};
use maskwright::ir::RuleKind;
use maskwright::prepare;
use maskwright_tests::bare::{Bare, machine_code_stats};
use maskwright_tests::work::{copies_of_warp, matrix_loads_of_warp, products_of_warp};
use rayon::prelude::*;

use super::{compile, free, has_compiler, rules, text};
use crate::catalogue::bound;

/// Instructions of a PTX text that begin so.
fn count(ptx: &str, prefix: &str) -> u32 {
    let lines = ptx.lines().map(str::trim_start);
    lines.filter(|line| line.starts_with(prefix)).count() as u32
}

/// Tensor-core products, loads of matrices, and asynchronous copies: as written down here, and as the plan says.
#[track_caller]
fn check_counts(name: &str, dtype: Float, d: u32, expected: [u32; 3]) {
    let kernel = compile(&rules(name, 4096), &free(4096, 4096, 1, 8));
    let (mask, score) = (kernel.prepared_mask(), kernel.prepared_score());
    let bare = Bare::compile(&text(dtype, (d, d), mask, score, None));
    let bare = bare.unwrap_or_else(|e| panic!("{e}"));
    let plan = &bare.plan;
    let [q, k, v] =
        [&plan.shared.q, &plan.shared.k, &plan.shared.v].map(|shared| copies_of_warp(plan, shared));
    // The first tiles are copied before the loop, the next ones in it.
    let copies = if plan.stages == 2 {
        q + 2 * (k + v)
    } else {
        q + 2 * k + v
    };
    let planned = [products_of_warp(plan), matrix_loads_of_warp(plan), copies];
    let found = ["mma.sync", "ldmatrix", "cp.async.cg"].map(|prefix| count(&bare.ptx, prefix));
    assert_eq!(found, planned, "{name} {dtype} {d}");
    assert_eq!(found, expected, "{name} {dtype} {d}");
    let waits = count(&bare.ptx, "cp.async.wait_group");
    let barriers = count(&bare.ptx, "bar.sync");
    assert_eq!((waits, barriers), (2, 2), "{name} {dtype} {d}");
}

#[test]
fn instructions_of_three_kernels() {
    if has_compiler() {
        check_counts("causal", Float::BF16, 64, [128, 40, 24]);
        check_counts("alibi", Float::F16, 128, [128, 48, 32]);
        check_counts("none", Float::F32, 64, [384, 32, 32]);
    }
}

/// What the compiler of machine code has against a kernel: spilled registers, a stack, or a note that it changed the code.
fn fault(text: &KernelText) -> Option<String> {
    let stats = match machine_code_stats(text) {
        Ok(stats) => stats,
        Err(error) => return Some(error),
    };
    let [stats] = &stats[..] else {
        return Some(format!("statistics of {} kernels", stats.len()));
    };
    let memory = (stats.spill_stores, stats.spill_loads, stats.stack_frame);
    (memory != (0, 0, 0) || !stats.notes.is_empty()).then(|| format!("{stats:?}"))
}

#[test]
fn rules_of_the_catalogue_neither_spill_nor_draw_remarks() {
    if !has_compiler() {
        return;
    }
    let mut cases = Vec::new();
    for entry in catalogue::entries() {
        for (target, dtype, d) in [
            ("sm_80", Float::BF16, 64),
            ("sm_80", Float::F16, 128),
            ("sm_90a", Float::BF16, 64),
            ("sm_90a", Float::BF16, 128),
            ("sm_120a", Float::BF16, 128),
        ] {
            cases.push((entry, target, dtype, d));
        }
    }
    let faults: Vec<String> = cases
        .par_iter()
        .filter_map(|&(entry, target, dtype, d)| {
            let bound = bound(entry, 4096, 4096);
            let scope = maskwright::Scope::new(maskwright::Bucket::self_attention(1..=4096), 2, 4);
            let prepared = prepare(&bound, &scope).expect("the catalogue keeps its promises");
            let (mask, score) = match bound.rule().kind {
                RuleKind::Mask => (Some(&prepared), None),
                RuleKind::Score => (None, Some(&prepared)),
            };
            let target: Target = target.parse().expect("it is a target");
            let shape = KernelShape {
                dtype,
                out_dtype: dtype,
                d_qk: d,
                d_v: d,
                blocks: None,
            };
            let what = format!("{} {dtype} {d} {target}", entry.name);
            let fault = match KernelText::new(mask, score, &shape, target) {
                Ok(text) => fault(&text),
                Err(error) => Some(error.to_string()),
            };
            fault.map(|fault| format!("{what}: {fault}"))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
