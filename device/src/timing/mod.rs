//! Times of our kernels, with the block mask's own time and the launch record beside each.

mod cases;
mod clock;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use maskwright::attention::Tiles;
use maskwright::cache::CacheMode;
use maskwright::cuda::{
    CudaKernel, DeviceOutput, DeviceTensor, DeviceTensorMut, Float, KernelStore, LaunchOptions,
    Machine, MachineBuffer,
};
use maskwright::{BlockSize, Kernel};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::arguments::Arguments;
use crate::error::{RunError, chain};
use crate::folder::{Folder, Manifest};
use crate::say;
use crate::tensors::mixed;
use clock::Clock;

pub(crate) use cases::{TimedCase, TimedRule, full, kernel, quick, shape};

/// Masks are built this many times.
const MASK_REPETITIONS: usize = 3;

/// The first line of a file of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// What ran.
    pub(crate) device: String,
    /// The version of CUDA that the driver knows.
    pub(crate) cuda: Option<String>,
    /// How times were taken.
    pub(crate) clock: String,
    /// What made the kernels.
    pub(crate) prepared: Manifest,
}

/// One line of a file of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TimeLine {
    /// The case.
    pub(crate) case: TimedCase,
    /// What was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) times: Option<Times>,
    /// Why nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) skipped: Option<String>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// Milliseconds of one launch: the median of the repetitions.
    pub(crate) ms: f64,
    /// The fastest and the slowest repetition.
    pub(crate) spread: [f64; 2],
    /// Launches in a repetition.
    pub(crate) launches: usize,
    /// Milliseconds in which the host built the block mask.
    pub(crate) mask_ms: Option<f64>,
    /// Milliseconds in which it was cut into tiles and uploaded.
    pub(crate) upload_ms: Option<f64>,
    /// The kernel, as the launch record names it.
    pub(crate) kernel: String,
    /// Tiles that it computed as full and as partial, and those that it skipped.
    pub(crate) tiles: [u64; 3],
}

/// `time DIR --out FILE`.
pub(crate) fn run(arguments: &mut Arguments) -> Result<(), RunError> {
    let folder = Folder::new(arguments.place("DIR")?);
    let out = arguments
        .flag("--out")
        .ok_or_else(|| RunError::Usage("--out FILE is missing".to_owned()))?;
    let machine = arguments.machine()?;
    arguments.finish()?;
    let clock = Clock::new(&machine)?;
    let header = Header {
        device: machine.to_string(),
        cuda: machine.gpu().map(|gpu| {
            let (major, minor) = gpu.info().driver_version;
            format!("{major}.{minor}")
        }),
        clock: clock.name().to_owned(),
        prepared: folder.manifest()?,
    };
    let mut file = Lines::create(Path::new(&out))?;
    file.write(&header)?;
    let cases = folder.cases()?;
    let kernels = folder.kernels(CacheMode::NoCompile)?;
    let memory = Memory::new(&machine, &cases)?;
    let mut timer = Timer {
        machine,
        kernels,
        memory,
        clock,
        made: Vec::new(),
    };
    for case in cases {
        let (times, skipped) = match timer.time(&case) {
            Ok(times) => (Some(times), None),
            Err(error) => (None, Some(chain(&error))),
        };
        match (&times, &skipped) {
            (Some(times), _) => say(&format!("{:30} {:10.4} ms", case.id, times.ms)),
            (None, reason) => say(&format!(
                "{:30} {}",
                case.id,
                reason.as_deref().unwrap_or("")
            )),
        }
        file.write(&TimeLine {
            case,
            times,
            skipped,
        })?;
    }
    Ok(())
}

/// A file of JSON objects, each of which is there once it is written.
struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    fn create(path: &Path) -> Result<Self, RunError> {
        let file = File::create(path).map_err(|source| RunError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), RunError> {
        let text = serde_json::to_string(line).map_err(|source| RunError::Json {
            path: self.path.clone(),
            source,
        })?;
        writeln!(self.file, "{text}").map_err(|source| RunError::File {
            path: self.path.clone(),
            source,
        })
    }
}

/// Inputs and outputs as long as the longest case needs; each case takes the beginning of them.
struct Memory {
    q: MachineBuffer,
    k: MachineBuffer,
    v: MachineBuffer,
    out: MachineBuffer,
}

