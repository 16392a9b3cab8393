//! Why a kernel does not run, in words.

use maskwright_dsl::block_mask::{
    BlockLists, BlockMask, BlockSize, Geometry, ListRow, ListsMeaning,
};

use super::bench::{Case, has_compiler};
use crate::attention::{AttentionError, Backend, ForwardOptions, Kernel, Rules};
use crate::cache::{CacheMode, Store};
use crate::cuda::{
    CudaKernel, DeviceOutput, DeviceTensor, DeviceTensorMut, EmulatorOptions, Float, KernelShape,
    KernelStore, LaunchOptions, Machine,
};
use crate::device::Driver;
use crate::mask;

/// What the emulator, or a GPU, says about a call.
#[track_caller]
fn reason(backend: Backend, case: Case, options: &ForwardOptions<'_>) -> String {
    let rules = Rules::mask(mask!(|q, kv| kv <= q));
    let kernel = Kernel::compile(&rules, &case.scope()).unwrap();
    let options = ForwardOptions {
        backend,
        ..*options
    };
    match case.inputs().forward(&kernel, &options, case.dtype) {
        Err(AttentionError::NoBackend { refusals, .. }) => {
            let refusal = refusals
                .into_iter()
                .find(|refusal| refusal.backend == backend);
            let reason = refusal.unwrap().reason;
            assert!(!reason.contains('\n'), "{reason}");
            reason
        }
        Err(error) => panic!("{error}"),
        Ok(ran) => panic!("{}", ran.record),
    }
}

#[test]
fn head_dimensions_that_no_kernel_has() {
    let options = ForwardOptions::default();
    for (d_qk, d_v, expected) in [
        (
            12,
            32,
            "expected d_qk to be a multiple of 8 from 16 to 256, found 12",
        ),
        (
            32,
            8,
            "expected d_v to be a multiple of 8 from 16 to 256, found 8",
        ),
        (
            264,
            32,
            "expected d_qk to be a multiple of 8 from 16 to 256, found 264",
        ),
    ] {
        let case = Case {
            d_qk,
            d_v,
            ..Case::new(Float::F16, 4, 4)
        };
        for backend in [Backend::Cuda, Backend::Emulator] {
            assert_eq!(reason(backend, case, &options), expected);
        }
    }
}

#[test]
fn blocks_that_no_tile_goes_with() {
    let case = Case::new(Float::F16, 200, 200);
    let options = ForwardOptions {
        block: BlockSize { q: 96, kv: 128 },
        ..ForwardOptions::default()
    };
    assert_eq!(
        reason(Backend::Emulator, case, &options),
        "a tile of 128 x 64 neither lies within one mask block of 96x128 nor covers a whole number of them"
    );
    let geometry = Geometry::exact(1, 1, 200, 200, BlockSize { q: 32, kv: 32 }).unwrap();
    let lists = BlockLists {
        batch: 1,
        heads: 1,
        rows: vec![
            ListRow {
                full: vec![0],
                partial: vec![1]
            };
            7
        ],
    };
    let law = BlockMask::from_lists(&geometry, &lists, ListsMeaning::Law).unwrap();
    let options = ForwardOptions {
        block_mask: Some(&law),
        ..ForwardOptions::default()
    };
    assert_eq!(
        reason(Backend::Emulator, case, &options),
        "the lists of the mask are the law, so a tile must lie within a block of 32x32, and one of 128 x 64 does not"
    );
}

#[test]
fn a_machine_without_a_gpu_says_so() {
    if let Ok(driver) = Driver::get() {
        assert!(!driver.library().is_empty());
        return;
    }
    let case = Case::new(Float::F16, 8, 8);
    let options = ForwardOptions::default();
    assert_eq!(
        reason(Backend::Cuda, case, &options),
        "there is no CUDA driver"
    );
    // Nobody asked for it, so the processor does it.
    let kernel = Kernel::compile(&Rules::dense(), &case.scope()).unwrap();
    let ran = case
        .inputs()
        .forward(&kernel, &options, Float::F16)
        .unwrap();
    assert_eq!(ran.record.backend, Backend::Cpu);
    let reasons: Vec<String> = ran
        .record
        .refusals
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(reasons.contains(&"cuda forward: there is no CUDA driver".to_owned()));
    assert!(
        reasons.contains(&"emulator forward: cpu-avx2 ranks before it".to_owned())
            || reasons
                .iter()
                .any(|reason| reason.starts_with("emulator forward: it is slow"))
    );
}

#[test]
fn nothing_compiled_where_nothing_may_be() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let kernels = KernelStore::new(store, CacheMode::NoCompile);
    let options = ForwardOptions {
        kernels: Some(&kernels),
        ..ForwardOptions::default()
    };
    let text = reason(Backend::Emulator, Case::new(Float::F16, 8, 8), &options);
    for part in [
        "there is no compiled kernel forward 128x64 f16",
        "for sm_80: expected key",
        &folder.path().display().to_string(),
        "nothing may be compiled (MASKWRIGHT_NO_COMPILE)",
        "no such entry",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn tensors_in_memory_must_lie_as_kernels_read_them() {
    if !has_compiler() {
        return;
    }
    let case = Case::new(Float::F16, 16, 16);
    let kernel = Kernel::compile(&Rules::dense(), &case.scope()).unwrap();
    let machine = Machine::emulator(EmulatorOptions::default());
    let shape = KernelShape {
        dtype: Float::F16,
        out_dtype: Float::F32,
        d_qk: 32,
        d_v: 32,
        blocks: None,
    };
    let cuda = CudaKernel::new(&kernel, &machine, &shape, &KernelStore::none()).unwrap();
    let bytes = vec![0; 2 * 16 * 40 * 4];
    let memory = machine.upload(&bytes).unwrap();
    let elsewhere = Machine::emulator(EmulatorOptions::default());
    let other = elsewhere.upload(&bytes).unwrap();
    let shape = [1, 2, 16, 32];
    let good = DeviceTensor::contiguous(memory.view(), Float::F16, shape);
    let run = |k: DeviceTensor<'_>, out_shape: [usize; 4], out_dtype| {
        let mut out = machine.alloc(2 * 16 * 32 * 4).unwrap();
        let mut output = DeviceOutput {
            out: DeviceTensorMut::contiguous(out.view_mut(), out_dtype, out_shape),
            lse: None,
            row_max: None,
        };
        let done = cuda.forward(good, k, good, &LaunchOptions::default(), &mut output);
        done.err().map(|error| error.to_string())
    };
    let check = |k, expected: &str| {
        assert_eq!(run(k, shape, Float::F32).as_deref(), Some(expected));
    };
    assert_eq!(run(good, shape, Float::F32), None);
    check(
        DeviceTensor {
            strides: [1152, 576, 36, 1],
            ..good
        },
        "strides of k must be multiples of 16 bytes, found [1152, 576, 36] elements of 2 bytes",
    );
    check(
        DeviceTensor {
            strides: [1024, 512, 1, 16],
            ..good
        },
        "k must be contiguous along the head dimension, found stride 16",
    );
    check(
        DeviceTensor {
            dtype: Float::BF16,
            ..good
        },
        "expected k of type f16, found bf16",
    );
    check(
        DeviceTensor::contiguous(other.view(), Float::F16, shape),
        "k lies in the memory of another machine than emulator of sm_80",
    );
    assert_eq!(
        run(good, shape, Float::F16).as_deref(),
        Some("expected out of type f32, found f16")
    );
    assert_eq!(
        run(good, [2, 1, 16, 32], Float::F32).as_deref(),
        Some("expected out of shape [1, 2, 16, 32], found [2, 1, 16, 32]")
    );
}
