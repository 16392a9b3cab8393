//! Global memory of the device: allocations far apart, shared by all threads that execute blocks.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::check::report::Nearest;

/// Where allocations begin. What lies below are windows of other spaces in the generic address space.
const FIRST: u64 = 0x1000_0000_0000;
/// Allocations are aligned so, as on devices.
const ALIGN: u64 = 256;
/// Unused addresses after each allocation.
const GUARD: u64 = 1 << 20;
/// The most that one allocation may have.
const LARGEST: u64 = 1 << 40;
/// What memory holds that nothing wrote: NaN in every float format.
const POISON: u32 = u32::MAX;

/// Global memory, with its allocations.
///
/// Reads and writes are atomic word by word, so that blocks may run at once. Each byte knows whether it was written.
///
/// ```
/// let memory = ptx_emulator::Memory::new();
/// let address = memory.alloc_from(&[1, 2, 3]);
/// memory.write(address + 1, &[9])?;
/// assert_eq!(memory.read(address, 3)?, [1, 9, 3]);
/// assert!(memory.read(address, 4).is_err());
/// # Ok::<(), ptx_emulator::MemoryError>(())
/// ```
#[derive(Debug, Default)]
pub struct Memory {
    inner: Mutex<Inner>,
    /// Held by atomics that span two words.
    wide: Mutex<()>,
}

#[derive(Debug, Default)]
struct Inner {
    used: u64,
    allocations: BTreeMap<u64, Arc<Allocation>>,
    /// Of each program, the addresses of its global variables.
    globals: HashMap<u64, Vec<u64>>,
}

/// A use of [`Memory`] that it does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// More bytes than an allocation may have.
    #[error("expected an allocation of at most {} bytes, found {bytes}", LARGEST)]
    TooLarge {
        /// How many were asked for.
        bytes: u64,
    },
    /// Not an address that an allocation begins at.
    #[error("expected the start of an allocation, found {address:#x}")]
    NotAllocated {
        /// The address.
        address: u64,
    },
    /// Bytes that do not lie in one allocation.
    #[error("expected {bytes} bytes of one allocation, found the address {address:#x}")]
    OutOfBounds {
        /// The address.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
}

impl Memory {
    /// No allocations yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves the tables whole: they are changed by single insertions.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wide_lock(&self) -> MutexGuard<'_, ()> {
        self.wide.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates bytes that nothing has written: a kernel that reads them is reported.
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`].
    pub fn alloc(&self, bytes: u64) -> Result<u64, MemoryError> {
        if bytes > LARGEST {
            return Err(MemoryError::TooLarge { bytes });
        }
        Ok(self.inner().allocate(bytes as usize))
    }

    /// Allocates a copy of some bytes.
    pub fn alloc_from(&self, bytes: &[u8]) -> u64 {
        let mut inner = self.inner();
        let address = inner.allocate(bytes.len());
        inner.allocations[&address].write_bytes(0, bytes);
        address
    }

    /// Frees an allocation.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`].
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        self.inner()
            .allocations
            .remove(&address)
            .map(drop)
            .ok_or(MemoryError::NotAllocated { address })
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.inner().locate(address, bytes.len() as u64)?;
        allocation.write_bytes(offset, bytes);
        Ok(())
    }

    /// Reads bytes, written or not.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn read(&self, address: u64, len: usize) -> Result<Vec<u8>, MemoryError> {
        let (allocation, offset) = self.inner().locate(address, len as u64)?;
        Ok((offset..offset + len)
            .map(|i| allocation.load_byte(i))
            .collect())
    }

    /// Makes bytes count as never written, so that a kernel that reads them is reported.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn forget(&self, address: u64, len: usize) -> Result<(), MemoryError> {
        let (allocation, offset) = self.inner().locate(address, len as u64)?;
        allocation.write_bytes(offset, &vec![0xff; len]);
        for i in offset..offset + len {
            allocation.written[i / 32].fetch_and(!(1 << (i % 32)), Relaxed);
        }
        Ok(())
    }

    /// Whether bytes were all written.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn is_written(&self, address: u64, len: usize) -> Result<bool, MemoryError> {
        let (allocation, offset) = self.inner().locate(address, len as u64)?;
        Ok((offset..offset + len).all(|i| allocation.is_written(i, 1)))
    }

    /// The allocations as they are now, for a launch.
    pub(crate) fn snapshot(&self) -> Global {
        Global {
            allocations: self.inner().allocations.values().cloned().collect(),
        }
    }

    /// The addresses of a program's global variables, which are allocated the first time.
    pub(crate) fn globals(&self, program: u64, variables: &[crate::ast::Variable]) -> Vec<u64> {
        let mut inner = self.inner();
        if let Some(known) = inner.globals.get(&program) {
            return known.clone();
        }
        let mut addresses = Vec::with_capacity(variables.len());
        for variable in variables {
            let address = inner.allocate(variable.size as usize);
            let mut bytes = variable.init.clone();
            bytes.resize(variable.size as usize, 0);
            inner.allocations[&address].write_bytes(0, &bytes);
            addresses.push(address);
        }
        inner.globals.insert(program, addresses.clone());
        addresses
    }
}

