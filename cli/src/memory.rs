//! A counting allocator: how many bytes a piece of work held at its peak.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The system's allocator, which counts while [`peak_of`] runs.
pub(crate) struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

fn note(bytes: i64) {
    if COUNTS.load(Ordering::Relaxed) {
        let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if 0 < bytes {
            PEAK.fetch_max(live, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call goes to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // A block that moves is there twice for a moment, which no count of requests can tell.
        note(new_size as i64 - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, new_size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        note(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Runs `work` and tells how many bytes it held at its peak, what it returns included.
///
/// Memory of other threads counts as well, so nothing else should run.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    LIVE.store(0, Ordering::Relaxed);
    PEAK.store(0, Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    let result = work();
    COUNTS.store(false, Ordering::Relaxed);
    let peak = PEAK.load(Ordering::Relaxed);
    (result, u64::try_from(peak).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_what_was_held_at_once() {
        let (kept, peak) = peak_of(|| {
            let first = vec![1_u8; 64_000_000];
            let total: usize = first.iter().map(|&x| usize::from(x)).sum();
            drop(first);
            vec![0_u8; total / 2]
        });
        assert_eq!(kept.len(), 32_000_000);
        // Other tests allocate a little meanwhile.
        assert!((64_000_000..72_000_000).contains(&peak), "{peak}");
    }
}
