//! The cases that are timed. CASES.json is this list, and `PyTorch`'s times are taken from the same one.

use maskwright::cuda::{Float, KernelShape, MaskBlocks};
use maskwright::{BlockSize, Bucket, Kernel, Rules, Scope};
use maskwright_dsl::block_mask::Authority;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::rule::{float, floats, int, ints, named, together};

/// A rule with its numbers. All but the dense one and the prefix are causal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub(crate) enum TimedRule {
    /// No rule at all.
    Dense,
    /// Keys up to the query.
    Causal,
    /// The last `window` keys, the query's own position among them.
    Window { window: u32 },
    /// Packed documents of equal length.
    Documents { documents: u32 },
    /// Linear biases, head `i` of `n` at `2^(-8 (i + 1) / n)`.
    Alibi,
    /// Scores within `cap`.
    Softcap { cap: f32 },
    /// The first `prefix` keys are seen by all.
    Prefix { prefix: u32 },
}

impl TimedRule {
    /// What it is called in a table.
    pub(crate) fn title(self) -> String {
        match self {
            Self::Dense => "dense".to_owned(),
            Self::Causal => "causal".to_owned(),
            Self::Window { window } => format!("window {window}"),
            Self::Documents { documents } => format!("{documents} documents"),
            Self::Alibi => "ALiBi".to_owned(),
            Self::Softcap { cap } => format!("softcap {cap}"),
            Self::Prefix { prefix } => format!("prefix {prefix}"),
        }
    }

    fn word(self) -> String {
        self.title().to_lowercase().replace(' ', "-")
    }

    /// Query and key pairs of one head that are attended.
    pub(crate) fn cells(self, len: usize) -> u64 {
        let n = len as u64;
        let triangle = |n: u64| n * (n + 1) / 2;
        match self {
            Self::Dense => n * n,
            Self::Causal | Self::Alibi | Self::Softcap { .. } => triangle(n),
            Self::Window { window } => {
                let seen = n.min(u64::from(window));
                triangle(seen) + (n - seen) * seen
            }
            Self::Documents { documents } => {
                let documents = u64::from(documents);
                let part = n / documents;
                (documents - 1) * triangle(part) + triangle(n - (documents - 1) * part)
            }
            Self::Prefix { prefix } => {
                let prefix = n.min(u64::from(prefix));
                // The rows of the prefix see all of it; each later row sees up to itself.
                prefix * prefix + triangle(n) - triangle(prefix)
            }
        }
    }
}

/// One case: bf16, one batch entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TimedCase {
    /// Names it in every file.
    pub(crate) id: String,
    pub(crate) rule: TimedRule,
    pub(crate) q_heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) dim: usize,
    /// Of queries and of keys.
    pub(crate) len: usize,
    /// Query and key pairs of one head that are attended.
    pub(crate) cells: u64,
    /// The longest case of the list: kernels are prepared for all lengths up to it.
    pub(crate) longest: usize,
}

impl TimedCase {
    /// Floating-point operations of the attended pairs: a multiplication and an addition for each element of a key and
    /// of a value.
    pub(crate) fn operations(&self) -> f64 {
        4.0 * self.cells as f64 * self.dim as f64 * self.q_heads as f64
    }

    /// The rule with its captured values.
    pub(crate) fn rules(&self) -> Result<Rules, RunError> {
        let causal = || named("causal", Vec::new());
        match self.rule {
            TimedRule::Dense => Ok(Rules::dense()),
            TimedRule::Causal => causal(),
            TimedRule::Window { window } => {
                named("sliding_window", vec![("window", int(window as i32))])
            }
            TimedRule::Documents { documents } => {
                let part = (self.len / documents as usize).max(1);
                let last = documents as usize - 1;
                // As long as the longest case: one preparation serves all lengths.
                let ids = (0..self.longest).map(|i| (i / part).min(last) as i32);
                named("document_causal", vec![("doc", ints(ids.collect()))])
            }
            TimedRule::Alibi => {
                let heads = self.q_heads;
                let slope = (1..=heads).map(|h| (-8.0 * h as f32 / heads as f32).exp2());
                let alibi = named("alibi", vec![("slope", floats(slope.collect()))])?;
                Ok(together(causal()?, alibi))
            }
            TimedRule::Softcap { cap } => {
                let softcap = named("softcap", vec![("cap", float(cap))])?;
                Ok(together(causal()?, softcap))
            }
            TimedRule::Prefix { prefix } => {
                named("prefix_lm", vec![("prefix", int(prefix as i32))])
            }
        }
    }
}

