//! Checks that a device does not make: races, memory that nothing wrote, fences and waits that are missing.

pub(crate) mod clock;
pub mod init;
pub mod race;
pub mod report;