impl Inner {
    fn allocate(&mut self, len: usize) -> u64 {
        let start = FIRST + self.used;
        self.used += (len as u64).next_multiple_of(ALIGN) + GUARD;
        self.allocations
            .insert(start, Arc::new(Allocation::new(start, len)));
        start
    }

    fn locate(&self, address: u64, bytes: u64) -> Result<(Arc<Allocation>, usize), MemoryError> {
        let below = self
            .allocations
            .range(..=address)
            .next_back()
            .map(|(_, allocation)| allocation);
        let found =
            below.filter(|allocation| address - allocation.start + bytes <= allocation.len as u64);
        found
            .map(|allocation| {
                (
                    Arc::clone(allocation),
                    (address - allocation.start) as usize,
                )
            })
            .ok_or(MemoryError::OutOfBounds { address, bytes })
    }
}

/// Bytes that were allocated together.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) start: u64,
    pub(crate) len: usize,
    words: Box<[AtomicU32]>,
    /// A bit for each byte.
    written: Box<[AtomicU32]>,
}

impl Allocation {
    fn new(start: u64, len: usize) -> Self {
        Self {
            start,
            len,
            words: (0..len.div_ceil(4))
                .map(|_| AtomicU32::new(POISON))
                .collect(),
            written: (0..len.div_ceil(32)).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The offset of an access, if it lies inside.
    #[inline]
    pub(crate) fn offset(&self, address: u64, bytes: u32) -> Option<usize> {
        let offset = address.wrapping_sub(self.start);
        (offset
            .checked_add(u64::from(bytes))
            .is_some_and(|end| end <= self.len as u64))
        .then_some(offset as usize)
    }

    #[inline]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        &self.words[offset / 4]
    }

    /// Whether aligned bytes, at most 32, were all written.
    #[inline]
    pub(crate) fn is_written(&self, offset: usize, bytes: u32) -> bool {
        let mask = (u32::MAX >> (32 - bytes)) << (offset % 32);
        self.written[offset / 32].load(Relaxed) & mask == mask
    }

    /// Notes that aligned bytes, at most 32, are written.
    #[inline]
    pub(crate) fn mark(&self, offset: usize, bytes: u32) {
        let mask = (u32::MAX >> (32 - bytes)) << (offset % 32);
        let written = &self.written[offset / 32];
        if written.load(Relaxed) & mask != mask {
            written.fetch_or(mask, Relaxed);
        }
    }

    /// Reads an aligned access as words; fewer than four bytes come in the low bits of one.
    #[inline]
    pub(crate) fn load(&self, offset: usize, bytes: u32, mut put: impl FnMut(usize, u32)) {
        if bytes < 4 {
            put(0, self.word(offset).load(Relaxed) >> (8 * (offset % 4)));
            return;
        }
        for (i, word) in self.words[offset / 4..][..bytes as usize / 4]
            .iter()
            .enumerate()
        {
            put(i, word.load(Relaxed));
        }
    }

    /// Writes an aligned access.
    #[inline]
    pub(crate) fn store(&self, offset: usize, bytes: u32, get: impl Fn(usize) -> u32) {
        if bytes < 4 {
            let mask = (1u32 << (8 * bytes)) - 1;
            let shift = 8 * (offset % 4);
            let word = self.word(offset);
            // Other bytes of the word may be written by others in between; these bytes may not.
            word.fetch_and(!(mask << shift), Relaxed);
            word.fetch_or((get(0) & mask) << shift, Relaxed);
        } else {
            for (i, word) in self.words[offset / 4..][..bytes as usize / 4]
                .iter()
                .enumerate()
            {
                word.store(get(i), Relaxed);
            }
        }
        self.mark(offset, bytes);
    }

    #[inline]
    pub(crate) fn load_byte(&self, offset: usize) -> u8 {
        (self.word(offset).load(Relaxed) >> (8 * (offset % 4))) as u8
    }

    pub(crate) fn write_bytes(&self, offset: usize, bytes: &[u8]) {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            if at.is_multiple_of(4) && rest.len() >= 4 {
                let (word, tail) = rest.split_at(4);
                let word = u32::from_le_bytes(word.try_into().expect("four bytes were split off"));
                self.store(at, 4, |_| word);
                (at, rest) = (at + 4, tail);
            } else {
                self.store(at, 1, |_| u32::from(rest[0]));
                (at, rest) = (at + 1, &rest[1..]);
            }
        }
    }
}

