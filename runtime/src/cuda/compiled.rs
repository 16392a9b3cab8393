//! Compiled kernels: made by NVRTC or found in the store, and loaded for the machines that run them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "cranelift")]
use crate::artifact::Artifact;
use crate::cache::{CacheMode, Entry, Key, KeyBuilder, Lookup, MissReason, Store};
use crate::jit::nvrtc::{self, Compiled, Nvrtc, Output, PtxasStats, arguments};
#[cfg(feature = "cranelift")]
use crate::verify::Verified;

use super::error::{CannotCompile, KernelError, MissingKernel};
use super::machine::{Code, Machine, MachineError};
use super::text::{KernelText, Unit};

/// Where compiled kernels are kept between processes, and whether what is missing may be compiled.
#[derive(Clone, Debug, Default)]
pub struct KernelStore {
    store: Option<Store>,
    mode: CacheMode,
    /// Kernels of verified artifacts, by the key of their note.
    images: Arc<BTreeMap<Key, Image>>,
}

impl KernelStore {
    /// Kernels in a store.
    pub fn new(store: Store, mode: CacheMode) -> Self {
        Self {
            store: Some(store),
            mode,
            images: Arc::default(),
        }
    }

    /// The same, with the kernels that an artifact holds: they are taken before any other where nothing may be
    /// compiled, or there is no compiler.
    #[cfg(feature = "cranelift")]
    pub fn with_artifact(&self, artifact: &Verified<Artifact>) -> Self {
        let mut images = BTreeMap::clone(&self.images);
        images.extend(
            artifact
                .kernels()
                .iter()
                .map(|kernel| (kernel.key, kernel.image.clone())),
        );
        Self {
            images: Arc::new(images),
            ..self.clone()
        }
    }

    /// Nothing is kept, and everything may be compiled.
    pub fn none() -> Self {
        Self::default()
    }

    /// The store and the mode that the environment says; nothing is kept where it names no directory that can be used.
    pub fn from_env() -> Self {
        let store = Store::default_root().and_then(Store::open).ok();
        Self {
            store,
            mode: CacheMode::from_env(),
            images: Arc::default(),
        }
    }

    /// The store.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Whether a miss is an error.
    pub fn mode(&self) -> CacheMode {
        self.mode
    }
}

/// A kernel that was compiled.
pub struct CompiledKernel {
    text: KernelText,
    image: Image,
    cached: bool,
    loaded: Mutex<Vec<(String, Code)>>,
}

/// What a compiler made of a text.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) ptx: String,
    pub(crate) cubin: Option<Vec<u8>>,
    pub(crate) log: String,
    /// The compiler and its version.
    pub(crate) compiler: String,
}

/// The code is too long to be read in a report.
impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("compiler", &self.compiler)
            .field("ptx_bytes", &self.ptx.len())
            .field("cubin_bytes", &self.cubin.as_ref().map(Vec::len))
            .finish_non_exhaustive()
    }
}

impl Image {
    fn new(compiled: Compiled, nvrtc: &Nvrtc) -> Self {
        Self {
            ptx: compiled.ptx,
            cubin: compiled.cubin,
            log: compiled.log,
            compiler: compiler(nvrtc),
        }
    }

    pub(crate) fn to_entry(&self) -> Entry {
        let mut sections = vec![
            (PTX.to_owned(), self.ptx.clone().into_bytes()),
            (LOG.to_owned(), self.log.clone().into_bytes()),
            (COMPILER.to_owned(), self.compiler.clone().into_bytes()),
        ];
        if let Some(cubin) = &self.cubin {
            sections.push((CUBIN.to_owned(), cubin.clone()));
        }
        Entry { sections }
    }

    pub(crate) fn from_entry(entry: &Entry) -> Option<Self> {
        let text = |name| String::from_utf8(entry.section(name)?.to_vec()).ok();
        let image = Self {
            ptx: text(PTX)?,
            cubin: entry.section(CUBIN).map(<[u8]>::to_vec),
            log: text(LOG)?,
            compiler: text(COMPILER)?,
        };
        (!image.ptx.is_empty()).then_some(image)
    }
}

const PTX: &str = "ptx";
const CUBIN: &str = "cubin";
const LOG: &str = "log";
const COMPILER: &str = "compiler";
const NEWEST: &str = "newest";

fn compiler(nvrtc: &Nvrtc) -> String {
    let (major, minor) = nvrtc.version();
    format!("NVRTC {major}.{minor}")
}

impl CompiledKernel {
    /// Finds the kernel in the store, or compiles it.
    ///
    /// Entries are named after the rules, the spec, the text, the compiler and this crate's version. Where there is no
    /// compiler, or none may be used, the newest entry of whichever compiler is taken.
    ///
    /// # Errors
    /// [`KernelError::Missing`] if it can be neither found nor compiled, [`KernelError::Compile`] if the compiler
    /// refuses it. One that cannot be stored is none.
    pub fn new(
        text: KernelText,
        output: Output,
        kernels: &KernelStore,
    ) -> Result<Self, KernelError> {
        let (image, cached) = find_or_compile(&text.unit(), output, kernels)?;
        Ok(Self {
            text,
            image,
            cached,
            loaded: Mutex::default(),
        })
    }

    /// The kernel as text.
    pub fn text(&self) -> &KernelText {
        &self.text
    }

    /// The PTX.
    pub fn ptx(&self) -> &str {
        &self.image.ptx
    }

    /// The machine code, if it was asked for.
    pub fn cubin(&self) -> Option<&[u8]> {
        self.image.cubin.as_deref()
    }

    /// All that the compiler said.
    pub fn log(&self) -> &str {
        &self.image.log
    }

    /// The compiler and its version.
    pub fn compiler(&self) -> &str {
        &self.image.compiler
    }

