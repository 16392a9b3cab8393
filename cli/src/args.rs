//! The flags of every command, and the texts that teach them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use maskwright::cuda::{Float, Target};
use maskwright_dsl::block_mask::BlockSize;

/// Attention masks and score rules: verified against every cell, block-sparse, compiled.
///
/// A RULE is an expression such as 'kv <= q && q - kv < 256', a rule of the catalogue by its name, or FILE.mask (with
/// :name where the file has several). Run `maskwright tour` to see the whole in a few seconds.
#[derive(Debug, Parser)]
#[command(
    name = "maskwright",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Tour(TourArgs),
    Verify(VerifyArgs),
    Eval(EvalArgs),
    Run(RunArgs),
    Bench(BenchArgs),
    Show(ShowArgs),
    Explain(ExplainArgs),
    Precompile(PrecompileArgs),
    Emit(EmitArgs),
    Cache(CacheArgs),
    Doctor(DoctorArgs),
    Catalogue(CatalogueArgs),
    Completions(CompletionsArgs),
    /// Print the man page: `maskwright man > maskwright.1`
    Man,
}

/// The flags that every command with a rule has.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Rule")]
pub(crate) struct RuleArgs {
    /// Batch entries
    #[arg(long, value_name = "B", default_value = "1", value_parser = count, allow_hyphen_values = true)]
    pub(crate) batch: u32,
    /// Query heads
    #[arg(long, value_name = "H", default_value = "1", value_parser = count, allow_hyphen_values = true)]
    pub(crate) heads: u32,
    /// Give a constant, a run-time scalar or a dimension name its value
    ///
    /// The declaration says the type. A bare expression may use any name that is set: `4` is an i32, `0.5` and `inf`
    /// are f32, `true` is a bool, `7i64` and `7u32` are what they say.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Bind a captured buffer (or a 0-dimensional scalar) to a file: .npy, or FILE.safetensors:tensor
    ///
    /// Elements are converted where no value changes, int64 to i32 for instance. A bare expression may use any name
    /// that is bound.
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) capture: Vec<String>,
    /// Absolute position of the first query row
    #[arg(long, value_name = "N", default_value = "0", value_parser = position, allow_hyphen_values = true)]
    pub(crate) q_offset: i64,
    /// A range of lengths: `1..=4096` is self-attention, `q=1..=64,kv=1..=4096,relation=q<=kv,offset=0..=100` is any
    ///
    /// `NAME=1..=512` adds the range of a run-time scalar.
    #[arg(long, value_name = "BUCKET")]
    pub(crate) bucket: Vec<String>,
    /// Mask block, queries x keys; 128x128 unless given
    #[arg(long, value_name = "QxK", value_parser = block)]
    pub(crate) block: Vec<BlockSize>,
    /// Who computes
    #[arg(long, value_enum, default_value_t)]
    pub(crate) backend: BackendArg,
}

/// Who computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    /// The best that can run
    #[default]
    Auto,
    /// The interpreter, and dense attention in f64: slow, and the truth
    Reference,
    /// Compiled rules and the tiled engine
    Cpu,
    /// The kernels for NVIDIA GPUs, on the first one
    Cuda,
    /// The same kernels without a GPU, instruction by instruction: slow, and checked for races and stray accesses
    Emulator,
}

/// What kernels for GPUs are made for.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "GPU")]
pub(crate) struct GpuArgs {
    /// GPUs that kernels are compiled for, such as sm_80,sm_90a,sm_120a
    #[arg(long, value_name = "SM", value_delimiter = ',')]
    pub(crate) target: Vec<Target>,
    /// Element types of kernels: f16, bf16, f32
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = float)]
    pub(crate) dtype: Vec<Float>,
    /// Head dimensions of kernels, multiples of 8 from 16 to 256; 64 unless given
    #[arg(long, value_name = "D", value_delimiter = ',', value_parser = count)]
    pub(crate) head_dim: Vec<u32>,
}