/// The allocations of a launch, in order of address.
#[derive(Debug)]
pub(crate) struct Global {
    allocations: Vec<Arc<Allocation>>,
}

impl Global {
    /// The allocation that holds an access; `hint` is where it was found last time.
    #[inline]
    pub(crate) fn find(
        &self,
        address: u64,
        bytes: u32,
        hint: &mut u32,
    ) -> Option<(&Allocation, usize)> {
        if let Some(allocation) = self.allocations.get(*hint as usize)
            && let Some(offset) = allocation.offset(address, bytes)
        {
            return Some((allocation, offset));
        }
        self.search(address, bytes, hint)
    }

    #[cold]
    fn search(&self, address: u64, bytes: u32, hint: &mut u32) -> Option<(&Allocation, usize)> {
        let index = self
            .allocations
            .partition_point(|allocation| allocation.start <= address)
            .checked_sub(1)?;
        let allocation = &self.allocations[index];
        let offset = allocation.offset(address, bytes)?;
        *hint = index as u32;
        Some((allocation, offset))
    }

    /// The allocation that an address is nearest to.
    pub(crate) fn nearest(&self, address: u64) -> Option<Nearest> {
        let distance = |allocation: &&Arc<Allocation>| {
            let end = allocation.start + allocation.len as u64;
            allocation
                .start
                .saturating_sub(address)
                .max(address.saturating_sub(end))
        };
        self.allocations
            .iter()
            .min_by_key(distance)
            .map(|allocation| Nearest {
                name: "a global allocation".to_owned(),
                start: allocation.start,
                len: allocation.len as u64,
                address,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_know_whether_they_were_written() {
        let memory = Memory::new();
        let address = memory.alloc(100).unwrap();
        assert!(!memory.is_written(address, 1).unwrap());
        memory.write(address + 3, &[1, 2, 3, 4, 5, 6]).unwrap();
        assert!(memory.is_written(address + 3, 6).unwrap());
        assert!(!memory.is_written(address + 3, 7).unwrap());
        assert!(!memory.is_written(address + 2, 2).unwrap());
        memory.forget(address + 4, 1).unwrap();
        assert!(!memory.is_written(address + 3, 6).unwrap());
        assert_eq!(memory.read(address + 3, 3).unwrap(), [1, 0xff, 3]);
    }

    #[test]
    fn allocations_stand_apart() {
        let memory = Memory::new();
        let (a, b) = (memory.alloc(1).unwrap(), memory.alloc(300).unwrap());
        assert!(b - a > GUARD);
        assert_eq!((a % ALIGN, b % ALIGN), (0, 0));
        assert!(memory.read(a, 2).is_err());
        memory.free(a).unwrap();
        assert!(memory.free(a).is_err());
        assert!(memory.read(a, 1).is_err());
        assert!(memory.alloc(LARGEST + 1).is_err());
    }
}
