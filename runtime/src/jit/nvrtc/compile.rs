//! One text in, PTX and a cubin out, with everything that the compiler said.

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::time::Instant;

use maskwright_codegen::spec::Target;

use super::library::{Nvrtc, Program, Text};
use super::probe::NvrtcMissing;
use super::ptxas::PtxasStats;

/// What to make of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// PTX alone, for a virtual architecture: any device from the target on compiles it further.
    Ptx,
    /// Machine code for the target, and the PTX that it was made of: the same as [`Output::Ptx`] gives.
    Cubin,
}

/// A compiled text.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The PTX.
    pub ptx: String,
    /// The machine code, with [`Output::Cubin`].
    pub cubin: Option<Vec<u8>>,
    /// All that the compiler said: warnings, notes, statistics. Empty if nothing.
    pub log: String,
    /// What each kernel takes, in the order of the log; empty with [`Output::Ptx`].
    pub stats: Vec<PtxasStats>,
    /// How long it took, in seconds.
    pub secs: f64,
}

/// Why a text could not be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NvrtcError {
    /// There is no NVRTC.
    #[error(transparent)]
    Missing(#[from] NvrtcMissing),
    /// C texts end at their first NUL byte, so what follows would be lost.
    #[error("expected no NUL byte, found one in the {part} at byte {position}")]
    Nul {
        /// Source, name or option.
        part: &'static str,
        /// Where.
        position: usize,
    },
    /// This NVRTC makes no code for the target.
    #[error("NVRTC {}.{} makes no code for {target}, only for {supported:?}", .version.0, .version.1)]
    Target {
        /// The target.
        target: Target,
        /// Version of NVRTC.
        version: (u32, u32),
        /// What it makes code for.
        supported: Vec<u32>,
    },
    /// The text or an option was refused.
    #[error("{name} does not compile for {target} ({reason}):\n{log}")]
    Refused {
        /// Name of the text.
        name: String,
        /// The target.
        target: Target,
        /// The library's name of the result.
        reason: String,
        /// What the compiler said, with files and lines.
        log: String,
        /// The PTX, where it got so far: lines of "ptx input" in the log are lines of this.
        ptx: String,
    },
    /// A call that is no compilation failed.
    #[error("{call} failed with {reason}")]
    Call {
        /// The function.
        call: &'static str,
        /// The library's name of the result.
        reason: String,
    },
}

/// The options of a compilation, in order: together with the text and NVRTC's version they decide the result.
///
/// Floats are not contracted, so that an expression means the same on every engine; line information makes profilers and
/// reports point into the text, and changes no instruction.
pub fn arguments(target: Target, output: Output, options: &[&str]) -> Vec<String> {
    let name = target.to_string();
    let architecture = match output {
        Output::Ptx => name.replacen("sm_", "compute_", 1),
        Output::Cubin => name,
    };
    let mut arguments = vec![
        format!("--gpu-architecture={architecture}"),
        "--std=c++17".to_owned(),
        "--fmad=false".to_owned(),
        "-lineinfo".to_owned(),
    ];
    if output == Output::Cubin {
        arguments.push(VERBOSE.to_owned());
    }
    arguments.extend(options.iter().map(|&option| option.to_owned()));
    arguments
}

/// Makes ptxas print statistics.
const VERBOSE: &str = "--ptxas-options=-v";

impl Nvrtc {
    /// Compiles a text.
    ///
    /// `name` is what the log and the line information call it. `options` come after those of [`arguments`]. The same
    /// arguments give the same bytes, whatever the working directory.
    ///
    /// # Errors
    /// [`NvrtcError::Refused`], with the log, if the text does not compile; [`NvrtcError::Target`], [`NvrtcError::Nul`].
    pub fn compile(
        &self,
        source: &str,
        name: &str,
        target: Target,
        output: Output,
        options: &[&str],
    ) -> Result<Compiled, NvrtcError> {
        let started = Instant::now();
        // While it is probed its facts may be unknown, and an empty kernel finds out.
        if !self.architectures().is_empty() && !self.supports(target) {
            return Err(NvrtcError::Target {
                target,
                version: self.version(),
                supported: self.architectures().to_vec(),
            });
        }
        let arguments = arguments(target, output, options);
        let run = self.run(source, name, &arguments)?;
        if run.code != 0 {
            let mut log = run.log;
            // With statistics on, ptxas loses some of its errors (static shared memory beyond 48 KiB is one).
            if !says_why(&log) && arguments.iter().any(|argument| argument == VERBOSE) {
                let quiet: Vec<String> = arguments
                    .into_iter()
                    .filter(|argument| argument != VERBOSE)
                    .collect();
                let quiet = self.run(source, name, &quiet)?;
                if quiet.code != 0 {
                    log = format!("{}\n{log}", quiet.log);
                }
            }
            return Err(NvrtcError::Refused {
                name: name.to_owned(),
                target,
                reason: self.text_of(run.code),
                log: log.trim_end().to_owned(),
                ptx: run.ptx,
            });
        }
        Ok(Compiled {
            stats: PtxasStats::parse(&run.log),
            ptx: run.ptx,
            cubin: match output {
                Output::Ptx => None,
                Output::Cubin => Some(run.cubin),
            },
            log: run.log,
            secs: started.elapsed().as_secs_f64(),
        })
    }

