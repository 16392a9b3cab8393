//! Compiling ahead: every kernel of every case, so that the device needs no compiler.

use std::collections::BTreeSet;

use maskwright::Kernel;
use maskwright::cache::CacheMode;
use maskwright::cuda::{CompiledKernel, KernelShape, KernelStore, KernelText, Target};
use maskwright::jit::nvrtc::Output;

use crate::arguments::Arguments;
use crate::conformance::groups;
use crate::error::RunError;
use crate::folder::{Folder, List, Manifest};
use crate::{say, timing};

/// Machine code for the H200, and PTX for the emulator.
const TARGETS: [(Target, Output); 2] = [
    (
        Target {
            major: 9,
            minor: 0,
            specific: true,
        },
        Output::Cubin,
    ),
    (Target::SM80, Output::Ptx),
];

/// `prepare DIR`.
pub(crate) fn run(arguments: &mut Arguments) -> Result<(), RunError> {
    let folder = Folder::new(arguments.place("DIR")?);
    let list = match arguments.flag("--quick") {
        Some(_) => List::Quick,
        None => List::Full,
    };
    let commit = arguments.flag("--commit");
    arguments.finish()?;
    prepare(&folder, list, commit)
}

/// Compiles the kernels of a list and writes what goes with them.
pub(crate) fn prepare(folder: &Folder, list: List, commit: Option<String>) -> Result<(), RunError> {
    let kernels = folder.kernels(CacheMode::ReadWrite)?;
    let mut made = Made::default();
    for group in groups(list)? {
        let kernel = Kernel::interpret(&group.rules, &group.scope)?;
        made.compile(&kernel, &group.shape, &kernels, &group.to_string())?;
    }
    let cases = match list {
        List::Full => timing::full(),
        List::Quick => timing::quick(),
    };
    for case in &cases {
        // On the device other values are bound to these same rules.
        let kernel = timing::kernel(case)?;
        made.compile(&kernel, &timing::shape(case), &kernels, &case.id)?;
    }
    let manifest = Manifest {
        maskwright: env!("CARGO_PKG_VERSION").to_owned(),
        commit,
        compiler: made.compiler,
        targets: TARGETS
            .iter()
            .map(|(target, _)| target.to_string())
            .collect(),
        list,
        kernels: made.texts.len(),
    };
    folder.write(&manifest, &cases)
}

#[derive(Default)]
struct Made {
    compiler: String,
    /// Texts that were compiled, each of which is one for all cases that have it.
    texts: BTreeSet<(String, String)>,
}

impl Made {
    fn compile(
        &mut self,
        kernel: &Kernel,
        shape: &KernelShape,
        kernels: &KernelStore,
        name: &str,
    ) -> Result<(), RunError> {
        let (mask, score) = (kernel.prepared_mask(), kernel.prepared_score());
        for (target, output) in TARGETS {
            let text = KernelText::new(mask, score, shape, target)?;
            let source = text.source().text.clone();
            let compiled = CompiledKernel::new(text, output, kernels)?;
            for stats in compiled.stats() {
                if 0 < stats.spill_stores {
                    say(&format!("{name}: {} bytes are spilled", stats.spill_stores));
                }
            }
            if self.compiler.is_empty() {
                compiled.compiler().clone_into(&mut self.compiler);
            }
            if self.texts.insert((target.to_string(), source)) {
                say(&format!(
                    "{:4} {name}: {}",
                    self.texts.len(),
                    compiled.text().name()
                ));
            }
        }
        Ok(())
    }
}
