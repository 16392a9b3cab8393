//! Block masks: the classes that analysis and evaluation give each block.

use maskwright_dsl::block_mask::{BlockMask, BlockSize};

use super::{Engine, NoOutcome, Outcome, kind};
use crate::case::Kind;
use crate::expect::Blocks;
use crate::program::Program;

/// Builds block masks of two block sizes.
#[derive(Clone, Copy, Debug)]
pub struct BlockMasks;

impl Engine for BlockMasks {
    fn name(&self) -> &'static str {
        "block mask"
    }

    fn run(&self, program: &Program) -> Result<Outcome, NoOutcome> {
        match kind(program) {
            Kind::Mask => {}
            Kind::Score => return Err(NoOutcome::Skip("a score rule has no blocks of its own")),
        }
        let prepared = program.prepare().map_err(NoOutcome::Fault)?;
        let mut found = Vec::new();
        for size in [128, 64] {
            let block = BlockSize { q: size, kv: size };
            let (mask, _) = BlockMask::build(&prepared, block)
                .map_err(|error| NoOutcome::Fault(error.to_string()))?;
            if !mask.is_exact() {
                return Err(NoOutcome::Fault(
                    "the mask of a single call is not exact".to_owned(),
                ));
            }
            let blocks = Blocks {
                size,
                grid: [mask.rows(), mask.cols()],
                classes: mask.class_bytes().collect(),
            };
            let counts = mask.counts();
            let counted = [counts.empty, counts.partial, counts.full];
            for (class, counted) in counted.into_iter().enumerate() {
                let bytes = blocks.classes.iter();
                let listed = bytes.filter(|byte| usize::from(**byte) == class).count();
                if listed as u128 != counted {
                    return Err(NoOutcome::Fault(format!(
                        "{listed} blocks have class {class}, but {counted} are counted"
                    )));
                }
            }
            found.push(blocks);
        }
        Ok(Outcome::Blocks(found))
    }
}