/// Lengths that must be given.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Lengths")]
pub(crate) struct LengthArgs {
    /// Query rows
    #[arg(long, value_name = "N", value_parser = length, allow_hyphen_values = true)]
    pub(crate) q_len: u64,
    /// Keys
    #[arg(long, value_name = "N", value_parser = length, allow_hyphen_values = true)]
    pub(crate) kv_len: u64,
}

/// Lengths that `--len` may give at once, or `--bucket` replace.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Lengths")]
pub(crate) struct SomeLengthArgs {
    /// Query rows and keys
    #[arg(long, value_name = "N", value_parser = length, allow_hyphen_values = true, conflicts_with_all = ["q_len", "kv_len"])]
    pub(crate) len: Option<u64>,
    /// Query rows
    #[arg(long, value_name = "N", value_parser = length, allow_hyphen_values = true, requires = "kv_len")]
    pub(crate) q_len: Option<u64>,
    /// Keys
    #[arg(long, value_name = "N", value_parser = length, allow_hyphen_values = true, requires = "q_len")]
    pub(crate) kv_len: Option<u64>,
}

impl SomeLengthArgs {
    /// `(q_len, kv_len)`, if they were given.
    pub(crate) fn given(self) -> Option<(u64, u64)> {
        match self.len {
            Some(len) => Some((len, len)),
            None => self.q_len.zip(self.kv_len),
        }
    }
}

/// See the main job on a built-in example: prove, verify, cache, run
///
/// Examples:
///   maskwright tour
///   maskwright tour --len 8192
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TourArgs {
    /// Tokens of packed documents
    #[arg(long, value_name = "N", default_value = "2048", value_parser = length)]
    pub(crate) len: u64,
}

/// Check a compiled rule and its block mask against every cell
///
/// The rule as it was written is evaluated cell by cell, and compared with the compiled code and with the class of
/// each block. Ends with 0 if all agree, 1 if not (the first cells that differ are drawn), 2 if the rule is refused.
///
/// Examples:
///   maskwright verify 'kv <= q && q - kv < 256' --q-len 1000 --kv-len 1000
///   maskwright verify 'kv <= q && doc[q] == doc[kv]' --capture doc=docs.npy --q-len 512 --kv-len 512 --json
///   maskwright verify rules.mask:window --set window=128 --q-len 64 --kv-len 4096 --q-offset 4032 --block 64x64
///   maskwright verify causal --q-len 300 --kv-len 300 --backend emulator --dtype bf16 --head-dim 128
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct VerifyArgs {
    /// An expression, a name of the catalogue, or FILE.mask[:name]
    pub(crate) rule: String,
    #[command(flatten)]
    pub(crate) lengths: LengthArgs,
    #[command(flatten)]
    pub(crate) flags: RuleArgs,
    #[command(flatten)]
    pub(crate) gpu: GpuArgs,
    /// Print JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write what a compiled rule gives at every cell
///
/// A mask gives bool, a score rule the changed scores in f32, both [batch, heads, q_len, kv_len].
///
/// Examples:
///   maskwright eval causal --q-len 8 --kv-len 8 --out mask.npy
///   maskwright eval 'score + 0.5 * (kv - q) as f32' --scores s.npy --q-len 8 --kv-len 8 --out changed.npy
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct EvalArgs {
    /// An expression, a name of the catalogue, or FILE.mask[:name]
    pub(crate) rule: String,
    #[command(flatten)]
    pub(crate) lengths: LengthArgs,
    #[command(flatten)]
    pub(crate) flags: RuleArgs,
    /// Scores that a score rule changes, [B, H, Q, KV]; zeros unless given
    #[arg(long, value_name = "FILE")]
    pub(crate) scores: Option<String>,
    /// Where the result goes
    #[arg(long, value_name = "FILE")]
    pub(crate) out: String,
}

/// Compute attention over tensors in files
///
/// Tensors are [batch, heads, length, head_dim], in .npy or FILE.safetensors:tensor; key heads may be fewer than query
/// heads. The output has the type of q. Settings and captures go to whichever rule declares the name.
///
/// Examples:
///   maskwright run --q q.npy --k k.npy --v v.npy --mask causal --o o.npy
///   maskwright run --q x.safetensors:q --k x.safetensors:k --v x.safetensors:v --mask 'kv <= q' --score softcap
///     --set cap=50.0 --lse lse.npy --o out.safetensors:o --json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RunArgs {
    /// Queries
    #[arg(long, value_name = "FILE")]
    pub(crate) q: String,
    /// Keys
    #[arg(long, value_name = "FILE")]
    pub(crate) k: String,
    /// Values
    #[arg(long, value_name = "FILE")]
    pub(crate) v: String,
    /// Which query may see which key
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    pub(crate) mask: Option<String>,
    /// How a score changes
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    pub(crate) score: Option<String>,
    /// Factor of the scores; 1 / sqrt(head_dim) unless given
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    pub(crate) scale: Option<f32>,
    #[command(flatten)]
    pub(crate) flags: RuleArgs,
    /// Where the natural logarithm of each row's sum goes, [B, H, Q]
    #[arg(long, value_name = "FILE")]
    pub(crate) lse: Option<String>,
    /// Where the output goes
    #[arg(long, value_name = "FILE")]
    pub(crate) o: String,
    /// Print what ran as JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure time and memory
///
/// Examples:
///   maskwright bench mask causal --len 1000000
///   maskwright bench mask 'kv <= q && q - kv < 4096' --len 131072 --json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: BenchWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchWhat {
    Mask(BenchMaskArgs),
}

