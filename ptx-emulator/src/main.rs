//! The `ptx-emulator` command: runs a kernel of a PTX file on the CPU and says what it did, or what it did wrong.

mod cli;

use std::process::ExitCode;

use clap::Parser;

use cli::args::{Cli, Command};
use cli::error::CliError;

/// How a command that could do its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Done.
    Done,
    /// The kernel was stopped, and the report printed.
    Fault,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match &cli.command {
        Command::Run(args) => cli::run::run(args),
        Command::Check(args) => cli::check::check(args),
    };
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Fault) => ExitCode::from(1),
        Err(error) => {
            print_error(&error);
            ExitCode::from(2)
        }
    }
}

/// The error and what caused it, a line each.
fn print_error(error: &CliError) {
    eprintln!("error: {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        eprintln!("  {error}");
        cause = error.source();
    }
}
