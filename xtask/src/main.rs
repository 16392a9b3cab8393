//! Automation of this repository: `cargo xtask ci` is the test command, and CI runs nothing else.

mod ci;
mod device;
mod setup_cuda;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

commands:
  ci      everything that CI checks: format, lints, docs, tests, examples, features, tidiness
  tidy    the checks of the source tree alone
  bless   rewrite the expected outputs of tests, to be read in the diff
  setup-cuda
          install NVRTC, which compiles CUDA kernels without a GPU, into the target folder (90 MB, once; needs pip)
  device  prepare the run on a machine with a GPU, and run it where this one has one (docs/device.md)
";

fn main() -> ExitCode {
    let command = std::env::args().nth(1);
    let outcome = match command.as_deref() {
        Some("ci") => ci::run(),
        Some("tidy") => tidy::run(),
        Some("bless") => ci::bless(),
        Some("setup-cuda") => setup_cuda::run(),
        Some("device") => device::run(),
        Some(_) | None => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("xtask: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository: one folder above the package that cargo says it runs.
fn root() -> std::path::PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(
        || std::path::PathBuf::from("xtask"),
        std::path::PathBuf::from,
    );
    package
        .parent()
        .map(std::path::Path::to_path_buf)
        .unwrap_or_default()
}
