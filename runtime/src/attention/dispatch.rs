//! Choosing the kernel of a call: candidates in order of preference, each of which runs or says why not.

use std::fmt;

use maskwright_cpu::{Micro, TensorDataMut};
use serde::Serialize;

use super::error::AttentionError;
use super::kernel::Kernel;
use super::request::{Call, ForwardOptions};
#[cfg(feature = "cuda")]
use crate::cuda::{HostRun, Machine, first_gpu, new_emulator, prepare_run};
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
    /// The kernels for NVIDIA GPUs.
    Cuda,
    /// The same kernels without a GPU, executed and checked instruction by instruction: slow, and never chosen unless
    /// asked for.
    Emulator,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Auto,
        Self::Reference,
        Self::Cpu,
        Self::Cuda,
        Self::Emulator,
    ];

    /// The name that is shown and that [`Backend::from_name`] takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Reference => "reference",
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Emulator => "emulator",
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
enum Candidate {
    Cuda,
    Emulator,
    Cpu(Micro),
    Reference,
}

/// The kernel that runs.
#[derive(Debug)]
pub(super) enum Chosen {
    #[cfg(feature = "cuda")]
    Gpu(Box<HostRun>),
    Cpu(Micro),
    Reference,
}

/// The best first.
const RANKED: [Candidate; 5] = [
    Candidate::Cuda,
    Candidate::Cpu(Micro::Avx2),
    Candidate::Cpu(Micro::Portable),
    Candidate::Emulator,
    Candidate::Reference,
];

/// A call, to be run by whoever can.
struct Asked<'a> {
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "only GPUs ask for it")
    )]
    kernel: &'a Kernel,
    call: &'a Call<'a>,
    options: &'a ForwardOptions<'a>,
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "only GPUs ask for it")
    )]
    out: &'a TensorDataMut<'a>,
}

impl Candidate {
    fn backend(self) -> Backend {
        match self {
            Self::Cuda => Backend::Cuda,
            Self::Emulator => Backend::Emulator,
            Self::Cpu(_) => Backend::Cpu,
            Self::Reference => Backend::Reference,
        }
    }

    fn kernel(self) -> &'static str {
        match self {
            Self::Cuda | Self::Emulator => "forward",
            Self::Cpu(micro) => micro.name(),
            Self::Reference => "dense-f64",
        }
    }

    /// Why this one was not meant to run.
    fn is_unwanted(self, options: &ForwardOptions<'_>) -> Option<String> {
        let asked = options.backend;
        match self {
            Self::Reference if asked == Backend::Auto => {
                Some("it is dense and slow, and runs only where it is asked for".to_owned())
            }
            Self::Emulator if asked == Backend::Auto => {
                Some("it is slow, and runs only where it is asked for".to_owned())
            }
            Self::Cuda if asked == Backend::Auto && options.micro.is_some() => {
                Some("a micro-kernel of the processor was asked for".to_owned())
            }
            Self::Cuda | Self::Emulator | Self::Cpu(_) | Self::Reference
                if asked != Backend::Auto && asked != self.backend() =>
            {
                Some(format!("backend {asked} was asked for"))
            }
            Self::Cuda | Self::Emulator | Self::Cpu(_) | Self::Reference => None,
        }
    }

    /// Makes it ready to run, or says why it cannot.
    fn ready(self, asked: &Asked<'_>) -> Result<Chosen, String> {
        match self {
            Self::Cuda => ready_on_gpu(first_gpu, asked),
            Self::Emulator => ready_on_gpu(new_emulator, asked),
            Self::Reference => Ok(Chosen::Reference),
            Self::Cpu(micro) => match refuses_on_cpu(micro, asked.call, asked.options) {
                Some(reason) => Err(reason),
                None => Ok(Chosen::Cpu(micro)),
            },
        }
    }
}

impl Chosen {
    pub(super) fn backend(&self) -> Backend {
        match self {
            #[cfg(feature = "cuda")]
            Self::Gpu(run) => run.backend(),
            Self::Cpu(_) => Backend::Cpu,
            Self::Reference => Backend::Reference,
        }
    }

    pub(super) fn kernel(&self) -> String {
        match self {
            #[cfg(feature = "cuda")]
            Self::Gpu(run) => run.name(),
            Self::Cpu(micro) => micro.name().to_owned(),
            Self::Reference => "dense-f64".to_owned(),
        }
    }
}

#[cfg(feature = "cuda")]
fn ready_on_gpu(
    machine: impl FnOnce() -> Result<Machine, String>,
    asked: &Asked<'_>,
) -> Result<Chosen, String> {
    let Asked {
        kernel,
        call,
        options,
        out,
    } = asked;
    let run = prepare_run(kernel, machine, call, options, out)?;
    Ok(Chosen::Gpu(Box::new(run)))
}

#[cfg(not(feature = "cuda"))]
fn ready_on_gpu(machine: impl FnOnce(), _asked: &Asked<'_>) -> Result<Chosen, String> {
    machine();
    Err("this build has no kernels for GPUs (feature `cuda`)".to_owned())
}

#[cfg(not(feature = "cuda"))]
fn first_gpu() {}

#[cfg(not(feature = "cuda"))]
fn new_emulator() {}

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
    kernel: &Kernel,
    call: &Call<'_>,
    options: &ForwardOptions<'_>,
    out: &TensorDataMut<'_>,
) -> Result<(Chosen, Vec<Refusal>), AttentionError> {
    let asked = Asked {
        kernel,
        call,
        options,
        out,
    };
    let mut chosen: Option<(&str, Chosen)> = None;
    let mut refusals = Vec::new();
    for candidate in RANKED {
        let reason = match (candidate.is_unwanted(options), &chosen) {
            (Some(reason), _) => reason,
            (None, Some((better, _))) => match candidate {
                // What it lacks is cheap to say, and says more than its rank.
                Candidate::Cpu(micro) => refuses_on_cpu(micro, call, options)
                    .unwrap_or_else(|| format!("{better} ranks before it")),
                Candidate::Cuda | Candidate::Emulator | Candidate::Reference => {
                    format!("{better} ranks before it")
                }
            },
            (None, None) => match candidate.ready(&asked) {
                Ok(ready) => {
                    chosen = Some((candidate.kernel(), ready));
                    continue;
                }
                Err(reason) => reason,
            },
        };
        refusals.push(Refusal {
            backend: candidate.backend(),
            kernel: candidate.kernel().to_owned(),
            reason,
        });
    }
    match chosen {
        Some((_, chosen)) => Ok((chosen, refusals)),
        None => Err(AttentionError::NoBackend {
            asked: options.backend,
            refusals,
        }),
    }
}
