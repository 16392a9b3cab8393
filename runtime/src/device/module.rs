//! Compiled code on a device, and its launch.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::context::Device;
use super::error::{DeviceError, DriverFault, at};
use super::stream::Stream;

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Thread blocks along each axis.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

/// One kernel of a module that was loaded onto a device.
#[derive(Clone, Debug)]
pub struct DeviceModule(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    module: sys::CUmodule,
    function: sys::CUfunction,
    shared_bytes: u32,
    device: Device,
}

// SAFETY: modules and functions may be used from any thread with their context current; the pointers are never read.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// Shared memory that every kernel may have without asking.
const SHARED_BYTES_WITHOUT_ASKING: u32 = 48 << 10;

impl DeviceModule {
    /// Loads a cubin, or PTX that the driver compiles, and finds a kernel in it that may use so much dynamic shared
    /// memory.
    ///
    /// # Errors
    /// [`DeviceError`] if the driver does not take the code, it has no such kernel, or the device has not so much.
    pub fn load(
        device: &Device,
        image: &[u8],
        kernel: &str,
        shared_bytes: u32,
    ) -> Result<Self, DeviceError> {
        let there = device.info().shared_bytes;
        if there < shared_bytes {
            return Err(DeviceError::SharedMemory {
                kernel: kernel.to_owned(),
                needed: shared_bytes,
                there,
                device: device.info().to_string(),
            });
        }
        device.bind()?;
        // PTX is read as a text that ends with a NUL, and a cubin does not mind one.
        let mut image = image.to_vec();
        image.push(0);
        // SAFETY: the image outlives the call, and ends with a NUL.
        let module = unsafe { result::module::load_data(image.as_ptr().cast::<c_void>()) }
            .map_err(|error| DeviceError::Load {
                device: device.info().to_string(),
                what: kernel.to_owned(),
                source: error.into(),
            })?;
        let missing = |source: DriverFault| DeviceError::NoKernel {
            name: kernel.to_owned(),
            source,
        };
        let mut loaded = Loaded {
            module,
            function: std::ptr::null_mut(),
            shared_bytes,
            device: device.clone(),
        };
        let name = CString::new(kernel).map_err(|_| {
            missing(DriverFault {
                code: 0,
                name: "no name".to_owned(),
                text: "the name holds a NUL".to_owned(),
            })
        })?;
        // SAFETY: the module was loaded just now.
        loaded.function = unsafe { result::module::get_function(module, name) }
            .map_err(|error| missing(error.into()))?;
        if SHARED_BYTES_WITHOUT_ASKING < shared_bytes {
            let attribute =
                sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function was found just now.
            unsafe {
                result::function::set_function_attribute(
                    loaded.function,
                    attribute,
                    shared_bytes as i32,
                )
            }
            .map_err(at("cuFuncSetAttribute"))?;
        }
        Ok(Self(Arc::new(loaded)))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Launches the kernel behind what the stream holds. Nothing is allocated and nobody waits: the driver copies the
    /// parameters before this returns.
    ///
    /// # Safety
    /// The kernel takes one parameter, a struct of the bytes of these words. Every address in it, with the lengths and strides
    /// beside it, stays within memory of the device that is kept, and left alone by others, until the launch is done.
    pub(crate) unsafe fn launch(
        &self,
        stream: &Stream,
        launch: Launch,
        params: &[u64],
    ) -> Result<(), DeviceError> {
        debug_assert!(launch.shared_bytes <= self.0.shared_bytes);
        let Launch {
            grid: [x, y, z],
            threads,
            shared_bytes,
        } = launch;
        if x == 0 || y == 0 || z == 0 {
            return Ok(());
        }
        self.0.device.bind()?;
        let mut pointers = [params.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the function lives with `self`; the driver only reads the parameters, for which the caller vouches.
        unsafe {
            result::launch_kernel(
                self.0.function,
                (x, y, z),
                (threads, 1, 1),
                shared_bytes,
                stream.raw(),
                &mut pointers,
            )
        }
        .map_err(at("cuLaunchKernel"))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // Code that runs must stay; what is freed beside it waits for the device by itself.
        if self.device.bind().is_ok() && result::ctx::synchronize().is_ok() {
            // SAFETY: it was loaded once, is unloaded once, and nothing of it runs any more.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}
