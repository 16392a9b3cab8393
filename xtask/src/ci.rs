//! The steps of CI, each a command that a person can run as well.

use std::ffi::{OsStr, OsString};
use std::process::Command;
use std::time::Instant;

use crate::{root, setup_cuda, tidy};

/// One command of CI.
struct Step {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

const fn step(name: &'static str, args: &'static [&'static str]) -> Step {
    Step {
        name,
        args,
        env: &[],
    }
}

const STEPS: &[Step] = &[
    step("format", &["fmt", "--all", "--check"]),
    step(
        "lints",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    ),
    step("tests", &["test", "--workspace"]),
    Step {
        name: "docs",
        args: &["doc", "--workspace", "--no-deps"],
        env: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    // The row interpreter is the engine of a build without the compiler.
    step(
        "without features",
        &[
            "test",
            "--package",
            "maskwright",
            "--no-default-features",
            "--lib",
        ],
    ),
    // Neither part of the code generator may lean on the other.
    step(
        "with cuda alone",
        &[
            "check",
            "--package",
            "maskwright",
            "--no-default-features",
            "--features",
            "cuda",
        ],
    ),
    step(
        "with cranelift alone",
        &[
            "check",
            "--package",
            "maskwright",
            "--no-default-features",
            "--features",
            "cranelift",
        ],
    ),
];

/// Runs every step, then the examples, and stops at the first that fails.
pub(crate) fn run() -> Result<(), String> {
    let start = Instant::now();
    timed("tidy", tidy::run)?;
    let mut nvrtc = OsString::new();
    timed("setup-cuda", || {
        nvrtc = setup_cuda::chosen()?.into();
        Ok(())
    })?;
    // With these, tests of CUDA fail where they would otherwise skip.
    let everywhere: [(&str, &OsStr); 2] = [
        (setup_cuda::VARIABLE, &nvrtc),
        ("REQUIRE_NVRTC", OsStr::new("1")),
    ];
    for step in STEPS {
        timed(step.name, || cargo(step.args, step.env, &everywhere))?;
    }
    for example in examples()? {
        let args = [
            "run",
            "--quiet",
            "--profile",
            "test",
            "--package",
            "maskwright-examples",
            "--example",
            &example,
        ];
        timed(&format!("example {example}"), || {
            cargo(&args, &[], &everywhere)
        })?;
    }
    println!(
        "ci: all steps passed in {:.0} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Rewrites snapshots and the expected messages of macro tests.
pub(crate) fn bless() -> Result<(), String> {
    cargo(
        &["test", "--workspace"],
        &[("INSTA_UPDATE", "always"), ("TRYBUILD", "overwrite")],
        &[],
    )
}

fn timed(name: &str, step: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("ci: {name}");
    let start = Instant::now();
    step().map_err(|fault| format!("{name}: {fault}"))?;
    println!(
        "ci: {name} passed in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn cargo(args: &[&str], env: &[(&str, &str)], everywhere: &[(&str, &OsStr)]) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(args)
        .envs(env.iter().copied())
        .envs(everywhere.iter().copied())
        .current_dir(root())
        .status()
        .map_err(|fault| format!("cargo could not be started: {fault}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`cargo {}` failed: {status}", args.join(" ")))
}

/// The numbered examples, in order.
fn examples() -> Result<Vec<String>, String> {
    let folder = root().join("examples");
    let entries =
        std::fs::read_dir(&folder).map_err(|fault| format!("{}: {fault}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_stem()?.to_str()?.to_owned();
            let numbered = name.starts_with(|c: char| c.is_ascii_digit());
            (path.extension()?.to_str()? == "rs" && numbered).then_some(name)
        })
        .collect();
    names.sort();
    Ok(names)
}
