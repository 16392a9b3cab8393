//! Programs: PTX text, parsed and decoded once into dense instructions.

pub(crate) mod decode;
mod error;
pub(crate) mod inst;

use std::sync::atomic::{AtomicU64, Ordering};

pub use error::{DecodeError, DecodeFault, Error};
use inst::{D, R, Step, Tables};

use crate::ast::{Location, Variable};

/// A PTX text, ready to be executed.
///
/// ```
/// use ptx_emulator::{Launch, Memory, Options, Program};
///
/// let program = Program::from_text(
///     ".version 8.0
///      .target sm_80
///      .address_size 64
///      .visible .entry store(.param .u64 to) {
///          .reg .b64 %rd<2>;
///          ld.param.u64 %rd1, [to];
///          st.global.u32 [%rd1], 7;
///          ret;
///      }",
/// )?;
/// let memory = Memory::new();
/// let to = memory.alloc(4)?;
/// let launch = Launch { kernel: "store", params: &to.to_le_bytes(), ..Launch::default() };
/// program.launch(&memory, &launch, &Options::default())?;
/// assert_eq!(memory.read(to, 4)?, [7, 0, 0, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Program {
    pub(crate) id: u64,
    pub(crate) kernels: Vec<Kernel>,
    /// Lines of the text.
    pub(crate) lines: Vec<String>,
    pub(crate) files: Vec<String>,
    /// Variables of global memory.
    pub(crate) globals: Vec<Variable>,
    /// The constant bank.
    pub(crate) constants: Vec<u8>,
}

/// A kernel, with the functions that it calls.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
    pub(crate) origins: Vec<Origin>,
    /// Names of instructions, as counted.
    pub(crate) kinds: Vec<String>,
    pub(crate) tables: Tables,
    pub(crate) n32: u32,
    pub(crate) n64: u32,
    pub(crate) n_predicates: u32,
    pub(crate) constants32: Vec<(R, u32)>,
    pub(crate) constants64: Vec<(D, u64)>,
    pub(crate) specials32: Vec<(R, Special)>,
    pub(crate) specials64: Vec<(D, Special)>,
    /// Addresses of global variables: index into `Program::globals`, and an offset.
    pub(crate) global_addresses: Vec<(D, usize, i64)>,
    /// Bytes of static shared memory; the dynamic part follows.
    pub(crate) static_shared: u32,
    /// Names, starts and sizes of the static shared variables.
    pub(crate) shared_variables: Vec<(String, u32, u32)>,
    pub(crate) local_bytes: u32,
    pub(crate) param_bytes: u32,
    pub(crate) max_threads: Option<[u32; 3]>,
    pub(crate) cluster: Option<[u32; 3]>,
}

impl Kernel {
    /// Blocks of a cluster along each axis.
    pub(crate) fn cluster_shape(&self) -> [u32; 3] {
        self.cluster.unwrap_or([1; 3]).map(|n| n.max(1))
    }
}

/// Where a decoded instruction comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) location: Location,
    /// Index into `Kernel::kinds`; [`NOT_COUNTED`] for what one PTX instruction needs beyond its first step.
    pub(crate) kind: u32,
}

/// The kind of steps that are not counted.
pub(crate) const NOT_COUNTED: u32 = u32::MAX;

/// A special register whose value is fixed while a warp runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    LaneId,
    WarpId,
    NWarpId,
    LaneMaskEq,
    LaneMaskLe,
    LaneMaskLt,
    LaneMaskGe,
    LaneMaskGt,
    SmId,
    NSmId,
    GridId,
    DynamicSharedSize,
    TotalSharedSize,
    ClusterId(usize),
    NClusterId(usize),
    ClusterCtaid(usize),
    ClusterNctaid(usize),
    ClusterRank,
    ClusterSize,
    Zero,
}

impl Program {
    /// Parses and decodes a PTX text.
    ///
    /// # Errors
    /// What is wrong with it, with the line; an instruction that is not known is an error here, not when it is reached.
    pub fn from_text(text: &str) -> Result<Self, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let module = crate::parse::parse(text)?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let decoded = decode::decode(&module).map_err(|(location, fault)| DecodeError {
            line: location.line,
            text: lines
                .get((location.line as usize).wrapping_sub(1))
                .map_or_else(String::new, |line| line.trim().to_owned()),
            fault,
        })?;
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            kernels: decoded.kernels,
            lines,
            files: module.files,
            globals: decoded.globals,
            constants: decoded.constants,
        })
    }

    /// Names of the kernels, in order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|kernel| kernel.name.as_str())
    }

    /// The PTX line, without the white space around it.
    pub(crate) fn line(&self, line: u32) -> &str {
        self.lines
            .get((line as usize).wrapping_sub(1))
            .map_or("", |line| line.trim())
    }
}
