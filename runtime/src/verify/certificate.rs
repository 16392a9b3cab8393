//! The certificate of a verified rule: what was checked, how far, and what it rests on.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::attention::Tolerance;
use super::versions::Versions;

/// A record of everything that was checked before an artifact was stored.
///
/// The code and the classification are what is certified, for every call of the bucket. A mask built later from other
/// captured values runs the same code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// The mask, if there is one.
    pub mask: Option<RuleName>,
    /// The `score_mod`, if there is one.
    pub score: Option<RuleName>,
    /// The mask that attention applies and block masks are built of: the mask, and what the `score_mod` sends to −∞.
    pub effective_mask: Option<RuleName>,
    /// The calls that it holds for, as a bucket is written.
    pub bucket: String,
    /// How the two lengths are tied: `q==kv`, `q<=kv` or `free`.
    pub relation: String,
    /// Batch entries.
    pub batch: u32,
    /// Query heads.
    pub num_q_heads: u32,
    /// Block sizes, as `128x128`.
    pub blocks: Vec<String>,
    /// What was compared.
    pub checks: Vec<Check>,
    /// The calls at which the rules were checked, small ones first.
    pub shapes: Vec<CheckedShape>,
    /// Cells of the score matrix at which the mask was compared, over all calls. Batch entries and heads that the rule
    /// does not tell apart count, though one of them was computed for all.
    pub cells_checked: u64,
    /// Whether every cell of the largest call was compared.
    pub exhaustive: bool,
    /// What captured values must keep for the certificate to hold.
    pub preconditions: Vec<String>,
    /// What was left out, and why.
    pub notes: Vec<String>,
    /// Tolerances of the comparisons that have one; all others are to the bit.
    pub tolerances: Vec<Tolerance>,
    /// The seed of every sample and of every generated value.
    pub seed: u64,
    /// Seconds that the largest call was given before it was sampled.
    pub budget_secs: f64,
    /// What it ran on.
    pub versions: Versions,
    /// How long it took.
    pub seconds: f64,
}

/// A rule by name and by content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleName {
    /// How it is called.
    pub name: String,
    /// SHA-256 of what it computes, in hexadecimal digits.
    pub identity: String,
    /// Whether the law is the author's own function; the interpreter otherwise.
    pub author: bool,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was compared with what.
    pub what: String,
    /// At how many calls.
    pub shapes: u64,
    /// Cells (or values) compared.
    pub cells: u64,
    /// Whether the largest call was compared at every cell.
    pub exhaustive: bool,
    /// Of the cells, those of calls of which only a sample was compared.
    pub sampled_cells: u64,
    /// Blocks whose class was compared, or partial blocks that a sample looked into.
    pub blocks: u64,
}

/// A call at which rules were checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedShape {
    /// Query rows.
    pub q_len: u64,
    /// Keys.
    pub kv_len: u64,
    /// Position of the first query.
    pub q_offset: i64,
    /// Whether every cell of the mask was compared there.
    pub whole: bool,
}

impl Certificate {
    /// Whether a part of the largest call was left to chance.
    pub fn is_sampled(&self) -> bool {
        !self.exhaustive
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, rule) in [
            ("mask", &self.mask),
            ("score_mod", &self.score),
            ("effective mask", &self.effective_mask),
        ] {
            if kind == "effective mask" && *rule == self.mask {
                continue;
            }
            if let Some(rule) = rule {
                let law = if rule.author {
                    "the author's function is the law"
                } else {
                    "the interpreter is the law"
                };
                let identity = rule.identity.get(..16).unwrap_or(&rule.identity);
                writeln!(f, "{kind} {} ({identity}), {law}", rule.name)?;
            }
        }
        write!(
            f,
            "bucket {} ({}), batch {}, {} heads",
            self.bucket, self.relation, self.batch, self.num_q_heads
        )?;
        if !self.blocks.is_empty() {
            write!(f, ", blocks of {}", self.blocks.join(", "))?;
        }
        writeln!(f)?;
        for check in &self.checks {
            let calls = counted(check.shapes, "call");
            write!(f, "  {}: {} cells of {calls}", check.what, check.cells)?;
            if check.blocks != 0 {
                write!(f, ", {}", counted(check.blocks, "block"))?;
            }
            if check.sampled_cells != 0 {
                write!(f, ", {} of the cells sampled", check.sampled_cells)?;
            }
            writeln!(f, "{}", if check.exhaustive { ", exhaustive" } else { "" })?;
        }
        for (title, lines) in [("given", &self.preconditions), ("note", &self.notes)] {
            for line in lines {
                writeln!(f, "  {title}: {line}")?;
            }
        }
        for tolerance in &self.tolerances {
            writeln!(f, "  tolerance: {tolerance}")?;
        }
        writeln!(
            f,
            "{}: {} cells at {} in {:.3} s (seed {})",
            if self.exhaustive {
                "exhaustive"
            } else {
                "sampled"
            },
            self.cells_checked,
            counted(self.shapes.len() as u64, "call"),
            self.seconds,
            self.seed
        )?;
        write!(
            f,
            "maskwright {}, cranelift {}, {}",
            self.versions.maskwright, self.versions.cranelift, self.versions.target
        )
    }
}

fn counted(n: u64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}
