//! Flags.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, value_parser};

use super::value::Value;

/// Most dynamic shared memory of a block; Hopper has 227 KiB.
const MAX_SHARED_BYTES: i64 = 227 << 10;

/// Most blocks along each axis of a grid.
const MAX_GRID: [u32; 3] = [(1 << 31) - 1, 65535, 65535];

/// Most threads along each axis of a block.
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];

/// Runs PTX on the CPU, with checks that a device does not make.
#[derive(Debug, Parser)]
#[command(name = "ptx-emulator", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a kernel and prints what it counted, or why it was stopped.
    Run(RunArgs),
    /// Reads and decodes a file, and lists its kernels with their parameters.
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The PTX file.
    pub(crate) file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The PTX file.
    pub(crate) file: PathBuf,
    /// The kernel; may be left out where the file has one.
    #[arg(long)]
    pub(crate) kernel: Option<String>,
    /// Blocks along x, y and z.
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = grid, default_value = "1")]
    pub(crate) grid: [u32; 3],
    /// Threads of a block along x, y and z.
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = block)]
    pub(crate) block: [u32; 3],
    /// Bytes of dynamic shared memory.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = value_parser!(u32).range(..=MAX_SHARED_BYTES))]
    pub(crate) shared: u32,
    /// An argument, in order of the parameters: i32:N u32:N i64:N u64:N f32:X f64:X, bytes:FILE (a struct by value),
    /// in:FILE, inout:FILE[=FILE] or out:BYTES[=FILE] (pointers). A FILE that ends in .npy is read without its header.
    #[arg(long = "arg", value_name = "KIND:VALUE", allow_hyphen_values = true)]
    pub(crate) values: Vec<Value>,
    /// Seed of the order in which warps take turns; 0 for one after the other.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Threads of the CPU; 0 for all of them.
    #[arg(long, default_value_t = 0)]
    pub(crate) threads: usize,
    /// Look for no races and no reads of memory that nothing wrote.
    #[arg(long)]
    pub(crate) no_checks: bool,
    /// Count how often each line ran.
    #[arg(long)]
    pub(crate) profile: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

fn grid(text: &str) -> Result<[u32; 3], String> {
    extents(text, MAX_GRID)
}

fn block(text: &str) -> Result<[u32; 3], String> {
    extents(text, MAX_BLOCK)
}

/// `2,3`: one to three numbers, none of them 0; those that are left out are 1.
fn extents(text: &str, most: [u32; 3]) -> Result<[u32; 3], String> {
    let mut extents = [1; 3];
    let parts: Vec<_> = text.split(',').collect();
    if 3 < parts.len() {
        let found = parts.len();
        return Err(format!("expected one to three numbers, found {found}"));
    }
    for (axis, part) in parts.into_iter().enumerate() {
        let most = most[axis];
        extents[axis] = match part.trim().parse() {
            Ok(number) if (1..=most).contains(&number) => number,
            Ok(_) | Err(_) => {
                return Err(format!(
                    "expected a number from 1 to {most}, found `{part}`"
                ));
            }
        };
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_that_are_left_out_are_one() {
        assert_eq!(grid("2,3"), Ok([2, 3, 1]));
        let error = |text: &str| Err(text.to_owned());
        let expected = error("expected a number from 1 to 65535, found `0`");
        assert_eq!(grid("2,0"), expected);
        let expected = error("expected a number from 1 to 64, found `65`");
        assert_eq!(block("2,1,65"), expected);
        let expected = error("expected one to three numbers, found 4");
        assert_eq!(grid("1,1,1,1"), expected);
    }

    #[test]
    fn flags_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
