//! What to verify, and how far.

use maskwright_dsl::bind::{MaskRule, ScoreRule};
use maskwright_dsl::block_mask::BlockSize;
use maskwright_dsl::pipeline::{Prepared, Scope};

use super::attention::AttentionCheck;
use super::engines::cpu_attention;
#[cfg(feature = "cuda")]
use super::gpu::GpuRequest;

/// Seconds after which the largest call is sampled, unless told otherwise.
pub const DEFAULT_BUDGET_SECS: f64 = 2.0;

/// A rule pair, the calls it is verified for, and how far.
///
/// The checks of one seed are always the same ones, but for one decision: whether the largest call is checked at every
/// cell or sampled, which the budget and the speed of the machine decide. A largest call of at most 2^22 cells, and one
/// whose cells are to be hashed, is never sampled. All work is done on the current pool of rayon.
#[derive(Clone, Debug)]
pub struct VerifyRequest<'a> {
    /// Which query may see which key.
    pub mask: Option<&'a MaskRule>,
    /// How scores change.
    pub score: Option<&'a ScoreRule>,
    /// The calls.
    pub scope: Scope,
    /// Block sizes of the masks that are built and checked; without a mask, none is.
    pub blocks: Vec<BlockSize>,
    /// Seconds that all checks together should take. The least set of checks is made in any case.
    pub budget_secs: f64,
    /// Seed of samples and generated values.
    pub seed: u64,
    /// Whether the cells of the largest call are hashed, which takes all of them whatever the budget.
    pub want_packbits: bool,
    /// Attention engines that are compared with dense attention; the CPU engine unless told otherwise.
    pub attention: Vec<AttentionCheck<'a>>,
    /// What is verified for GPUs as well; nothing unless told otherwise.
    #[cfg(feature = "cuda")]
    pub gpu: Option<GpuRequest>,
}

impl<'a> VerifyRequest<'a> {
    /// Verifies a mask in a scope, in blocks of 128 × 128.
    pub fn of_mask(mask: &'a MaskRule, scope: Scope) -> Self {
        Self::new(Some(mask), None, scope)
    }

    /// Verifies a `score_mod` in a scope.
    pub fn of_score(score: &'a ScoreRule, scope: Scope) -> Self {
        Self::new(None, Some(score), scope)
    }

    /// Verifies a rule pair in a scope, in blocks of 128 × 128.
    pub fn new(mask: Option<&'a MaskRule>, score: Option<&'a ScoreRule>, scope: Scope) -> Self {
        Self {
            mask,
            score,
            scope,
            blocks: vec![BlockSize::default()],
            budget_secs: DEFAULT_BUDGET_SECS,
            seed: 0,
            want_packbits: false,
            attention: vec![cpu_attention()],
            #[cfg(feature = "cuda")]
            gpu: None,
        }
    }

    /// The block sizes, each once.
    pub(crate) fn distinct_blocks(&self) -> Vec<BlockSize> {
        let mut distinct = Vec::new();
        for &block in &self.blocks {
            if !distinct.contains(&block) {
                distinct.push(block);
            }
        }
        distinct
    }

    /// The mask that attention applies: the mask, and what the prepared `score_mod` sends to −∞ whatever the score.
    pub(crate) fn effective_mask(&self, score: Option<&Prepared>) -> Option<MaskRule> {
        let derived = score.and_then(Prepared::derived_mask_rule);
        match (self.mask.cloned(), derived) {
            // The two may be one and the same, and then say nothing more together.
            (Some(mask), Some(derived)) if mask.bound().is_same(derived.bound()) => Some(mask),
            (Some(mask), Some(derived)) => Some(mask & derived),
            (mask, derived) => mask.or(derived),
        }
    }

    /// The names of the rules.
    pub fn rule_names(&self) -> String {
        let mask = self.mask.map(|mask| mask.bound().rule().name.as_str());
        let score = self.score.map(|score| score.bound().rule().name.as_str());
        match (mask, score) {
            (Some(mask), Some(score)) => format!("{mask} with {score}"),
            (Some(name), None) | (None, Some(name)) => name.to_owned(),
            (None, None) => "none".to_owned(),
        }
    }
}
