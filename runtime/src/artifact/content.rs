//! An artifact and its form as a cache entry.

use std::sync::Arc;

use maskwright_dsl::block_mask::{BlockMask, BlockMaskError, BlockSize};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::ir::{DecodeError, Rule, decode, encode};

use crate::cache::{Entry, Key};
#[cfg(feature = "cuda")]
use crate::cuda::Image;
use crate::verify::{Certificate, VerifyReport, Versions};

/// A rule pair as it is compiled, its block masks, and the record of what was checked.
#[derive(Clone, Debug)]
pub struct Artifact {
    key: Key,
    mask: Option<Arc<Rule>>,
    score: Option<Arc<Rule>>,
    masks: Vec<BlockMask>,
    certificate: Certificate,
    report: VerifyReport,
    #[cfg(feature = "cuda")]
    kernels: Vec<ArtifactKernel>,
}

/// A kernel for a GPU that was compiled with the rules that were verified.
#[cfg(feature = "cuda")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactKernel {
    /// The kernel with its tile, types and target.
    pub name: String,
    pub(crate) key: Key,
    pub(crate) image: Image,
}

#[cfg(feature = "cuda")]
impl ArtifactKernel {
    /// The PTX.
    pub fn ptx(&self) -> &str {
        &self.image.ptx
    }

    /// The machine code, unless there is PTX alone.
    pub fn cubin(&self) -> Option<&[u8]> {
        self.image.cubin.as_deref()
    }
}

/// Artifacts are equal if their bytes are.
impl PartialEq for Artifact {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.to_entry() == other.to_entry()
    }
}

/// Why a cache entry is no artifact that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactFault {
    /// A part is missing.
    #[error("expected a section `{name}`, found none")]
    NoSection {
        /// The part.
        name: String,
    },
    /// A rule cannot be read.
    #[error("section `{name}` is no rule")]
    Rule {
        /// The part.
        name: &'static str,
        /// The cause.
        source: DecodeError,
    },
    /// A block mask cannot be read.
    #[error("section `{name}` is no block mask")]
    Mask {
        /// The part.
        name: String,
        /// The cause.
        source: BlockMaskError,
    },
    /// A block mask is that of another scope.
    #[error("section `{name}` holds a mask of {found}")]
    OtherMask {
        /// The part.
        name: String,
        /// The geometry in it.
        found: String,
    },
    /// A kernel lacks a part.
    #[cfg(feature = "cuda")]
    #[error("sections `{name}*` hold no kernel")]
    Kernel {
        /// What the names of its parts begin with.
        name: String,
    },
    /// A record cannot be read.
    #[error("section `{name}` cannot be read")]
    Record {
        /// The part.
        name: &'static str,
        /// The cause.
        source: serde_json::Error,
    },
    /// The bucket of the certificate cannot be read.
    #[error("expected a bucket in the certificate, found `{found}`")]
    Bucket {
        /// What stands there.
        found: String,
    },
    /// Other programs, or another processor.
    #[error("expected an artifact of {expected:?}, found {found:?}")]
    Versions {
        /// This build, on this machine.
        expected: Box<Versions>,
        /// What the certificate says.
        found: Box<Versions>,
    },
    /// The certificate speaks of another rule.
    #[error("expected rule {expected}, found {found}")]
    OtherRule {
        /// Identity that was asked for.
        expected: String,
        /// Identity in the certificate.
        found: String,
    },
}

const MASK_RULE: &str = "rule.mask";
const SCORE_RULE: &str = "rule.score";
const CERTIFICATE: &str = "certificate.json";
const REPORT: &str = "report.json";

impl Artifact {
    pub(crate) fn new(
        key: Key,
        (mask, score): (Option<Arc<Rule>>, Option<Arc<Rule>>),
        masks: Vec<BlockMask>,
        certificate: Certificate,
        report: VerifyReport,
    ) -> Self {
        Self {
            key,
            mask,
            score,
            masks,
            certificate,
            report,
            #[cfg(feature = "cuda")]
            kernels: Vec::new(),
        }
    }

    /// Adds the kernels that were compiled.
    #[cfg(feature = "cuda")]
    pub(crate) fn with_kernels(self, kernels: Vec<ArtifactKernel>) -> Self {
        Self { kernels, ..self }
    }

    /// The kernels for GPUs; none unless targets were asked for.
    #[cfg(feature = "cuda")]
    pub fn kernels(&self) -> &[ArtifactKernel] {
        &self.kernels
    }

    /// The name under which it is stored.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The simplified mask that attention applies: with it is what the `score_mod` sends to −∞.
    pub fn mask(&self) -> Option<&Arc<Rule>> {
        self.mask.as_ref()
    }

    /// The simplified `score_mod`.
    pub fn score(&self) -> Option<&Arc<Rule>> {
        self.score.as_ref()
    }

    /// The block masks, one per block size.
    pub fn masks(&self) -> &[BlockMask] {
        &self.masks
    }

    /// The block mask of a block size.
    pub fn block_mask(&self, block: BlockSize) -> Option<&BlockMask> {
        self.masks.iter().find(|mask| mask.block() == block)
    }

