//! What a rule can capture from Rust: scalars, slices, vectors, shared slices and strided buffers.

mod buffer;
mod element;
mod hold;
mod read;

pub use buffer::{Buffer, IntoBuffer};
pub use element::{Bits, Element};
pub use hold::{Capture, Held, Slice};
pub use read::{Index, read};
