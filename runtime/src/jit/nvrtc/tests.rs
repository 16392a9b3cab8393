//! Compilation, where there is an NVRTC.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::thread;

use super::{Compiled, Nvrtc, NvrtcError, Output, Target, arguments, for_test};

const ADD: &str = r#"extern "C" __global__ void add(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] * 3.0f + b[i];
}
"#;

/// Keeps 96 floats alive where 32 registers are allowed.
const SPILL: &str = r#"extern "C" __global__ void __launch_bounds__(1024, 2) spill(const float *a, float *out, int n) {
    float v[96];
#pragma unroll
    for (int i = 0; i < 96; i++) v[i] = a[threadIdx.x + i * 1024];
    for (int r = 0; r < n; r++) {
#pragma unroll
        for (int i = 0; i < 96; i++) v[i] = v[i] * v[(i * 7 + 1) % 96] + a[i + r];
    }
#pragma unroll
    for (int i = 0; i < 96; i++) out[threadIdx.x + i * 1024] = v[i];
}
"#;

fn target(text: &str) -> Target {
    text.parse().unwrap()
}

#[track_caller]
fn compile(nvrtc: &Nvrtc, source: &str, to: &str, output: Output) -> Compiled {
    nvrtc
        .compile(source, "test.cu", target(to), output, &[])
        .unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refused(nvrtc: &Nvrtc, source: &str, output: Output, options: &[&str]) -> String {
    let result = nvrtc.compile(source, "test.cu", Target::SM80, output, options);
    match result {
        Err(NvrtcError::Refused { log, .. }) => log,
        other => panic!("expected a refusal, found {other:?}"),
    }
}

#[test]
fn arguments_are_a_function_of_target_and_output() {
    assert_eq!(
        arguments(target("sm_90a"), Output::Ptx, &["-DN=1"]),
        [
            "--gpu-architecture=compute_90a",
            "--std=c++17",
            "--fmad=false",
            "-lineinfo",
            "-DN=1"
        ]
    );
    assert_eq!(
        arguments(Target::SM80, Output::Cubin, &[])[4..],
        ["--ptxas-options=-v"]
    );
}

#[test]
fn ptx_has_lines_no_contraction_and_no_working_directory() {
    let Some(nvrtc) = for_test() else { return };
    let compiled = compile(nvrtc, ADD, "sm_80", Output::Ptx);
    let ptx = &compiled.ptx;
    assert!(
        ptx.contains(".target sm_80") && ptx.contains(".entry add("),
        "{ptx}"
    );
    assert!(
        ptx.contains("mul.rn.f32") && ptx.contains("add.rn.f32"),
        "{ptx}"
    );
    assert!(!ptx.contains("fma"), "{ptx}");
    assert!(ptx.contains("\t.loc\t1 3 "), "{ptx}");
    assert!(ptx.contains(".file\t1 \"/test.cu\""), "{ptx}");
    assert!(compiled.cubin.is_none() && compiled.stats.is_empty());
    assert_eq!(compiled.log, "");
    assert!(0.0 < compiled.secs);
}

#[test]
fn cubins_are_made_for_three_generations_with_the_same_ptx() {
    let Some(nvrtc) = for_test() else { return };
    for to in ["sm_80", "sm_90a", "sm_120a"] {
        let compiled = compile(nvrtc, ADD, to, Output::Cubin);
        let cubin = compiled.cubin.expect("a cubin was asked for");
        assert_eq!(cubin[..4], *b"\x7fELF");
        assert_eq!(compiled.ptx, compile(nvrtc, ADD, to, Output::Ptx).ptx);
        let [stats] = &compiled.stats[..] else {
            panic!("{:?}", compiled.stats)
        };
        assert_eq!((stats.entry.as_str(), stats.target.as_str()), ("add", to));
        assert!((1..=32).contains(&stats.registers), "{stats:?}");
        assert_eq!((stats.spill_stores, stats.stack_frame), (0, 0));
        assert!(stats.notes.is_empty(), "{stats:?}");
        let again = compile(nvrtc, ADD, to, Output::Cubin);
        assert_eq!(
            again.cubin,
            Some(cubin),
            "the same text gives the same bytes"
        );
    }
}

#[test]
fn spills_are_counted() {
    let Some(nvrtc) = for_test() else { return };
    let stats = &compile(nvrtc, SPILL, "sm_80", Output::Cubin).stats[0];
    assert_eq!(stats.registers, 32);
    assert!(0 < stats.spill_stores && 0 < stats.spill_loads, "{stats:?}");
    assert!(96 * 4 <= stats.stack_frame, "{stats:?}");
}

#[test]
fn warnings_are_kept_when_all_goes_well() {
    let Some(nvrtc) = for_test() else { return };
    let source = "__global__ void k(int *out) {\n    int never_used = 3;\n    out[0] = 1;\n}\n";
    for output in [Output::Ptx, Output::Cubin] {
        let log = compile(nvrtc, source, "sm_80", output).log;
        assert!(log.starts_with("test.cu(2): warning #177-D"), "{log}");
    }
}

#[test]
fn a_bad_text_is_refused_with_file_and_line() {
    let Some(nvrtc) = for_test() else { return };
    let log = refused(
        nvrtc,
        "__global__ void k() {\n    nothing();\n}\n",
        Output::Ptx,
        &[],
    );
    assert!(
        log.starts_with("test.cu(2): error: identifier \"nothing\""),
        "{log}"
    );
    let log = refused(nvrtc, "#include <cuda_bf16.h>\n", Output::Ptx, &[]);
    assert!(
        log.contains("could not open source file \"cuda_bf16.h\""),
        "{log}"
    );
    let log = refused(nvrtc, ADD, Output::Ptx, &["--no-such-option"]);
    assert!(
        log.contains("unrecognized option --no-such-option"),
        "{log}"
    );
    let error = nvrtc
        .compile("x", "deep/folder/test.cu", Target::SM80, Output::Ptx, &[])
        .unwrap_err()
        .to_string();
    let start = "deep/folder/test.cu does not compile for sm_80 (NVRTC_ERROR_COMPILATION):\ndeep/folder/test.cu(1): error";
    assert!(error.starts_with(start), "{error}");
}

#[test]
fn what_ptxas_refuses_is_told_with_the_ptx() {
    let Some(nvrtc) = for_test() else { return };
    let source = "__global__ void k() {\n    asm volatile(\"no.such.instruction;\");\n}\n";
    let result = nvrtc.compile(source, "test.cu", Target::SM80, Output::Cubin, &[]);
    let Err(NvrtcError::Refused { log, ptx, .. }) = result else {
        panic!("expected a refusal, found {result:?}");
    };
    let line = ptx
        .lines()
        .position(|line| line.contains("no.such"))
        .unwrap()
        + 1;
    assert!(
        log.contains(&format!("ptx input, line {line}; error")),
        "{log}"
    );
}

#[test]
fn errors_that_statistics_hide_are_found_out() {
    let Some(nvrtc) = for_test() else { return };
    let source = r#"extern "C" __global__ void big(float *out) {
    __shared__ float s[20000];
    s[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x * 7 % 20000];
}
"#;
    let log = refused(nvrtc, source, Output::Cubin, &[]);
    assert!(log.contains("'big' uses too much shared data"), "{log}");
    assert!(log.contains("80000 bytes smem"), "{log}");
}

