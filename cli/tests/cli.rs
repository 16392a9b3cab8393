//! The command as scripts use it: exit codes, JSON fields, files.

use std::path::Path;
use std::process::{Command, Output};

use maskwright::tensor::{Tensor, TensorData, read_tensor, write_tensor};
use serde_json::Value;
use tempfile::TempDir;

/// A directory for files and the cache of one test.
struct Desk {
    dir: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn tensor(&self, name: &str, shape: &[usize], data: impl Into<TensorData>) -> String {
        let path = self.path(name);
        let tensor = Tensor {
            shape: shape.to_vec(),
            data: data.into(),
        };
        write_tensor(&path, &tensor).unwrap();
        path
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_maskwright"))
            .args(args)
            .current_dir(self.dir.path())
            .env("MASKWRIGHT_CACHE", self.dir.path().join("cache"))
            .env_remove("NO_COLOR")
            .output()
            .unwrap()
    }

    /// Runs, expects an exit code, and gives stdout.
    #[track_caller]
    fn stdout(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(!error.contains("panicked"), "{error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs, expects exit code 2, and gives stderr; stdout is empty.
    #[track_caller]
    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(!error.contains("panicked"), "{error}");
        assert!(output.stdout.is_empty(), "{args:?}");
        error
    }

    #[track_caller]
    fn json(&self, code: i32, args: &[&str]) -> Value {
        serde_json::from_str(&self.stdout(code, args)).unwrap()
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn sorted<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    names
}

fn keys(value: &Value) -> Vec<&str> {
    sorted(value.as_object().unwrap().keys().map(String::as_str))
}

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "expected `{part}` in:\n{text}");
    }
}

const AT_333: [&str; 4] = ["--q-len", "333", "--kv-len", "333"];

#[test]
fn verify_gives_the_figures_of_the_corpus() {
    let desk = Desk::new();
    let flags = words("--json --block 128x128 --block 64x64");
    let json = desk.json(0, &[&["verify", "kv <= q"][..], &flags, &AT_333].concat());
    let expected = "rule verdict batch heads q_len kv_len allowed rows_without_any_key packbits_sha256 blocks \
                    cells_checked exhaustive seconds preconditions refusals";
    assert_eq!(keys(&json), sorted(words(expected)));
    assert_eq!(json["verdict"], "verified");
    assert_eq!(json["rule"], "kv <= q");
    assert_eq!(json["allowed"], 55_611);
    assert_eq!(json["rows_without_any_key"], 0);
    assert_eq!(
        json["packbits_sha256"],
        "1ef61d629cd2418c79806abf0e81efe4bc40fe771dc4f851d5956fcb3142de12"
    );
    assert_eq!(json["exhaustive"], true);
    let block = |at: usize| {
        let block = &json["blocks"][at];
        ["q_block", "kv_block", "full", "partial", "empty"].map(|key| block[key].as_u64().unwrap())
    };
    assert_eq!(block(0), [128, 128, 1, 5, 3]);
    assert_eq!(block(1), [64, 64, 10, 11, 15]);
    assert_eq!(keys(&json["blocks"][0]).len(), 6);
    assert_eq!(
        json["blocks"][0]["class_sha256"],
        "b4d4726779853cdfddbb36d891e34c1fdb7f30f4aae6f839227a2d02af74161c"
    );
    assert_eq!(
        json["blocks"][1]["class_sha256"],
        "a217b64903ec92885d8358aff0f8291d2877077f099a865e17dd26409521c9a4"
    );
}

#[test]
fn verify_reports_blocks_of_128_unless_told_and_certifies_in_words() {
    let desk = Desk::new();
    let json = desk.json(0, &[&["verify", "causal", "--json"][..], &AT_333].concat());
    assert_eq!(json["blocks"].as_array().unwrap().len(), 1);
    assert_eq!(json["blocks"][0]["q_block"], 128);
    let text = desk.stdout(0, &[&["verify", "causal"][..], &AT_333].concat());
    contains(
        &text,
        &["verified: 55 611 cells attend", "interpreter is the law"],
    );
}

