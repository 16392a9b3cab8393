//! Memory of a machine by its address, whoever owns it.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whose memory an address belongs to: one device's, or one emulator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Home {
    /// A GPU by its number: all that open it share its primary context.
    Device(usize),
    /// An emulator by the order in which they were made.
    Emulator(u64),
}

impl Home {
    /// That of a new emulator.
    pub(crate) fn new_emulator() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::Emulator(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Memory that is read.
#[derive(Clone, Copy, Debug)]
pub struct DeviceView<'a> {
    address: u64,
    bytes: usize,
    home: Option<Home>,
    owner: PhantomData<&'a [u8]>,
}

/// Memory that is written.
#[derive(Debug)]
pub struct DeviceViewMut<'a> {
    address: u64,
    bytes: usize,
    home: Option<Home>,
    owner: PhantomData<&'a mut [u8]>,
}

impl DeviceView<'_> {
    /// Memory of another framework, used in place.
    ///
    /// # Safety
    /// `bytes` bytes from `address` are memory of the device that the view is used with. They are written before any
    /// launch that reads them, in the order of its stream, and are neither freed nor written before it has finished.
    pub unsafe fn from_raw(address: u64, bytes: usize) -> Self {
        Self {
            address,
            bytes,
            home: None,
            owner: PhantomData,
        }
    }

    pub(crate) fn of(address: u64, bytes: usize, home: Home) -> Self {
        Self {
            address,
            bytes,
            home: Some(home),
            owner: PhantomData,
        }
    }

    /// The address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn home(&self) -> Option<Home> {
        self.home
    }
}

impl DeviceViewMut<'_> {
    /// Memory of another framework, written in place.
    ///
    /// # Safety
    /// As for [`DeviceView::from_raw`], and nothing else reads or writes it before the launch has finished.
    pub unsafe fn from_raw(address: u64, bytes: usize) -> Self {
        Self {
            address,
            bytes,
            home: None,
            owner: PhantomData,
        }
    }

    pub(crate) fn of(address: u64, bytes: usize, home: Home) -> Self {
        Self {
            address,
            bytes,
            home: Some(home),
            owner: PhantomData,
        }
    }

    /// The address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn home(&self) -> Option<Home> {
        self.home
    }
}
