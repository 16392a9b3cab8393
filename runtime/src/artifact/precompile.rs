//! Verifying and storing rules for their buckets before they are needed.

use std::time::Instant;

use maskwright_dsl::bind::{MaskRule, ScoreRule};
use maskwright_dsl::block_mask::BlockSize;
use maskwright_dsl::pipeline::{Scope, prepare};

use super::coarseness::{Coarseness, coarseness};
use super::{ArtifactCache, ArtifactError, artifact_key};
use crate::cache::Key;
#[cfg(feature = "cuda")]
use crate::verify::GpuRequest;
use crate::verify::{DEFAULT_BUDGET_SECS, VerifyError, VerifyRequest};

/// A mask, a `score_mod`, or both.
#[derive(Clone, Copy, Debug)]
pub struct RulePair<'a> {
    /// The mask.
    pub mask: Option<&'a MaskRule>,
    /// The `score_mod`.
    pub score: Option<&'a ScoreRule>,
}

/// How each entry is verified.
#[derive(Clone, Debug)]
pub struct PrecompileSettings {
    /// Block sizes of every mask.
    pub blocks: Vec<BlockSize>,
    /// Seconds for the checks of one entry.
    pub budget_secs: f64,
    /// Seed of samples and generated values.
    pub seed: u64,
    /// What is verified and compiled for GPUs as well.
    #[cfg(feature = "cuda")]
    pub gpu: Option<GpuRequest>,
}

impl Default for PrecompileSettings {
    fn default() -> Self {
        Self {
            blocks: vec![BlockSize::default()],
            budget_secs: DEFAULT_BUDGET_SECS,
            seed: 0,
            #[cfg(feature = "cuda")]
            gpu: None,
        }
    }
}

/// What became of one rule in one bucket.
#[derive(Debug)]
pub struct PrecompileOutcome {
    /// The rules.
    pub rule: String,
    /// The bucket.
    pub bucket: String,
    /// The name of the artifact, stored or not.
    pub key: Key,
    /// Whether it was verified.
    pub verdict: Verdict,
    /// How long it took.
    pub seconds: f64,
}

/// Whether a rule was verified in a bucket.
#[derive(Debug)]
pub enum Verdict {
    /// It is in the cache.
    Verified {
        /// Whether it was there before.
        cached: bool,
        /// Whether every cell of its largest call was compared.
        exhaustive: bool,
        /// Cells that were compared.
        cells_checked: u64,
        /// Bytes of the block masks.
        mask_bytes: u64,
        /// Ends of the bucket where its mask is coarser than the exact one.
        coarse: Vec<Coarseness>,
        /// Kernels for GPUs that the artifact holds.
        kernels: Vec<String>,
    },
    /// It is not.
    Failed(Box<ArtifactError>),
}

impl PrecompileOutcome {
    /// Whether the artifact is in the cache now.
    pub fn is_verified(&self) -> bool {
        matches!(self.verdict, Verdict::Verified { .. })
    }
}

/// Where precompilation is.
#[derive(Debug)]
pub enum PrecompileProgress<'a> {
    /// An entry is about to be looked up or verified.
    Started {
        /// Its number, from 0.
        index: usize,
        /// Entries in all.
        total: usize,
        /// The rules.
        rule: &'a str,
        /// The bucket.
        bucket: &'a str,
    },
    /// An entry is done.
    Done {
        /// Its number, from 0.
        index: usize,
        /// Entries in all.
        total: usize,
        /// What became of it.
        outcome: &'a PrecompileOutcome,
    },
}

/// Verifies and stores every rule for every scope. One that fails does not keep the others from being tried.
pub fn precompile(
    rules: &[RulePair<'_>],
    scopes: &[Scope],
    settings: &PrecompileSettings,
    cache: &ArtifactCache,
    mut progress: impl FnMut(&PrecompileProgress<'_>),
) -> Vec<PrecompileOutcome> {
    let total = rules.len() * scopes.len();
    let jobs = rules
        .iter()
        .flat_map(|rule| scopes.iter().map(move |scope| (rule, scope)));
    let mut outcomes = Vec::with_capacity(total);
    for (index, (rule, scope)) in jobs.enumerate() {
        let request = VerifyRequest {
            blocks: settings.blocks.clone(),
            budget_secs: settings.budget_secs,
            seed: settings.seed,
            #[cfg(feature = "cuda")]
            gpu: settings.gpu.clone(),
            ..VerifyRequest::new(rule.mask, rule.score, scope.clone())
        };
        let (name, bucket) = (request.rule_names(), scope.bucket.to_string());
        progress(&PrecompileProgress::Started {
            index,
            total,
            rule: &name,
            bucket: &bucket,
        });
        let started = Instant::now();
        let verdict = one(&request, cache).unwrap_or_else(|error| Verdict::Failed(Box::new(error)));
        let outcome = PrecompileOutcome {
            rule: name,
            bucket,
            key: artifact_key(&request),
            verdict,
            seconds: started.elapsed().as_secs_f64(),
        };
        progress(&PrecompileProgress::Done {
            index,
            total,
            outcome: &outcome,
        });
        outcomes.push(outcome);
    }
    outcomes
}

fn one(request: &VerifyRequest<'_>, cache: &ArtifactCache) -> Result<Verdict, ArtifactError> {
    let found = cache.get_or_verify(request)?;
    let artifact = &found.artifact;
    let mut coarse = Vec::new();
    let prepared = request
        .score
        .and_then(|score| prepare(score.bound(), &request.scope).ok());
    if let Some(mask) = request.effective_mask(prepared.as_ref()) {
        for block_mask in artifact.masks() {
            let one = coarseness(mask.bound(), &request.scope, block_mask);
            coarse.extend(one.map_err(VerifyError::from)?);
        }
    }
    let mask_bytes = artifact
        .masks()
        .iter()
        .map(|mask| mask.to_bytes().len() as u64)
        .sum();
    Ok(Verdict::Verified {
        cached: found.cached,
        exhaustive: artifact.report().exhaustive,
        cells_checked: artifact.report().cells_checked,
        mask_bytes,
        coarse,
        #[cfg(feature = "cuda")]
        kernels: {
            let kernels = artifact.kernels().iter();
            kernels.map(|kernel| kernel.name.clone()).collect()
        },
        #[cfg(not(feature = "cuda"))]
        kernels: Vec::new(),
    })
}
