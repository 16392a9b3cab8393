//! Why a command could not do its work.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use maskwright::artifact::ArtifactError;
use maskwright::attention::CompileError;
use maskwright::cache::StoreError;
use maskwright::cuda::{KernelError, MachineError};
use maskwright::jit::{EvaluatorError, JitError};
use maskwright::tensor::{Dtype, TensorFileError};
use maskwright::verify::VerifyError;
use maskwright::{AttentionError, BindError, BufferError};
use maskwright_dsl::block_mask::{BlockMaskError, BlockSize};
use maskwright_dsl::bucket::BucketError;
use maskwright_dsl::diagnostic::{Diagnostic, Diagnostics};
use maskwright_dsl::eval::EvalError;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CliError {
    /// The rule has faults.
    #[error(transparent)]
    Rule(#[from] Diagnostics),
    /// Captured values do not fit the rule.
    #[error("the rule cannot be bound")]
    Bind(#[source] Box<BindError>),
    /// A tensor could not be read or written.
    #[error("{what}")]
    Tensor {
        /// Which tensor.
        what: String,
        /// The cause.
        source: Box<TensorFileError>,
    },
    /// An output would replace an input, or another output.
    #[error("{flag} and {other} name the same file, {}: expected a file of its own", path.display())]
    SameFile {
        /// The output.
        flag: &'static str,
        /// The other one.
        other: String,
        /// The file.
        path: PathBuf,
    },
    /// Scores were given for a rule that reads none.
    #[error("--scores {file} was given, but {rule} is a mask, which reads no score")]
    NoScoreRead {
        /// The file.
        file: String,
        /// The rule.
        rule: String,
    },
    /// The elements of a file do not fit a capture.
    #[error("capture {name} cannot be taken from {file}")]
    Convert {
        /// The capture.
        name: String,
        /// The file.
        file: String,
        /// The cause.
        source: Box<BufferError>,
    },
    /// A file has elements that no rule reads.
    #[error(
        "capture {name}: expected elements that a rule can read, found {dtype} {value} at element {at}"
    )]
    Element {
        /// The capture.
        name: String,
        /// Their type.
        dtype: Dtype,
        /// The first one that is too large.
        value: u64,
        /// Its position.
        at: usize,
    },
    /// A scalar was bound to a file with axes.
    #[error("capture {name} is a scalar: expected a 0-dimensional file, found shape {shape:?}")]
    NotAScalar {
        /// The capture.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// A flag has no name and value.
    #[error("{flag} expects NAME={value}, found `{found}`")]
    NotAPair {
        /// `--set` or `--capture`.
        flag: &'static str,
        /// What stands after the equals sign.
        value: &'static str,
        /// What was given.
        found: String,
    },
    /// A name was given two values.
    #[error("{name} is given twice")]
    Twice {
        /// The name.
        name: String,
    },
    /// A value is none of its type.
    #[error("--set {name}: expected {expected}, found `{found}`")]
    Value {
        /// The name.
        name: String,
        /// What may stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A value was set for a buffer.
    #[error(
        "{name} is a buffer of rule {rule}: give it with --capture {name}=FILE instead of --set"
    )]
    SetBuffer {
        /// The name.
        name: String,
        /// The rule.
        rule: String,
    },
    /// A file was bound to what is no capture.
    #[error(
        "{name} is {what} of rule {rule}: give it with --set {name}=VALUE instead of --capture"
    )]
    CaptureConstant {
        /// The name.
        name: String,
        /// What it is.
        what: &'static str,
        /// The rule.
        rule: String,
    },
    /// Names that no rule knows.
    #[error("{}", unknown_text(.names, .rules))]
    Unknown {
        /// Each name, with the one that was perhaps meant.
        names: Vec<(String, Option<String>)>,
        /// What each rule declares.
        rules: Vec<String>,
    },
    /// Captured values that were not given.
    #[error("{}", missing_text(.rules))]
    Missing {
        /// Each rule, with what it declares and how to give it.
        rules: Vec<(String, Vec<(String, String)>)>,
    },
    /// No rule of the catalogue has this name.
    #[error("there is no rule {name} in the catalogue{}", perhaps(.suggestion.as_ref()))]
    NoSuchRule {
        /// The name.
        name: String,
        /// The one that was perhaps meant.
        suggestion: Option<String>,
    },
    /// A rule is of the other kind.
    #[error("expected a {expected} rule, found the {found} rule {rule}")]
    Kind {
        /// What the command takes.
        expected: &'static str,
        /// What was given.
        found: &'static str,
        /// The rule.
        rule: String,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A picture could not be encoded.
    #[error("cannot encode the picture for {}", path.display())]
    Png {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: png::EncodingError,
    },
    /// A bucket could not be read, or holds nothing.
    #[error("--bucket is no range of lengths")]
    Bucket(#[from] BucketError),
    /// The range of a scalar in a bucket is none.
    #[error("--bucket: {name}: expected a range such as 1..=512, found `{found}`")]
    ScalarRange {
        /// The scalar.
        name: String,
        /// What stands there.
        found: String,
    },
    /// A bucket gives a range to what is no integer scalar.
    #[error("--bucket: no rule has an integer scalar {name}{}", perhaps(.suggestion.as_ref()))]
    UnknownScalar {
        /// The name.
        name: String,
        /// The one that was perhaps meant.
        suggestion: Option<String>,
    },
    /// A command that takes one bucket got several.
    #[error("expected one --bucket, found {found}")]
    SeveralBuckets {
        /// How many.
        found: usize,
    },
    /// A command that takes one block size got several.
    #[error("expected one --block, found {found}")]
    SeveralBlocks {
        /// How many.
        found: usize,
    },
    /// A command that takes its offsets from buckets got one beside them.
    #[error(
        "--q-offset does not apply to buckets: write offset={q_offset} in --bucket, as in q=1,kv=1..=4096,offset={q_offset}"
    )]
    OffsetBesideBucket {
        /// What was given.
        q_offset: i64,
    },
    /// A command needs lengths.
    #[error(
        "expected lengths: give --len N, or --q-len N and --kv-len N, or --bucket such as 1..=4096"
    )]
    NoLengths,
    /// `precompile` needs buckets.
    #[error("expected at least one --bucket, such as 1..=4096")]
    NoBucket,
    /// A stage that there is not.
    #[error("expected one of the stages {}, found `{found}`{reason}", stages.join(", "))]
    Stage {
        /// All of them.
        stages: Vec<&'static str>,
        /// What was asked for.
        found: String,
        /// What else there is to say.
        reason: String,
    },
    /// An index lies outside.
    #[error("{what} {found} lies outside 0..{end}")]
    Outside {
        /// What is counted.
        what: &'static str,
        /// The index.
        found: i64,
        /// How many there are.
        end: u64,
    },
    /// A cell lies outside the lengths.
    #[error("{what} {found} lies outside {start}..{end}")]
    OutsidePositions {
        /// `q` or `kv`.
        what: &'static str,
        /// The position.
        found: i64,
        /// The first one.
        start: i64,
        /// The end.
        end: i64,
    },
    /// A tensor has the wrong shape.
    #[error("{what}: expected shape {expected:?}, found {found:?}")]
    Shape {
        /// Which tensor.
        what: String,
        /// What was expected.
        expected: Vec<usize>,
        /// What was found.
        found: Vec<usize>,
    },
    /// A tensor has elements of the wrong type.
    #[error("{what}: expected elements of type {expected}, found {found}")]
    Dtype {
        /// Which tensor.
        what: String,
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: Dtype,
    },
    /// A result does not fit in memory, or on a terminal.
    #[error("{what} of {cells} cells is too large: {help}")]
    TooLarge {
        /// What would be made.
        what: &'static str,
        /// How many.
        cells: u128,
        /// What to do.
        help: &'static str,
    },
    /// The classes of so many blocks cannot be listed.
    #[error(
        "a report of {blocks} blocks of {block} is too large: verify shorter lengths, or larger blocks with --block"
    )]
    TooManyBlocks {
        /// How many.
        blocks: u128,
        /// Their size.
        block: BlockSize,
    },
    /// The block mask could not be built or written.
    #[error("the block mask cannot be made")]
    BlockMask(#[source] Box<BlockMaskError>),
    /// The rule could not be compiled.
    #[error("the rule cannot be compiled")]
    Jit(#[from] JitError),
    /// The compiled rule could not be used.
    #[error("the compiled rule cannot be used")]
    Evaluator(#[from] EvaluatorError),
    /// The interpreter has no value at a cell.
    #[error("the rule has no value at a cell")]
    Eval(#[from] EvalError),
    /// A count contradicts the tensors.
    #[error("{flag} is {given}, but q has {found}")]
    Count {
        /// `--batch` or `--heads`.
        flag: &'static str,
        /// What was given.
        given: u32,
        /// What the tensor has.
        found: usize,
    },
    /// A call does not belong to the bucket that it is said to belong to.
    #[error(
        "a call of {q_len} queries from position {q_offset} and {kv_len} keys does not lie in the bucket {bucket}"
    )]
    NotInBucket {
        /// The bucket.
        bucket: String,
        /// Query rows.
        q_len: u64,
        /// Keys.
        kv_len: u64,
        /// Position of the first query.
        q_offset: i64,
    },
    /// The rule was not verified.
    #[error("the rule cannot be verified")]
    Verify(#[source] Box<VerifyError>),
    /// The rule was not verified, or not kept.
    #[error("the rule cannot be verified and kept")]
    Artifact(#[source] Box<ArtifactError>),
    /// Attention could not be computed.
    #[error("attention cannot be computed")]
    Attention(#[source] Box<AttentionError>),
    /// The cache could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A kernel for a GPU could not be made.
    #[error("there is no kernel for GPUs")]
    Kernel(#[source] Box<KernelError>),
    /// There is no GPU, or it does not do what it should.
    #[error("the GPU cannot be used")]
    Machine(#[from] MachineError),
    /// Blocks are classified on the processor alone.
    #[error(
        "blocks are classified on the processor: expected --backend auto, cpu or reference, found {found}"
    )]
    NoBlocksThere {
        /// The backend.
        found: &'static str,
    },
    /// A command that takes one value got several.
    #[error("expected one {flag}, found {found}")]
    Several {
        /// The flag.
        flag: &'static str,
        /// How many.
        found: usize,
    },
    /// A stage is no text.
    #[error("stage {stage} is no text: it needs --out FILE")]
    BinaryNeedsOut {
        /// The stage.
        stage: &'static str,
    },
    /// No program prints the instructions of a GPU.
    #[error(
        "expected {} on PATH to print the instructions of a GPU, found none of them; `emit cubin` writes what they read",
        programs.join(" or ")
    )]
    NoDisassembler {
        /// The programs that would do.
        programs: [&'static str; 2],
    },
    /// A program that prints the instructions of a GPU did not.
    #[error("{program} cannot read the cubin: {reason}")]
    Disassembler {
        /// The program.
        program: &'static str,
        /// What it says.
        reason: String,
    },
    /// A format needs a file.
    #[error("--format file needs --out FILE")]
    NeedsOut,
    /// Threads could not be started.
    #[error("cannot start threads")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// Stdout could not be written.
    #[error("cannot write to stdout")]
    Stdout(#[source] io::Error),
    /// A result is no JSON.
    #[error("cannot write JSON")]
    Json(#[source] serde_json::Error),
}

impl CliError {
    /// The faults of a rule, if these are what went wrong.
    pub(crate) fn diagnostics(&self) -> Option<&Diagnostics> {
        match self {
            Self::Rule(faults) => Some(faults),
            error => diagnostics_in(error),
        }
    }

    /// The reasons in words, one for each fault.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let Some(faults) = self.diagnostics() else {
            return vec![chain(self)];
        };
        let one = |item: &Diagnostic| match &item.help {
            Some(help) => format!("{}; {help}", item.message),
            None => item.message.clone(),
        };
        faults.items.iter().map(one).collect()
    }
}

impl From<BindError> for CliError {
    fn from(error: BindError) -> Self {
        Self::Bind(Box::new(error))
    }
}

impl From<BlockMaskError> for CliError {
    fn from(error: BlockMaskError) -> Self {
        Self::BlockMask(Box::new(error))
    }
}

impl From<KernelError> for CliError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(Box::new(error))
    }
}

impl From<ArtifactError> for CliError {
    fn from(error: ArtifactError) -> Self {
        Self::Artifact(Box::new(error))
    }
}

impl From<AttentionError> for CliError {
    fn from(error: AttentionError) -> Self {
        match error {
            // Drawn, as the faults of a rule are everywhere.
            AttentionError::Compile(CompileError::Refused(faults)) => Self::Rule(faults),
            error => Self::Attention(Box::new(error)),
        }
    }
}

/// The faults of a rule among the causes of an error.
pub(crate) fn diagnostics_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Diagnostics> {
    let mut error = Some(error);
    while let Some(found) = error {
        if let Some(faults) = found.downcast_ref::<Diagnostics>() {
            return Some(faults);
        }
        error = found.source();
    }
    None
}

/// An error and its causes, on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some wrappers already say what their cause says.
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// The most similar name, if one is similar enough to be meant.
pub(crate) fn suggest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    names
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .filter(|(distance, known)| *distance <= known.len().max(name.len()).div_ceil(3))
        .min()
        .map(|(_, known)| known.to_owned())
}

