//! Launches: a kernel over a grid, on the cores of this machine.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::ast::Location;
use crate::check::race::MAX_WARPS;
use crate::check::report::{Fault, Report};
use crate::count::Counters;
use crate::exec::block::Block;
use crate::memory::Memory;
use crate::program::{Kernel, NOT_COUNTED, Program};

/// Which kernel, how often, and on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch<'a> {
    /// Name of the kernel.
    pub kernel: &'a str,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of shared memory beyond what the kernel declares.
    pub dynamic_shared_bytes: u32,
    /// The parameter space: each parameter at its offset.
    pub params: &'a [u8],
}

impl Default for Launch<'_> {
    /// One thread, without parameters.
    fn default() -> Self {
        Self {
            kernel: "",
            grid: [1; 3],
            block: [1; 3],
            dynamic_shared_bytes: 0,
            params: &[],
        }
    }
}

/// What is looked for while a kernel runs. Bounds and alignment are always checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Reads of memory that nothing wrote.
    pub init: bool,
    /// Conflicting accesses of shared memory with no barrier in between.
    pub races: bool,
    /// Writes that the asynchronous proxy reads without a fence.
    pub proxy: bool,
}

impl Checks {
    /// Every check.
    pub const fn all() -> Self {
        Self {
            init: true,
            races: true,
            proxy: true,
        }
    }

    /// Bounds and alignment only.
    pub const fn none() -> Self {
        Self {
            init: false,
            races: false,
            proxy: false,
        }
    }
}

/// How a launch is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is looked for.
    pub checks: Checks,
    /// 0 runs warps in turn; another number runs them in a random order that it determines.
    pub seed: u64,
    /// Threads of this machine that run blocks; 0 for as many as it has cores.
    pub threads: usize,
    /// Whether executions are counted by line.
    pub profile: bool,
    /// Warp instructions that one block may execute.
    pub instruction_limit: u64,
}

impl Default for Options {
    /// All checks, warps in turn, all cores, and a limit that an endless loop reaches in minutes.
    fn default() -> Self {
        Self {
            checks: Checks::all(),
            seed: 0,
            threads: 0,
            profile: false,
            instruction_limit: 2_000_000_000,
        }
    }
}

/// Counters, executions of each step, and the first fault with the index of its block.
type Sums = (Counters, Vec<u64>, Option<(u64, Box<Report>)>);

impl Program {
    /// The address of a variable of global memory, which is allocated if no launch did so before.
    pub fn global(&self, memory: &Memory, name: &str) -> Option<u64> {
        let index = self
            .globals
            .iter()
            .position(|variable| variable.name == name)?;
        memory.globals(self.id, &self.globals).get(index).copied()
    }

