//! The same bits, whatever the classes of blocks, the order of warps and the threads of the host.

use maskwright::cuda::{EmulatorOptions, Float};
use maskwright_tests::call::{Extents, Inputs, Setting};

use super::{TYPES, check, compile, exact, free, has_compiler, nothing_kept, rules};

#[test]
fn full_blocks_called_partial_change_no_bit() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    for (name, d) in [
        ("causal", 64),
        ("long documents", 128),
        ("all", 40),
        ("alibi", 192),
    ] {
        let kernel = compile(&rules(name, 600), &free(300, 300, 1, 2));
        for dtype in TYPES {
            let extents = Extents::new(260, 300, d);
            let mask = exact(&kernel, extents, 40, (128, 64));
            let all_partial = mask.demote_full();
            let inputs = Inputs::drawn(extents, dtype, 14);
            let setting = Setting {
                q_offset: 40,
                block_mask: Some(&mask),
                ..Setting::new(&kernels)
            };
            let run = |setting: &Setting<'_>| {
                check(&kernel, &inputs, setting).unwrap_or_else(|e| panic!("{name} {dtype}: {e}"))
            };
            let by_class = run(&setting);
            let partial = run(&Setting {
                block_mask: Some(&all_partial),
                ..setting
            });
            let unknown = run(&Setting {
                block_mask: None,
                ..setting
            });
            let (tiles, others) = (by_class.record.tiles, partial.record.tiles);
            assert!(0 < tiles.full, "{name} {dtype}: {tiles:?}");
            assert_eq!(
                (others.full, others.partial),
                (0, tiles.full + tiles.partial)
            );
            assert_eq!(unknown.record.tiles.skipped, 0);
            assert_eq!(by_class.bits(), partial.bits(), "{name} {dtype}");
            assert_eq!(
                by_class.bits(),
                unknown.bits(),
                "{name} {dtype}, no block known"
            );
        }
    }
}

#[test]
fn the_order_of_warps_and_blocks_changes_no_bit() {
    if !has_compiler() {
        return;
    }
    let kernels = nothing_kept();
    for (name, d, dtype) in [
        ("window", 64, Float::BF16),
        ("documents", 128, Float::F16),
        ("alibi", 64, Float::F32),
    ] {
        let kernel = compile(&rules(name, 600), &free(300, 300, 1, 2));
        let inputs = Inputs::drawn(Extents::new(200, 240, d), dtype, 15);
        let run = |seed, threads| {
            let setting = Setting {
                q_offset: 40,
                emulator: EmulatorOptions {
                    seed,
                    threads,
                    ..EmulatorOptions::default()
                },
                ..Setting::new(&kernels)
            };
            check(&kernel, &inputs, &setting)
                .unwrap_or_else(|e| panic!("{name} {dtype}, seed {seed}: {e}"))
                .bits()
        };
        let first = run(0, 1);
        for (seed, threads) in [(1, 1), (2, 3), (3, 2), (4, 1)] {
            assert_eq!(first, run(seed, threads), "{name}, seed {seed}");
        }
    }
}