#[test]
fn remarks_about_wgmma_are_notes_of_their_kernel() {
    let Some(nvrtc) = for_test() else { return };
    let mut operands = String::new();
    let mut registers = String::new();
    for i in 0..32 {
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(operands, "{comma}%{i}");
        let _ = write!(registers, "{comma}\"+f\"(d[{i}])");
    }
    let source = format!(
        r#"typedef unsigned long long u64;
__device__ __forceinline__ void multiply(float (&d)[32], u64 a, u64 b) {{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{operands}}}, %32, %33, 1, 1, 1, 0, 0;"
        : {registers} : "l"(a), "l"(b));
}}
extern "C" __global__ void serial(float *out, u64 a, u64 b) {{
    float d[32] = {{}};
    asm volatile("wgmma.fence.sync.aligned;");
    multiply(d, a, b);
    d[3] += 1.0f;
    multiply(d, a + 2, b);
    asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;");
    for (int i = 0; i < 32; i++) out[i * 128 + threadIdx.x] = d[i];
}}
"#
    );
    let stats = &compile(nvrtc, &source, "sm_90a", Output::Cubin).stats[0];
    let is_slow = |note: &String| note.starts_with("(C75") && note.contains("Performance Loss");
    assert!(stats.notes.iter().any(is_slow), "{stats:?}");
}

#[test]
fn nul_bytes_and_unknown_targets_are_refused_before_the_compiler_sees_them() {
    let Some(nvrtc) = for_test() else { return };
    let nul = |source: &str, name: &str, options: &[&str]| {
        nvrtc
            .compile(source, name, Target::SM80, Output::Ptx, options)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        nul("int a;\0int b;", "a.cu", &[]),
        "expected no NUL byte, found one in the source at byte 6"
    );
    assert!(nul(ADD, "a\0.cu", &[]).contains("in the name"));
    assert!(nul(ADD, "a.cu", &["-D\0"]).contains("in the option"));
    let to = target("sm_999a");
    let error = nvrtc
        .compile(ADD, "a.cu", to, Output::Ptx, &[])
        .unwrap_err();
    assert!(matches!(&error, NvrtcError::Target { supported, .. } if supported.contains(&80)));
    assert!(
        error
            .to_string()
            .contains("makes no code for sm_999a, only for ["),
        "{error}"
    );
}

/// Threads that compile different texts to different outputs at the same time get what one thread gets.
#[test]
fn threads_compile_at_the_same_time() {
    let Some(nvrtc) = for_test() else { return };
    let source = |i: usize| {
        let text = if i.is_multiple_of(4) { SPILL } else { ADD };
        format!(
            "{text}\n__device__ int number_{i}() {{ return {i}; }}\n__global__ void k{i}(int *out) {{ out[0] = number_{i}(); }}\n"
        )
    };
    let one = |i: usize| {
        let to = ["sm_80", "sm_90a", "sm_120a"][i % 3];
        let output = if i.is_multiple_of(2) {
            Output::Cubin
        } else {
            Output::Ptx
        };
        let compiled = compile(nvrtc, &source(i), to, output);
        (compiled.ptx, compiled.cubin)
    };
    let alone: Vec<_> = (0..6).map(one).collect();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|shift| {
                let (one, alone) = (&one, &alone);
                scope.spawn(move || {
                    for i in 0..6 {
                        let i = (i + 2 * shift) % 6;
                        assert!(
                            one(i) == alone[i],
                            "text {i} differs from what one thread made"
                        );
                    }
                    // A failure of one thread must not reach the others.
                    let log = refused(nvrtc, &format!("error_{shift}"), Output::Ptx, &[]);
                    assert!(log.contains(&format!("error_{shift}")), "{log}");
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread fails");
        }
    });
    let different: BTreeSet<&String> = alone.iter().map(|(ptx, _)| ptx).collect();
    assert_eq!(different.len(), 6);
}
