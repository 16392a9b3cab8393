//! `maskwright doctor`: what this machine offers, and what it costs that something is missing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use maskwright::attention::Micro;
use maskwright::cache::{Entry, KeyBuilder, Store, StoreError};
use maskwright::device::{Device, Driver, NoDriver};
use maskwright::jit::CompiledRule;
use maskwright::jit::nvrtc::{self, Output, Target};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::catalogue::Catalogue;
use maskwright_dsl::ir::RuleKind;
use maskwright_dsl::pipeline::{Scope, prepare};
use maskwright_dsl::text::{LowerOptions, lower_expression};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::DoctorArgs;
use crate::error::CliError;
use crate::{Outcome, output};

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    name: &'static str,
    found: String,
    ok: bool,
    /// What it costs that it is missing.
    cost: Option<String>,
    /// For programs: the parts of what was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
}

impl Finding {
    fn new(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            found: found.into(),
            ok: true,
            cost: None,
            details: None,
        }
    }

    fn missing(name: &'static str, found: impl Into<String>, cost: impl Into<String>) -> Self {
        Self {
            name,
            found: found.into(),
            ok: false,
            cost: Some(cost.into()),
            details: None,
        }
    }

    fn with(self, details: Value) -> Self {
        Self {
            details: Some(details),
            ..self
        }
    }
}

pub(crate) fn run(args: &DoctorArgs) -> Result<Outcome, CliError> {
    let findings = vec![
        Finding::new("maskwright", env!("CARGO_PKG_VERSION")),
        build(),
        processor(),
        micro_kernels(),
        threads(),
        compiler(),
        cache(args.cache.as_deref()),
        huge_pages(),
        nvrtc(),
        gpus(),
    ];
    if args.json {
        output::print_json(&findings)?;
        return Ok(Outcome::Done);
    }
    let width = findings
        .iter()
        .map(|finding| finding.name.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for Finding {
        name,
        found,
        ok,
        cost,
        details: _,
    } in &findings
    {
        let mark = if *ok { "ok" } else { "--" };
        let _ = writeln!(text, "{mark}  {name:width$}  {found}");
        if let Some(cost) = cost {
            let _ = writeln!(text, "    {:width$}  so {cost}", "");
        }
    }
    output::print(&text)?;
    Ok(Outcome::Done)
}

fn build() -> Finding {
    if cfg!(debug_assertions) {
        Finding::missing(
            "build",
            "debug",
            "everything is many times slower; build with --release to measure",
        )
    } else {
        Finding::new("build", "release")
    }
}

#[cfg(target_arch = "x86_64")]
fn processor() -> Finding {
    let features = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ("amx-bf16", amx()),
    ];
    let list = |is_there: bool| {
        let names: Vec<&str> = features
            .iter()
            .filter(|(_, found)| *found == is_there)
            .map(|(name, _)| *name)
            .collect();
        names.join(" ")
    };
    let found = format!("x86_64: {}", list(true));
    if features[0].1 && features[1].1 {
        let missing = list(false);
        if missing.is_empty() {
            Finding::new("processor", found)
        } else {
            Finding::new("processor", format!("{found} (without {missing})"))
        }
    } else {
        Finding::missing(
            "processor",
            found,
            "without avx2 and fma the portable micro-kernel runs, several times slower",
        )
    }
}

/// AMX has no stable detection macro; the kernel lists it.
#[cfg(target_arch = "x86_64")]
fn amx() -> bool {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "amx_bf16")
}

#[cfg(not(target_arch = "x86_64"))]
fn processor() -> Finding {
    Finding::missing(
        "processor",
        std::env::consts::ARCH,
        "the portable micro-kernel runs",
    )
}

fn micro_kernels() -> Finding {
    let usable: Vec<&str> = [Micro::Avx2, Micro::Portable]
        .into_iter()
        .filter(|micro| micro.is_available())
        .map(Micro::name)
        .collect();
    match Micro::from_environment() {
        Ok(best) => Finding::new(
            "micro-kernels",
            format!("{} (usable: {})", best.name(), usable.join(", ")),
        ),
        Err(error) => Finding::missing(
            "micro-kernels",
            format!("usable: {}", usable.join(", ")),
            format!("nothing runs on the processor: {error}"),
        ),
    }
}

fn threads() -> Finding {
    let threads = rayon::current_num_threads();
    let there = std::thread::available_parallelism().map_or(1, usize::from);
    if threads < there {
        Finding::missing(
            "threads",
            format!("{threads} of {there}"),
            "the other cores stay idle; RAYON_NUM_THREADS sets the number",
        )
    } else {
        Finding::new("threads", threads.to_string())
    }
}

/// Compiles a rule, which says more than the name of a target.
fn compiler() -> Finding {
    let name = "cranelift";
    let compiled = lower_expression(
        "kv <= q",
        RuleKind::Mask,
        &LowerOptions::default(),
        &Catalogue,
    )
    .and_then(|rule| {
        let bound = maskwright::BoundRule::new(rule.into(), Vec::new(), &[])
            .expect("a rule without captures takes no values");
        prepare(&bound, &Scope::new(Bucket::self_attention(1..=64), 1, 1))
    })
    .map(|prepared| CompiledRule::compile(&prepared));
    match compiled {
        Ok(Ok(code)) => Finding::new(
            name,
            format!(
                "{}-{}: a causal mask is {} of code, compiled in {:.2} ms",
                std::env::consts::ARCH,
                std::env::consts::OS,
                output::bytes_text(code.code_bytes() as u64),
                code.compile_secs() * 1e3
            ),
        ),
        Ok(Err(error)) => Finding::missing(
            name,
            error.to_string(),
            "rules are interpreted, many times slower (--backend reference)",
        ),
        Err(faults) => Finding::missing(name, faults.to_string(), "no rule can be used"),
    }
}

