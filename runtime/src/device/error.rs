//! Why something could not be done on a device.

use std::fmt;

use cudarc::driver::DriverError;

use super::probe::NoDriver;

/// What the driver says about a call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverFault {
    /// The number of the error.
    pub code: u32,
    /// Its name, `CUDA_ERROR_…`.
    pub name: String,
    /// What it means.
    pub text: String,
}

impl fmt::Display for DriverFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name, self.code, self.text)
    }
}

impl std::error::Error for DriverFault {}

impl From<DriverError> for DriverFault {
    fn from(error: DriverError) -> Self {
        let text = |found: Result<&std::ffi::CStr, DriverError>| {
            found.map_or_else(
                |_| "unknown to this driver".to_owned(),
                |text| text.to_string_lossy().into_owned(),
            )
        };
        Self {
            code: error.0 as u32,
            name: text(error.error_name()),
            text: text(error.error_string()),
        }
    }
}

/// Why something could not be done on a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no driver, or none that can be used.
    #[error(transparent)]
    NoDriver(#[from] NoDriver),
    /// There is a driver, but no GPU.
    #[error("the CUDA driver is there, but it finds no device")]
    NoDevice,
    /// A device was asked for that is not there.
    #[error("expected a device from 0 to {}, found {found}", n_devices - 1)]
    NoSuchDevice {
        /// What was asked for.
        found: usize,
        /// How many there are.
        n_devices: usize,
    },
    /// The device has not as much memory left.
    #[error("no room for {bytes} bytes on {device}, of which {free} are free")]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
        /// What is free.
        free: usize,
        /// The device.
        device: String,
    },
    /// A copy whose two ends differ in length.
    #[error("expected {expected} bytes to copy, found {found}")]
    CopyLen {
        /// Bytes of the device's side.
        expected: usize,
        /// Bytes of the host's side.
        found: usize,
    },
    /// The compiled code has no such kernel.
    #[error("the module has no kernel `{name}`")]
    NoKernel {
        /// Its name.
        name: String,
        /// What the driver says.
        #[source]
        source: DriverFault,
    },
    /// The compiled code does not fit the device.
    #[error("{device} does not take the code of {what}")]
    Load {
        /// The device.
        device: String,
        /// What was to be loaded.
        what: String,
        /// What the driver says.
        #[source]
        source: DriverFault,
    },
    /// A kernel asks for more than the device has.
    #[error("kernel {kernel} needs {needed} bytes of shared memory, and {device} has {there}")]
    SharedMemory {
        /// The kernel.
        kernel: String,
        /// What it needs.
        needed: u32,
        /// What a block may have.
        there: u32,
        /// The device.
        device: String,
    },
    /// A call of the driver failed.
    #[error("the driver failed at {what}")]
    Call {
        /// What was done.
        what: &'static str,
        /// What the driver says.
        #[source]
        source: DriverFault,
    },
}

/// Names a call that may fail.
pub(super) fn at(what: &'static str) -> impl Fn(DriverError) -> DeviceError {
    move |error| DeviceError::Call {
        what,
        source: error.into(),
    }
}
