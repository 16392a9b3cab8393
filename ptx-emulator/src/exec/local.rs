//! Local memory of a warp: bytes of each lane, and which of them were written.

use crate::check::init::Written;

/// Local memory of 32 lanes.
#[derive(Debug, Default)]
pub(crate) struct Local {
    bytes: Vec<u8>,
    len: u32,
    /// Kept only where reads of unwritten bytes are looked for.
    written: Option<Written>,
}

impl Local {
    pub(super) fn new(len: u32, check: bool) -> Self {
        let total = 32 * len as usize;
        Self {
            bytes: vec![0xff; total],
            len,
            written: check.then(|| Written::new(total)),
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.fill(0xff);
        if let Some(written) = &mut self.written {
            written.clear();
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn holds(&self, address: u64, bytes: u32) -> bool {
        address
            .checked_add(u64::from(bytes))
            .is_some_and(|end| end <= u64::from(self.len))
    }

    fn at(&self, lane: usize, address: u32) -> usize {
        lane * self.len as usize + address as usize
    }

    pub(super) fn is_written(&self, lane: usize, address: u32, bytes: u32) -> bool {
        let at = self.at(lane, address);
        self.written
            .as_ref()
            .is_none_or(|written| written.all(at, bytes as usize))
    }

    pub(super) fn load(
        &self,
        lane: usize,
        address: u32,
        bytes: u32,
        mut put: impl FnMut(usize, u32),
    ) {
        let at = self.at(lane, address);
        for (i, chunk) in self.bytes[at..at + bytes as usize].chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            put(i, u32::from_le_bytes(word));
        }
    }

    pub(super) fn store(
        &mut self,
        lane: usize,
        address: u32,
        bytes: u32,
        get: impl Fn(usize) -> u32,
    ) {
        let at = self.at(lane, address);
        for (i, chunk) in self.bytes[at..at + bytes as usize]
            .chunks_mut(4)
            .enumerate()
        {
            let n = chunk.len();
            chunk.copy_from_slice(&get(i).to_le_bytes()[..n]);
        }
        if let Some(written) = &mut self.written {
            written.set(at, bytes as usize);
        }
    }

    /// Copies bytes of some lanes, and whether they were written.
    pub(super) fn copy(&mut self, lanes: u32, to: u32, from: u32, len: u32) {
        for lane in super::lanes_of(lanes) {
            let (to, from) = (self.at(lane, to), self.at(lane, from));
            self.bytes.copy_within(from..from + len as usize, to);
            if let Some(written) = &mut self.written {
                for i in 0..len as usize {
                    if written.all(from + i, 1) {
                        written.set(to + i, 1);
                    } else {
                        written.forget(to + i, 1);
                    }
                }
            }
        }
    }
}
