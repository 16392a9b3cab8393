//! Events: marks on a stream, and the time between two of them.

use cudarc::driver::{result, sys};

use super::context::Device;
use super::error::{DeviceError, at};
use super::probe::Driver;
use super::stream::Stream;

/// What the driver must have beside what everything else needs. Only timing calls it, so drivers without it still run
/// kernels: the last one is younger than the others.
const FUNCTIONS: [&str; 5] = [
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
];

/// A mark on a stream, with the time at which the device came to it.
#[derive(Debug)]
pub struct Event {
    raw: sys::CUevent,
    device: Device,
}

// SAFETY: the driver's events may be used from any thread; the pointer is never read.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// A new event, which has not been recorded yet.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`] if the driver is too old to tell times, or [`DeviceError::Call`].
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Driver::get()?.require(&FUNCTIONS)?;
        device.bind()?;
        let raw = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
            .map_err(at("cuEventCreate"))?;
        Ok(Self {
            raw,
            device: device.clone(),
        })
    }

    /// Marks the end of what the stream holds, without waiting.
    ///
    /// # Errors
    /// [`DeviceError::Call`], also if the stream is of another device.
    pub fn record(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        self.device.bind()?;
        // SAFETY: the event was made by `new`, and the stream lives: it is ours, the default one, or promised to.
        unsafe { result::event::record(self.raw, stream.raw()) }.map_err(at("cuEventRecord"))
    }

    /// Waits until the device has come to this mark, and gives the milliseconds since it came to an earlier one.
    ///
    /// # Errors
    /// [`DeviceError::Call`] if one of the two was never recorded, also for what failed on the stream before.
    pub fn milliseconds_since(&self, earlier: &Self) -> Result<f32, DeviceError> {
        self.device.bind()?;
        // SAFETY: the event was made by `new`.
        unsafe { result::event::synchronize(self.raw) }.map_err(at("cuEventSynchronize"))?;
        // SAFETY: both were made by `new` and live; of events that no time lies between, the driver says so.
        unsafe { result::event::elapsed(earlier.raw, self.raw) }
            .map_err(at("cuEventElapsedTime_v2"))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: it was made by `Event::new`, and is destroyed once.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}