    /// Runs a kernel to its end.
    ///
    /// Blocks run on several threads. If some are at fault, the report is that of the first in order of the grid, whichever came first.
    ///
    /// # Errors
    /// What is wrong with the kernel, or with the launch.
    pub fn launch(
        &self,
        memory: &Memory,
        launch: &Launch,
        options: &Options,
    ) -> Result<Counters, Box<Report>> {
        let kernel = self.checked_kernel(launch)?;
        let globals = memory.globals(self.id, &self.globals);
        let global = memory.snapshot();
        let cluster = kernel.cluster_shape();
        let blocks_each = cluster.iter().map(|&n| u64::from(n)).product::<u64>();
        let blocks = launch.grid.iter().map(|&n| u64::from(n)).product::<u64>() / blocks_each;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if options.threads == 0 {
            cores()
        } else {
            options.threads
        };
        let threads = threads.min(blocks as usize).max(1);
        let next = AtomicU64::new(0);
        // Blocks after the first that is known to be at fault need not run.
        let first_fault = AtomicU64::new(u64::MAX);
        let result: Mutex<Sums> = Mutex::default();
        let work = || {
            let mut block = Block::new(self, kernel, memory, &global, &globals, launch, options);
            let mut fault = None;
            let mut done = 0;
            loop {
                let index = next.fetch_add(1, Relaxed);
                if index >= blocks || index >= first_fault.load(Relaxed) {
                    break;
                }
                if let Err(report) = block.run(index) {
                    first_fault.fetch_min(index, Relaxed);
                    fault = Some((index, report));
                    break;
                }
                done += 1;
            }
            let mut result = result
                .lock()
                .expect("no thread panics while it holds the result");
            let (counters, executed, first) = &mut *result;
            counters.blocks += done * blocks_each;
            counters.add(&block.state.tally);
            executed.resize(kernel.steps.len(), 0);
            executed
                .iter_mut()
                .zip(&block.state.executed)
                .for_each(|(sum, n)| *sum += n);
            if let Some((index, report)) = fault
                && first.as_ref().is_none_or(|(other, _)| index < *other)
            {
                *first = Some((index, report));
            }
        };
        if threads == 1 {
            work();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(work);
                }
            });
        }
        let (mut counters, executed, fault) = result
            .into_inner()
            .expect("no thread panics while it holds the result");
        if let Some((_, report)) = fault {
            return Err(report);
        }
        self.summarise(kernel, &executed, options, &mut counters);
        Ok(counters)
    }

    fn checked_kernel(&self, launch: &Launch) -> Result<&Kernel, Box<Report>> {
        let refuse = |expected: String, found: String| {
            Box::new(Report {
                fault: Fault::BadUse {
                    instruction: "launch".to_owned(),
                    expected,
                    found,
                },
                kernel: launch.kernel.to_owned(),
                location: Location::default(),
                file: String::new(),
                text: String::new(),
                block: [0; 3],
                warp: 0,
                lane: None,
                address: None,
                space: None,
                notes: Vec::new(),
            })
        };
        let Some(kernel) = self
            .kernels
            .iter()
            .find(|kernel| kernel.name == launch.kernel)
        else {
            let names: Vec<&str> = self.kernels().collect();
            return Err(refuse(
                format!("one of the kernels {}", names.join(", ")),
                launch.kernel.to_owned(),
            ));
        };
        let threads: u64 = launch.block.iter().map(|&n| u64::from(n)).product();
        if !(1..=1024).contains(&threads) {
            return Err(refuse(
                "a block of 1 to 1024 threads".to_owned(),
                threads.to_string(),
            ));
        }
        if let Some(max) = kernel.max_threads {
            let most: u64 = max.iter().map(|&n| u64::from(n.max(1))).product();
            if threads > most {
                return Err(refuse(
                    format!("a block of at most {most} threads"),
                    threads.to_string(),
                ));
            }
        }
        if launch.grid.contains(&0) {
            return Err(refuse(
                "a grid without zeros".to_owned(),
                format!("{:?}", launch.grid),
            ));
        }
        let cluster = kernel.cluster_shape();
        if (0..3).any(|axis| !launch.grid[axis].is_multiple_of(cluster[axis])) {
            return Err(refuse(
                format!("a grid of whole clusters, each of {cluster:?} blocks"),
                format!("{:?}", launch.grid),
            ));
        }
        let warps = threads.div_ceil(32) * cluster.iter().map(|&n| u64::from(n)).product::<u64>();
        if warps > u64::from(MAX_WARPS) {
            return Err(refuse(
                format!("clusters of at most {MAX_WARPS} warps"),
                warps.to_string(),
            ));
        }
        if launch.params.len() < kernel.param_bytes as usize {
            return Err(refuse(
                format!("{} bytes of parameters", kernel.param_bytes),
                launch.params.len().to_string(),
            ));
        }
        Ok(kernel)
    }

    /// Turns executions of steps into counters.
    fn summarise(
        &self,
        kernel: &Kernel,
        executed: &[u64],
        options: &Options,
        counters: &mut Counters,
    ) {
        let mut by_kind = vec![0u64; kernel.kinds.len()];
        let mut by_line: BTreeMap<u32, u64> = BTreeMap::new();
        for (origin, &n) in kernel.origins.iter().zip(executed) {
            if origin.kind == NOT_COUNTED || n == 0 {
                continue;
            }
            by_kind[origin.kind as usize] += n;
            counters.instructions += n;
            if !options.profile {
                continue;
            }
            *by_line.entry(origin.location.line).or_default() += n;
            if origin.location.source_line != 0 {
                let file = (origin.location.file as usize)
                    .checked_sub(1)
                    .and_then(|file| self.files.get(file));
                let key = (
                    file.cloned().unwrap_or_default(),
                    origin.location.source_line,
                );
                *counters.by_source_line.entry(key).or_default() += n;
            }
        }
        counters.by_line = by_line;
        counters.by_kind = kernel
            .kinds
            .iter()
            .cloned()
            .zip(by_kind)
            .filter(|(_, n)| *n > 0)
            .collect();
    }
}
