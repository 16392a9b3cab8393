//! What a kernel is made for: everything but the rules that its code depends on.

use std::fmt;
use std::str::FromStr;

/// The element type of a tensor on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Float {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    BF16,
    /// IEEE single precision; products go through three products of TF32 parts.
    F32,
}

impl Float {
    /// Its name: `f16`, `bf16`, `f32`.
    pub fn name(self) -> &'static str {
        match self {
            Float::F16 => "f16",
            Float::BF16 => "bf16",
            Float::F32 => "f32",
        }
    }

    /// Bytes of one element.
    pub fn bytes(self) -> u32 {
        match self {
            Float::F16 | Float::BF16 => 2,
            Float::F32 => 4,
        }
    }
}

impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The GPU that code is compiled for: `sm_80`, `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Compute capability, major.
    pub major: u32,
    /// Compute capability, minor.
    pub minor: u32,
    /// Whether instructions of this architecture alone may be used (`a`).
    pub specific: bool,
}

impl Target {
    /// Ampere, the oldest that the kernels run on.
    pub const SM80: Self = Self {
        major: 8,
        minor: 0,
        specific: false,
    };
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            major,
            minor,
            specific,
        } = self;
        write!(f, "sm_{major}{minor}{}", if *specific { "a" } else { "" })
    }
}

/// Why a text names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a target like sm_80 or sm_90a, from sm_80 on, found `{found}`")]
pub struct TargetError {
    /// The text.
    pub found: String,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let fault = || TargetError {
            found: text.to_owned(),
        };
        let name = text.strip_prefix("sm_").ok_or_else(fault)?;
        let digits = name.strip_suffix('a').unwrap_or(name);
        if !(2..=3).contains(&digits.len()) || !digits.bytes().all(|c| c.is_ascii_digit()) {
            return Err(fault());
        }
        let (major, minor) = digits.split_at(digits.len() - 1);
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| fault());
        let target = Self {
            major: number(major)?,
            minor: number(minor)?,
            specific: digits.len() < name.len(),
        };
        if target.major < 8 || (target.specific && target.major < 9) {
            return Err(fault());
        }
        Ok(target)
    }
}

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelKind {
    /// Output, log-sum-exp and row maxima.
    Forward,
}

/// Rows and keys that a kernel computes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TileSize {
    /// Query rows.
    pub q: u32,
    /// Keys.
    pub kv: u32,
}

/// Everything but the rules that the code of a kernel depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelSpec {
    /// What it computes.
    pub kind: KernelKind,
    /// What it is compiled for.
    pub target: Target,
    /// Element type of `q`, `k` and `v`.
    pub dtype: Float,
    /// Element type of the output: that of the inputs, or `f32`.
    pub out_dtype: Float,
    /// Head dimension of queries and keys: 16 to 256, a multiple of 8.
    pub d_qk: u32,
    /// Head dimension of values: 16 to 256, a multiple of 8.
    pub d_v: u32,
    /// The tile, where the planner is not to choose.
    pub tile: Option<TileSize>,
}