#[test]
fn a_refused_rule_says_so_in_json_and_draws_the_place() {
    let desk = Desk::new();
    let rule = "kv <= q * 1000000000";
    let output = desk.run(&["verify", rule, "--q-len", "9", "--kv-len", "9", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"], "refused");
    assert!(json["allowed"].is_null() && json["packbits_sha256"].is_null());
    contains(json["refusals"][0].as_str().unwrap(), &["i32 cannot hold"]);
    let error = String::from_utf8(output.stderr).unwrap();
    contains(&error, &["error[overflow]", rule, "^^^^"]);
}

#[test]
fn a_score_rule_is_verified_with_the_mask_that_it_implies() {
    let desk = Desk::new();
    let lengths = words("--q-len 5 --kv-len 6 --json");
    let rule = "if kv <= q { score } else { -inf }";
    let json = desk.json(0, &[&["verify", rule][..], &lengths].concat());
    assert_eq!(json["allowed"], 15);
    let softcap = ["verify", "softcap", "--set", "cap=2"];
    assert_eq!(
        desk.json(0, &[&softcap[..], &lengths].concat())["allowed"],
        30
    );
}

#[test]
fn a_bucket_is_verified_too_and_figures_stay_those_of_the_lengths() {
    let desk = Desk::new();
    let flags = words("--set w=3 --q-len 9 --kv-len 9");
    let rule = [&["verify", "kv <= q && q - kv < w"][..], &flags].concat();
    let alone = desk.json(0, &[&rule[..], &["--json"]].concat());
    let bucket = ["--json", "--bucket", "1..=40,w=1..=8"];
    let with = desk.json(0, &[&rule[..], &bucket].concat());
    assert_eq!(alone["packbits_sha256"], with["packbits_sha256"]);
    assert_eq!(alone["blocks"], with["blocks"]);
    assert!(alone["cells_checked"].as_u64() < with["cells_checked"].as_u64());
    let error = desk.refused(&[&rule[..], &["--bucket", "1..=40,v=1..=8"]].concat());
    contains(&error, &["no rule has an integer scalar v"]);
}

#[test]
fn captures_are_converted_where_no_value_changes() {
    let desk = Desk::new();
    let docs = desk.tensor("docs.npy", &[6], vec![0_i64, 0, 0, 1, 1, 1]);
    let capture = format!("doc={docs}");
    let lengths = ["--q-len", "6", "--kv-len", "6"];
    let expression = "kv <= q && doc[q] == doc[kv]";
    let bare = ["verify", expression, "--json", "--capture", &capture];
    assert_eq!(desk.json(0, &[&bare[..], &lengths].concat())["allowed"], 12);
    let file = desk.path("packed.mask");
    let text = "mask other() = true\nmask packed(doc: [i32; kv_len], window: i32 in 1..=64) =\n    kv <= q && doc[q] == \
                doc[kv] && q - kv < window\n";
    std::fs::write(&file, text).unwrap();
    let named = format!("{file}:packed");
    let base = [&["verify", &named, "--set", "window=2"][..], &lengths].concat();
    let json = desk.json(0, &[&base[..], &["--capture", &capture, "--json"]].concat());
    assert_eq!(json["allowed"], 10);
    contains(&json["preconditions"].to_string(), &["window"]);
    let wide = desk.tensor("wide.npy", &[6], vec![0_i64, 0, 0, 1, 1, 1 << 40]);
    let wide = format!("doc={wide}");
    let error = desk.refused(&[&base[..], &["--capture", &wide]].concat());
    contains(&error, &["element 5", "1099511627776", "i32"]);
    let offset = desk.tensor("offset.npy", &[], vec![3_i64]);
    let offset = format!("offset={offset}");
    let rule = ["verify", "kv <= q + offset", "--capture", &offset];
    let json = desk.json(
        0,
        &[&rule[..], &words("--q-len 1 --kv-len 9 --json")].concat(),
    );
    assert_eq!(json["allowed"], 4);
}

#[test]
fn missing_and_unknown_names_are_all_said_at_once() {
    let desk = Desk::new();
    let text = "mask r(doc: [i32; kv_len] in 0..=9, window: i32 in 1..=8, const K: i32) =\n    doc[q] == doc[kv] && q - \
                kv < window && any(i in 0..K, kv == i)\n";
    std::fs::write(desk.path("r.mask"), text).unwrap();
    let refused = |flags: &[&str]| {
        let lengths = ["--q-len", "6", "--kv-len", "6"];
        desk.refused(&[&["verify"][..], flags, &lengths].concat())
    };
    contains(
        &refused(&["r.mask"]),
        &[
            "doc: [i32; kv_len] in 0..=9  --capture doc=FILE",
            "window: i32 in 1..=8         --set window=VALUE",
            "const K: i32                 --set K=VALUE",
        ],
    );
    let docs = desk.tensor("docs.npy", &[6], vec![0_i64, 0, 0, 1, 1, 1]);
    let capture = format!("doc={docs}");
    let given = ["verify", "r.mask", "--capture", &capture, "--json"];
    let rest = words("--set window=8 --set K=2 --q-len 6 --kv-len 6");
    let json = desk.json(0, &[&given[..], &rest].concat());
    assert_eq!(json["allowed"], 6);
    contains(
        &refused(&["r.mask", "--set", "windw=3"]),
        &["windw; did you mean window?"],
    );
    contains(
        &refused(&["kv <= q", "--set", "w=3"]),
        &["no rule reads w", "reads no captured value"],
    );
    contains(&refused(&["casual"]), &["did you mean causal?"]);
    contains(&refused(&["r.mask:s"]), &["error"]);
    contains(
        &refused(&["kv <= q", "--set", "w=3", "--set", "w=4"]),
        &["w is given twice"],
    );
    contains(
        &refused(&["q - kv < w", "--set", "w=x"]),
        &["--set w: expected a number, true, false or inf, found `x`"],
    );
}

#[test]
fn bad_numbers_are_refused_and_none_panics() {
    let desk = Desk::new();
    let refused = |flags: &str, part: &str| {
        let error = desk.refused(&[&["verify", "kv <= q"][..], &words(flags)].concat());
        contains(&error, &[part]);
    };
    refused(
        "--q-len -1 --kv-len 4",
        "expected a length from 0 to 2147483647",
    );
    refused("--q-len 4 --kv-len 3000000000", "expected a length");
    refused("--q-len 4 --kv-len 4 --block 0x4", "found `0x4`");
    refused("--q-len 4 --kv-len 4 --batch 0", "expected a count");
    refused(
        "--q-len 4 --kv-len 4 --bucket 9..=1",
        "range of lengths is empty",
    );
    refused("--q-len 4 --kv-len 4 --capture x=none.npy", "none.npy");
    refused("--q-len 4 --kv-len 4 --capture x", "NAME=FILE");
    refused("--q-len 2147483647 --kv-len 2147483647", "too large");
    refused("--q-len 9 --kv-len 9 --q-offset 2147483647", "2147483647");
    let verify = |flags: &str| {
        let args = [&["verify", "kv <= q", "--json"][..], &words(flags)].concat();
        desk.json(0, &args)["allowed"].as_u64()
    };
    assert_eq!(verify("--q-len 0 --kv-len 4"), Some(0));
    assert_eq!(verify("--q-len 1 --kv-len 9 --q-offset 4"), Some(5));
    assert_eq!(verify("--q-len 1 --kv-len 9 --q-offset -4"), Some(0));
}

#[test]
fn eval_writes_cells_and_scores() {
    let desk = Desk::new();
    let lengths = words("--q-len 2 --kv-len 3 --q-offset 1 --out o.npy");
    let data = || read_tensor(&desk.path("o.npy")).unwrap();
    for backend in ["auto", "cpu", "reference"] {
        let flags = [&["--backend", backend][..], &lengths].concat();
        desk.stdout(0, &[&["eval", "kv <= q"][..], &flags].concat());
        assert_eq!(data().shape, [1, 1, 2, 3]);
        assert_eq!(
            data().data,
            vec![true, true, false, true, true, true].into()
        );
        let scores = vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let scores = desk.tensor("s.npy", &[1, 1, 2, 3], scores);
        let rule = "if kv <= q { 2.0 * score } else { -inf }";
        desk.stdout(
            0,
            &[&["eval", rule, "--scores", &scores][..], &flags].concat(),
        );
        let expected = vec![2.0_f32, 4.0, f32::NEG_INFINITY, 8.0, 10.0, 12.0];
        assert_eq!(data().data, expected.into());
    }
    let scores = desk.tensor("t.npy", &[1, 1, 2, 4], vec![0.0_f32; 8]);
    let error = desk.refused(&[&["eval", "score", "--scores", &scores][..], &lengths].concat());
    contains(&error, &["expected shape [1, 1, 2, 3], found [1, 1, 2, 4]"]);
}

fn wave(n: usize, step: f32) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * step).sin()).collect()
}

