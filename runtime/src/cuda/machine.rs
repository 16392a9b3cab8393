//! What runs kernels: a GPU, or the emulator in its place. Both have memory, take the same parameters and compute the
//! same; everything above does not know which one it is.

mod emulated;

use std::fmt;
use std::sync::Arc;

use maskwright_codegen::spec::Target;

use super::params::{ParamBlock, ParamError};
use crate::attention::Backend;
use crate::device::{
    Device, DeviceBuffer, DeviceError, DeviceModule, DeviceView, DeviceViewMut, Home, Launch,
    Stream,
};

pub(crate) use emulated::{EmulatedProgram, Emulator};
pub use emulated::{EmulatorError, EmulatorOptions};

/// Why a machine did not do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The GPU, or its driver.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The emulator: code that it does not understand, or a fault that it found in a kernel.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// The parameters of a kernel.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A GPU older than the kernels.
    #[error("{device} has compute capability {}.{}, and the kernels need 8.0", capability.0, capability.1)]
    TooOld {
        /// The GPU.
        device: String,
        /// Its compute capability.
        capability: (u32, u32),
    },
    /// Memory of one machine was given to another.
    #[error("{what} lies in the memory of another machine than {machine}")]
    OtherMemory {
        /// What lies there.
        what: &'static str,
        /// The machine that was to use it.
        machine: String,
    },
    /// The stream of another device.
    #[error("the stream belongs to another machine than {machine}")]
    OtherStream {
        /// The machine that was to use it.
        machine: String,
    },
    /// Compiled code without the part that this machine runs.
    #[error("the compiled kernel holds no code that {machine} runs")]
    NoCode {
        /// The machine.
        machine: String,
    },
}

/// What runs kernels; clones share it.
#[derive(Clone, Debug)]
pub struct Machine(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Emulator(Arc<Emulator>),
    Device(Arc<Gpu>),
}

/// A GPU with the stream that is used where the caller names none.
#[derive(Debug)]
struct Gpu {
    device: Device,
    stream: Stream,
    target: Target,
}

impl Machine {
    /// A GPU by its number.
    ///
    /// # Errors
    /// [`MachineError::Device`] if there is no driver or no such GPU, [`MachineError::TooOld`].
    pub fn device(ordinal: usize) -> Result<Self, MachineError> {
        let device = Device::open(ordinal)?;
        let target = target_of(device.info().capability).ok_or_else(|| MachineError::TooOld {
            device: device.info().to_string(),
            capability: device.info().capability,
        })?;
        let stream = Stream::new(&device)?;
        Ok(Self(Kind::Device(Arc::new(Gpu {
            device,
            stream,
            target,
        }))))
    }

    /// An emulator of `sm_80`, with memory of its own.
    pub fn emulator(options: EmulatorOptions) -> Self {
        Self(Kind::Emulator(Arc::new(Emulator::new(options))))
    }

    /// What kernels are compiled for.
    pub fn target(&self) -> Target {
        match &self.0 {
            Kind::Emulator(_) => Target::SM80,
            Kind::Device(gpu) => gpu.target,
        }
    }

    /// How it is called when it is asked for.
    pub fn backend(&self) -> Backend {
        match &self.0 {
            Kind::Emulator(_) => Backend::Emulator,
            Kind::Device(_) => Backend::Cuda,
        }
    }

    /// The GPU; `None` for an emulator.
    pub fn gpu(&self) -> Option<&Device> {
        match &self.0 {
            Kind::Emulator(_) => None,
            Kind::Device(gpu) => Some(&gpu.device),
        }
    }

    pub(crate) fn emulated(&self) -> Option<&Arc<Emulator>> {
        match &self.0 {
            Kind::Emulator(emulator) => Some(emulator),
            Kind::Device(_) => None,
        }
    }

    fn home(&self) -> Home {
        match &self.0 {
            Kind::Emulator(emulator) => emulator.home(),
            Kind::Device(gpu) => gpu.device.home(),
        }
    }

    /// Takes memory; what is in it is not defined.
    ///
    /// # Errors
    /// [`MachineError`] if there is no room.
    pub fn alloc(&self, bytes: usize) -> Result<MachineBuffer, MachineError> {
        let memory = match &self.0 {
            Kind::Emulator(emulator) => Memory::Emulator {
                address: emulator.alloc(bytes)?,
                bytes,
                emulator: Arc::clone(emulator),
            },
            Kind::Device(gpu) => Memory::Device {
                buffer: DeviceBuffer::new(&gpu.device, bytes)?,
                gpu: Arc::clone(gpu),
            },
        };
        Ok(MachineBuffer(memory))
    }

    /// Takes memory and copies bytes into it.
    ///
    /// # Errors
    /// [`MachineError`] if there is no room.
    pub fn upload(&self, bytes: &[u8]) -> Result<MachineBuffer, MachineError> {
        let mut buffer = self.alloc(bytes.len())?;
        match &mut buffer.0 {
            Memory::Emulator {
                address, emulator, ..
            } => emulator.write(*address, bytes)?,
            Memory::Device { buffer, gpu } => buffer.upload(&gpu.stream, bytes)?,
        }
        Ok(buffer)
    }