impl Memory {
    fn new(machine: &Machine, cases: &[TimedCase]) -> Result<Self, RunError> {
        let most =
            |elements: fn(&TimedCase) -> usize| cases.iter().map(elements).max().unwrap_or(0);
        let q = most(|case| case.q_heads * case.len * case.dim);
        let kv = most(|case| case.kv_heads * case.len * case.dim);
        Ok(Self {
            q: machine.upload(&normal(q, 1))?,
            k: machine.upload(&normal(kv, 2))?,
            v: machine.upload(&normal(kv, 3))?,
            out: machine.alloc(2 * q)?,
        })
    }
}

/// bf16 values, nearly normal with variance 1: the sum of four uniform numbers.
fn normal(elements: usize, seed: u64) -> Vec<u8> {
    let draw = |at: usize| {
        let bits = mixed(seed, at as u64);
        let sum: u64 = (0..4).map(|part| bits >> (16 * part) & 0xffff).sum();
        // The four have mean 1/2 and variance 1/12 each.
        let x = (sum as f32 / 65_536.0 - 2.0) * 3.0_f32.sqrt();
        half::bf16::from_f32(x).to_le_bytes()
    };
    (0..elements).into_par_iter().flat_map_iter(draw).collect()
}

struct Timer {
    machine: Machine,
    kernels: KernelStore,
    memory: Memory,
    clock: Clock,
    /// Rules that were compiled, which all lengths share.
    made: Vec<(TimedRule, Kernel)>,
}

impl Timer {
    fn time(&mut self, case: &TimedCase) -> Result<Times, RunError> {
        let kernel = self.kernel_for(case)?;
        let len = case.len as u64;
        let mut mask = None;
        let mut mask_ms = None;
        if kernel.prepared_mask().is_some() {
            let mut each = Vec::new();
            for _ in 0..MASK_REPETITIONS {
                let started = Instant::now();
                mask = Some(kernel.block_mask_at(len, len, 0, BlockSize::default())?);
                each.push(started.elapsed().as_secs_f64() * 1e3);
            }
            mask_ms = Some(median(&mut each));
        }
        let cuda = CudaKernel::new(&kernel, &self.machine, &shape(case), &self.kernels)?;
        let started = Instant::now();
        let uploaded = match &mask {
            Some(mask) => Some(cuda.upload_mask(mask)?),
            None => None,
        };
        let upload_ms = started.elapsed().as_secs_f64() * 1e3;
        let Memory { q, k, v, out } = &mut self.memory;
        let q_shape = [1, case.q_heads, case.len, case.dim];
        let kv_shape = [1, case.kv_heads, case.len, case.dim];
        // As long as the case has rows, which a kernel wants to be told exactly.
        let mut lse = self.machine.alloc(4 * case.q_heads * case.len)?;
        let mut tiles = Tiles::default();
        let mut name = String::new();
        let stream = self.clock.stream();
        let measured = self.clock.measure(|| {
            let launched = cuda.forward(
                DeviceTensor::contiguous(q.view(), Float::BF16, q_shape),
                DeviceTensor::contiguous(k.view(), Float::BF16, kv_shape),
                DeviceTensor::contiguous(v.view(), Float::BF16, kv_shape),
                &LaunchOptions {
                    block_mask: uploaded.as_deref(),
                    stream: stream.as_deref(),
                    ..LaunchOptions::default()
                },
                &mut DeviceOutput {
                    out: DeviceTensorMut::contiguous(out.view_mut(), Float::BF16, q_shape),
                    lse: Some(lse.view_mut()),
                    row_max: None,
                },
            )?;
            tiles = launched.record.tiles;
            name = launched.record.kernel;
            Ok(())
        })?;
        let mut each = measured.each;
        let ms = median(&mut each);
        Ok(Times {
            ms,
            spread: [each[0], each[each.len() - 1]],
            launches: measured.launches,
            mask_ms,
            upload_ms: mask.map(|_| upload_ms),
            kernel: name,
            tiles: [tiles.full, tiles.partial, tiles.skipped],
        })
    }

    /// The kernel of a rule, with the values of a case.
    fn kernel_for(&mut self, case: &TimedCase) -> Result<Kernel, RunError> {
        let known = self.made.iter().find(|(rule, _)| *rule == case.rule);
        let made = if let Some((_, made)) = known {
            made.clone()
        } else {
            let made = kernel(case)?;
            self.made.push((case.rule, made.clone()));
            made
        };
        Ok(made.rebind(&case.rules()?)?)
    }
}

/// Sorts, and gives the one in the middle.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
