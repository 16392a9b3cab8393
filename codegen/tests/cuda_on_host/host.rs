//! Printed CUDA functions as host C++: compiled by the machine's own compiler, run at many cells, and compared with the
//! interpreter bit for bit.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use maskwright_codegen::back::cuda::{RuleText, print_mask, print_score, support_text};
use maskwright_codegen::plan::{CapturePart, ParamType, ParamValue};
use maskwright_dsl::capture::{BufferData, CaptureValue};
use maskwright_dsl::eval::{Point, ScalarEvaluator, Sizes};
use maskwright_dsl::ir::{Const, Elem, RuleKind};
use maskwright_dsl::pipeline::Prepared;

/// A rule with the call that it is evaluated in.
pub(crate) struct Subject {
    /// What failures call it.
    pub(crate) name: String,
    /// The rule.
    pub(crate) prepared: Prepared,
    /// Its sizes.
    pub(crate) sizes: Sizes,
    /// Position of the first query.
    pub(crate) q_offset: i32,
}

/// The text of a subject.
pub(crate) fn print(prepared: &Prepared) -> RuleText {
    let printed = match prepared.rule().kind {
        RuleKind::Mask => print_mask(prepared),
        RuleKind::Score => print_score(prepared),
    };
    printed.expect("the rule is small and of the kind that is asked for")
}

/// What device code has and host code has not, with the meaning that the PTX manual gives it.
const DEVICE: &str = r"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define __device__ static
#define __forceinline__ inline
template <class To, class From> static To bits_of(From from) { To to; memcpy(&to, &from, sizeof to); return to; }
static float __int_as_float(uint32_t x) { return bits_of<float>(x); }
static float __uint_as_float(uint32_t x) { return bits_of<float>(x); }
static unsigned __float_as_uint(float x) { return bits_of<unsigned>(x); }
static double __longlong_as_double(long long x) { return bits_of<double>(x); }
static long long __double_as_longlong(double x) { return bits_of<long long>(x); }
static float __fsqrt_rn(float x) { return sqrtf(x); }
static int __float2int_rz(float x) { return x >= 0x1p31f ? INT32_MAX : x < -0x1p31f ? INT32_MIN : x == x ? (int)x : 0; }
static unsigned __float2uint_rz(float x) { return x >= 0x1p32f ? UINT32_MAX : x > 0 ? (unsigned)x : 0; }
static long long __float2ll_rz(float x) { return x >= 0x1p63f ? INT64_MAX : x < -0x1p63f ? INT64_MIN : x == x ? (long long)x : INT64_MIN; }
static float device_min(float a, float b) { return a != a ? b : b != b ? a : a < b ? a : b < a ? b : signbit(a) ? a : b; }
static float device_max(float a, float b) { return a != a ? b : b != b ? a : a > b ? a : b > a ? b : signbit(a) ? b : a; }
#define fminf device_min
#define fmaxf device_max
static int min(int a, int b) { return a < b ? a : b; }
static unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static long long min(long long a, long long b) { return a < b ? a : b; }
static int max(int a, int b) { return a > b ? a : b; }
static unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
static long long max(long long a, long long b) { return a > b ? a : b; }
static float host_half(unsigned short half) {
  const unsigned size = half & 0x7fff;
  const float value = size < 0x7c00 ? bits_of<float>(size << 13) * 0x1p112f : bits_of<float>(size << 13 | 0x7f800000);
  return half & 0x8000 ? -value : value;
}
static FILE* in;
static FILE* out;
template <class T> static T take() { T value; if (fread(&value, sizeof value, 1, in) != 1) exit(2); return value; }
// In memory of its own, so that a sanitizer sees each step over its ends.
static const char* take_buffer() {
  const size_t bytes = take<uint64_t>();
  const size_t first = take<uint64_t>();
  char* data = (char*)malloc(bytes);
  if (bytes != 0 && fread(data, bytes, 1, in) != 1) exit(2);
  return data + first;
}
";

/// Results that the CUDA library approximates need not have the interpreter's bits on a host.
const APPROXIMATED: [&str; 7] = [
    "expf(", "exp2f(", "logf(", "log2f(", "log10f(", "tanhf(", "powf(",
];

/// Relative error that approximations may have, with room for a few of them in a row.
const CLOSE: f32 = 1e-5;

