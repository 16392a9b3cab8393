//! What a kernel keeps for GPUs: compiled code, which all bindings of its rules share, and captured values on devices.

use std::sync::{Arc, Mutex, PoisonError};

use maskwright_codegen::spec::Target;
use maskwright_dsl::capture::CaptureValue;
use maskwright_dsl::ir::Elem;
use maskwright_dsl::pipeline::Prepared;

use super::captures::UploadedCaptures;
use super::compiled::{CompiledKernel, KernelStore};
use super::error::KernelError;
use super::machine::{Machine, MachineError};
use super::text::{KernelShape, KernelText, plan_for};
use crate::attention::Kernel;
use crate::jit::nvrtc::Output as Product;

/// The captured values of both rules on a machine.
#[derive(Debug)]
pub(crate) struct CaptureSet {
    pub(crate) mask: Option<UploadedCaptures>,
    pub(crate) score: Option<UploadedCaptures>,
}

/// What compiled code depends on, beside the rules.
type Made = (KernelShape, Target, Product, Vec<Option<Elem>>);

type Compiled = Mutex<Vec<(Made, Arc<CompiledKernel>)>>;

/// Captured values by the name of the device that they are on.
type OnDevices = Mutex<Vec<(String, Arc<CaptureSet>)>>;

/// What a kernel keeps for GPUs; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CudaState {
    compiled: Arc<Compiled>,
    captures: Arc<OnDevices>,
}

impl CudaState {
    /// For other captured values: the same code.
    pub(crate) fn rebound(&self) -> Self {
        Self {
            compiled: Arc::clone(&self.compiled),
            captures: Arc::default(),
        }
    }

    /// The compiled kernel of a shape and a target.
    pub(super) fn compiled(
        &self,
        kernel: &Kernel,
        shape: &KernelShape,
        target: Target,
        product: Product,
        kernels: &KernelStore,
    ) -> Result<Arc<CompiledKernel>, KernelError> {
        // Held while it compiles: another thread that wants the same kernel waits for it instead of compiling it too.
        let mut known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let (mask, score) = (kernel.prepared_mask(), kernel.prepared_score());
        let rules = [mask, score].into_iter().flatten();
        let made = (*shape, target, product, rules.flat_map(elements).collect());
        if let Some((_, compiled)) = known.iter().find(|(known, _)| *known == made) {
            return Ok(Arc::clone(compiled));
        }
        let text = KernelText::new(mask, score, shape, target)?;
        let compiled = Arc::new(CompiledKernel::new(text, product, kernels)?);
        known.push((made, Arc::clone(&compiled)));
        Ok(compiled)
    }

    /// Whether there is a kernel for a shape on any GPU.
    pub(super) fn check_shape(kernel: &Kernel, shape: &KernelShape) -> Result<(), KernelError> {
        let (mask, score) = (kernel.prepared_mask(), kernel.prepared_score());
        plan_for(mask, score, shape, Target::SM80).map(|_| ())
    }

    /// The captured values of a kernel on a machine. On a GPU they stay for its next call; an emulator's memory goes
    /// with it.
    pub(super) fn captures(
        &self,
        kernel: &Kernel,
        machine: &Machine,
    ) -> Result<Arc<CaptureSet>, MachineError> {
        let upload = || -> Result<Arc<CaptureSet>, MachineError> {
            let on_machine = |prepared: Option<&Prepared>| {
                let bindings = prepared.map(Prepared::bindings);
                bindings
                    .map(|bindings| UploadedCaptures::upload(machine, bindings))
                    .transpose()
            };
            Ok(Arc::new(CaptureSet {
                mask: on_machine(kernel.prepared_mask())?,
                score: on_machine(kernel.prepared_score())?,
            }))
        };
        if machine.gpu().is_none() {
            return upload();
        }
        let place = machine.to_string();
        let mut known = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, captures)) = known.iter().find(|(at, _)| *at == place) {
            return Ok(Arc::clone(captures));
        }
        let captures = upload()?;
        known.push((place, Arc::clone(&captures)));
        Ok(captures)
    }
}

/// The element types of what a rule captures, which its text reads as they are; `None` for scalars.
fn elements(prepared: &Prepared) -> impl Iterator<Item = Option<Elem>> {
    let values = prepared.bindings().values.iter();
    values.map(|value| match value {
        CaptureValue::Scalar(_) => None,
        CaptureValue::Buffer(buffer) => Some(buffer.elem()),
    })
}
