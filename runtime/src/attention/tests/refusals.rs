//! What is refused, in which words, and what a record says.

use maskwright_dsl::block_mask::{BlockMask, BlockSize};
use maskwright_dsl::bucket::Bucket;

use super::build::{Dims, causal, not_the_last, scattered, softcap};
use crate::attention::{
    AttentionError, Backend, CompileError, ForwardOptions, Kernel, Micro, Output, Refusal, Rules,
    TensorDataMut, TensorRef, attention,
};

fn fails(dims: [[usize; 4]; 3], options: &ForwardOptions<'_>) -> String {
    let zeros = vec![0.0_f32; 4096];
    let [q, k, v] = dims.map(|shape| TensorRef::contiguous(&zeros, shape).unwrap());
    let error = attention(q, k, v, &causal().into(), options).unwrap_err();
    error.to_string()
}

#[test]
fn shapes_must_fit() {
    let options = ForwardOptions::default();
    for (dims, message) in [
        (
            [[1, 2, 3, 4], [2, 2, 3, 4], [1, 2, 3, 4]],
            "q, k and v must have the same batch size, found 1, 2 and 1",
        ),
        (
            [[1, 4, 3, 4], [1, 2, 3, 4], [1, 1, 3, 4]],
            "k and v must have the same number of heads, found 2 and 1",
        ),
        (
            [[1, 3, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]],
            "the number of query heads must be a multiple of the number of kv heads, found 3 query heads and 2 kv heads",
        ),
        (
            [[1, 2, 3, 4], [1, 0, 3, 4], [1, 0, 3, 4]],
            "the number of query heads must be a multiple of the number of kv heads, found 2 query heads and 0 kv heads",
        ),
        (
            [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 5, 4]],
            "k and v must have the same length, found 3 and 5",
        ),
        (
            [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4]],
            "q and k must have the same head dimension, found 4 and 5",
        ),
        (
            [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 0]],
            "head dimensions must be at least 1, found 4 for q and k, 0 for v",
        ),
    ] {
        assert_eq!(fails(dims, &options), message);
    }
}