    /// What was checked.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The figures that the checks came to.
    pub fn report(&self) -> &VerifyReport {
        &self.report
    }

    /// The artifact as the cache keeps it.
    pub fn to_entry(&self) -> Entry {
        let mut sections = Vec::new();
        for (name, rule) in [(MASK_RULE, &self.mask), (SCORE_RULE, &self.score)] {
            if let Some(rule) = rule {
                sections.push((name.to_owned(), encode(rule)));
            }
        }
        for mask in &self.masks {
            sections.push((mask_section(&mask.block().to_string()), mask.to_bytes()));
        }
        let json = |name: &str, bytes: serde_json::Result<Vec<u8>>| {
            (
                name.to_owned(),
                bytes.expect("plain records have a form in JSON"),
            )
        };
        sections.push(json(
            CERTIFICATE,
            serde_json::to_vec_pretty(&self.certificate),
        ));
        sections.push(json(REPORT, serde_json::to_vec_pretty(&self.report)));
        #[cfg(feature = "cuda")]
        for (index, kernel) in self.kernels.iter().enumerate() {
            sections.push((
                kernel_section(index, "name"),
                kernel.name.clone().into_bytes(),
            ));
            sections.push((kernel_section(index, "key"), kernel.key.as_bytes().to_vec()));
            for (part, bytes) in kernel.image.to_entry().sections {
                sections.push((kernel_section(index, &part), bytes));
            }
        }
        Entry { sections }
    }

    /// Reads an artifact of a cache entry. That it was verified is for the caller to know.
    pub(crate) fn from_entry(key: &Key, entry: &Entry) -> Result<Self, ArtifactFault> {
        let section = |name: &str| {
            entry.section(name).ok_or_else(|| ArtifactFault::NoSection {
                name: name.to_owned(),
            })
        };
        let record = |name| move |source| ArtifactFault::Record { name, source };
        let certificate: Certificate =
            serde_json::from_slice(section(CERTIFICATE)?).map_err(record(CERTIFICATE))?;
        let report = serde_json::from_slice(section(REPORT)?).map_err(record(REPORT))?;
        let rule = |name: &'static str, expected: bool| {
            if !expected {
                return Ok(None);
            }
            let rule = decode(section(name)?);
            let rule = rule.map_err(|source| ArtifactFault::Rule { name, source })?;
            Ok(Some(Arc::new(rule)))
        };
        let mask = rule(MASK_RULE, certificate.effective_mask.is_some())?;
        let score = rule(SCORE_RULE, certificate.score.is_some())?;
        let bucket: Bucket = certificate
            .bucket
            .parse()
            .map_err(|_| ArtifactFault::Bucket {
                found: certificate.bucket.clone(),
            })?;
        let bucket = bucket.tight().map_err(|_| ArtifactFault::Bucket {
            found: certificate.bucket.clone(),
        })?;
        let mut masks = Vec::new();
        for block in &certificate.blocks {
            let name = mask_section(block);
            let mask = BlockMask::from_bytes(section(&name)?);
            let mask = mask.map_err(|source| ArtifactFault::Mask {
                name: name.clone(),
                source,
            })?;
            let shape = (mask.batch(), mask.heads(), mask.bucket());
            let expected = (certificate.batch, certificate.num_q_heads, &bucket);
            if shape != expected || mask.block().to_string() != *block {
                return Err(ArtifactFault::OtherMask {
                    name,
                    found: mask.geometry().to_string(),
                });
            }
            masks.push(mask);
        }
        Ok(Self {
            key: *key,
            mask,
            score,
            masks,
            certificate,
            report,
            #[cfg(feature = "cuda")]
            kernels: kernels_of(entry)?,
        })
    }
}

#[cfg(feature = "cuda")]
fn kernel_section(index: usize, part: &str) -> String {
    format!("cuda.{index}.{part}")
}

/// The kernels of an entry, numbered from 0.
#[cfg(feature = "cuda")]
fn kernels_of(entry: &Entry) -> Result<Vec<ArtifactKernel>, ArtifactFault> {
    let mut kernels = Vec::new();
    while let Some(name) = entry.section(&kernel_section(kernels.len(), "name")) {
        let prefix = kernel_section(kernels.len(), "");
        let parts = entry.sections.iter().filter_map(|(name, data)| {
            let part = name.strip_prefix(&prefix)?;
            Some((part.to_owned(), data.clone()))
        });
        let parts = Entry {
            sections: parts.collect(),
        };
        let fault = || ArtifactFault::Kernel {
            name: prefix.clone(),
        };
        let key = parts.section("key").ok_or_else(fault)?;
        kernels.push(ArtifactKernel {
            name: String::from_utf8_lossy(name).into_owned(),
            key: Key::from_bytes(key.try_into().map_err(|_| fault())?),
            image: Image::from_entry(&parts).ok_or_else(fault)?,
        });
    }
    Ok(kernels)
}

fn mask_section(block: &str) -> String {
    format!("mask.{block}")
}
