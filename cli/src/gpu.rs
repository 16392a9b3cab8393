//! What the flags say about GPUs: what runs kernels, and what they are made for.

use maskwright::cuda::{EmulatorOptions, Float, KernelStore, Machine, Target};
use maskwright::verify::GpuRequest;

use crate::args::{BackendArg, GpuArgs};
use crate::error::CliError;

/// The machine of a backend; `None` for those of the processor.
pub(crate) fn machine(backend: BackendArg) -> Result<Option<Machine>, CliError> {
    match backend {
        BackendArg::Auto | BackendArg::Reference | BackendArg::Cpu => Ok(None),
        BackendArg::Cuda => Ok(Some(Machine::device(0)?)),
        BackendArg::Emulator => Ok(Some(Machine::emulator(EmulatorOptions::default()))),
    }
}

/// What is to be verified for GPUs: something if a machine for it is asked for, or code for targets. Where only targets
/// are, a GPU checks the kernels if there is one, and the emulator otherwise; the certificate says which.
pub(crate) fn request(
    backend: BackendArg,
    args: &GpuArgs,
    kernels: KernelStore,
) -> Result<Option<GpuRequest>, CliError> {
    let machine = match machine(backend)? {
        Some(machine) => machine,
        None if args.target.is_empty() => return Ok(None),
        None => {
            Machine::device(0).unwrap_or_else(|_| Machine::emulator(EmulatorOptions::default()))
        }
    };
    let mut request = GpuRequest::new(machine, kernels);
    request.targets.clone_from(&args.target);
    if !args.dtype.is_empty() {
        request.dtypes.clone_from(&args.dtype);
    }
    if !args.head_dim.is_empty() {
        request.head_dims.clone_from(&args.head_dim);
    }
    Ok(Some(request))
}

/// The one kernel that is meant: its target, type and head dimension.
pub(crate) fn one(args: &GpuArgs) -> Result<(Target, Float, u32), CliError> {
    Ok((
        only("--target", &args.target)?.unwrap_or(Target::SM80),
        only("--dtype", &args.dtype)?.unwrap_or(Float::F16),
        only("--head-dim", &args.head_dim)?.unwrap_or(64),
    ))
}

fn only<T: Copy>(flag: &'static str, given: &[T]) -> Result<Option<T>, CliError> {
    match given {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        several => Err(CliError::Several {
            flag,
            found: several.len(),
        }),
    }
}
