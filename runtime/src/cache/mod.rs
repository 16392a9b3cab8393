//! What was compiled and proved, kept on disk and found again by content.
//!
//! A [`Key`] is the hash of everything an artifact depends on, so an entry never goes stale: when an input changes the
//! key changes too. The [`Store`] holds entries as single files; one that cannot be trusted is a miss, never an error.

mod key;
mod mode;
pub(crate) mod replace;
mod store;

pub use key::{Key, KeyBuilder, KeyParseError};
pub use mode::CacheMode;
pub use replace::{DiskIo, StoreFile, StoreIo};
pub use store::{
    CheckReport, Checked, Cleared, Entry, Listed, Lookup, MAX_ENTRY_BYTES, MissReason, Store,
    StoreError, StoreSize,
};
