//! What tests do where there is no NVRTC: skip aloud, or fail where it is required.

use super::library::Nvrtc;
use super::probe::probe;

/// NVRTC for a test, or none after having said that the test is skipped.
///
/// # Panics
/// If there is no NVRTC and the environment says `REQUIRE_NVRTC=1`, as `cargo xtask ci` does.
#[doc(hidden)]
#[track_caller]
pub fn for_test() -> Option<&'static Nvrtc> {
    match probe() {
        Ok(nvrtc) => Some(nvrtc),
        Err(missing) => {
            let is_required = std::env::var_os("REQUIRE_NVRTC").is_some_and(|value| value == "1");
            assert!(!is_required, "REQUIRE_NVRTC=1, but {missing}");
            eprintln!("skipped at {}: {missing}", std::panic::Location::caller());
            None
        }
    }
}