#[test]
fn positions_must_be_i32() {
    let same = [[1, 1, 3, 4]; 3];
    let at = |q_offset| ForwardOptions {
        q_offset,
        ..ForwardOptions::default()
    };
    assert_eq!(
        fails(same, &at(i64::from(i32::MAX) - 1)),
        "queries 2147483646..2147483649 leave the positions of an i32"
    );
    assert_eq!(
        fails(same, &at(i64::MIN)),
        "queries -9223372036854775808..-9223372036854775805 leave the positions of an i32"
    );
    let zeros = [0.0_f32];
    let long = TensorRef::new(&zeros[..], [1, 1, 1 << 40, 1], [0; 4], 0).unwrap();
    let one = TensorRef::contiguous(&zeros[..], [1; 4]).unwrap();
    let error = attention(one, long, long, &Rules::dense(), &at(0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kv_len is 1099511627776, but positions and sizes end at 2147483647"
    );
    let scale = ForwardOptions {
        sm_scale: Some(f32::NAN),
        ..at(0)
    };
    assert_eq!(fails(same, &scale), "sm_scale must be finite, found NaN");
    let scope = Dims::new(1, 1, 1, 1).scope(Bucket::self_attention(1..=1 << 40));
    let error = Kernel::compile(&causal().into(), &scope).unwrap_err();
    assert!(matches!(error, CompileError::TooLong { axis: "q_len", .. }));
    let scope = Dims::new(1, 1, 1, 1).scope(Bucket {
        q_len: std::ops::RangeInclusive::new(5, 4),
        ..Bucket::self_attention(1..=9)
    });
    let error = Kernel::compile(&causal().into(), &scope).unwrap_err();
    assert!(matches!(error, CompileError::Bucket(_)));
}

#[test]
fn outputs_must_fit() {
    let dims = Dims::new(1, 1, 3, 3);
    let inputs = dims.inputs();
    let [q, k, v] = inputs.views();
    let kernel = Kernel::compile(&Rules::dense(), &dims.scope(Bucket::single(3, 3, 0))).unwrap();
    let options = ForwardOptions::default();
    let mut short = vec![0.0_f32; 47];
    let output = Output::new(TensorDataMut::F32(&mut short));
    let error = kernel.forward(q, k, v, &options, output).unwrap_err();
    assert_eq!(error.to_string(), "out must hold 48 elements, found 47");
    let mut half = vec![half::f16::ZERO; 48];
    let output = Output::new(TensorDataMut::F16(&mut half));
    let error = kernel.forward(q, k, v, &options, output).unwrap_err();
    assert_eq!(error.to_string(), "out must be f32, found f16");
}

#[test]
fn a_mask_for_other_lengths_or_positions_is_refused() {
    let scope = Dims::new(1, 1, 1, 1).scope(Bucket::self_attention(1..=64));
    let kernel = Kernel::compile(&causal().into(), &scope).unwrap();
    let mask = kernel.block_mask(BlockSize { q: 16, kv: 16 }).unwrap();
    let with = |q_offset| ForwardOptions {
        block_mask: Some(&mask),
        q_offset,
        ..ForwardOptions::default()
    };
    assert_eq!(
        fails([[2, 2, 65, 1]; 3], &with(0)),
        "a mask built for [B=1, H=1, 1..=64, block 16x16] cannot serve a call of [B=2, H=2, q=65, kv=65]"
    );
    assert_eq!(
        fails([[1, 1, 8, 1], [1, 1, 9, 1], [1, 1, 9, 1]], &with(0)),
        "a mask built for [B=1, H=1, 1..=64, block 16x16] cannot serve a call of [B=1, H=1, q=8, kv=9]"
    );
    assert_eq!(
        fails([[1, 1, 8, 1]; 3], &with(1)),
        "a mask built for [B=1, H=1, 1..=64, block 16x16] cannot serve a call of [B=1, H=1, q=8, kv=8, offset=1]"
    );
}

#[test]
fn one_batch_entry_does_not_stand_for_a_rule_that_reads_it() {
    let scope = Dims::new(1, 1, 8, 8).scope(Bucket::single(8, 8, 0));
    let kernel = Kernel::compile(&scattered().into(), &scope).unwrap();
    let mask = kernel.block_mask(BlockSize::default()).unwrap();
    let inputs = Dims::new(2, 1, 8, 8).inputs();
    let [q, k, v] = inputs.views();
    let options = ForwardOptions {
        block_mask: Some(&mask),
        ..ForwardOptions::default()
    };
    let error = attention(q, k, v, &scattered().into(), &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a mask built for [B=1, H=1, q=8,kv=8, block 128x128] has one batch entry, which cannot serve a call of [B=2, \
         H=1, q=8, kv=8], since rule scattered reads `b`"
    );
    // Nor does the kernel run for batch entries that it was not prepared for.
    let mut out = vec![0.0; inputs.q.len()];
    let output = Output::new(TensorDataMut::F32(&mut out));
    let error = kernel
        .forward(q, k, v, &ForwardOptions::default(), output)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "rule scattered was prepared for [B<=1, H=1, q=8,kv=8], which does not cover a call of [B=2, H=1, q=8, kv=8]: \
         the rule reads the batch index, and has no such entries"
    );
}

#[test]
fn a_mask_of_a_rule_needs_the_rule() {
    let scope = Dims::new(1, 1, 8, 8).scope(Bucket::single(8, 8, 0));
    let block = BlockSize::default();
    let mask_of = |rules: &Rules| {
        let kernel = Kernel::compile(rules, &scope).unwrap();
        kernel.block_mask(block).unwrap()
    };
    let inputs = Dims::new(1, 1, 8, 8).inputs();
    let [q, k, v] = inputs.views();
    let run = |mask: &BlockMask| {
        let options = ForwardOptions {
            block_mask: Some(mask),
            ..ForwardOptions::default()
        };
        attention(q, k, v, &softcap(1.0).into(), &options)
    };
    assert_eq!(
        run(&mask_of(&causal().into())).unwrap_err().to_string(),
        "a mask built for [B=1, H=1, q=8,kv=8, block 128x128] has blocks that are not full, but the rules have no mask \
         that says which cells; give the rule, or make a mask whose lists are the law"
    );
    assert!(run(&mask_of(&Rules::dense())).is_ok());
}