#[test]
fn run_attends_as_the_reference_does() {
    let desk = Desk::new();
    desk.tensor("q.npy", &[1, 4, 50, 8], wave(1600, 0.7));
    desk.tensor("k.npy", &[1, 2, 70, 8], wave(1120, 0.3));
    desk.tensor("v.npy", &[1, 2, 70, 8], wave(1120, 0.9));
    let flags =
        "run --q q.npy --k k.npy --v v.npy --score softcap --set cap=2.0 --set w=20 --scale 0.5";
    let rule = ["--mask", "kv <= q && q - kv < w", "--json"];
    let run = |more: &str| desk.json(0, &[&words(flags)[..], &rule, &words(more)].concat());
    let json = run("--o o.npy --lse l.npy");
    for field in words("backend kernel refusals tiles shapes seconds") {
        assert!(!json[field].is_null(), "{field}");
    }
    assert_eq!(keys(&json["tiles"]), ["full", "partial", "skipped"]);
    assert_eq!(json["backend"], "cpu");
    run("--o r.npy --lse lr.npy --backend reference");
    for names in [["o.npy", "r.npy"], ["l.npy", "lr.npy"]] {
        let [found, expected] =
            names.map(|name| match read_tensor(&desk.path(name)).unwrap().data {
                TensorData::F32(data) => data,
                other => panic!("expected f32, found {}", other.dtype()),
            });
        let worst = found
            .iter()
            .zip(expected.iter())
            .map(|(a, b)| (a - b).abs());
        assert!(worst.fold(0.0, f32::max) < 1e-5);
    }
    let text = desk.stdout(
        0,
        &words("run --q q.npy --k k.npy --v v.npy --o o.safetensors:o"),
    );
    contains(&text, &["ran", "tiles", "not reference"]);
    let out = read_tensor(&desk.path("o.safetensors:o")).unwrap();
    assert_eq!(out.shape, [1, 4, 50, 8]);
    let refused = |flags: &str| desk.refused(&words(flags));
    contains(
        &refused("run --q q.npy --k l.npy --v v.npy --o x.npy"),
        &["expected a tensor [batch, heads, length, head_dim]"],
    );
    contains(
        &refused("run --q q.npy --k k.npy --v v.npy --mask softcap --set cap=1 --o x.npy"),
        &["expected a mask rule, found the score rule softcap"],
    );
    contains(
        &refused("run --q q.npy --k k.npy --v v.npy --mask causal --bucket 1..=9 --o x.npy"),
        &["does not lie in the bucket"],
    );
}

