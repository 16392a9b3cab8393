//! `ptx-emulator check`: is a file understood, and what does it hold?

use std::fs;
use std::path::Path;

use ptx_emulator::Program;
use ptx_emulator::ast::{Function, Module};
use ptx_emulator::parse::parse;
use serde_json::{Value, json};

use super::args::CheckArgs;
use super::error::CliError;
use super::print::print;
use crate::Outcome;

/// Reads the file, decodes it, and lists its kernels.
pub(crate) fn check(args: &CheckArgs) -> Result<Outcome, CliError> {
    let module = load(&args.file)?.module;
    print(&if args.json {
        format!("{:#}\n", as_json(&module))
    } else {
        as_text(&module)
    });
    Ok(Outcome::Done)
}

/// A file that is understood.
pub(super) struct Loaded {
    pub(super) text: String,
    /// The syntax tree, which says what the parameters of a kernel are.
    pub(super) module: Module,
    pub(super) program: Program,
}

/// Reads and decodes a file.
pub(super) fn load(path: &Path) -> Result<Loaded, CliError> {
    let text = fs::read_to_string(path).map_err(|source| CliError::Read {
        path: path.to_owned(),
        source,
    })?;
    let refused = |source| CliError::Program {
        path: path.to_owned(),
        source: Box::new(source),
    };
    let program = Program::from_text(&text).map_err(refused)?;
    let module = parse(&text).map_err(|error| refused(error.into()))?;
    Ok(Loaded {
        text,
        module,
        program,
    })
}

/// The kernels of a file.
pub(super) fn kernels(module: &Module) -> impl Iterator<Item = &Function> {
    let is_kernel = |it: &&Function| it.is_entry && !it.body.is_empty();
    module.functions.iter().filter(is_kernel)
}

fn as_text(module: &Module) -> String {
    let (major, minor) = module.version;
    let mut lines = vec![format!("PTX {major}.{minor} for {}", module.target)];
    for kernel in kernels(module) {
        let mut line = format!("kernel {}, {} instructions", kernel.name, kernel.body.len());
        if let Some([x, y, z]) = kernel.max_threads {
            line.push_str(", block ");
            line.push_str(&[x, y, z].map(|it| it.to_string()).join("x"));
        }
        if let Some([x, y, z]) = kernel.cluster {
            line.push_str(", cluster ");
            line.push_str(&[x, y, z].map(|it| it.to_string()).join("x"));
        }
        lines.push(line);
        for param in &kernel.params {
            let ty = format!("{:?}", param.ty).to_lowercase();
            lines.push(format!(
                "  {:>5}  {:>4} bytes  {ty:<4}  {}",
                param.offset, param.size, param.name
            ));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn as_json(module: &Module) -> Value {
    let (major, minor) = module.version;
    let kernels: Vec<_> = kernels(module).map(kernel_json).collect();
    json!({
        "version": format!("{major}.{minor}"),
        "target": module.target,
        "kernels": kernels,
    })
}

fn kernel_json(kernel: &Function) -> Value {
    let params = kernel.params.iter().map(|param| {
        json!({
            "name": param.name,
            "type": format!("{:?}", param.ty).to_lowercase(),
            "offset": param.offset,
            "bytes": param.size,
            "align": param.align,
        })
    });
    json!({
        "name": kernel.name,
        "instructions": kernel.body.len(),
        "block": kernel.max_threads,
        "cluster": kernel.cluster,
        "params": params.collect::<Vec<_>>(),
    })
}
