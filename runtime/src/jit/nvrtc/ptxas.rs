//! What ptxas says about each kernel, read from the log of a compilation.

/// What one kernel takes of a multiprocessor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PtxasStats {
    /// The kernel's name, as PTX spells it.
    pub entry: String,
    /// What it was compiled for: `sm_90a`.
    pub target: String,
    /// Registers of each thread.
    pub registers: u32,
    /// Bytes that each thread writes because registers ran out.
    pub spill_stores: u32,
    /// Bytes that each thread reads because registers ran out.
    pub spill_loads: u32,
    /// Bytes of local memory that each thread takes, for spills and for arrays that are indexed at run time.
    pub stack_frame: u32,
    /// Bytes of static shared memory. What a launch asks for is not in it.
    pub shared_bytes: u32,
    /// Named barriers.
    pub barriers: u32,
    /// Bytes of constant memory over all banks, parameters included; 0 where ptxas does not say, as from `sm_90` on.
    pub constant_bytes: u32,
    /// Warnings and remarks (`(C7511) Potential Performance Loss: ..`), those that name no kernel at each of them.
    pub notes: Vec<String>,
}

impl PtxasStats {
    /// Reads the statistics of every kernel from a log; other lines are passed over.
    pub fn parse(log: &str) -> Vec<Self> {
        let mut kernels: Vec<Self> = Vec::new();
        let mut notes = Vec::new();
        // Properties of device functions stand among those of kernels.
        let mut is_of_kernel = false;
        for line in log.lines() {
            let Some(text) = text_of(line) else {
                continue;
            };
            if let Some(names) = text.strip_prefix("Compiling entry function ") {
                let mut quoted = names.split('\'').skip(1).step_by(2);
                kernels.push(Self {
                    entry: quoted.next().unwrap_or_default().to_owned(),
                    target: quoted.next().unwrap_or_default().to_owned(),
                    ..Self::default()
                });
            } else if let Some(name) = text.strip_prefix("Function properties for ") {
                is_of_kernel = kernels.last().is_some_and(|kernel| kernel.entry == name);
            } else if text.contains(" bytes stack frame, ") {
                if let Some(kernel) = kernels.last_mut().filter(|_| is_of_kernel) {
                    kernel.read_memory(text);
                }
            } else if text.starts_with("Used ") && text.contains(" registers") {
                if let Some(kernel) = kernels.last_mut() {
                    kernel.read_use(text);
                }
            } else if !text.starts_with("Compile time = ") && !text.contains(" bytes gmem") {
                notes.push(text);
            }
        }
        for note in notes {
            let named = function_of(note);
            let is_of_one = kernels.iter().any(|kernel| named == Some(&kernel.entry));
            for kernel in &mut kernels {
                if !is_of_one || named == Some(&kernel.entry) {
                    kernel.notes.push(note.to_owned());
                }
            }
        }
        kernels
    }

    /// `0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads`
    fn read_memory(&mut self, text: &str) {
        for part in text.split(',') {
            let number = leading_number(part);
            if part.contains("stack frame") {
                self.stack_frame = number;
            } else if part.contains("spill stores") {
                self.spill_stores = number;
            } else if part.contains("spill loads") {
                self.spill_loads = number;
            }
        }
    }

    /// `Used 9 registers, used 1 barriers, 512 bytes smem, 372 bytes cmem[0]`
    fn read_use(&mut self, text: &str) {
        for part in text.split(',') {
            let number = leading_number(part);
            if part.contains("registers") {
                self.registers = number;
            } else if part.contains("barriers") {
                self.barriers = number;
            } else if part.contains("smem") {
                self.shared_bytes = number;
            } else if part.contains("cmem[") {
                self.constant_bytes = self.constant_bytes.saturating_add(number);
            }
        }
    }
}

/// What a line of ptxas says; none for lines of the front end.
fn text_of(line: &str) -> Option<&str> {
    // Before CUDA 13 this line has no prefix.
    if line.starts_with(' ') && line.contains(" bytes stack frame, ") {
        return Some(line.trim());
    }
    let rest = line.strip_prefix("ptxas")?;
    let (kind, text) = rest.split_once([':', '.'])?;
    let is_known = matches!(kind.trim(), "info" | "warning" | "");
    is_known.then(|| text.trim())
}

fn leading_number(part: &str) -> u32 {
    let start = part.find(|c: char| c.is_ascii_digit());
    let digits = start.map_or("", |start| &part[start..]);
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

/// The kernel that a remark names, in quotation marks.
fn function_of(note: &str) -> Option<&str> {
    let after = ["function '", " for '"]
        .iter()
        .find_map(|mark| note.split_once(mark))?
        .1;
    after.split_once('\'').map(|(name, _)| name)
}

#[cfg(test)]
mod tests;
