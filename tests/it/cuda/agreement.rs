//! Attention against dense attention in `f64`: types, head dimensions, groups of heads, lengths.

use maskwright::cuda::Float;
use maskwright_tests::call::{Extents, Inputs, Setting};
use rayon::prelude::*;

use super::{RULES, TYPES, check, compile, exact, free, has_compiler, nothing_kept, rules};

const HEAD_DIMS: [(usize, usize); 8] = [
    (16, 16),
    (40, 40),
    (64, 64),
    (96, 96),
    (128, 128),
    (192, 192),
    (256, 256),
    (192, 128),
];

/// Collects what went wrong in any case.
#[track_caller]
fn all<T: Sync>(cases: &[T], check: impl Fn(&T) -> Result<(), String> + Sync) {
    let faults: Vec<String> = cases
        .par_iter()
        .filter_map(|case| check(case).err())
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(!cases.is_empty());
}

#[test]
fn every_type_and_head_dimension() {
    if !has_compiler() {
        return;
    }
    // Every rule at one dimension, and one rule at each of the others.
    let mut cases = Vec::new();
    for (t, dtype) in TYPES.into_iter().enumerate() {
        for (i, dims) in HEAD_DIMS.into_iter().enumerate() {
            for (r, name) in RULES.into_iter().enumerate() {
                if dims == (64, 64) || (3 * i + t) % RULES.len() == r {
                    cases.push((dtype, dims, name));
                }
            }
        }
    }
    let kernels = nothing_kept();
    all(&cases, |&(dtype, (d_qk, d_v), name)| {
        let kernel = compile(&rules(name, 600), &free(300, 300, 1, 2));
        for (q_len, kv_len, q_offset) in [(150, 171, 40), (70, 70, 0)] {
            let extents = Extents {
                d_qk,
                d_v,
                kv_heads: 1,
                ..Extents::new(q_len, kv_len, d_qk)
            };
            let mask = exact(&kernel, extents, q_offset, (128, 128));
            let setting = Setting {
                q_offset,
                block_mask: Some(&mask),
                ..Setting::new(&kernels)
            };
            check(&kernel, &Inputs::drawn(extents, dtype, 1), &setting)
                .map_err(|fault| format!("{dtype} {d_qk},{d_v} {name} {q_len}: {fault}"))?;
        }
        Ok(())
    });
}

#[test]
fn groups_of_query_heads() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    let kernel = compile(&rules("window", 0), &free(200, 200, 2, 16));
    let ratios = [1, 3, 7, 8];
    all(&ratios, |&ratio| {
        let extents = Extents {
            batch: 2,
            heads: 2 * ratio,
            ..Extents::new(70, 133, 64)
        };
        for dtype in [Float::BF16, Float::F32] {
            let setting = Setting {
                q_offset: 63,
                ..Setting::new(&kernels)
            };
            check(&kernel, &Inputs::drawn(extents, dtype, 2), &setting)
                .map_err(|fault| format!("{ratio} heads a group, {dtype}: {fault}"))?;
        }
        Ok(())
    });
}

#[test]
fn lengths_around_tiles() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    for (dtype, d, name) in [
        (Float::BF16, 64, "window"),
        (Float::F16, 256, "documents"),
        (Float::F32, 40, "causal"),
    ] {
        let kernel = compile(&rules(name, 1000), &free(200, 200, 1, 2));
        let lengths = [0, 1, 63, 64, 65, 127, 128, 129];
        let pairs: Vec<(usize, usize)> = lengths
            .into_iter()
            .flat_map(|q_len| lengths.map(|kv_len| (q_len, kv_len)))
            .collect();
        all(&pairs, |&(q_len, kv_len)| {
            let extents = Extents {
                kv_heads: 1,
                ..Extents::new(q_len, kv_len, d)
            };
            // Rows beyond the keys, and keys beyond the rows.
            for q_offset in [0, 50] {
                let setting = Setting {
                    q_offset,
                    ..Setting::new(&kernels)
                };
                check(&kernel, &Inputs::drawn(extents, dtype, 3), &setting)
                    .map_err(|fault| format!("{dtype} {q_len} x {kv_len}: {fault}"))?;
            }
            Ok(())
        });
    }
}

#[test]
fn every_residue_of_a_tile() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    let kernel = compile(&rules("causal", 0), &free(300, 300, 1, 1));
    let residues: Vec<usize> = (0..128).collect();
    all(&residues, |&residue| {
        let extents = Extents {
            heads: 1,
            kv_heads: 1,
            ..Extents::new(128 + residue, 64 + residue, 64)
        };
        let mask = exact(&kernel, extents, 0, (128, 64));
        let setting = Setting {
            block_mask: Some(&mask),
            ..Setting::new(&kernels)
        };
        let ran = check(&kernel, &Inputs::drawn(extents, Float::BF16, 4), &setting)
            .map_err(|fault| format!("residue {residue}: {fault}"))?;
        // The residues of rows and of keys are all those of the tile.
        assert_eq!((ran.plan.tile.q, 128 % ran.plan.tile.kv), (128, 0));
        Ok(())
    });
}

#[test]
fn one_compiled_kernel_serves_a_bucket_with_one_mask() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    let kernel = compile(&rules("window", 0), &free(300, 300, 1, 2));
    for block in [(128, 128), (64, 256), (32, 16), (1, 1)] {
        let block = maskwright::BlockSize {
            q: block.0,
            kv: block.1,
        };
        let mask = kernel.block_mask(block).expect("the scope has blocks");
        let lengths = [(1, 300), (65, 65), (200, 199), (300, 300)];
        all(&lengths, |&(q_len, kv_len)| {
            let setting = Setting {
                block_mask: Some(&mask),
                ..Setting::new(&kernels)
            };
            let extents = Extents::new(q_len, kv_len, 16);
            check(&kernel, &Inputs::drawn(extents, Float::BF16, 5), &setting)
                .map(|_| ())
                .map_err(|fault| format!("{q_len} x {kv_len}, blocks of {block}: {fault}"))
        });
    }
}
