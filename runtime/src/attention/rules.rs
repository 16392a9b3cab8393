//! The rules of an attention call: a mask, a score rule, both, or neither.

use maskwright_dsl::bind::{MaskRule, ScoreRule};

/// A mask and a score rule that belong together; without either, attention is dense.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Which query may see which key.
    pub mask: Option<MaskRule>,
    /// How a score changes, before the mask is applied.
    pub score: Option<ScoreRule>,
}

impl Rules {
    /// Every query sees every key, and scores stay as they are.
    pub fn dense() -> Self {
        Self::default()
    }

    /// A mask alone.
    pub fn mask(mask: MaskRule) -> Self {
        Self {
            mask: Some(mask),
            score: None,
        }
    }

    /// A score rule alone.
    pub fn score(score: ScoreRule) -> Self {
        Self {
            mask: None,
            score: Some(score),
        }
    }

    /// A mask and a score rule.
    pub fn both(mask: MaskRule, score: ScoreRule) -> Self {
        Self {
            mask: Some(mask),
            score: Some(score),
        }
    }
}

impl From<MaskRule> for Rules {
    fn from(mask: MaskRule) -> Self {
        Self::mask(mask)
    }
}

impl From<ScoreRule> for Rules {
    fn from(score: ScoreRule) -> Self {
        Self::score(score)
    }
}