#[test]
fn run_keeps_the_type_of_the_queries() {
    let desk = Desk::new();
    let half: Vec<half::bf16> = wave(64, 0.5)
        .into_iter()
        .map(half::bf16::from_f32)
        .collect();
    desk.tensor("x.safetensors:x", &[1, 1, 8, 8], half);
    let file = "x.safetensors:x";
    let args = ["run", "--q", file, "--k", file, "--v", file];
    let rest = words("--mask causal --o o.safetensors:o");
    desk.stdout(0, &[&args[..], &rest].concat());
    let out = read_tensor(&desk.path("o.safetensors:o")).unwrap();
    assert_eq!(out.data.dtype().name(), "bf16");
}

#[test]
fn bench_mask_has_its_figures() {
    let desk = Desk::new();
    let json = desk.json(0, &words("bench mask causal --len 4096 --json"));
    let expected =
        "median_ms peak_bytes mask_bytes runs blocks_proved blocks_evaluated cells_evaluated";
    assert_eq!(keys(&json), sorted(words(expected)));
    assert_eq!(json["runs"], 63);
    assert_eq!(json["blocks_proved"], 1024);
    assert!(0 < json["peak_bytes"].as_u64().unwrap());
    let text = desk.stdout(0, &words("bench mask causal --len 256"));
    contains(&text, &["build", "ms"]);
}

#[test]
fn show_draws_blocks_cells_and_images() {
    let desk = Desk::new();
    let show = |flags: &str| desk.stdout(0, &words(flags));
    let text = show("show causal --len 256 --block 64x64 --png b.png --svg b.svg");
    contains(&text, &["192 ███░", "6 full, 4 partial, 6 empty"]);
    let png = std::fs::read(desk.path("b.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG"));
    let svg = std::fs::read_to_string(desk.path("b.svg")).unwrap();
    contains(&svg, &["<svg", "<rect", "</svg>"]);
    contains(
        &show("show causal --q-len 2 --kv-len 3 --cells --png c.png"),
        &["#..\n##.\n"],
    );
    let json = desk.json(0, &words("show causal --len 256 --block 64x64 --json"));
    assert_eq!(json["full"], 6);
    let refused = |flags: &str| desk.refused(&words(flags));
    contains(
        &refused("show causal --len 8 --h 1"),
        &["head 1 lies outside 0..1"],
    );
    contains(&refused("show causal --len 1000 --cells"), &["too large"]);
    contains(&refused("show causal"), &["give --len N"]);
    contains(
        &refused("show causal --len 9 --block 4x4 --block 8x8"),
        &["expected one --block, found 2"],
    );
    show("show causal --len 0 --png d.png --svg d.svg");
    show("show causal --q-len 0 --kv-len 9 --cells --png e.png");
    show("show causal --q-len 9 --kv-len 0 --cells --png f.png");
    contains(&show("show causal --bucket 1..=300"), &["3 x 3 blocks"]);
}

