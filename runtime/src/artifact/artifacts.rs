//! The cache of verified artifacts, and the mode in which nothing may be verified or compiled.

use std::fmt;
use std::path::PathBuf;

use maskwright_dsl::bind::{MaskRule, ScoreRule};

use crate::cache::{CacheMode, Key, Lookup, MissReason, Store, StoreError};
use crate::verify::{self, Verified, VerifyError, VerifyRequest, hex};

use super::{Artifact, ArtifactFault, artifact_key};

/// Verified artifacts in a [`Store`].
#[derive(Clone, Debug)]
pub struct ArtifactCache {
    store: Store,
    mode: CacheMode,
}

/// Why there is no usable artifact under a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactMiss {
    /// The store has no entry that can be used.
    #[error(transparent)]
    Store(#[from] MissReason),
    /// The entry is whole, but no artifact that this build can use.
    #[error(transparent)]
    Fault(#[from] ArtifactFault),
    /// The artifact was made without hashing its cells, which is asked for now.
    #[error("it holds no hash of the cells")]
    NoPackbits,
}

/// Why a request got no artifact.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The rule was not verified.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The artifact could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The artifact is missing, and nothing may be compiled.
    #[error(transparent)]
    Missing(Box<MissingArtifact>),
}

/// What is missing where nothing may be compiled.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no verified artifact of rule {rule} for bucket {bucket}, batch {batch}, {num_q_heads} heads, blocks of {blocks}: expected key {key} at {}, and may not compile ({})",
    path.display(),
    CacheMode::VARIABLE
)]
pub struct MissingArtifact {
    /// The rules.
    pub rule: String,
    /// The bucket.
    pub bucket: String,
    /// Batch entries.
    pub batch: u32,
    /// Query heads.
    pub num_q_heads: u32,
    /// Block sizes.
    pub blocks: String,
    /// The key.
    pub key: Key,
    /// Where the entry would lie.
    pub path: PathBuf,
    /// What was found there.
    #[source]
    pub reason: ArtifactMiss,
}

/// An artifact, and whether it was stored before.
#[derive(Clone, Debug)]
pub struct Found {
    /// The artifact.
    pub artifact: Verified<Artifact>,
    /// Whether it came from the store.
    pub cached: bool,
}

impl ArtifactCache {
    /// A cache in a store, in the mode that the environment says.
    pub fn new(store: Store) -> Self {
        Self::with_mode(store, CacheMode::from_env())
    }

    /// A cache in a store.
    pub fn with_mode(store: Store, mode: CacheMode) -> Self {
        Self { store, mode }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether a miss is an error.
    pub fn mode(&self) -> CacheMode {
        self.mode
    }

    /// Stores an artifact under its key.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn put(&self, artifact: &Verified<Artifact>) -> Result<(), StoreError> {
        self.store.put(artifact.key(), &artifact.to_entry())
    }

    /// The artifact of a key, if it is whole and this build made it for this processor.
    pub fn get(&self, key: &Key) -> Option<Verified<Artifact>> {
        self.get_explained(key).ok()
    }

    /// The artifact of a key.
    ///
    /// # Errors
    /// The reason why there is none that can be used.
    pub fn get_explained(&self, key: &Key) -> Result<Verified<Artifact>, ArtifactMiss> {
        match self.store.get_explained(key) {
            Lookup::Hit(entry) => Ok(verify::restore(key, &entry)?),
            Lookup::Miss(reason) => Err(reason.into()),
        }
    }

    /// The artifact of a request: the stored one, or one that is verified now and stored.
    ///
    /// # Errors
    /// [`ArtifactError`]: in [`CacheMode::NoCompile`] a miss is one.
    pub fn get_or_verify(&self, request: &VerifyRequest<'_>) -> Result<Found, ArtifactError> {
        let key = artifact_key(request);
        let reason = match self.stored(request, &key) {
            Ok(artifact) => {
                return Ok(Found {
                    artifact,
                    cached: true,
                });
            }
            Err(reason) => reason,
        };
        match self.mode {
            CacheMode::ReadWrite => {
                let artifact = verify::verify(request)?;
                self.put(&artifact)?;
                Ok(Found {
                    artifact,
                    cached: false,
                })
            }
            CacheMode::NoCompile => Err(ArtifactError::Missing(Box::new(MissingArtifact {
                rule: request.rule_names(),
                bucket: request.scope.bucket.to_string(),
                batch: request.scope.batch,
                num_q_heads: request.scope.num_q_heads,
                blocks: list(&request.blocks),
                path: self.store.entry_path(&key),
                key,
                reason,
            }))),
        }
    }

    /// The stored artifact of a request, which must speak of its rules.
    fn stored(
        &self,
        request: &VerifyRequest<'_>,
        key: &Key,
    ) -> Result<Verified<Artifact>, ArtifactMiss> {
        let artifact = self.get_explained(key)?;
        let certificate = artifact.certificate();
        let mask = request.mask.map(MaskRule::bound);
        let score = request.score.map(ScoreRule::bound);
        for (bound, name) in [(mask, &certificate.mask), (score, &certificate.score)] {
            let expected = bound.map_or_else(String::new, |bound| hex(&bound.rule().identity()));
            let found = name.as_ref().map_or("", |name| &name.identity);
            if expected != found {
                let found = found.to_owned();
                return Err(ArtifactFault::OtherRule { expected, found }.into());
            }
        }
        if request.want_packbits
            && request.mask.is_some()
            && artifact.report().packbits_sha256.is_none()
        {
            return Err(ArtifactMiss::NoPackbits);
        }
        Ok(artifact)
    }
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    items.join(", ")
}
