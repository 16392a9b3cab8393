//! The emulator in the place of a GPU.

use ptx_emulator::{Checks, Counters, Launch as EmulatorLaunch, Memory, Options, Program, Report};

use crate::device::{Home, Launch};

/// Why the emulator did not run a kernel to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// The PTX has something that it does not understand.
    #[error("the emulator cannot run the PTX of {entry}")]
    Program {
        /// The kernel.
        entry: String,
        /// What it is.
        source: ptx_emulator::Error,
    },
    /// A kernel did what it may not.
    #[error("the emulator found a fault in {entry}: {report}")]
    Fault {
        /// The kernel.
        entry: String,
        /// Where, and what.
        report: Box<Report>,
    },
    /// Memory that is not there, or that nothing wrote.
    #[error("the emulator's memory: {source}")]
    Memory {
        /// What is wrong.
        source: ptx_emulator::MemoryError,
    },
}

/// How an emulator runs.
#[derive(Clone, Copy, Debug)]
pub struct EmulatorOptions {
    /// What is checked.
    pub checks: Checks,
    /// Decides in which order warps run where they may run in any.
    pub seed: u64,
    /// Threads of the host.
    pub threads: usize,
}

impl Default for EmulatorOptions {
    /// Everything is checked, in one order, by all threads of the pool of rayon.
    fn default() -> Self {
        Self {
            checks: Checks::all(),
            seed: 0,
            threads: rayon::current_num_threads(),
        }
    }
}

/// A device that is emulated: its memory, and how kernels run on it.
#[derive(Debug)]
pub(crate) struct Emulator {
    memory: Memory,
    options: EmulatorOptions,
    home: Home,
}

/// A kernel that the emulator understands.
#[derive(Debug)]
pub(crate) struct EmulatedProgram {
    program: Program,
    entry: String,
}

impl EmulatedProgram {
    pub(crate) fn new(ptx: &str, entry: &str) -> Result<Self, EmulatorError> {
        let program = Program::from_text(ptx).map_err(|source| EmulatorError::Program {
            entry: entry.to_owned(),
            source,
        })?;
        Ok(Self {
            program,
            entry: entry.to_owned(),
        })
    }
}

impl Emulator {
    pub(crate) fn new(options: EmulatorOptions) -> Self {
        Self {
            memory: Memory::new(),
            options,
            home: Home::new_emulator(),
        }
    }

    pub(crate) fn home(&self) -> Home {
        self.home
    }

    pub(crate) fn threads(&self) -> usize {
        self.options.threads
    }

    pub(crate) fn alloc(&self, bytes: usize) -> Result<u64, EmulatorError> {
        self.memory.alloc(bytes as u64).map_err(fault)
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), EmulatorError> {
        self.memory.write(address, bytes).map_err(fault)
    }

    pub(crate) fn read(&self, address: u64, bytes: usize) -> Result<Vec<u8>, EmulatorError> {
        self.memory.read(address, bytes).map_err(fault)
    }

    pub(crate) fn free(&self, address: u64) {
        // It was taken by `alloc`, and is freed once.
        let _ = self.memory.free(address);
    }

    pub(crate) fn launch(
        &self,
        program: &EmulatedProgram,
        launch: Launch,
        params: &[u8],
    ) -> Result<Counters, EmulatorError> {
        let launch = EmulatorLaunch {
            kernel: &program.entry,
            grid: launch.grid,
            block: [launch.threads, 1, 1],
            dynamic_shared_bytes: launch.shared_bytes,
            params,
        };
        let options = Options {
            checks: self.options.checks,
            seed: self.options.seed,
            threads: self.options.threads,
            ..Options::default()
        };
        program
            .program
            .launch(&self.memory, &launch, &options)
            .map_err(|report| EmulatorError::Fault {
                entry: program.entry.clone(),
                report,
            })
    }
}

fn fault(source: ptx_emulator::MemoryError) -> EmulatorError {
    EmulatorError::Memory { source }
}