#[test]
fn explain_says_why() {
    let desk = Desk::new();
    let window = "kv <= q && q - kv < 256";
    let explain =
        |rule: &str, flags: &str| desk.stdout(0, &[&["explain", rule][..], &words(flags)].concat());
    contains(
        &explain(window, "--len 1024 --block-at 5,1"),
        &[
            "empty: proved",
            "q - kv < 256 is always false: q - kv is 385..=639",
        ],
    );
    contains(
        &explain(window, "--len 1024 --block-at 3,1"),
        &[
            "partial",
            "first attended cell: q=384 kv=129",
            "first masked cell: q=384 kv=128",
        ],
    );
    contains(
        &explain(window, "--len 1024 --cell 300,10"),
        &["query does not attend to key"],
    );
    contains(
        &explain("q <= kv * 100", "--len 300"),
        &[
            "reads: q, kv",
            "refused from length 21474838 on",
            "error[overflow]",
        ],
    );
    let json: Value = serde_json::from_str(&explain("q <= kv * 100", "--len 300 --json")).unwrap();
    assert_eq!(json["first_refused_length"], 21_474_838);
    let json: Value = serde_json::from_str(&explain(window, "--bucket 1..=1024 --json")).unwrap();
    assert!(json["first_refused_length"].is_null());
    let refused = |flags: &str| desk.refused(&[&["explain", window][..], &words(flags)].concat());
    contains(
        &refused("--len 1024 --block-at 8,0"),
        &["block row 8 lies outside 0..8"],
    );
    contains(
        &refused("--len 1024 --cell -1,0"),
        &["q -1 lies outside 0..1024"],
    );
}

#[test]
fn emit_prints_stages() {
    let desk = Desk::new();
    let emit = |flags: &str| desk.stdout(0, &words(flags));
    contains(
        &desk.stdout(0, &["emit", "ir", "kv <= q && 1 < 2"]),
        &["mask expression", "return"],
    );
    contains(
        &desk.stdout(0, &["emit", "simplified", "kv <= q && 1 < 2", "--len", "9"]),
        &["le %0, %1"],
    );
    contains(
        &emit("emit blocks causal --len 384"),
        &["1: F 0; P 1", "2: F 0..2; P 2"],
    );
    contains(&emit("emit clif causal --len 9"), &["function"]);
    let torch: Value =
        serde_json::from_str(&emit("emit blocks causal --len 256 --format torch")).unwrap();
    assert_eq!(torch["kv_num_blocks"]["data"], serde_json::json!([1, 1]));
    let columns: Value =
        serde_json::from_str(&emit("emit blocks causal --len 4 --format flashmask")).unwrap();
    assert_eq!(columns["bounds"], serde_json::json!(["LTS"]));
    emit("emit blocks causal --len 256 --format file --out m.blocks");
    assert!(Path::new(&desk.path("m.blocks")).is_file());
    let refused = |flags: &str| desk.refused(&words(flags));
    contains(
        &refused("emit blocks causal --len 256 --format file"),
        &["--out"],
    );
    contains(
        &refused("emit plan causal --len 9"),
        &[
            "ir, simplified, blocks, clif, cuda, ptx, cubin, sass, stats",
            "plan is not in this version",
        ],
    );
    contains(
        &refused("emit nonsense causal --len 9"),
        &["found `nonsense`"],
    );
}