/// Measure how long a block mask takes to build, and what it holds
///
/// One thread; the tables of captured buffers are built each time. Run a release build for figures that count.
///
/// Examples:
///   maskwright bench mask causal --len 1000000
///   maskwright bench mask 'kv <= q && doc[q] == doc[kv]' --capture doc=docs.npy --len 65536 --block 64x64 --json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchMaskArgs {
    /// An expression, a name of the catalogue, or FILE.mask[:name]
    pub(crate) rule: String,
    /// Query rows and keys
    #[arg(long, value_name = "N", value_parser = length, allow_hyphen_values = true)]
    pub(crate) len: u64,
    #[command(flatten)]
    pub(crate) flags: RuleArgs,
    /// Print JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Draw which blocks or cells a rule allows
///
/// A full block has only allowed cells, an empty one none; a partial block is cut by the rule or by the lengths.
///
/// Examples:
///   maskwright show 'kv <= q && q - kv < 512' --len 4096
///   maskwright show causal --len 24 --cells
///   maskwright show mixed.mask --set window=300 --heads 4 --h 1 --len 2048 --png mixed.png --svg mixed.svg
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ShowArgs {
    /// An expression, a name of the catalogue, or FILE.mask[:name]
    pub(crate) rule: String,
    #[command(flatten)]
    pub(crate) lengths: SomeLengthArgs,
    #[command(flatten)]
    pub(crate) flags: RuleArgs,
    /// Which batch entry to draw
    #[arg(long, value_name = "B", default_value_t = 0)]
    pub(crate) b: u32,
    /// Which head to draw
    #[arg(long = "h", value_name = "H", default_value_t = 0)]
    pub(crate) h: u32,
    /// Draw cells instead of blocks
    #[arg(long)]
    pub(crate) cells: bool,
    /// Write the picture as PNG
    #[arg(long, value_name = "FILE")]
    pub(crate) png: Option<PathBuf>,
    /// Write the picture as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print counts as JSON on stdout instead of the picture
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say why a block has its class, and where a rule could overflow
///
/// Without --block-at or --cell: what the rule reads, what its proofs rest on, the range of each sub-expression, and
/// the first length at which it would be refused.
///
/// Examples:
///   maskwright explain 'kv <= q && q - kv < 256' --len 1024
///   maskwright explain 'kv <= q && q - kv < 256' --len 1024 --block-at 3,1
///   maskwright explain 'kv <= q && doc[q] == doc[kv]' --capture doc=docs.npy --len 512 --cell 300,17
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ExplainArgs {
    /// An expression, a name of the catalogue, or FILE.mask[:name]
    pub(crate) rule: String,
    #[command(flatten)]
    pub(crate) lengths: SomeLengthArgs,
    #[command(flatten)]
    pub(crate) flags: RuleArgs,
    /// Which batch entry
    #[arg(long, value_name = "B", default_value_t = 0)]
    pub(crate) b: u32,
    /// Which head
    #[arg(long = "h", value_name = "H", default_value_t = 0)]
    pub(crate) h: u32,
    /// A block, by its row and column in the grid
    #[arg(long, value_name = "ROW,COL", value_parser = pair, conflicts_with = "cell")]
    pub(crate) block_at: Option<(i64, i64)>,
    /// A cell, by the positions of its query and key
    #[arg(long, value_name = "Q,KV", value_parser = pair, allow_hyphen_values = true)]
    pub(crate) cell: Option<(i64, i64)>,
    /// Print JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Verify rules for buckets of lengths, and keep them in the cache
///
/// Every rule is verified for every bucket. What is verified is stored with its certificate, so that a later start
/// finds it; what is there already is not verified again.
///
/// Examples:
///   maskwright precompile causal --bucket 1..=4096
///   maskwright precompile rules.mask:window causal --set window=256 --bucket 1..=1024 --bucket q=1,kv=1..=8192
///   maskwright precompile causal --bucket 1..=4096 --target sm_80,sm_90a,sm_120a --dtype bf16 --head-dim 64,128
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PrecompileArgs {
    /// Expressions, names of the catalogue, or FILE.mask[:name]
    #[arg(required = true)]
    pub(crate) rules: Vec<String>,
    #[command(flatten)]
    pub(crate) flags: RuleArgs,
    #[command(flatten)]
    pub(crate) gpu: GpuArgs,
    /// The directory of the cache
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Print JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a stage between the rule and its machine code
///
/// Stages: ir (the rule as it was written, as a listing), simplified (what is left of it for these lengths), blocks
/// (the block mask: runs as text, or --format torch, flashmask or file), clif (Cranelift IR); and of the kernel for GPUs:
/// cuda (CUDA C++), ptx, cubin (needs --out), sass (needs nvdisasm or cuobjdump), stats (registers, spills, memory).
///
/// Examples:
///   maskwright emit ir 'kv <= q && q - kv < 256'
///   maskwright emit blocks causal --len 1024
///   maskwright emit blocks causal --len 1024 --format torch --out causal.json
///   maskwright emit cuda causal --len 1024 --dtype bf16 --head-dim 128
///   maskwright emit stats causal --len 1024 --target sm_90a
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct EmitArgs {
    /// ir, simplified, blocks, clif, cuda, ptx, cubin, sass or stats
    pub(crate) stage: String,
    /// An expression, a name of the catalogue, or FILE.mask[:name]
    pub(crate) rule: String,
    #[command(flatten)]
    pub(crate) lengths: SomeLengthArgs,
    #[command(flatten)]
    pub(crate) flags: RuleArgs,
    #[command(flatten)]
    pub(crate) gpu: GpuArgs,
    /// How blocks are written
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: BlocksFormat,
    /// Where to write, instead of stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// How a block mask is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BlocksFormat {
    /// A line per block row
    #[default]
    Text,
    /// The index tensors of PyTorch's BlockMask, as JSON
    Torch,
    /// The columns of FlashMask, as JSON
    Flashmask,
    /// The file format of maskwright (needs --out)
    File,
}

/// Look into the cache
///
/// Examples:
///   maskwright cache list
///   maskwright cache check --json
///   maskwright cache clear --cache ./masks
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub(crate) what: CacheWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheWhat {
    /// List the entries
    List(CacheDirArgs),
    /// Read every entry, and end with 1 if one is damaged
    Check(CacheDirArgs),
    /// Remove all entries, and what killed processes left behind
    Clear(CacheDirArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CacheDirArgs {
    /// The directory; otherwise MASKWRIGHT_CACHE, XDG_CACHE_HOME/maskwright or HOME/.cache/maskwright
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Print JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say what this machine offers, and what is missing
///
/// Examples:
///   maskwright doctor
///   maskwright doctor --json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArgs {
    /// The directory of the cache
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Print JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the rules that ship with maskwright, or print one
///
/// Examples:
///   maskwright catalogue
///   maskwright catalogue sliding_window > window.mask
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CatalogueArgs {
    /// Print the text of this rule
    pub(crate) name: Option<String>,
    /// Print JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print completions for a shell
///
/// Examples:
///   maskwright completions bash > ~/.local/share/bash-completion/completions/maskwright
///   maskwright completions fish | source
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// The longest length: positions are i32.
const MOST: i64 = i32::MAX as i64;

fn length(text: &str) -> Result<u64, String> {
    whole(text)
        .filter(|n| (0..=i128::from(MOST)).contains(n))
        .map(|n| n as u64)
        .ok_or_else(|| format!("expected a length from 0 to {MOST}, found `{text}`"))
}

fn count(text: &str) -> Result<u32, String> {
    whole(text)
        .filter(|n| (1..=i128::from(MOST)).contains(n))
        .map(|n| n as u32)
        .ok_or_else(|| format!("expected a count from 1 to {MOST}, found `{text}`"))
}

fn position(text: &str) -> Result<i64, String> {
    whole(text)
        .filter(|n| (i128::from(i32::MIN)..=i128::from(MOST)).contains(n))
        .map(|n| n as i64)
        .ok_or_else(|| {
            format!(
                "expected a position from {} to {MOST}, found `{text}`",
                i32::MIN
            )
        })
}

fn float(text: &str) -> Result<Float, String> {
    [Float::F16, Float::BF16, Float::F32]
        .into_iter()
        .find(|float| float.name() == text)
        .ok_or_else(|| format!("expected f16, bf16 or f32, found `{text}`"))
}

/// A whole number, with or without `_` between its digits.
pub(crate) fn whole(text: &str) -> Option<i128> {
    text.trim().replace('_', "").parse().ok()
}

fn block(text: &str) -> Result<BlockSize, String> {
    let side = |text: &str| {
        let side = whole(text).filter(|n| (1..=i128::from(MOST)).contains(n));
        side.map(|n| n as u32)
    };
    let parsed = match text.split_once(['x', 'X', '×']) {
        Some((q, kv)) => side(q).zip(side(kv)),
        None => None,
    };
    parsed.map(|(q, kv)| BlockSize { q, kv }).ok_or_else(|| {
        format!("expected queries x keys of at least 1, such as 128x64, found `{text}`")
    })
}

fn pair(text: &str) -> Result<(i64, i64), String> {
    let number = |text: &str| whole(text).and_then(|n| i64::try_from(n).ok());
    let parsed = text.split_once(',');
    parsed
        .and_then(|(a, b)| number(a).zip(number(b)))
        .ok_or_else(|| format!("expected two numbers such as 3,1, found `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn blocks_have_two_sides_of_at_least_one() {
        assert_eq!(block("128x64"), Ok(BlockSize { q: 128, kv: 64 }));
        for bad in ["0x4", "4x0", "-1x4", "4", "x", "4x4x4", "4294967296x1"] {
            assert!(block(bad).is_err(), "{bad}");
        }
    }
}
