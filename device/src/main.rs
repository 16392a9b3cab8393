//! The run on a machine with a GPU: kernels that were compiled ahead are checked there, timed beside `PyTorch`'s, and both
//! end in one table. `cargo xtask device` prepares it; docs/device.md tells the whole of it.

mod arguments;
mod error;
mod folder;
mod rule;
mod tensors;

mod conformance;
mod timing;

mod prepare;
mod table;

#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::process::ExitCode;

use arguments::Arguments;
use error::RunError;

const USAGE: &str = "usage: maskwright-device <command>

commands:
  prepare DIR [--quick] [--commit HASH]
          compile every kernel into DIR for sm_90a and, as PTX, for sm_80; write CASES.json and manifest.json
  check DIR [--backend cuda|emulator] [--only TEXT] [--emulator-seconds N]
          conformance: every case against float64 and, on a GPU, against the emulator; the exit code is 1 if one fails
  time DIR --out FILE [--backend cuda|emulator]
          times of our kernels, one JSON object a line
  table OURS PEERS [--machine TEXT]
          both files as one table in Markdown
";

/// What a command came to.
enum Outcome {
    /// All is as it should be.
    Good,
    /// It went through to its end, and something is wrong.
    Bad,
}

fn main() -> ExitCode {
    let mut arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => return fail(&error),
    };
    let outcome = match arguments.command() {
        Some("prepare") => prepare::run(&mut arguments).map(|()| Outcome::Good),
        Some("check") => conformance::run(&mut arguments),
        Some("time") => timing::run(&mut arguments).map(|()| Outcome::Good),
        Some("table") => table::run(&mut arguments).map(|()| Outcome::Good),
        Some(_) | None => {
            // A usage that nobody can read is no fault of the run.
            let _ = write!(std::io::stderr(), "{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::FAILURE,
        Err(error) => fail(&error),
    }
}

fn fail(error: &RunError) -> ExitCode {
    let _ = writeln!(
        std::io::stderr(),
        "maskwright-device: {}",
        error::chain(error)
    );
    ExitCode::from(2)
}

/// Prints a line now: a run that hangs or is stopped shows how far it came.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Where nobody reads, the files still tell.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
