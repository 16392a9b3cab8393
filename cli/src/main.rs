//! The `maskwright` command: flags in, text out.

#[expect(
    clippy::doc_markdown,
    reason = "these are the help texts, which are read on a terminal"
)]
mod args;
mod bucket;
mod capture;
mod cmd;
mod engine;
mod error;
mod gpu;
mod memory;
mod output;
mod progress;
mod rule;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use error::CliError;

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;

/// How a command that could do its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, or verified.
    Done,
    /// An engine and the rule disagree.
    Mismatch,
    /// Refused; whoever says so has said why.
    Refused,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.command) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Mismatch) => ExitCode::from(1),
        Ok(Outcome::Refused) => ExitCode::from(2),
        Err(error) => {
            output::print_error(&error);
            ExitCode::from(2)
        }
    }
}

fn run(command: &Command) -> Result<Outcome, CliError> {
    match command {
        Command::Tour(args) => cmd::tour::run(args),
        Command::Verify(args) => cmd::verify::run(args),
        Command::Eval(args) => cmd::eval::run(args),
        Command::Run(args) => cmd::run::run(args),
        Command::Bench(args) => cmd::bench::run(args),
        Command::Show(args) => cmd::show::run(args),
        Command::Explain(args) => cmd::explain::run(args),
        Command::Precompile(args) => cmd::precompile::run(args),
        Command::Emit(args) => cmd::emit::run(args),
        Command::Cache(args) => cmd::cache::run(args),
        Command::Doctor(args) => cmd::doctor::run(args),
        Command::Catalogue(args) => cmd::catalogue::run(args),
        Command::Completions(args) => cmd::shell::completions(args),
        Command::Man => cmd::shell::man(),
    }
}
