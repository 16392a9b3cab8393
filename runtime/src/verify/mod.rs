//! Verification: what was compiled and classified does what the rule says, cell by cell, or it is not cached.
//!
//! [`verify`] is the only thing that makes a [`Verified`] value, and the cache takes nothing else. The law is the
//! author's own function where there is one, and the interpreter of the rule as written, before it was simplified.

mod attention;
mod bits;
mod captured;
mod certificate;
mod classes;
mod engines;
mod error;
#[cfg(feature = "cuda")]
mod gpu;
mod members;
mod mismatch;
mod random;
mod report;
mod request;
mod run;
mod sample;
mod scores;
mod subject;
mod sweep;
mod versions;

#[cfg(test)]
pub(crate) mod tests;

use std::ops::Deref;

pub use self::attention::{
    AttentionCase, AttentionCheck, AttentionFailure, AttentionResult, HEAD_DIM, MAX_ATTENTION_LEN,
    Tolerance,
};
pub use self::certificate::{Certificate, Check, CheckedShape, RuleName};
pub use self::error::VerifyError;
#[cfg(feature = "cuda")]
pub use self::gpu::GpuRequest;
pub use self::mismatch::{CellDifference, CellValue, Finding, MismatchReport, Neighbourhood};
pub(crate) use self::report::hex;
pub use self::report::{BlockReport, VerifyReport};
pub use self::request::{DEFAULT_BUDGET_SECS, VerifyRequest};
pub use self::versions::Versions;
use crate::artifact::{Artifact, ArtifactFault};
use crate::cache::{Entry, Key};

/// A value that was verified: only [`verify`] makes one, or the cache from what [`verify`] made before.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    /// The value, without the proof that it was verified.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Verifies a rule pair for every call of its scope.
///
/// Compared are, at the ends of the bucket, at every remainder of each length, and at sampled calls: the compiled mask
/// with the law and with the interpreter, each block's class with the cells, and compiled scores with the interpreter,
/// to the bit. The same code is then run on generated captured values that keep the preconditions, and attention
/// engines are compared with dense attention. The largest call comes last, at every cell if the budget allows it.
///
/// # Errors
/// [`VerifyError::Mismatch`] with the first cells that differ, [`VerifyError::Refused`] for a rule that breaks the
/// promises of the language, and what kept the checks from being made.
pub fn verify(request: &VerifyRequest<'_>) -> Result<Verified<Artifact>, VerifyError> {
    run::verify_with(request, &run::build_mask).map(Verified)
}

/// Takes an artifact back that was verified before it was written. The entry's checksum and key were checked by the
/// store; here its parts, and that the same versions wrote it for the same processor.
pub(crate) fn restore(key: &Key, entry: &Entry) -> Result<Verified<Artifact>, ArtifactFault> {
    let artifact = Artifact::from_entry(key, entry)?;
    let (expected, found) = (Versions::current(), &artifact.certificate().versions);
    if expected != *found {
        return Err(ArtifactFault::Versions {
            expected: Box::new(expected),
            found: Box::new(found.clone()),
        });
    }
    Ok(Verified(artifact))
}
