//! What is kept of a verified rule: the lowered rule, its block masks and its certificate; and the cache of them.

mod artifacts;
mod coarseness;
mod content;
mod key;
mod precompile;

#[cfg(test)]
mod tests;

pub use self::artifacts::{ArtifactCache, ArtifactError, ArtifactMiss, Found, MissingArtifact};
pub use self::coarseness::Coarseness;
#[cfg(feature = "cuda")]
pub use self::content::ArtifactKernel;
pub use self::content::{Artifact, ArtifactFault};
pub use self::key::artifact_key;
pub use self::precompile::{
    PrecompileOutcome, PrecompileProgress, PrecompileSettings, RulePair, Verdict, precompile,
};
pub use crate::cache::CacheMode;