    /// Refuses memory that is known to be another machine's.
    pub(crate) fn check_home(
        &self,
        what: &'static str,
        home: Option<Home>,
    ) -> Result<(), MachineError> {
        match home {
            Some(home) if home != self.home() => Err(MachineError::OtherMemory {
                what,
                machine: self.to_string(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Waits until all that was begun on the machine's own stream is done.
    ///
    /// # Errors
    /// [`MachineError::Device`], also for what failed before.
    pub fn synchronize(&self) -> Result<(), MachineError> {
        match &self.0 {
            Kind::Emulator(_) => Ok(()),
            Kind::Device(gpu) => Ok(gpu.stream.synchronize()?),
        }
    }

    /// Launches a kernel behind what the stream holds, the machine's own where none is named. An emulator runs it now.
    pub(crate) fn launch(
        &self,
        code: &Code,
        launch: Launch,
        params: &ParamBlock<'_>,
        stream: Option<&Stream>,
    ) -> Result<Option<ptx_emulator::Counters>, MachineError> {
        match (&self.0, code) {
            (Kind::Emulator(emulator), Code::Emulated(program)) => {
                if let Some(_stream) = stream {
                    return Err(MachineError::OtherStream {
                        machine: self.to_string(),
                    });
                }
                Ok(Some(emulator.launch(
                    program,
                    launch,
                    &params.to_bytes(),
                )?))
            }
            (Kind::Device(gpu), Code::Device(module)) => {
                let stream = stream.unwrap_or(&gpu.stream);
                if stream.device().home() != gpu.device.home() {
                    return Err(MachineError::OtherStream {
                        machine: self.to_string(),
                    });
                }
                module.attend(stream, launch, params)?;
                Ok(None)
            }
            (Kind::Emulator(_), Code::Device(_)) | (Kind::Device(_), Code::Emulated(_)) => {
                Err(MachineError::NoCode {
                    machine: self.to_string(),
                })
            }
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Emulator(_) => write!(f, "emulator of {}", Target::SM80),
            Kind::Device(gpu) => gpu.device.info().fmt(f),
        }
    }
}

/// The target of a compute capability; from 9.0 on each has instructions of its own, which a cubin for it may use.
pub(crate) fn target_of((major, minor): (u32, u32)) -> Option<Target> {
    (8 <= major).then_some(Target {
        major,
        minor,
        specific: 9 <= major,
    })
}

/// Code that was loaded for a machine.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    Emulated(Arc<EmulatedProgram>),
    Device(DeviceModule),
}

impl Code {
    /// Makes code ready to run: PTX for an emulator, a cubin (or PTX, which the driver compiles) for a GPU.
    pub(crate) fn load(
        machine: &Machine,
        ptx: &str,
        cubin: Option<&[u8]>,
        entry: &str,
        shared_bytes: u32,
    ) -> Result<Self, MachineError> {
        match &machine.0 {
            Kind::Emulator(_) => Ok(Self::Emulated(Arc::new(EmulatedProgram::new(ptx, entry)?))),
            Kind::Device(gpu) => {
                let image = cubin.unwrap_or(ptx.as_bytes());
                let module = DeviceModule::load(&gpu.device, image, entry, shared_bytes)?;
                Ok(Self::Device(module))
            }
        }
    }
}

/// Memory of a machine that belongs to us, freed when it goes.
#[derive(Debug)]
pub struct MachineBuffer(Memory);

#[derive(Debug)]
enum Memory {
    Emulator {
        address: u64,
        bytes: usize,
        emulator: Arc<Emulator>,
    },
    Device {
        buffer: DeviceBuffer,
        gpu: Arc<Gpu>,
    },
}

impl MachineBuffer {
    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Memory::Emulator { bytes, .. } => *bytes,
            Memory::Device { buffer, .. } => buffer.bytes(),
        }
    }

    pub(crate) fn address(&self) -> u64 {
        self.view().address()
    }

    /// All of it, to be read.
    pub fn view(&self) -> DeviceView<'_> {
        match &self.0 {
            Memory::Emulator {
                address,
                bytes,
                emulator,
            } => DeviceView::of(*address, *bytes, emulator.home()),
            Memory::Device { buffer, .. } => buffer.view(),
        }
    }

    /// All of it, to be written.
    pub fn view_mut(&mut self) -> DeviceViewMut<'_> {
        match &mut self.0 {
            Memory::Emulator {
                address,
                bytes,
                emulator,
            } => DeviceViewMut::of(*address, *bytes, emulator.home()),
            Memory::Device { buffer, .. } => buffer.view_mut(),
        }
    }

    /// Copies it to the host, after what was begun on the machine's own stream.
    ///
    /// # Errors
    /// [`MachineError`] if the copy or what was begun before fails, or an emulator finds that nothing wrote it.
    pub fn download(&self) -> Result<Vec<u8>, MachineError> {
        match &self.0 {
            Memory::Emulator {
                address,
                bytes,
                emulator,
            } => emulator.read(*address, *bytes).map_err(MachineError::from),
            Memory::Device { buffer, gpu } => {
                let mut bytes = vec![0; buffer.bytes()];
                buffer.download(&gpu.stream, &mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self {
            Memory::Emulator {
                address, emulator, ..
            } => emulator.free(*address),
            // The buffer frees itself.
            Memory::Device { .. } => {}
        }
    }
}
