//! Streams: our own, or those of another framework.

use std::ffi::c_void;

use cudarc::driver::{result, sys};

use super::context::Device;
use super::error::{DeviceError, at};

/// An order of copies and launches on a device.
#[derive(Debug)]
pub struct Stream {
    raw: sys::CUstream,
    device: Device,
    owned: bool,
}

// SAFETY: the driver's streams may be used from any thread; the pointer is never read.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream, which does not wait for the default one.
    ///
    /// # Errors
    /// [`DeviceError::Call`].
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        device.bind()?;
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(at("cuStreamCreate"))?;
        Ok(Self {
            raw,
            device: device.clone(),
            owned: true,
        })
    }

    /// The default stream, which waits for all others that do not say otherwise.
    pub fn default_of(device: &Device) -> Self {
        Self {
            raw: result::stream::null(),
            device: device.clone(),
            owned: false,
        }
    }

    /// A stream of another framework in the same process, a `CUstream`; it is not destroyed with this value.
    ///
    /// # Safety
    /// It is a stream of the device's primary context, and lives for as long as this value.
    pub unsafe fn borrow(device: &Device, raw: *mut c_void) -> Self {
        Self {
            raw: raw.cast(),
            device: device.clone(),
            owned: false,
        }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The `CUstream`, for another framework to use.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.cast()
    }

    /// Waits until all that was begun on it is done.
    ///
    /// # Errors
    /// [`DeviceError::Call`], also for what failed on the stream before.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        self.device.bind()?;
        // SAFETY: the stream lives: it is ours, the default one, or promised to.
        unsafe { result::stream::synchronize(self.raw) }.map_err(at("cuStreamSynchronize"))
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.raw
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned && self.device.bind().is_ok() {
            // SAFETY: it was made by `Stream::new`, and is destroyed once. What runs on it still is finished first.
            let _ = unsafe { result::stream::destroy(self.raw) };
        }
    }
}