    /// What the kernel takes of a multiprocessor; empty for PTX alone.
    pub fn stats(&self) -> Vec<PtxasStats> {
        PtxasStats::parse(&self.image.log)
    }

    /// Whether it came from the store.
    pub fn is_cached(&self) -> bool {
        self.cached
    }

    #[cfg(feature = "cranelift")]
    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    /// The code, loaded for a machine; once for each GPU, and once for all emulators.
    pub(crate) fn code(&self, machine: &Machine) -> Result<Code, MachineError> {
        let place = machine.to_string();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, code)) = loaded.iter().find(|(known, _)| *known == place) {
            return Ok(code.clone());
        }
        let source = self.text.source();
        let code = Code::load(
            machine,
            &self.image.ptx,
            self.cubin(),
            &source.entry,
            source.shared_bytes,
        )?;
        loaded.push((place, code.clone()));
        Ok(code)
    }
}

impl fmt::Debug for CompiledKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledKernel")
            .field("name", &self.text.name())
            .field("compiler", &self.image.compiler)
            .field("cached", &self.cached)
            .finish_non_exhaustive()
    }
}

/// The name of an entry. Without a compiler it is that of the note which says what the newest entry is called.
pub(crate) fn kernel_key(unit: &Unit<'_>, output: Output, compiler: Option<&str>) -> Key {
    let source = unit.source;
    let mut key = KeyBuilder::new()
        .field("kind", "cuda kernel 1")
        .field("maskwright", env!("CARGO_PKG_VERSION"))
        .field("spec", &unit.spec)
        .field("options", arguments(unit.target, output, &[]).join(" "))
        // The text holds the template, the prelude and the rules; the layout says what the host writes.
        .field("text", &source.text)
        .field("layout", format!("{:?}", source.params))
        .field("compiler", compiler.unwrap_or_default());
    for rule in unit.rules {
        key = key.field(rule.role, rule.identity);
    }
    key.finish()
}

pub(super) fn find_or_compile(
    unit: &Unit<'_>,
    output: Output,
    kernels: &KernelStore,
) -> Result<(Image, bool), KernelError> {
    let compiler = match kernels.mode {
        CacheMode::ReadWrite => nvrtc::probe().map_err(CannotCompile::NoCompiler),
        CacheMode::NoCompile => Err(CannotCompile::NotAllowed),
    };
    let nvrtc = match compiler {
        Ok(nvrtc) => nvrtc,
        Err(cannot) => {
            return match stored_newest(unit, output, kernels) {
                Ok(image) => Ok((image, true)),
                Err(reason) => Err(missing(unit, output, kernels, cannot, reason)),
            };
        }
    };
    let key = kernel_key(unit, output, Some(&self::compiler(nvrtc)));
    if let Some(store) = &kernels.store
        && let Ok(image) = stored(store, &key, output)
    {
        return Ok((image, true));
    }
    let name = format!("{}.cu", unit.source.entry);
    let compiled = nvrtc.compile(&unit.source.text, &name, unit.target, output, &[])?;
    let image = Image::new(compiled, nvrtc);
    if let Some(store) = &kernels.store {
        let note = Entry {
            sections: vec![(NEWEST.to_owned(), key.as_bytes().to_vec())],
        };
        // The kernel is there whether it can be kept or not; where it cannot, the next process compiles it again.
        let _ = store
            .put(&key, &image.to_entry())
            .and_then(|()| store.put(&kernel_key(unit, output, None), &note));
    }
    Ok((image, false))
}

fn stored(store: &Store, key: &Key, output: Output) -> Result<Image, MissReason> {
    match store.get_explained(key) {
        Lookup::Hit(entry) => Image::from_entry(&entry)
            .filter(|image| output == Output::Ptx || image.cubin.is_some())
            .ok_or(MissReason::Absent),
        Lookup::Miss(reason) => Err(reason),
    }
}

/// The entry that was written last. An emulator takes the PTX beside a cubin as well.
fn stored_newest(
    unit: &Unit<'_>,
    output: Output,
    kernels: &KernelStore,
) -> Result<Image, Option<MissReason>> {
    let outputs = match output {
        Output::Ptx => &[Output::Ptx, Output::Cubin][..],
        Output::Cubin => &[Output::Cubin],
    };
    for &output in outputs {
        if let Some(image) = kernels.images.get(&kernel_key(unit, output, None)) {
            return Ok(image.clone());
        }
    }
    let store = kernels.store.as_ref().ok_or(None)?;
    let mut first_reason = None;
    for &output in outputs {
        let found = match store.get_explained(&kernel_key(unit, output, None)) {
            Lookup::Hit(note) => newest(&note)
                .ok_or(MissReason::Absent)
                .and_then(|key| stored(store, &key, output)),
            Lookup::Miss(reason) => Err(reason),
        };
        match found {
            Ok(image) => return Ok(image),
            Err(reason) => first_reason = first_reason.or(Some(reason)),
        }
    }
    Err(first_reason)
}

fn newest(note: &Entry) -> Option<Key> {
    let bytes = note.section(NEWEST)?.try_into().ok()?;
    Some(Key::from_bytes(bytes))
}

fn missing(
    unit: &Unit<'_>,
    output: Output,
    kernels: &KernelStore,
    cannot: CannotCompile,
    reason: Option<MissReason>,
) -> KernelError {
    let key = kernel_key(unit, output, None);
    KernelError::Missing(Box::new(MissingKernel {
        kernel: unit.name.clone(),
        rules: unit.rule_names(),
        target: unit.target.to_string(),
        path: kernels.store.as_ref().map(|store| store.entry_path(&key)),
        key,
        cannot,
        reason,
    }))
}
