//! Memory on a device that belongs to us.

use cudarc::driver::{DriverError, result, sys};

use super::context::Device;
use super::error::{DeviceError, at};
use super::stream::Stream;
use super::view::{DeviceView, DeviceViewMut};

/// Memory on a device, freed when it goes. Freeing waits for what runs on the device.
#[derive(Debug)]
pub struct DeviceBuffer {
    address: u64,
    bytes: usize,
    device: Device,
}

impl DeviceBuffer {
    /// Takes memory; what is in it is not defined. No bytes at all take none.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], or another failure of the driver.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, DeviceError> {
        device.bind()?;
        let address = if bytes == 0 {
            0
        } else {
            // SAFETY: what is in the memory is bytes, and a copy or a kernel writes it before anything reads it.
            unsafe { result::malloc_sync(bytes) }.map_err(|error| no_room(error, bytes, device))?
        };
        Ok(Self {
            address,
            bytes,
            device: device.clone(),
        })
    }

    /// Takes memory and copies bytes into it; they are there when this returns.
    ///
    /// # Errors
    /// As [`DeviceBuffer::new`] and [`DeviceBuffer::upload`].
    pub fn from_bytes(stream: &Stream, bytes: &[u8]) -> Result<Self, DeviceError> {
        let mut buffer = Self::new(stream.device(), bytes.len())?;
        buffer.upload(stream, bytes)?;
        Ok(buffer)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of it, to be read.
    pub fn view(&self) -> DeviceView<'_> {
        DeviceView::of(self.address, self.bytes, self.device.home())
    }

    /// All of it, to be written.
    pub fn view_mut(&mut self) -> DeviceViewMut<'_> {
        DeviceViewMut::of(self.address, self.bytes, self.device.home())
    }

    /// Copies bytes into it behind what the stream holds, and waits for that.
    ///
    /// # Errors
    /// [`DeviceError::CopyLen`] if there are not as many, or a failure of the driver.
    pub fn upload(&mut self, stream: &Stream, from: &[u8]) -> Result<(), DeviceError> {
        // SAFETY: the copy has finished before the borrow of `from` ends.
        unsafe { self.upload_async(stream, from)? };
        stream.synchronize()
    }

    /// Copies bytes into it behind what the stream holds, without waiting.
    ///
    /// # Safety
    /// `from` is neither freed nor written before the stream has come so far.
    ///
    /// # Errors
    /// As [`DeviceBuffer::upload`].
    pub unsafe fn upload_async(&mut self, stream: &Stream, from: &[u8]) -> Result<(), DeviceError> {
        self.check_len(from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: the memory is ours and as long as `from`, which the caller promises to keep.
        unsafe { result::memcpy_htod_async(self.address, from, stream.raw()) }
            .map_err(at("cuMemcpyHtoDAsync"))
    }

    /// Copies it to the host behind what the stream holds, and waits for that.
    ///
    /// # Errors
    /// [`DeviceError::CopyLen`] if there are not as many bytes, or a failure of the driver.
    pub fn download(&self, stream: &Stream, to: &mut [u8]) -> Result<(), DeviceError> {
        // SAFETY: the copy has finished before the borrow of `to` ends.
        unsafe { self.download_async(stream, to)? };
        stream.synchronize()
    }

    /// Copies it to the host behind what the stream holds, without waiting.
    ///
    /// # Safety
    /// `to` is neither freed, read nor written before the stream has come so far.
    ///
    /// # Errors
    /// As [`DeviceBuffer::download`].
    pub unsafe fn download_async(&self, stream: &Stream, to: &mut [u8]) -> Result<(), DeviceError> {
        self.check_len(to.len())?;
        if to.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: the memory is ours and as long as `to`, which the caller promises to keep.
        unsafe { result::memcpy_dtoh_async(to, self.address, stream.raw()) }
            .map_err(at("cuMemcpyDtoHAsync"))
    }

    fn check_len(&self, found: usize) -> Result<(), DeviceError> {
        if found == self.bytes {
            return Ok(());
        }
        Err(DeviceError::CopyLen {
            expected: self.bytes,
            found,
        })
    }
}

fn no_room(error: DriverError, bytes: usize, device: &Device) -> DeviceError {
    if error.0 != sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return at("cuMemAlloc")(error);
    }
    DeviceError::OutOfMemory {
        bytes,
        free: result::mem_get_info().map_or(0, |(free, _)| free),
        device: device.info().to_string(),
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.address != 0 && self.device.bind().is_ok() {
            // SAFETY: it was made by `DeviceBuffer::new`, and is freed once; the driver waits for what uses it.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}
