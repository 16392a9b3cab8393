//! Verification of kernels in the emulator, and the kernels that an artifact holds.

use maskwright_dsl::block_mask::BlockSize;
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::pipeline::Scope;

use super::*;
use crate::artifact::ArtifactCache;
use crate::cache::{CacheMode, Store};
use crate::cuda::{CudaKernel, EmulatorOptions};
use crate::verify::{VerifyRequest, verify};
use crate::{MaskRule, mask, score};

fn emulator(kernels: KernelStore) -> GpuRequest {
    let machine = Machine::emulator(EmulatorOptions::default());
    GpuRequest {
        head_dims: vec![32],
        ..GpuRequest::new(machine, kernels)
    }
}

fn packed() -> MaskRule {
    let documents: Vec<i32> = (0..200).map(|i| i / 23).collect();
    mask!(|q, kv| kv <= q && documents[q] == documents[kv])
}

#[test]
fn the_certificate_says_what_ran_kernels() {
    if nvrtc::for_test().is_none() {
        return;
    }
    let rule = packed();
    let bias = score!(|score, h, q, kv| score - 0.01 * (h * (q - kv)) as f32);
    let scope = Scope::new(Bucket::self_attention(1..=140), 1, 2);
    let request = VerifyRequest {
        gpu: Some(GpuRequest {
            dtypes: vec![Float::F16, Float::F32],
            ..emulator(KernelStore::none())
        }),
        ..VerifyRequest::new(Some(&rule), Some(&bias), scope)
    };
    let verified = verify(&request).unwrap();
    let certificate = verified.certificate().to_string();
    for part in [
        "mask bits of the kernel on emulator of sm_80 against the law",
        "attention on emulator of sm_80 in f16, heads of 32: output, lse and row max",
        "attention on emulator of sm_80 in f32, heads of 32",
        "tolerance: f16, weights and outputs of 11 bits",
    ] {
        assert!(certificate.contains(part), "{certificate}");
    }
    assert!(verified.kernels().is_empty());
}

#[test]
fn an_artifact_holds_kernels_that_run_without_a_compiler() {
    if nvrtc::for_test().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let rule = packed();
    let scope = Scope::new(Bucket::single(70, 70, 0), 1, 1);
    let targets = ["sm_80", "sm_90a", "sm_120a"].map(|name| name.parse().unwrap());
    let request = VerifyRequest {
        gpu: Some(GpuRequest {
            dtypes: vec![Float::BF16],
            targets: targets.to_vec(),
            ..emulator(KernelStore::none())
        }),
        ..VerifyRequest::of_mask(&rule, scope.clone())
    };
    let cache = ArtifactCache::with_mode(store, CacheMode::ReadWrite);
    let found = cache.get_or_verify(&request).unwrap();
    assert!(!found.cached);
    let names: Vec<&str> = found
        .artifact
        .kernels()
        .iter()
        .map(|k| k.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "forward 128x64 bf16 d32 sm_80",
            "forward 128x64 bf16 d32 sm_90a",
            "forward 128x64 bf16 d32 sm_120a",
        ]
    );
    for kernel in found.artifact.kernels() {
        assert!(kernel.ptx().contains(".entry forward"));
        assert!(
            kernel
                .cubin()
                .is_some_and(|cubin| cubin.starts_with(b"\x7fELF"))
        );
    }
    let again = cache.get_or_verify(&request).unwrap();
    assert!(again.cached);
    assert_eq!(again.artifact.kernels(), found.artifact.kernels());
    // Without targets it is another artifact.
    let other = VerifyRequest {
        gpu: None,
        ..request.clone()
    };
    assert_ne!(crate::artifact::artifact_key(&other), *found.artifact.key());

    let nowhere = Store::open(folder.path().join("other")).unwrap();
    let may_not = KernelStore::new(nowhere, CacheMode::NoCompile);
    let kernel = Kernel::interpret(&Rules::mask(rule.clone()), &scope).unwrap();
    let machine = Machine::emulator(EmulatorOptions::default());
    let shape = KernelShape {
        dtype: Float::BF16,
        out_dtype: Float::BF16,
        d_qk: 32,
        d_v: 32,
        blocks: Some(MaskBlocks {
            block: BlockSize::default(),
            authority: maskwright_dsl::block_mask::Authority::Rule,
        }),
    };
    assert!(CudaKernel::new(&kernel, &machine, &shape, &may_not).is_err());
    let with = may_not.with_artifact(&again.artifact);
    assert!(CudaKernel::new(&kernel, &machine, &shape, &with).is_ok());
}