#[test]
fn emit_prints_the_stages_of_a_kernel() {
    let desk = Desk::new();
    let emit = |flags: &str| desk.stdout(0, &words(flags));
    contains(
        &emit("emit cuda causal --len 9 --dtype bf16 --head-dim 128"),
        &["mask_mod", "__global__", "forward"],
    );
    let refused = |flags: &str| desk.refused(&words(flags));
    contains(
        &refused("emit cuda causal --len 9 --head-dim 12"),
        &["expected d_qk to be a multiple of 8 from 16 to 256, found 12"],
    );
    contains(
        &refused("emit cuda causal --len 9 --dtype f16,f32"),
        &["expected one --dtype, found 2"],
    );
    contains(
        &refused("emit cuda causal --len 9 --target sm_70"),
        &["expected a target like sm_80 or sm_90a"],
    );
    contains(
        &refused("emit cubin causal --len 9"),
        &["stage cubin is no text: it needs --out FILE"],
    );
    if maskwright::jit::nvrtc::for_test().is_none() {
        return;
    }
    contains(
        &emit("emit ptx causal --len 9"),
        &[".target sm_80", ".entry forward"],
    );
    contains(
        &emit("emit stats causal --len 9 --target sm_90a"),
        &["sm_90a by NVRTC", "registers, 0 + 0 bytes spilled"],
    );
    emit("emit cubin causal --len 9 --out k.cubin");
    let cubin = std::fs::read(desk.path("k.cubin")).unwrap();
    assert!(cubin.starts_with(b"\x7fELF"));
    let nowhere = desk.path("nowhere");
    let output = Command::new(env!("CARGO_BIN_EXE_maskwright"))
        .args(words("emit sass causal --len 9"))
        .env("MASKWRIGHT_CACHE", desk.path("cache"))
        .env("PATH", nowhere)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    contains(
        &String::from_utf8(output.stderr).unwrap(),
        &["expected nvdisasm or cuobjdump on PATH"],
    );
}