/// Compiles a kernel, which needs no GPU.
fn nvrtc() -> Finding {
    let name = "nvrtc";
    let cost = "no kernel can be compiled for a GPU";
    let nvrtc = match nvrtc::probe() {
        Ok(nvrtc) => nvrtc,
        Err(missing) => {
            let tried = json!({ "tried": missing.tried });
            return Finding::missing(name, missing.to_string(), cost).with(tried);
        }
    };
    let (major, minor) = nvrtc.version();
    let architectures: Vec<String> = nvrtc
        .architectures()
        .iter()
        .map(|number| format!("sm_{number}"))
        .collect();
    let place = nvrtc.path().display().to_string();
    let source = "extern \"C\" __global__ void scale(float *x) { x[threadIdx.x] *= 2.0f; }";
    let newest = nvrtc.architectures().last();
    let target = newest
        .and_then(|number| format!("sm_{number}").parse().ok())
        .unwrap_or(Target::SM80);
    let details = |compile_secs: Option<f64>| {
        json!({
            "path": place,
            "version": format!("{major}.{minor}"),
            "architectures": architectures,
            "compile_secs": compile_secs,
        })
    };
    match nvrtc.compile(source, "scale.cu", target, Output::Cubin, &[]) {
        Ok(compiled) => Finding::new(
            name,
            format!(
                "{major}.{minor} at {place}: {}; a small kernel for {target} compiles in {:.0} ms",
                architectures.join(" "),
                compiled.secs * 1e3
            ),
        )
        .with(details(Some(compiled.secs))),
        Err(error) => Finding::missing(name, format!("{major}.{minor} at {place}: {error}"), cost)
            .with(details(None)),
    }
}

/// Looks for the driver, and asks it for its devices.
fn gpus() -> Finding {
    let name = "cuda";
    let cost = "attention runs on the processor";
    let driver = match Driver::get() {
        Ok(driver) => driver,
        Err(missing) => {
            let tried = match &missing {
                NoDriver::Missing { tried } => tried.clone(),
                _ => Vec::new(),
            };
            return Finding::missing(name, missing.to_string(), cost)
                .with(json!({ "tried": tried }));
        }
    };
    let (major, minor) = driver.version();
    let head = format!("driver of CUDA {major}.{minor} ({})", driver.library());
    let devices = match Device::list() {
        Ok(devices) if devices.is_empty() => {
            return Finding::missing(name, format!("{head}, without a device"), cost);
        }
        Ok(devices) => devices,
        Err(error) => return Finding::missing(name, format!("{head}: {error}"), cost),
    };
    let lines: Vec<String> = devices
        .iter()
        .map(|device| {
            format!(
                "{device} with {} and {} multiprocessors",
                output::bytes_text(device.memory_bytes),
                device.multiprocessors
            )
        })
        .collect();
    let details: Vec<Value> = devices
        .iter()
        .map(|device| {
            json!({
                "ordinal": device.ordinal,
                "name": device.name,
                "capability": format!("{}.{}", device.capability.0, device.capability.1),
                "memory_bytes": device.memory_bytes,
                "multiprocessors": device.multiprocessors,
                "shared_bytes": device.shared_bytes,
            })
        })
        .collect();
    Finding::new(name, format!("{head}: {}", lines.join("; "))).with(json!({
        "driver": format!("{major}.{minor}"),
        "devices": details,
    }))
}

fn cache(dir: Option<&Path>) -> Finding {
    let name = "cache";
    let probe = || -> Result<Store, StoreError> {
        let root = dir.map_or_else(Store::default_root, |dir| Ok(dir.to_owned()))?;
        let store = Store::open(root)?;
        let key = KeyBuilder::new()
            .field("doctor", std::process::id().to_le_bytes())
            .finish();
        let entry = Entry {
            sections: vec![("probe".to_owned(), b"maskwright".to_vec())],
        };
        store.put(&key, &entry)?;
        store.remove(&key)?;
        Ok(store)
    };
    match probe() {
        Ok(store) => {
            let size = store.size().unwrap_or_default();
            Finding::new(
                name,
                format!(
                    "{}: writable, {} entries, {}",
                    store.root().display(),
                    size.entries,
                    output::bytes_text(size.entry_bytes)
                ),
            )
        }
        Err(error) => Finding::missing(
            name,
            error.to_string(),
            "rules are verified anew by every process",
        ),
    }
}

fn huge_pages() -> Finding {
    let name = "huge pages";
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let Ok(text) = fs::read_to_string(path) else {
        return Finding::missing(
            name,
            "unknown to this system",
            "large buffers may be read a little slower",
        );
    };
    let chosen = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
        .unwrap_or("unknown");
    match chosen {
        "always" | "madvise" => Finding::new(name, chosen),
        other => Finding::missing(name, other, "large buffers are read a little slower"),
    }
}
