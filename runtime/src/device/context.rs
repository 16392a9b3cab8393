//! One GPU: its properties, and the primary context that everything on it happens in.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{result, sys};

use super::error::{DeviceError, at};
use super::probe::Driver;
use super::view::Home;

/// What a GPU is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number, from 0.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// The most shared memory that a thread block may ask for, in bytes.
    pub shared_bytes: u32,
    /// The version of CUDA that the driver knows, major and minor.
    pub driver_version: (u32, u32),
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability;
        write!(
            f,
            "{} (cuda:{}, sm_{major}{minor})",
            self.name, self.ordinal
        )
    }
}

/// One GPU with its primary context, which is released when the last clone and all that was made from it are gone.
#[derive(Clone, Debug)]
pub struct Device(Arc<Context>);

#[derive(Debug)]
struct Context {
    raw: sys::CUcontext,
    device: sys::CUdevice,
    info: DeviceInfo,
}

// SAFETY: the driver's contexts may be used from any thread, one after the other or at once; the pointer is never read.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Device {
    /// Opens a GPU by its number.
    ///
    /// # Errors
    /// [`DeviceError`] if there is no driver or no such device, or its context cannot be made.
    pub fn open(ordinal: usize) -> Result<Self, DeviceError> {
        let info = Self::describe(ordinal)?;
        let device = result::device::get(ordinal as i32).map_err(at("cuDeviceGet"))?;
        // SAFETY: the device comes of `device::get`.
        let raw = unsafe { result::primary_ctx::retain(device) }
            .map_err(at("cuDevicePrimaryCtxRetain"))?;
        Ok(Self(Arc::new(Context { raw, device, info })))
    }

    /// The GPUs that there are.
    ///
    /// # Errors
    /// [`DeviceError`] if there is no driver, or a device does not say what it is.
    pub fn list() -> Result<Vec<DeviceInfo>, DeviceError> {
        (0..Driver::get()?.n_devices())
            .map(Self::describe)
            .collect()
    }

    fn describe(ordinal: usize) -> Result<DeviceInfo, DeviceError> {
        let driver = Driver::get()?;
        let n_devices = driver.n_devices();
        if n_devices == 0 {
            return Err(DeviceError::NoDevice);
        }
        if n_devices <= ordinal {
            return Err(DeviceError::NoSuchDevice {
                found: ordinal,
                n_devices,
            });
        }
        let device = result::device::get(ordinal as i32).map_err(at("cuDeviceGet"))?;
        let attribute = |which| {
            // SAFETY: the device comes of `device::get`.
            unsafe { result::device::get_attribute(device, which) }
                .map(|value| value.max(0) as u32)
                .map_err(at("cuDeviceGetAttribute"))
        };
        Ok(DeviceInfo {
            ordinal,
            name: result::device::get_name(device).map_err(at("cuDeviceGetName"))?,
            capability: (
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            // SAFETY: the device comes of `device::get`.
            memory_bytes: unsafe { result::device::total_mem(device) }
                .map_err(at("cuDeviceTotalMem"))? as u64,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_bytes: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?,
            driver_version: driver.version(),
        })
    }

    /// What it is.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Makes its context that of the calling thread, as every call of the driver needs.
    pub(super) fn bind(&self) -> Result<(), DeviceError> {
        // SAFETY: the context was retained, and is released only when the last `Device` is gone.
        unsafe { result::ctx::set_current(self.0.raw) }.map_err(at("cuCtxSetCurrent"))
    }

    pub(crate) fn home(&self) -> Home {
        Home::Device(self.0.info.ordinal)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // A failure here has nobody to be told to; the driver releases everything when the process ends.
        // SAFETY: it was retained once, by `Device::open`.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}