#[test]
fn kernels_run_and_are_verified_in_the_emulator() {
    if maskwright::jit::nvrtc::for_test().is_none() {
        return;
    }
    let desk = Desk::new();
    desk.tensor("q.npy", &[1, 2, 40, 16], wave(1280, 0.7));
    desk.tensor("k.npy", &[1, 1, 50, 16], wave(800, 0.3));
    desk.tensor("v.npy", &[1, 1, 50, 16], wave(800, 0.9));
    let run = |more: &str| {
        let flags = format!("run --q q.npy --k k.npy --v v.npy --mask causal --json {more}");
        desk.json(0, &words(&flags))
    };
    let json = run("--o o.npy --lse l.npy --backend emulator");
    assert_eq!(json["backend"], "emulator");
    assert_eq!(json["device"], "emulator of sm_80");
    run("--o r.npy --lse lr.npy --backend reference");
    for names in [["o.npy", "r.npy"], ["l.npy", "lr.npy"]] {
        let [found, expected] = names.map(|name| {
            let data = read_tensor(&desk.path(name)).unwrap().data;
            let TensorData::F32(data) = data else {
                panic!("expected f32, found {}", data.dtype());
            };
            data
        });
        let pairs = found.iter().zip(expected.iter());
        assert!(pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) < 1e-5);
    }
    // Both rules alone, cell by cell.
    let eval = |flags: &str| desk.stdout(0, &words(flags));
    for (rule, flags) in [("causal", ""), ("softcap", "--set cap=2.0")] {
        eval(&format!(
            "eval {rule} {flags} --q-len 30 --kv-len 70 --backend emulator --out a.npy"
        ));
        eval(&format!(
            "eval {rule} {flags} --q-len 30 --kv-len 70 --out b.npy"
        ));
        let [a, b] = ["a.npy", "b.npy"].map(|name| read_tensor(&desk.path(name)).unwrap());
        assert_eq!(a, b);
    }
    let text = desk.stdout(
        0,
        &words(
            "verify causal --q-len 70 --kv-len 70 --backend emulator --dtype bf16 --head-dim 32",
        ),
    );
    contains(
        &text,
        &[
            "mask bits of the kernel on emulator of sm_80 against the law",
            "attention on emulator of sm_80 in bf16, heads of 32",
        ],
    );
    let flags =
        "precompile causal --bucket 1..=64 --backend emulator --target sm_80,sm_90a --dtype f16";
    let json = desk.json(0, &words(&format!("{flags} --json")));
    let kernels = json["outcomes"][0]["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), 2);
    contains(kernels[1].as_str().unwrap(), &["f16 d64 sm_90a"]);
    // The kernel is there, so nothing needs to be compiled.
    let output = Command::new(env!("CARGO_BIN_EXE_maskwright"))
        .args(words("emit stats causal --bucket 1..=64 --target sm_90a"))
        .env("MASKWRIGHT_CACHE", desk.path("cache"))
        .env("MASKWRIGHT_NO_COMPILE", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    contains(
        &desk.refused(&words("show causal --len 64 --backend emulator")),
        &["blocks are classified on the processor"],
    );
}

#[test]
fn precompile_fills_the_cache_that_cache_shows() {
    let desk = Desk::new();
    let args =
        "precompile causal softcap --set cap=2.0 --bucket 1..=40 --bucket q=1,kv=1..=90 --json";
    for cached in [false, true] {
        let json = desk.json(0, &words(args));
        let outcomes = json["outcomes"].as_array().unwrap();
        assert_eq!(outcomes.len(), 4);
        let fine = |one: &Value| one["verdict"] == "verified" && one["cached"] == cached;
        assert!(outcomes.iter().all(fine));
    }
    let listed = desk.json(0, &words("cache list --json"));
    assert_eq!(listed["entries"].as_array().unwrap().len(), 4);
    contains(
        &desk.stdout(0, &words("cache check")),
        &["4 of 4 entries are whole"],
    );
    let path = listed["entries"][0]["path"].as_str().unwrap();
    std::fs::write(path, b"damaged").unwrap();
    assert_eq!(desk.json(1, &words("cache check --json"))["faulty"], 1);
    assert_eq!(desk.json(0, &words("cache clear --json"))["entries"], 4);
    contains(&desk.stdout(0, &words("cache list")), &["0 entries"]);
    contains(
        &desk.refused(&words("precompile causal")),
        &["at least one --bucket"],
    );
    contains(
        &desk.refused(&words("precompile causal --bucket 1..=9 --q-offset 3")),
        &["write offset=3 in --bucket"],
    );
    let rule = ["precompile", "kv <= q * 1000000"];
    let flags = words("--bucket 1..=4096 --cache other");
    contains(&desk.stdout(2, &[&rule[..], &flags].concat()), &["failed"]);
}

#[test]
fn doctor_catalogue_completions_and_man_are_there() {
    let desk = Desk::new();
    let text = desk.stdout(0, &["doctor"]);
    contains(&text, &["micro-kernels", "cranelift", "cache", "threads"]);
    let findings = desk.json(0, &words("doctor --json"));
    let findings = findings.as_array().unwrap();
    assert!(8 <= findings.len());
    let cuda = findings
        .iter()
        .find(|finding| finding["name"] == "cuda")
        .unwrap();
    if cuda["ok"] == false {
        assert!(!cuda["found"].as_str().unwrap().is_empty());
        assert_eq!(cuda["cost"], "attention runs on the processor");
    }
    let text = desk.stdout(0, &["catalogue"]);
    contains(&text, &["sliding_window", "alibi", "arXiv"]);
    let text = desk.stdout(0, &words("catalogue causal"));
    contains(&text, &["mask causal() = kv <= q"]);
    let error = desk.refused(&words("catalogue casual"));
    contains(&error, &["did you mean causal?"]);
    let text = desk.stdout(0, &words("completions bash"));
    contains(&text, &["maskwright"]);
    contains(&desk.stdout(0, &["man"]), &[".TH", "maskwright", "verify"]);
}

#[test]
fn doctor_says_whether_kernels_can_be_compiled() {
    let desk = Desk::new();
    let doctor = |args: &[&str], nvrtc: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_maskwright"));
        command.arg("doctor").args(args);
        command.env("MASKWRIGHT_CACHE", desk.path("cache"));
        if let Some(folder) = nvrtc {
            command.env("MASKWRIGHT_NVRTC", folder);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let finding = |text: &str| {
        let findings: Value = serde_json::from_str(text).unwrap();
        let findings = findings.as_array().unwrap();
        let is_nvrtc = |finding: &&Value| finding["name"] == "nvrtc";
        findings.iter().find(is_nvrtc).unwrap().clone()
    };
    let empty = tempfile::tempdir().unwrap();
    contains(
        &doctor(&[], Some(empty.path())),
        &[
            "--  nvrtc",
            "cargo xtask setup-cuda",
            "MASKWRIGHT_NVRTC",
            "holds no libnvrtc.so",
            "so no kernel can be compiled",
        ],
    );
    let missing = finding(&doctor(&["--json"], Some(empty.path())));
    assert_eq!(missing["ok"], false);
    assert_eq!(missing["details"]["tried"].as_array().unwrap().len(), 1);

    if maskwright::jit::nvrtc::for_test().is_none() {
        return;
    }
    let found = finding(&doctor(&["--json"], None));
    assert_eq!(found["ok"], true, "{found}");
    let details = &found["details"];
    assert!(0.0 < details["compile_secs"].as_f64().unwrap());
    assert!(details["version"].as_str().unwrap().contains('.'));
    let architectures = details["architectures"].as_array().unwrap();
    assert!(architectures.contains(&Value::from("sm_80")), "{details}");
    contains(&doctor(&[], None), &["ok  nvrtc", "sm_90", "compiles in"]);
}

#[test]
fn every_command_teaches_with_examples() {
    let desk = Desk::new();
    let commands = "tour verify eval run bench show explain precompile emit cache doctor catalogue completions";
    for command in words(commands) {
        let text = desk.stdout(0, &[command, "--help"]);
        contains(&text, &["Examples:", &format!("maskwright {command}")]);
    }
    let text = desk.stdout(0, &["--help"]);
    contains(&text, &["verify", "tour", "RULE"]);
    assert_eq!(desk.run(&[]).status.code(), Some(2));
}

#[test]
fn the_tour_shows_the_main_job() {
    let desk = Desk::new();
    let text = desk.stdout(0, &["tour"]);
    contains(
        &text,
        &[
            "mask packed_window",
            "every cell agrees",
            "a second lookup is a hit",
            "the same bits",
            "434 skipped",
            "error[out-of-bounds]",
            "maskwright show",
        ],
    );
    assert!(text.lines().count() <= 70);
    desk.stdout(0, &words("tour --len 1"));
}

#[test]
fn an_output_never_replaces_an_input_or_another_output() {
    let desk = Desk::new();
    let q = desk.tensor("q.npy", &[1, 1, 4, 2], wave(8, 0.5));
    let pack = desk.tensor("pack.safetensors:q", &[1, 1, 4, 2], wave(8, 0.5));
    let out = desk.path("o.safetensors");
    let with = |o: &str, more: &[&str]| {
        let base = ["run", "--q", &q, "--k", &pack, "--v", &pack, "--o", o];
        desk.refused(&[&base, more].concat())
    };
    contains(&with(&q, &[]), &["--o and --q name the same file"]);
    contains(
        &with(&pack.replace(":q", ":o"), &[]),
        &["--o and --k name the same file"],
    );
    contains(
        &with(&format!("{out}:o"), &["--lse", &format!("{out}:l")]),
        &["--lse and --o name the same file"],
    );
    // Another file of several tensors is kept as well.
    let other = desk.tensor("other.safetensors:weights", &[1], vec![1.0_f32]);
    contains(
        &with(&other.replace(":weights", ":o"), &[]),
        &["holds weights", "would be lost"],
    );
    assert_eq!(read_tensor(&pack).unwrap().shape, [1, 1, 4, 2]);
    assert_eq!(read_tensor(&other).unwrap().shape, [1]);
}

#[test]
fn packed_bits_come_from_truth_values() {
    let desk = Desk::new();
    let file = desk.path("m.mask");
    std::fs::write(&file, "mask m(x: [bits; kv_len]) = x[kv]").unwrap();
    let flags = desk.tensor(
        "x.npy",
        &[11],
        (0..11).map(|i| i % 3 == 0).collect::<Vec<bool>>(),
    );
    let capture = format!("x={flags}");
    let lengths = ["--q-len", "2", "--kv-len", "11"];
    let args = [
        &["verify", &file, "--json", "--capture", &capture][..],
        &lengths,
    ]
    .concat();
    let report: Value = serde_json::from_str(&desk.stdout(0, &args)).unwrap();
    assert_eq!(report["allowed"], 8);
}

#[test]
fn scores_for_a_mask_are_refused_and_rules_may_begin_with_a_sign() {
    let desk = Desk::new();
    let scores = desk.tensor("s.npy", &[1, 1, 3, 3], wave(9, 0.1));
    let out = desk.path("x.npy");
    let args = ["eval", "causal", "--q-len", "3", "--kv-len", "3"];
    let error = desk.refused(&[&args[..], &["--scores", &scores, "--out", &out]].concat());
    contains(&error, &["--scores", "reads no score"]);
    let q = desk.tensor("q.npy", &[1, 1, 3, 2], wave(6, 0.5));
    let args = [
        "run",
        "--q",
        &q,
        "--k",
        &q,
        "--v",
        &q,
        "--mask",
        "-q + kv < 1",
        "--o",
        &out,
    ];
    desk.stdout(0, &args);
}

#[test]
fn overflow_at_one_length_names_the_shortest_that_overflows() {
    let desk = Desk::new();
    let lengths = ["--q-len", "50000", "--kv-len", "50000"];
    let error = desk.run(&[&["verify", "q * kv < 9"][..], &lengths].concat());
    let error = String::from_utf8(error.stderr).unwrap();
    contains(&error, &["the shortest length at which it does is 46342"]);
}
