//! What the checks ran on: versions and the processor that code was compiled for.

use cranelift_codegen::settings::{self, Flags};
use serde::{Deserialize, Serialize};

/// The programs and the processor that a verification speaks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Version of this crate.
    pub maskwright: String,
    /// Version of the code generator.
    pub cranelift: String,
    /// The processor: architecture, system, and the instruction sets that compiled code may use.
    pub target: String,
}

impl Versions {
    /// The versions of this build, and this machine's processor.
    pub fn current() -> Self {
        Self {
            maskwright: env!("CARGO_PKG_VERSION").to_owned(),
            cranelift: cranelift_codegen::VERSION.to_owned(),
            target: target(),
        }
    }
}

fn target() -> String {
    let unknown = || format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let Ok(builder) = cranelift_native::builder() else {
        return unknown();
    };
    let Ok(isa) = builder.finish(Flags::new(settings::builder())) else {
        return unknown();
    };
    let mut text = isa.triple().to_string();
    for flag in isa.isa_flags() {
        if flag.as_bool() == Some(true) {
            text.push_str(" +");
            text.push_str(flag.name);
        }
    }
    text
}