#[test]
fn a_rule_of_the_lengths_runs_within_its_bucket_only() {
    let scope = Dims::new(1, 1, 1, 1).scope(Bucket::self_attention(1..=64));
    let kernel = Kernel::compile(&not_the_last(2).into(), &scope).unwrap();
    let error = kernel.block_mask_at(1, 20, 19, BlockSize::default());
    assert_eq!(
        error.unwrap_err().to_string(),
        "rule not_the_last was prepared for [B<=1, H=1, 1..=64], which does not cover a call of [B=1, H=1, q=1, kv=20, \
         offset=19]: the rule reads the lengths, and the call is not within the bucket"
    );
    let kernel = Kernel::compile(&causal().into(), &scope).unwrap();
    let reason = |q_len, kv_len, q_offset| match kernel.block_mask_at(
        q_len,
        kv_len,
        q_offset,
        BlockSize::default(),
    ) {
        Err(AttentionError::OutOfScope { reason, .. }) => Some(reason),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    };
    assert_eq!(reason(1, 20, 19), None);
    assert_eq!(reason(1, 64, 63), None);
    assert_eq!(reason(1, 64, 64), Some("its queries lie outside"));
    assert_eq!(reason(1, 65, 63), Some("its keys lie outside"));
}

#[test]
fn a_backend_that_cannot_run_lists_every_reason() {
    let data = vec![0.5_f64; 2 * 3 * 4];
    let view = TensorRef::contiguous(&data, [1, 2, 3, 4]).unwrap();
    let on = |backend| ForwardOptions {
        backend,
        ..ForwardOptions::default()
    };
    let run = |options: &ForwardOptions<'_>| attention(view, view, view, &causal().into(), options);
    assert_eq!(
        run(&on(Backend::Cpu)).unwrap_err().to_string(),
        "backend cpu cannot run: cuda forward: backend cpu was asked for; cpu avx2: q is f64, and it takes f32, f16 and \
         bf16; cpu portable: q is f64, and it takes f32, f16 and bf16; emulator forward: backend cpu was asked for; \
         reference dense-f64: backend cpu was asked for"
    );
    let error = run(&on(Backend::Auto)).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "reference dense-f64: it is dense and slow, and runs only where it is asked for"
        ),
        "{error}"
    );
    let done = run(&on(Backend::Reference)).unwrap();
    assert!(done.out.to_f32_vec().iter().all(|x| (x - 0.5).abs() < 1e-6));
    for backend in Backend::ALL {
        assert_eq!(Backend::from_name(backend.name()), Some(backend));
    }
}

#[test]
fn a_record_says_what_ran_and_why_nothing_else_did() {
    let inputs = Dims::new(1, 2, 5, 5).inputs();
    let options = ForwardOptions {
        micro: Some(Micro::Portable),
        ..ForwardOptions::default()
    };
    let mut record = inputs.attention(&causal().into(), &options).record;
    assert_eq!(record.backend, Backend::Cpu);
    let refusal = |backend, kernel: &str, reason: &str| Refusal {
        backend,
        kernel: kernel.to_owned(),
        reason: reason.to_owned(),
    };
    let refusals = [
        refusal(
            Backend::Cuda,
            "forward",
            "a micro-kernel of the processor was asked for",
        ),
        refusal(Backend::Cpu, "avx2", "`portable` was asked for"),
        refusal(
            Backend::Emulator,
            "forward",
            "it is slow, and runs only where it is asked for",
        ),
        refusal(
            Backend::Reference,
            "dense-f64",
            "it is dense and slow, and runs only where it is asked for",
        ),
    ];
    assert_eq!(record.refusals, refusals);
    record.device = "cpu (x)".to_owned();
    record.kernel = "portable".to_owned();
    record.threads = 2;
    record.seconds = 0.0015;
    assert_eq!(
        record.to_string(),
        "cpu portable on cpu (x): f32 q=[1, 2, 5, 16] k=[1, 2, 5, 16] v=[1, 2, 5, 16], tiles 0 full, 2 partial, 0 \
         skipped, 2 threads, 1.500 ms; not cuda forward: a micro-kernel of the processor was asked for; not cpu avx2: \
         `portable` was asked for; not emulator forward: it is slow, and runs only where it is asked for; not reference \
         dense-f64: it is dense and slow, and runs only where it is asked for"
    );
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!(json["backend"], "cpu");
    assert_eq!(json["dtype"], "f32");
    assert_eq!(json["tiles"]["partial"], 2);
    assert_eq!(json["shapes"]["q"], serde_json::json!([1, 2, 5, 16]));
    assert_eq!(json["refusals"][1]["reason"], "`portable` was asked for");
}
