//! The library itself: opened, its functions resolved, and tried with an empty kernel.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};

use libloading::Library;
use maskwright_codegen::spec::Target;

use super::compile::Output;

/// NVRTC's handle of a program.
pub(super) type Program = *mut c_void;

/// The functions that are used, as the header of NVRTC declares them.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub(super) create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    pub(super) destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    pub(super) compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    pub(super) log: Text,
    pub(super) ptx: Text,
    pub(super) cubin: Text,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    n_architectures: unsafe extern "C" fn(*mut c_int) -> c_int,
    architectures: unsafe extern "C" fn(*mut c_int) -> c_int,
}

/// A result that is asked for in two steps: its size, then its bytes.
#[derive(Clone, Copy)]
pub(super) struct Text {
    pub(super) name: &'static str,
    pub(super) size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    pub(super) bytes: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
}

/// NVRTC, found and tried.
///
/// Shared by all threads: programs of different threads compile at the same time.
pub struct Nvrtc {
    path: PathBuf,
    version: (u32, u32),
    architectures: Vec<u32>,
    functions: Functions,
}

impl Nvrtc {
    /// Opens a file, or a bare name by the loader's own search, and compiles an empty kernel with it.
    ///
    /// The error is a clause that says what failed.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: this runs the initialisers of a library that the user put there as NVRTC, which is what it takes to have it.
        let library = unsafe { Library::new(path) }.map_err(|fault| fault.to_string())?;
        let functions = Functions::resolve(&library)?;
        // It stays for the life of the process: the functions point into it, and it holds state that outlives a program.
        std::mem::forget(library);
        let mut nvrtc = Self {
            path: path.to_owned(),
            version: (0, 0),
            architectures: Vec::new(),
            functions,
        };
        nvrtc.read_facts()?;
        // Opening proves little: a library without its built-ins opens, and then fails to compile anything.
        let oldest = Target::SM80;
        nvrtc
            .compile(
                "extern \"C\" __global__ void probe() {}",
                "probe.cu",
                oldest,
                Output::Ptx,
                &[],
            )
            .map_err(|fault| format!("opens, but cannot compile an empty kernel: {fault}"))?;
        Ok(nvrtc)
    }

    fn read_facts(&mut self) -> Result<(), String> {
        let done = |code: c_int, call: &str| {
            if code == 0 {
                Ok(())
            } else {
                Err(format!("{call} failed: {}", self.text_of(code)))
            }
        };
        let (mut major, mut minor, mut count): (c_int, c_int, c_int) = (0, 0, 0);
        // SAFETY: both arguments are integers to be written.
        let code = unsafe { (self.functions.version)(&raw mut major, &raw mut minor) };
        done(code, "nvrtcVersion")?;
        // SAFETY: the argument is an integer to be written.
        let code = unsafe { (self.functions.n_architectures)(&raw mut count) };
        done(code, "nvrtcGetNumSupportedArchs")?;
        let mut list: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
        if !list.is_empty() {
            // SAFETY: the list holds as many integers as the library just said that it writes.
            let code = unsafe { (self.functions.architectures)(list.as_mut_ptr()) };
            done(code, "nvrtcGetSupportedArchs")?;
        }
        self.version = (major.unsigned_abs(), minor.unsigned_abs());
        self.architectures = list.into_iter().map(c_int::unsigned_abs).collect();
        self.architectures.sort_unstable();
        Ok(())
    }

    /// The file, or the bare name where the loader's own search found it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Compute capabilities that it makes code for, ascending: 80 is `sm_80`.
    pub fn architectures(&self) -> &[u32] {
        &self.architectures
    }

    /// Whether it makes code for a target.
    pub fn supports(&self, target: Target) -> bool {
        self.architectures
            .contains(&(target.major * 10 + target.minor))
    }

    pub(super) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The library's own words for a result.
    pub(super) fn text_of(&self, code: c_int) -> String {
        // SAFETY: any number may be asked for; the answer is a static text or null.
        let text = unsafe { (self.functions.error_string)(code) };
        if text.is_null() {
            return format!("result {code}");
        }
        // SAFETY: not null, so a static text that ends in a NUL byte.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nvrtc")
            .field("path", &self.path)
            .field("version", &self.version)
            .field("architectures", &self.architectures)
            .finish_non_exhaustive()
    }
}

impl Functions {
    fn resolve(library: &Library) -> Result<Self, String> {
        // SAFETY: the types of all fields are those of the header, which have not changed since CUDA 11.2.
        unsafe {
            Ok(Self {
                create: function(library, "nvrtcCreateProgram")?,
                destroy: function(library, "nvrtcDestroyProgram")?,
                compile: function(library, "nvrtcCompileProgram")?,
                log: Text::resolve(library, "nvrtcGetProgramLog", "nvrtcGetProgramLogSize")?,
                ptx: Text::resolve(library, "nvrtcGetPTX", "nvrtcGetPTXSize")?,
                cubin: Text::resolve(library, "nvrtcGetCUBIN", "nvrtcGetCUBINSize")?,
                error_string: function(library, "nvrtcGetErrorString")?,
                version: function(library, "nvrtcVersion")?,
                n_architectures: function(library, "nvrtcGetNumSupportedArchs")?,
                architectures: function(library, "nvrtcGetSupportedArchs")?,
            })
        }
    }
}

impl Text {
    /// # Safety
    /// Both names are functions of the types of the fields.
    unsafe fn resolve(library: &Library, bytes: &'static str, size: &str) -> Result<Self, String> {
        // SAFETY: what the caller promises.
        unsafe {
            Ok(Self {
                name: bytes,
                size: function(library, size)?,
                bytes: function(library, bytes)?,
            })
        }
    }
}

/// # Safety
/// `F` is the type of the function of this name.
unsafe fn function<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
    // SAFETY: what the caller promises.
    unsafe { library.get::<F>(name.as_bytes()) }
        .map(|symbol| *symbol)
        .map_err(|_| format!("opens, but has no {name}: NVRTC 11.2 or later is needed"))
}
