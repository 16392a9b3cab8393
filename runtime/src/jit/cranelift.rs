//! Compiling a prepared rule to machine code in memory.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use cranelift_codegen::CodegenError;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable, Flags};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError, default_libcall_names};
use maskwright_codegen::back::cranelift::{ArgsLayout, Callee, LowerError, lower, signature};
use maskwright_dsl::ir::{Rule, RuleKind};
use maskwright_dsl::pipeline::Prepared;

use super::callee;

/// Why a prepared rule could not be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JitError {
    /// There is no machine code for this processor.
    #[error("no machine code can be made for this processor: {reason}")]
    Host {
        /// What Cranelift says.
        reason: &'static str,
    },
    /// Bits and lanes are laid out for little-endian processors.
    #[error("expected a little-endian processor")]
    BigEndian,
    /// The rule has no Cranelift IR.
    #[error("the rule cannot be lowered")]
    Lower(#[from] LowerError),
    /// Cranelift refused a setting or the target.
    #[error("the code generator cannot be set up")]
    Setup(#[source] Box<CodegenError>),
    /// Cranelift failed to compile the function or to place it in memory.
    #[error("the rule cannot be compiled")]
    Module(#[source] Box<ModuleError>),
}

impl From<ModuleError> for JitError {
    fn from(error: ModuleError) -> Self {
        JitError::Module(Box::new(error))
    }
}

/// A function over a tile, as `maskwright_codegen::back::cranelift` describes it.
pub(super) type TileFn =
    unsafe extern "C" fn(*const u64, i32, i32, i32, i64, i32, i64, *mut u8, i64);

/// The machine code of one rule. Other lengths and other captured values run the same code.
pub struct CompiledRule {
    /// Owns the memory that `function` lies in; taken when the rule is dropped.
    module: Option<JITModule>,
    function: TileFn,
    layout: ArgsLayout,
    rule: Arc<Rule>,
    compile_secs: f64,
    code_bytes: usize,
}

// SAFETY: the module is not touched after compilation, except to free its memory when the last owner drops the rule;
// the code in it writes only to memory that its arguments name.
unsafe impl Send for CompiledRule {}
// SAFETY: as above; shared references only read the function's address and plain data.
unsafe impl Sync for CompiledRule {}

impl fmt::Debug for CompiledRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledRule")
            .field("rule", &self.rule.name)
            .field("compile_secs", &self.compile_secs)
            .field("code_bytes", &self.code_bytes)
            .finish_non_exhaustive()
    }
}

impl Drop for CompiledRule {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: whoever runs the code holds a reference to this rule, and there is none left.
            unsafe { module.free_memory() };
        }
    }
}

impl CompiledRule {
    /// Compiles a rule for this processor.
    ///
    /// # Errors
    /// [`JitError`] if this processor, or a rule of this size, is beyond the code generator.
    pub fn compile(prepared: &Prepared) -> Result<CompiledRule, JitError> {
        let started = Instant::now();
        let isa = host_isa()?;
        let lowered = lower(prepared, isa.frontend_config())?;
        let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
        for callee in Callee::ALL {
            builder.symbol(callee.symbol(), callee::address(callee));
        }
        let mut module = JITModule::new(builder);
        let call_conv = module.isa().default_call_conv();
        // The lowered function names its callees by position, and so does the module, if they are declared first.
        for callee in Callee::ALL {
            let signature = callee.signature(call_conv);
            let id = module.declare_function(&callee.symbol(), Linkage::Import, &signature)?;
            assert_eq!(id.as_u32(), callee.index(), "functions are numbered from 0");
        }
        let id = module.declare_function("rule", Linkage::Local, &signature(call_conv))?;
        let mut context = module.make_context();
        context.func = lowered.function;
        module.define_function(id, &mut context)?;
        let code_bytes = context
            .compiled_code()
            .map_or(0, |code| code.code_info().total_size as usize);
        module.finalize_definitions()?;
        let address = module.get_finalized_function(id);
        // SAFETY: the code was compiled with this signature, for this processor's C calling convention.
        let function = unsafe { std::mem::transmute::<*const u8, TileFn>(address) };
        Ok(CompiledRule {
            module: Some(module),
            function,
            layout: lowered.layout,
            rule: Arc::clone(prepared.rule()),
            compile_secs: started.elapsed().as_secs_f64(),
            code_bytes,
        })
    }

    /// How long compilation took, in seconds.
    pub fn compile_secs(&self) -> f64 {
        self.compile_secs
    }

    /// Size of the machine code.
    pub fn code_bytes(&self) -> usize {
        self.code_bytes
    }

    /// Whether the code computes a mask or scores.
    pub fn kind(&self) -> RuleKind {
        self.rule.kind
    }

    /// Whether the code is that of another prepared rule as well: the same expressions over captures of the same types.
    pub fn fits(&self, prepared: &Prepared) -> bool {
        let (mine, other) = (&self.rule, prepared.rule());
        let same_expressions = Arc::ptr_eq(mine, other)
            || (mine.kind == other.kind
                && mine.root == other.root
                && mine.live() == other.live()
                && mine.arena.ids().zip(mine.live()).all(|(id, live)| {
                    !live
                        || (mine.arena.expr(id) == other.arena.expr(id)
                            && mine.arena.ty(id) == other.arena.ty(id))
                }));
        same_expressions && self.layout == ArgsLayout::new(other, prepared.bindings())
    }

    pub(super) fn function(&self) -> TileFn {
        self.function
    }

    pub(super) fn layout(&self) -> &ArgsLayout {
        &self.layout
    }
}

/// The Cranelift IR of a rule for this processor, as text.
///
/// # Errors
/// As [`CompiledRule::compile`].
pub fn clif(prepared: &Prepared) -> Result<String, JitError> {
    let isa = host_isa()?;
    let lowered = lower(prepared, isa.frontend_config())?;
    Ok(lowered.function.display().to_string())
}

fn host_isa() -> Result<OwnedTargetIsa, JitError> {
    if cfg!(target_endian = "big") {
        return Err(JitError::BigEndian);
    }
    let setup = |error: CodegenError| JitError::Setup(Box::new(error));
    let mut flags = settings::builder();
    let verify = if cfg!(debug_assertions) {
        "true"
    } else {
        "false"
    };
    for (name, value) in [
        ("opt_level", "speed"),
        ("enable_verifier", verify),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        ("unwind_info", "false"),
    ] {
        flags
            .set(name, value)
            .expect("these settings exist in the version of Cranelift that is pinned");
    }
    cranelift_native::builder()
        .map_err(|reason| JitError::Host { reason })?
        .finish(Flags::new(flags))
        .map_err(setup)
}