/// The rule of a case, prepared for every length of the list.
pub(crate) fn kernel(case: &TimedCase) -> Result<Kernel, RunError> {
    let bucket = Bucket::self_attention(1..=case.longest as u64);
    let scope = Scope::new(bucket, 1, case.q_heads as u32);
    Ok(Kernel::compile(&case.rules()?, &scope)?)
}

/// What the kernel of a case is made for.
pub(crate) fn shape(case: &TimedCase) -> KernelShape {
    let dim = case.dim as u32;
    let blocks = MaskBlocks {
        block: BlockSize::default(),
        authority: Authority::Rule,
    };
    KernelShape {
        dtype: Float::BF16,
        out_dtype: Float::BF16,
        d_qk: dim,
        d_v: dim,
        blocks: (case.rule != TimedRule::Dense).then_some(blocks),
    }
}

const RULES: [TimedRule; 8] = [
    TimedRule::Causal,
    TimedRule::Dense,
    TimedRule::Window { window: 1024 },
    TimedRule::Documents { documents: 16 },
    TimedRule::Documents { documents: 64 },
    TimedRule::Alibi,
    TimedRule::Softcap { cap: 20.0 },
    TimedRule::Prefix { prefix: 1024 },
];

/// Head dimensions and lengths, those that matter most first: whoever runs out of time has these.
const ORDER: [(usize, usize); 8] = [
    (128, 8192),
    (128, 16_384),
    (64, 8192),
    (64, 16_384),
    (128, 4096),
    (128, 32_768),
    (64, 4096),
    (64, 32_768),
];

/// What a device is timed on: all rules, 32 query heads to 8 key heads.
pub(crate) fn full() -> Vec<TimedCase> {
    list(&RULES, &ORDER, (32, 8))
}

/// A few small cases, with the same rules in small numbers.
pub(crate) fn quick() -> Vec<TimedCase> {
    let rules = [
        TimedRule::Causal,
        TimedRule::Dense,
        TimedRule::Documents { documents: 3 },
    ];
    list(&rules, &[(64, 128), (64, 256)], (2, 1))
}

fn list(
    rules: &[TimedRule],
    order: &[(usize, usize)],
    (q_heads, kv_heads): (usize, usize),
) -> Vec<TimedCase> {
    let longest = order.iter().map(|(_, len)| *len).max().unwrap_or(0);
    let mut cases = Vec::new();
    for &(dim, len) in order {
        for &rule in rules {
            cases.push(TimedCase {
                id: format!("{}-d{dim}-{len}", rule.word()),
                rule,
                q_heads,
                kv_heads,
                dim,
                len,
                cells: rule.cells(len),
                longest,
            });
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attended_pairs_are_those_that_the_rules_allow() {
        let rules = [
            TimedRule::Dense,
            TimedRule::Causal,
            TimedRule::Window { window: 7 },
            TimedRule::Window { window: 100 },
            TimedRule::Documents { documents: 3 },
            TimedRule::Prefix { prefix: 9 },
            TimedRule::Prefix { prefix: 100 },
        ];
        for case in list(&rules, &[(64, 5), (64, 40), (64, 47)], (2, 1)) {
            let kernel = kernel(&case).unwrap();
            let len = case.len as u64;
            let block = BlockSize { q: 1, kv: 1 };
            let mask = kernel.block_mask_at(len, len, 0, block).unwrap();
            let per_plane = mask.counts().full / 2;
            assert_eq!(per_plane, u128::from(case.cells), "{}", case.id);
        }
    }

    #[test]
    fn ids_are_distinct_and_what_matters_comes_first() {
        let cases = full();
        let mut ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!((ids.len(), ids[0]), (64, "causal-d128-8192"));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 64);
        assert_eq!(cases[3].id, "16-documents-d128-8192");
    }

    #[test]
    fn a_case_is_written_as_pytorch_reads_it() {
        let case = &quick()[2];
        let text = serde_json::to_string(case).unwrap();
        assert_eq!(
            text,
            "{\"id\":\"3-documents-d64-128\",\"rule\":{\"name\":\"documents\",\"documents\":3},\"q_heads\":2,\
             \"kv_heads\":1,\"dim\":64,\"len\":128,\"cells\":2796,\"longest\":256}"
        );
        assert_eq!(&serde_json::from_str::<TimedCase>(&text).unwrap(), case);
    }
}
