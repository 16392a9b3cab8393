//! Whether what is missing may be made.

/// Whether a miss is verified and stored, or an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// What is missing is verified and stored.
    #[default]
    ReadWrite,
    /// What is missing is an error: nothing is verified, compiled or written.
    NoCompile,
}

impl CacheMode {
    /// The environment variable that [`CacheMode::from_env`] reads.
    pub const VARIABLE: &'static str = "MASKWRIGHT_NO_COMPILE";

    /// [`CacheMode::NoCompile`] if `MASKWRIGHT_NO_COMPILE` is set to anything but 0 and the empty text.
    pub fn from_env() -> Self {
        let value = std::env::var_os(Self::VARIABLE);
        if value.is_some_and(|value| !value.is_empty() && value != "0") {
            CacheMode::NoCompile
        } else {
            CacheMode::ReadWrite
        }
    }
}
