//! Automation of this repository: `cargo xtask ci` is the test command, and CI runs nothing else.

mod ci;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

commands:
  ci      everything that CI checks: format, lints, docs, tests, examples, features, tidiness
  tidy    the checks of the source tree alone
  bless   rewrite the expected outputs of tests, to be read in the diff
";

fn main() -> ExitCode {
    let command = std::env::args().nth(1);
    let outcome = match command.as_deref() {
        Some("ci") => ci::run(),
        Some("tidy") => tidy::run(),
        Some("bless") => ci::bless(),
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

/// The root of the repository.
fn root() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the xtask lies one folder below the root")
}
