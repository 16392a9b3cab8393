//! What most programs need: `use maskwright::prelude::*;`.

pub use maskwright_dsl::block_mask::{BlockMask, BlockSize};
pub use maskwright_dsl::bucket::Bucket;

pub use crate::operator::{div_floor, rem_floor};
pub use crate::{Buffer, MaskRule, ScoreRule, attention_mask, mask, score, score_mod};
