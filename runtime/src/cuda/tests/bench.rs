//! Inputs that repeat, and the comparison of the emulator with the reference.

use half::{bf16, f16};
use maskwright_cpu::{Output, TensorDataMut};
use maskwright_dsl::block_mask::BlockMask;
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::pipeline::Scope;

use crate::attention::{
    AttentionError, Backend, ElementsRef, ForwardOptions, Kernel, LaunchRecord, Rules, TensorRef,
};
use crate::cuda::{Float, KernelStore};
use crate::jit::nvrtc;
use crate::reference::{DenseCall, dense_attention};

/// Says why a test is skipped where there is no compiler, unless one is required.
pub(super) fn has_compiler() -> bool {
    nvrtc::for_test().is_some()
}

/// Shapes of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) q_len: usize,
    pub(super) kv_len: usize,
    pub(super) d_qk: usize,
    pub(super) d_v: usize,
    pub(super) dtype: Float,
    pub(super) q_offset: i64,
}

impl Case {
    pub(super) fn new(dtype: Float, q_len: usize, kv_len: usize) -> Self {
        Self {
            batch: 1,
            heads: 2,
            kv_heads: 2,
            q_len,
            kv_len,
            d_qk: 32,
            d_v: 32,
            dtype,
            q_offset: 0,
        }
    }

    pub(super) fn scope(&self) -> Scope {
        let bucket = Bucket::single(self.q_len as u64, self.kv_len as u64, self.q_offset);
        Scope::new(bucket, self.batch as u32, self.heads as u32)
    }

    pub(super) fn inputs(&self) -> Inputs {
        let [q, k, v] = self.shapes();
        let mut state = 1u64;
        let mut fill = |shape: [usize; 4]| {
            let n = shape.iter().product();
            let values = (0..n).map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(11);
                (state >> 40) as f32 / (1 << 23) as f32 - 1.0
            });
            Elements::new(self.dtype, values)
        };
        Inputs {
            case: *self,
            q: fill(q),
            k: fill(k),
            v: fill(v),
        }
    }

    pub(super) fn shapes(&self) -> [[usize; 4]; 3] {
        [
            [self.batch, self.heads, self.q_len, self.d_qk],
            [self.batch, self.kv_heads, self.kv_len, self.d_qk],
            [self.batch, self.kv_heads, self.kv_len, self.d_v],
        ]
    }
}

pub(super) enum Elements {
    F32(Vec<f32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
}

impl Elements {
    fn new(dtype: Float, values: impl Iterator<Item = f32>) -> Self {
        match dtype {
            Float::F32 => Self::F32(values.collect()),
            Float::F16 => Self::F16(values.map(f16::from_f32).collect()),
            Float::BF16 => Self::BF16(values.map(bf16::from_f32).collect()),
        }
    }

    pub(super) fn view(&self) -> ElementsRef<'_> {
        match self {
            Self::F32(x) => x.into(),
            Self::F16(x) => x.into(),
            Self::BF16(x) => x.into(),
        }
    }

    fn to_f32(&self) -> Vec<f32> {
        match self {
            Self::F32(x) => x.clone(),
            Self::F16(x) => x.iter().map(|x| x.to_f32()).collect(),
            Self::BF16(x) => x.iter().map(|x| x.to_f32()).collect(),
        }
    }

    fn as_mut(&mut self) -> TensorDataMut<'_> {
        match self {
            Self::F32(x) => TensorDataMut::F32(x),
            Self::F16(x) => TensorDataMut::F16(x),
            Self::BF16(x) => TensorDataMut::BF16(x),
        }
    }
}

pub(super) struct Inputs {
    pub(super) case: Case,
    pub(super) q: Elements,
    pub(super) k: Elements,
    pub(super) v: Elements,
}

/// What came of a call, as `f32`.
pub(super) struct Ran {
    pub(super) out: Vec<f32>,
    pub(super) lse: Vec<f32>,
    pub(super) row_max: Vec<f32>,
    pub(super) record: LaunchRecord,
}

impl Inputs {
    pub(super) fn views(&self) -> [TensorRef<'_>; 3] {
        let [q, k, v] = self.case.shapes();
        [(&self.q, q), (&self.k, k), (&self.v, v)]
            .map(|(x, shape)| TensorRef::contiguous(x.view(), shape).unwrap())
    }

    pub(super) fn forward(
        &self,
        kernel: &Kernel,
        options: &ForwardOptions<'_>,
        out_dtype: Float,
    ) -> Result<Ran, AttentionError> {
        let [q, k, v] = self.views();
        let case = &self.case;
        let n_rows = case.batch * case.heads * case.q_len;
        let nothing = std::iter::repeat_n(7.0, n_rows * case.d_v);
        let mut out = Elements::new(out_dtype, nothing);
        let (mut lse, mut row_max) = (vec![7.0; n_rows], vec![7.0; n_rows]);
        let output = Output {
            out: out.as_mut(),
            lse: Some(&mut lse),
            row_max: Some(&mut row_max),
        };
        let record = kernel.forward(q, k, v, options, output)?;
        Ok(Ran {
            out: out.to_f32(),
            lse,
            row_max,
            record,
        })
    }
}

/// How far a type may be from float64. The exponentials of a row are rounded to the type before they meet V, and the
/// output once more; sums are kept in `f32`. Products of `f32` inputs are made of parts with 11 bits each, which leaves
/// about 21 bits.
fn tolerance(dtype: Float) -> f64 {
    match dtype {
        Float::F16 => 2.0e-3,
        Float::BF16 => 1.6e-2,
        Float::F32 => 2.0e-5,
    }
}

#[track_caller]
fn agree(what: &str, expected: &[f64], found: &[f32], tolerance: f64) {
    assert_eq!(expected.len(), found.len(), "{what}");
    for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
        let found = f64::from(*found);
        let near = (found - expected).abs() <= tolerance * (1.0 + expected.abs());
        assert!(
            *expected == found || near,
            "{what} {at}: expected {expected}, found {found}"
        );
    }
}

/// Runs rules in the emulator and compares all outputs with dense attention in float64.
#[track_caller]
pub(super) fn check(rules: &Rules, case: Case, block_mask: Option<&BlockMask>) -> LaunchRecord {
    let kernel = Kernel::compile(rules, &case.scope()).unwrap();
    check_kernel(&kernel, case, block_mask)
}

#[track_caller]
pub(super) fn check_kernel(
    kernel: &Kernel,
    case: Case,
    block_mask: Option<&BlockMask>,
) -> LaunchRecord {
    let inputs = case.inputs();
    let options = ForwardOptions {
        q_offset: case.q_offset,
        block_mask,
        backend: Backend::Emulator,
        kernels: Some(&KernelStore::none()),
        ..ForwardOptions::default()
    };
    let ran = match inputs.forward(kernel, &options, case.dtype) {
        Ok(ran) => ran,
        Err(error) => panic!("{error} {error:?}"),
    };
    let [q, k, v] = inputs.views();
    let expected = dense_attention(&DenseCall {
        q_offset: case.q_offset,
        block_mask,
        ..DenseCall::new(q, k, v, kernel.rules())
    })
    .unwrap();
    let out = tolerance(case.dtype);
    // Scores are sums in f32 of exact products.
    let side = 2.0e-5;
    agree("lse", &expected.lse, &ran.lse, side);
    agree("row max", &expected.row_max, &ran.row_max, side);
    agree("out", &expected.out, &ran.out, out);
    assert_eq!(ran.record.backend, Backend::Emulator);
    ran.record
}
