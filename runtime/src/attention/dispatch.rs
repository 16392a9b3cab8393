//! Choosing the kernel of a call: candidates in order of preference, each of which runs or says why not.

use std::fmt;

use maskwright_cpu::Micro;
use serde::Serialize;

use super::error::AttentionError;
use super::request::{Call, ForwardOptions};
use crate::tensor::Dtype;

/// Who computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The best that can run. The reference is never chosen.
    #[default]
    Auto,
    /// Dense attention in `f64`, by the law of the rules: slow, and the truth that others are compared with.
    Reference,
    /// The tiled engine for CPUs.
    Cpu,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Reference, Self::Cpu];

    /// The name that is shown and that [`Backend::from_name`] takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Reference => "reference",
            Self::Cpu => "cpu",
        }
    }

    /// Finds a backend by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.name() == name)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A kernel that did not run, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Its backend.
    pub backend: Backend,
    /// Its name.
    pub kernel: String,
    /// The reason, in one line.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.backend, self.kernel, self.reason)
    }
}

/// A kernel that may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    Cpu(Micro),
    Reference,
}

/// The best first.
const RANKED: [Candidate; 3] = [
    Candidate::Cpu(Micro::Avx2),
    Candidate::Cpu(Micro::Portable),
    Candidate::Reference,
];

impl Candidate {
    pub(super) fn backend(self) -> Backend {
        match self {
            Self::Cpu(_) => Backend::Cpu,
            Self::Reference => Backend::Reference,
        }
    }

    pub(super) fn kernel(self) -> &'static str {
        match self {
            Self::Cpu(micro) => micro.name(),
            Self::Reference => "dense-f64",
        }
    }

    /// Why this one cannot run, or was not meant to.
    fn refuses(self, call: &Call<'_>, options: &ForwardOptions<'_>) -> Option<String> {
        let asked = options.backend;
        match self {
            Self::Reference if asked == Backend::Auto => {
                Some("it is dense and slow, and runs only where it is asked for".to_owned())
            }
            Self::Cpu(_) | Self::Reference if asked != Backend::Auto && asked != self.backend() => {
                Some(format!("backend {asked} was asked for"))
            }
            Self::Reference => None,
            Self::Cpu(micro) => refuses_on_cpu(micro, call, options),
        }
    }
}

fn refuses_on_cpu(micro: Micro, call: &Call<'_>, options: &ForwardOptions<'_>) -> Option<String> {
    for (name, tensor) in [("q", call.q), ("k", call.k), ("v", call.v)] {
        if tensor.dtype() == Dtype::F64 {
            return Some(format!("{name} is f64, and it takes f32, f16 and bf16"));
        }
    }
    let wanted = match options.micro {
        Some(wanted) => (wanted != micro).then(|| format!("`{}` was asked for", wanted.name())),
        None => match Micro::from_environment() {
            // The environment names a slower one, or nothing better can run.
            Ok(best) if best != micro && micro.is_available() && rank(micro) < rank(best) => {
                Some(format!("MASKWRIGHT_MICRO asks for `{}`", best.name()))
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        },
    };
    wanted.or_else(|| {
        (!micro.is_available()).then(|| match micro {
            Micro::Avx2 => "the processor has no AVX2 and FMA".to_owned(),
            Micro::Portable => "this build has no portable kernels".to_owned(),
        })
    })
}

fn rank(micro: Micro) -> usize {
    RANKED
        .iter()
        .position(|candidate| *candidate == Candidate::Cpu(micro))
        .unwrap_or(RANKED.len())
}

/// Chooses a kernel, and collects why the others do not run.
pub(super) fn choose(
    call: &Call<'_>,
    options: &ForwardOptions<'_>,
) -> Result<(Candidate, Vec<Refusal>), AttentionError> {
    let mut chosen: Option<Candidate> = None;
    let mut refusals = Vec::new();
    for candidate in RANKED {
        let reason = match (candidate.refuses(call, options), chosen) {
            (Some(reason), _) => reason,
            (None, Some(better)) => format!("{} ranks before it", better.kernel()),
            (None, None) => {
                chosen = Some(candidate);
                continue;
            }
        };
        refusals.push(Refusal {
            backend: candidate.backend(),
            kernel: candidate.kernel().to_owned(),
            reason,
        });
    }
    match chosen {
        Some(candidate) => Ok((candidate, refusals)),
        None => Err(AttentionError::NoBackend {
            asked: options.backend,
            refusals,
        }),
    }
}
