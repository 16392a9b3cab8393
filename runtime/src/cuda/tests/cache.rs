//! Compiled kernels between processes: found again, found without a compiler, and never trusted when damaged.

use std::fs;

use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::pipeline::Scope;

use super::bench::has_compiler;
use crate::attention::{Kernel, Rules};
use crate::cache::{CacheMode, Store};
use crate::cuda::{
    CannotCompile, CudaKernel, EmulatorOptions, Float, KernelError, KernelShape, KernelStore,
    Machine,
};
use crate::jit::nvrtc::Output;
use crate::{cuda, mask};

const SHAPE: KernelShape = KernelShape {
    dtype: Float::BF16,
    out_dtype: Float::BF16,
    d_qk: 64,
    d_v: 64,
    blocks: None,
};

/// A kernel as another process would make it.
fn kernel(window: i32) -> Kernel {
    let rules = Rules::mask(mask!(|q, kv| q - kv < window));
    Kernel::compile(&rules, &Scope::new(Bucket::self_attention(1..=64), 1, 1)).unwrap()
}

fn make(kernels: &KernelStore) -> Result<CudaKernel, KernelError> {
    let machine = Machine::emulator(EmulatorOptions::default());
    CudaKernel::new(&kernel(9), &machine, &SHAPE, kernels)
}

#[test]
fn a_second_process_needs_no_compiler() {
    if !has_compiler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let may = KernelStore::new(store.clone(), CacheMode::ReadWrite);
    let may_not = KernelStore::new(store.clone(), CacheMode::NoCompile);
    let error = make(&may_not).unwrap_err();
    let KernelError::Missing(missing) = error else {
        panic!("{error}");
    };
    assert_eq!(missing.cannot, CannotCompile::NotAllowed);

    let first = make(&may).unwrap();
    assert!(!first.compiled().is_cached());
    for kernels in [&may, &may_not] {
        let second = make(kernels).unwrap();
        assert!(second.compiled().is_cached());
        assert_eq!(second.compiled().ptx(), first.compiled().ptx());
        assert_eq!(second.compiled().compiler(), first.compiled().compiler());
    }
    // Another captured value is no other kernel.
    let machine = Machine::emulator(EmulatorOptions::default());
    assert!(CudaKernel::new(&kernel(30), &machine, &SHAPE, &may_not).is_ok());
    // Another type is.
    let other = KernelShape {
        dtype: Float::F16,
        out_dtype: Float::F16,
        ..SHAPE
    };
    assert!(CudaKernel::new(&kernel(9), &machine, &other, &may_not).is_err());
}

#[test]
fn a_damaged_entry_is_a_miss() {
    if !has_compiler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let may = KernelStore::new(store.clone(), CacheMode::ReadWrite);
    let may_not = KernelStore::new(store.clone(), CacheMode::NoCompile);
    let first = make(&may).unwrap();
    let entries = store.list().unwrap();
    for entry in &entries {
        let mut bytes = fs::read(&entry.path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&entry.path, bytes).unwrap();
    }
    assert!(make(&may_not).is_err());
    let again = make(&may).unwrap();
    assert!(!again.compiled().is_cached());
    assert_eq!(again.compiled().ptx(), first.compiled().ptx());
    assert!(make(&may_not).unwrap().compiled().is_cached());
    assert_eq!(store.check().unwrap().faulty().count(), 0);
}

#[test]
fn an_emulator_takes_the_ptx_beside_a_cubin() {
    if !has_compiler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let may = KernelStore::new(store.clone(), CacheMode::ReadWrite);
    let kernel = kernel(9);
    let text = cuda::KernelText::new(
        kernel.prepared_mask(),
        kernel.prepared_score(),
        &SHAPE,
        cuda::Target::SM80,
    )
    .unwrap();
    let compiled = cuda::CompiledKernel::new(text, Output::Cubin, &may).unwrap();
    assert!(
        compiled
            .cubin()
            .is_some_and(|cubin| cubin.starts_with(b"\x7fELF"))
    );
    assert_eq!(compiled.stats().len(), 1);
    let may_not = KernelStore::new(store, CacheMode::NoCompile);
    assert!(make(&may_not).is_ok());
}
