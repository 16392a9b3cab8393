//! CUDA devices, through the driver: found at run time, without panics where there is none.
//!
//! Everything begins with [`Driver::get`], which opens the driver's library before `cudarc` would: that crate panics
//! where there is none. A [`Device`] is one GPU with its primary context, which other frameworks in the process share.
//! [`DeviceBuffer`]s are memory of our own; a [`DeviceView`] may as well be memory of another framework.

mod error;
mod probe;

mod buffer;
mod context;
mod event;
mod stream;
mod view;

mod attend;
mod module;

#[cfg(test)]
mod tests;

pub use buffer::DeviceBuffer;
pub use context::{Device, DeviceInfo};
pub use error::{DeviceError, DriverFault};
pub use event::Event;
pub use module::{DeviceModule, Launch};
pub use probe::{Driver, NoDriver};
pub use stream::Stream;
pub(crate) use view::Home;
pub use view::{DeviceView, DeviceViewMut};
