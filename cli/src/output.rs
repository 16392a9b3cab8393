//! Text for people on stdout and stderr, and JSON for scripts on stdout alone.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::error::CliError;

/// Writes to stdout. A reader that went away, such as `head`, is no error.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Stdout(source)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes bytes to stdout, as [`print`] does.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Stdout(source)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes one JSON value and a line feed to stdout.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value).map_err(CliError::Json)?;
    print(&(text + "\n"))
}

/// Says something on stderr that is no result. That nobody hears it is no error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Draws an error on stderr, with its causes.
pub(crate) fn print_error(error: &CliError) {
    let _ = io::stderr()
        .lock()
        .write_all(describe_error(error, colored()).as_bytes());
}

/// Whether stderr wants colours.
pub(crate) fn colored() -> bool {
    !no_color() && io::stderr().is_terminal()
}

/// Whether stdout wants colours.
pub(crate) fn colored_stdout() -> bool {
    !no_color() && io::stdout().is_terminal()
}

fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// An error as it is shown, with a line feed at its end.
pub(crate) fn describe_error(error: &CliError, color: bool) -> String {
    if let Some(faults) = error.diagnostics() {
        return faults.render(color);
    }
    let mut text = if color {
        format!("\u{1b}[1;31merror\u{1b}[0m: {error}")
    } else {
        format!("error: {error}")
    };
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some wrappers already say what their cause says.
        if !text.ends_with(&said) {
            let _ = write!(text, "\n  because: {said}");
        }
        cause = error.source();
    }
    text.push('\n');
    text
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes with a unit that people read.
pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{value:.1} {unit}")
}

/// Digits in groups of three.
pub(crate) fn count_text(count: impl Into<u128>) -> String {
    let digits = count.into().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Lines whose cells stand under one another: the first column to the left, the others to the right.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column == 0 {
                write!(line, "{cell:<width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Names and values, a line each, all to the left.
pub(crate) fn pairs(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name:width$}  {value}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_bytes_are_grouped() {
        assert_eq!(count_text(1_234_567_u64), "1 234 567");
        assert_eq!(count_text(12_u8), "12");
        assert_eq!(bytes_text(1023), "1023 B");
        assert_eq!(bytes_text(3 << 20), "3.0 MiB");
    }

    #[test]
    fn tables_align() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            table(&[row(["a", "10"]), row(["bcd", "2"])]),
            "a    10\nbcd   2\n"
        );
    }
}