/// Compiles all subjects at once and compares each with the interpreter. `None` if this machine has no C++ compiler.
pub(crate) fn compare(subjects: &[Subject], folder: &Path) -> Option<Vec<String>> {
    let compiler = compiler()?;
    let texts: Vec<RuleText> = subjects.iter().map(|s| print(&s.prepared)).collect();
    let mut support = BTreeSet::new();
    for text in &texts {
        support.extend(text.support.iter().copied());
    }
    let asm = "asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(bits));";
    let mut program = DEVICE.to_owned();
    program += &support_text(&support).replace(asm, "x = host_half(bits);");
    let mut input = Vec::new();
    let mut cells = Vec::new();
    for (i, (subject, text)) in subjects.iter().zip(&texts).enumerate() {
        program += &driver(i, subject.prepared.rule().kind, text);
        let points = points(subject, i as u64);
        feed(&mut input, subject, text, &points);
        cells.push(points);
    }
    program += "int main(int, char** names) {\n  in = fopen(names[1], \"rb\");\n  out = fopen(names[2], \"wb\");\n";
    for i in 0..subjects.len() {
        let _ = writeln!(program, "  rule_{i}::run();");
    }
    program += "  return fclose(out);\n}\n";
    let [source, binary, data, results] =
        ["rules.cpp", "rules", "input", "output"].map(|name| folder.join(name));
    std::fs::write(&source, &program).expect("the folder is ours");
    std::fs::write(&data, &input).expect("the folder is ours");
    compile(compiler, &source, &binary);
    let run = Command::new(&binary)
        .args([&data, &results])
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output();
    let run = run.expect("it was just compiled");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    assert!(said.is_empty(), "{said}");
    let results = std::fs::read(&results).expect("it was just written");
    let mut results = results
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("chunks have four bytes")));
    let mut faults = Vec::new();
    for ((subject, text), points) in subjects.iter().zip(&texts).zip(&cells) {
        let mut law = law(subject);
        let close = APPROXIMATED.iter().any(|name| calls(&text.functions, name));
        let differs = |(point, got): (&Point, u32)| {
            let want = law
                .eval(point)
                .expect("cells at which the rule fails were left out");
            (!agree(want, got, close)).then(|| {
                format!(
                    "{} at {point:?}: expected {want}, found {got:#x}",
                    subject.name
                )
            })
        };
        let got: Vec<u32> = results.by_ref().take(points.len()).collect();
        assert_eq!(got.len(), points.len(), "one word for each cell");
        faults.extend(points.iter().zip(got).find_map(differs));
    }
    Some(faults)
}

fn law(subject: &Subject) -> ScalarEvaluator<'_> {
    let original = subject.prepared.original().rule();
    ScalarEvaluator::new(original, subject.prepared.bindings(), subject.sizes)
}

/// Whether a text calls a function of this name, and not one whose name ends so.
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(|c: char| c == '_' || c.is_ascii_alphanumeric()))
}

fn agree(want: Const, got: u32, close: bool) -> bool {
    match want {
        Const::Bool(v) => u32::from(v) == got,
        Const::F32(v) => {
            let got = f32::from_bits(got);
            let near = (v - got).abs() <= CLOSE * v.abs().max(1.0);
            v.to_bits() == got.to_bits() || (v.is_nan() && got.is_nan()) || (close && near)
        }
        Const::I32(_) | Const::I64(_) | Const::U32(_) => false,
    }
}

/// The first C++ compiler that this machine has.
fn compiler() -> Option<&'static str> {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["g++", "clang++", "c++"].into_iter().find(runs)
}

fn compile(compiler: &str, source: &Path, binary: &Path) {
    let mut said = String::new();
    // Not every compiler comes with the libraries of its sanitizers.
    for sanitizers in [Some("-fsanitize=address,undefined"), None] {
        let mut command = Command::new(compiler);
        command.args(["-std=c++17", "-O0", "-ffp-contract=off", "-w"]);
        command.args(sanitizers);
        command.arg("-o").arg(binary).arg(source);
        let done = command.output().expect("it answered before");
        if done.status.success() {
            return;
        }
        said = String::from_utf8_lossy(&done.stderr).into_owned();
    }
    panic!("{said}");
}

/// The functions of a rule in a namespace of their own, and what feeds them.
fn driver(i: usize, kind: RuleKind, text: &RuleText) -> String {
    let mut program = format!(
        "namespace rule_{i} {{\nstruct Params {{ int q_len, rule_kv_len, batch, num_q_heads;\n"
    );
    let mut read = String::new();
    for (name, ty, _) in &text.params {
        let ty = match ty {
            ParamType::Pointer(to) => {
                let _ = writeln!(read, "  p.{name} = ({to}*)take_buffer();");
                let _ = writeln!(program, "  {to}* {name};");
                continue;
            }
            ParamType::I64 => "long long",
            ParamType::I32 | ParamType::Bool => "int",
            ParamType::U32 => "unsigned",
            ParamType::F32 => "float",
        };
        let _ = writeln!(read, "  p.{name} = take<{ty}>();");
        let _ = writeln!(program, "  {ty} {name};");
    }
    let call = match kind {
        RuleKind::Mask => {
            "MaskRow row = mask_row(p, b, h, q); MaskCol col = mask_col(p, b, h, kv);
    const unsigned result = mask_mod(p, b, h, q, kv, row, col);"
        }
        RuleKind::Score => {
            "ScoreRow row = score_row(p, b, h, q); ScoreCol col = score_col(p, b, h, kv);
    const float result = score_mod(p, score, b, h, q, kv, row, col);"
        }
    };
    let _ = write!(
        program,
        "}};
{}
static void run() {{
  Params p;
  p.q_len = take<int>(); p.rule_kv_len = take<int>(); p.batch = take<int>(); p.num_q_heads = take<int>();
{read}  for (int n = take<int>(); n != 0; --n) {{
    const int b = take<int>(), h = take<int>(), q = take<int>(), kv = take<int>();
    const float score = take<float>(); (void)score;
    {call}
    fwrite(&result, 4, 1, out);
  }}
}}
}}
",
        text.functions
    );
    program
}