    fn run(&self, source: &str, name: &str, arguments: &[String]) -> Result<Run, NvrtcError> {
        // NVRTC writes the working directory into its output before a relative name.
        let rooted = if name.starts_with('/') {
            name.to_owned()
        } else {
            format!("/{name}")
        };
        let source = c_text("source", source)?;
        let rooted_name = c_text("name", &rooted)?;
        let arguments = arguments
            .iter()
            .map(|argument| c_text("option", argument))
            .collect::<Result<Vec<CString>, _>>()?;
        let pointers: Vec<*const c_char> = arguments.iter().map(|text| text.as_ptr()).collect();
        let functions = self.functions();

        let mut program = OwnedProgram {
            nvrtc: self,
            program: ptr::null_mut(),
        };
        // SAFETY: the texts end in NUL bytes and outlive the call, and there are no headers.
        let code = unsafe {
            (functions.create)(
                &raw mut program.program,
                source.as_ptr(),
                rooted_name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        self.check("nvrtcCreateProgram", code)?;
        let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
        // SAFETY: the program was just made, and there are at least `count` options, which outlive the call.
        let code = unsafe { (functions.compile)(program.program, count, pointers.as_ptr()) };
        let log = lossy(program.get(functions.log)?);
        let (ptx, cubin) = if code == 0 {
            (program.get(functions.ptx)?, program.get(functions.cubin)?)
        } else {
            // There may be none, and then the log is all there is to say.
            (program.get(functions.ptx).unwrap_or_default(), Vec::new())
        };
        let log = if rooted == name {
            log
        } else {
            log.replace(&rooted, name)
        };
        Ok(Run {
            code,
            log: log.trim_end().to_owned(),
            ptx: lossy(ptx),
            cubin,
        })
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), NvrtcError> {
        if code == 0 {
            return Ok(());
        }
        Err(NvrtcError::Call {
            call,
            reason: self.text_of(code),
        })
    }
}

/// All that one run of the compiler left.
struct Run {
    code: c_int,
    log: String,
    ptx: String,
    cubin: Vec<u8>,
}

/// A program that is destroyed when it goes out of scope.
struct OwnedProgram<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl OwnedProgram<'_> {
    fn get(&self, text: Text) -> Result<Vec<u8>, NvrtcError> {
        let mut size = 0;
        // SAFETY: the program is alive, and the size is an integer to be written.
        let code = unsafe { (text.size)(self.program, &raw mut size) };
        self.nvrtc.check(text.name, code)?;
        let mut bytes = vec![0_u8; size];
        if size != 0 {
            // SAFETY: the program is alive, and the buffer is as large as the library just said.
            let code = unsafe { (text.bytes)(self.program, bytes.as_mut_ptr().cast()) };
            self.nvrtc.check(text.name, code)?;
        }
        Ok(bytes)
    }
}

impl Drop for OwnedProgram<'_> {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: the program is alive, and nothing uses it after this. A failure leaks it, which harms nobody.
            unsafe { (self.nvrtc.functions().destroy)(&raw mut self.program) };
        }
    }
}

fn c_text(part: &'static str, text: &str) -> Result<CString, NvrtcError> {
    CString::new(text).map_err(|fault| NvrtcError::Nul {
        part,
        position: fault.nul_position(),
    })
}

/// Texts of NVRTC end in a NUL byte that their size counts.
fn lossy(mut bytes: Vec<u8>) -> String {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8(bytes)
        .unwrap_or_else(|fault| String::from_utf8_lossy(fault.as_bytes()).into_owned())
}

fn says_why(log: &str) -> bool {
    ["error", "fatal"].iter().any(|word| log.contains(word))
}