fn perhaps(suggestion: Option<&String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean {name}?"),
        None => String::new(),
    }
}

fn unknown_text(names: &[(String, Option<String>)], rules: &[String]) -> String {
    let lines: Vec<String> = names
        .iter()
        .map(|(name, suggestion)| format!("no rule reads {name}{}", perhaps(suggestion.as_ref())))
        .collect();
    format!("{}\n{}", lines.join("\n"), rules.join("\n"))
}

fn missing_text(rules: &[(String, Vec<(String, String)>)]) -> String {
    let mut text = Vec::new();
    for (rule, missing) in rules {
        let values = if missing.len() == 1 {
            "a value"
        } else {
            "values"
        };
        text.push(
            format!("rule {rule} needs {values} that was not given:")
                .replace("values that was", "values that were"),
        );
        let width = missing.iter().map(|(decl, _)| decl.chars().count()).max();
        for (decl, how) in missing {
            text.push(format!("  {decl:<0$}  {how}", width.unwrap_or(0)));
        }
    }
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_suggested() {
        assert_eq!(
            suggest("windw", ["doc", "window"]),
            Some("window".to_owned())
        );
        assert_eq!(suggest("xyz", ["doc", "window"]), None);
    }

    #[test]
    fn missing_values_are_listed() {
        let decl = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let error = CliError::Missing {
            rules: vec![(
                "mixed".to_owned(),
                vec![
                    decl("w: i32", "--set w=VALUE"),
                    decl("doc: [i32; kv_len]", "--capture doc=FILE"),
                ],
            )],
        };
        assert_eq!(
            error.to_string(),
            "rule mixed needs values that were not given:\n  w: i32              --set w=VALUE\n  doc: [i32; kv_len]  \
             --capture doc=FILE"
        );
    }
}