/// What the driver reads.
fn feed(input: &mut Vec<u8>, subject: &Subject, text: &RuleText, points: &[Point]) {
    let sizes = &subject.sizes;
    for size in [sizes.q_len, sizes.kv_len, sizes.batch, sizes.num_q_heads] {
        input.extend(size.to_le_bytes());
    }
    let bindings = subject.prepared.bindings();
    for (_, ty, value) in &text.params {
        let (slot, part) = match *value {
            ParamValue::Capture(_, slot, part) => (slot, part),
            ParamValue::Dim(_, dim) => {
                input.extend(bindings.dims[dim].to_le_bytes());
                continue;
            }
            ref other => panic!("a rule asks for {other:?}"),
        };
        match (&bindings.values[slot], part) {
            (CaptureValue::Scalar(value), CapturePart::Value) => match value {
                Const::Bool(v) => input.extend(i32::from(*v).to_le_bytes()),
                Const::I32(v) => input.extend(v.to_le_bytes()),
                Const::I64(v) => input.extend(v.to_le_bytes()),
                Const::U32(v) => input.extend(v.to_le_bytes()),
                Const::F32(v) => input.extend(v.to_le_bytes()),
            },
            (CaptureValue::Buffer(buffer), CapturePart::Address) => {
                assert!(matches!(ty, ParamType::Pointer(_)));
                let bytes = bytes(buffer.data());
                let first = buffer.offset() * width(buffer.elem());
                input.extend((bytes.len() as u64).to_le_bytes());
                input.extend((first as u64).to_le_bytes());
                input.extend(bytes);
            }
            (CaptureValue::Buffer(buffer), CapturePart::Stride(axis)) => {
                input.extend(buffer.strides()[axis].to_le_bytes());
            }
            (CaptureValue::Buffer(buffer), CapturePart::Extent(axis)) => {
                input.extend((buffer.shape()[axis] as i64).to_le_bytes());
            }
            (CaptureValue::Buffer(buffer), CapturePart::BitOffset) => {
                input.extend((buffer.offset() as i64).to_le_bytes());
            }
            (value, part) => panic!("{part:?} of {value:?}"),
        }
    }
    input.extend((points.len() as i32).to_le_bytes());
    for point in points {
        for index in [point.b, point.h, point.q_idx, point.kv_idx] {
            input.extend(index.to_le_bytes());
        }
        input.extend(point.score.to_le_bytes());
    }
}

/// Bytes of an element; none of a packed bit, whose address is that of its byte.
fn width(elem: Elem) -> usize {
    match elem {
        Elem::Bits => 0,
        Elem::Bool | Elem::I8 | Elem::U8 => 1,
        Elem::I16 | Elem::U16 | Elem::F16 | Elem::Bf16 => 2,
        Elem::I32 | Elem::U32 | Elem::F32 => 4,
        Elem::I64 | Elem::F64 => 8,
    }
}

fn bytes(data: &BufferData) -> Vec<u8> {
    match data {
        BufferData::Bool(v) => v.iter().map(|v| u8::from(*v)).collect(),
        BufferData::Bits(v) | BufferData::U8(v) => v.to_vec(),
        BufferData::I8(v) => v.iter().map(|v| *v as u8).collect(),
        BufferData::I16(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
        BufferData::U16(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
        BufferData::I32(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
        BufferData::I64(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
        BufferData::U32(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
        BufferData::F16(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
        BufferData::Bf16(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
        BufferData::F32(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
        BufferData::F64(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
    }
}

/// Corners, then cells that chance picks; without those at which the rule has no value, which only unproved rules have.
fn points(subject: &Subject, seed: u64) -> Vec<Point> {
    let Sizes {
        batch,
        num_q_heads,
        q_len,
        kv_len,
    } = subject.sizes;
    let mut state = seed;
    let mut below = |n: i32| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((word ^ word >> 27) >> 33) as i32 % n
    };
    let mut points = Vec::new();
    if q_len == 0 || kv_len == 0 {
        return points;
    }
    for i in 0..2000 {
        let corner = |n: i32, high: bool| if high { n - 1 } else { 0 };
        let (q, kv) = match i {
            0..4 => (corner(q_len, i & 1 == 1), corner(kv_len, i & 2 == 2)),
            _ => (below(q_len), below(kv_len)),
        };
        points.push(Point {
            b: below(batch),
            h: below(num_q_heads),
            q_idx: subject.q_offset + q,
            kv_idx: kv,
            score: below(1 << 16) as f32 / 8192.0 - 4.0,
        });
    }
    let mut law = law(subject);
    points.retain(|point| law.eval(point).is_ok());
    points
}
