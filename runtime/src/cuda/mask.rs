//! A block mask in the memory of a machine, uploaded once for any number of launches.

use std::sync::{Mutex, PoisonError};

use maskwright_codegen::spec::TileSize;
use maskwright_dsl::block_mask::{BlockClass, BlockMask, CallShape};

use super::machine::{Machine, MachineBuffer, MachineError};
use super::params::MaskAt;
use super::tile_runs::{TileError, TileRuns};
use crate::attention::Tiles;

/// A block mask as runs of a kernel's tiles, in the memory of a machine.
#[derive(Debug)]
pub struct DeviceMask {
    mask: Option<BlockMask>,
    runs: TileRuns,
    plane_of: MachineBuffer,
    row_start: MachineBuffer,
    run_words: MachineBuffer,
    /// The tiles of the last call, which is often the next one too.
    counted: Mutex<Option<(CallShape, Tiles)>>,
}

impl DeviceMask {
    /// Uploads a mask for kernels of a tile.
    pub(crate) fn new(
        machine: &Machine,
        mask: &BlockMask,
        tile: TileSize,
    ) -> Result<Self, MaskUploadError> {
        let runs = TileRuns::new(mask, tile)?;
        Ok(Self::upload(machine, Some(mask.clone()), runs)?)
    }

    /// Uploads the runs of calls that have no mask, or one of which no block is known.
    pub(crate) fn uniform(
        machine: &Machine,
        tile: TileSize,
        class: BlockClass,
    ) -> Result<Self, MachineError> {
        Self::upload(machine, None, TileRuns::uniform(tile, class))
    }

    fn upload(
        machine: &Machine,
        mask: Option<BlockMask>,
        runs: TileRuns,
    ) -> Result<Self, MachineError> {
        let words = |words: &mut dyn Iterator<Item = u32>| {
            let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
            machine.upload(&bytes)
        };
        Ok(Self {
            plane_of: words(&mut runs.plane_of().iter().copied())?,
            row_start: words(&mut runs.row_start().iter().copied())?,
            run_words: words(&mut runs.runs().iter().flatten().copied())?,
            mask,
            runs,
            counted: Mutex::default(),
        })
    }

    /// The mask; `None` where there is none.
    pub fn mask(&self) -> Option<&BlockMask> {
        self.mask.as_ref()
    }

    /// Its runs.
    pub fn runs(&self) -> &TileRuns {
        &self.runs
    }

    /// What a kernel does with a call: tiles that it computes by class, and those that it never touches.
    pub fn tiles(&self, call: &CallShape) -> Tiles {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        match *counted {
            Some((known, tiles)) if known == *call => tiles,
            Some(_) | None => {
                let tiles = self.runs.tiles(call);
                *counted = Some((*call, tiles));
                tiles
            }
        }
    }

    pub(crate) fn check_home(&self, machine: &Machine) -> Result<(), MachineError> {
        machine.check_home("the block mask", self.plane_of.view().home())
    }

    pub(crate) fn at(&self) -> MaskAt {
        MaskAt {
            plane_of: self.plane_of.address(),
            batch_stride: self.runs.batch_stride(),
            head_stride: self.runs.head_stride(),
            row_start: self.row_start.address(),
            rows: self.runs.rows(),
            tiles_per_row: self.runs.tiles_per_row(),
            runs: self.run_words.address(),
        }
    }
}

/// Why a mask could not be uploaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MaskUploadError {
    /// It does not go with the tile.
    #[error(transparent)]
    Tile(#[from] TileError),
    /// There is no room.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

impl From<MaskUploadError> for super::error::KernelError {
    fn from(error: MaskUploadError) -> Self {
        match error {
            MaskUploadError::Tile(error) => error.into(),
            MaskUploadError::Machine(error) => error.into(),
        }
    }
}
