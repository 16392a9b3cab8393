//! Signs of life on stderr: nothing for work that ends within a second, and nothing where no one looks.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const SILENT_FOR: Duration = Duration::from_secs(1);

/// Runs `work`; if it takes over a second and stderr is a terminal, a spinner says so.
pub(crate) fn spinning<T>(message: &str, work: impl FnOnce() -> T) -> T {
    if ProgressDrawTarget::stderr().is_hidden() {
        return work();
    }
    let (done, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(SILENT_FOR) {
                let spinner = ProgressBar::new_spinner().with_message(message.to_owned());
                spinner.enable_steady_tick(Duration::from_millis(120));
                // The sender is dropped when the work ends, whichever way.
                let _ = wait.recv();
                spinner.finish_and_clear();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// A bar over `len` steps, on stderr if that is a terminal.
pub(crate) fn bar(len: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
    let bar = ProgressBar::new(len);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
