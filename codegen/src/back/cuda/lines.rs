//! Long statements, broken where they bind loosest.

/// Columns of a line of text.
const WIDTH: usize = 110;

/// Parentheses within which a line may break, at most.
const MAX_DEPTH: usize = 6;

/// Operators at which a line may break, loosest first.
const BREAKS: [&[&str]; 4] = [&["||"], &["&&"], &["?", ":"], &["+", "-"]];

/// Writes a statement at an indentation, over several lines where it is long.
pub(super) fn write_statement(text: &mut String, indent: usize, statement: &str) {
    let line = format!("{}{statement}", " ".repeat(indent));
    if line.chars().count() <= WIDTH {
        text.push_str(&line);
        text.push('\n');
        return;
    }
    let broken = (0..MAX_DEPTH).find_map(|depth| {
        BREAKS
            .iter()
            .find_map(|signs| split(statement, signs, depth))
    });
    let Some((first, rest)) = broken else {
        text.push_str(&line);
        text.push('\n');
        return;
    };
    write_statement(text, indent, first);
    for part in rest {
        write_statement(text, indent + 4, part);
    }
}

/// The statement before its first sign, and the parts that begin with one; only signs within so many parentheses
/// count.
fn split<'a>(statement: &'a str, signs: &[&str], within: usize) -> Option<(&'a str, Vec<&'a str>)> {
    let mut cuts = Vec::new();
    let mut depth = 0usize;
    for (at, c) in statement.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ' ' if depth == within => {
                let after = &statement[at + 1..];
                let is_sign = |sign: &&str| {
                    after
                        .strip_prefix(*sign)
                        .is_some_and(|rest| rest.starts_with(' '))
                };
                if at != 0 && signs.iter().any(is_sign) {
                    cuts.push(at);
                }
            }
            _ => {}
        }
    }
    let first = *cuts.first()?;
    let ends = cuts[1..].iter().copied().chain([statement.len()]);
    let parts = cuts
        .iter()
        .zip(ends)
        .map(|(from, to)| &statement[from + 1..to]);
    Some((&statement[..first], parts.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_breaks_at_its_loosest_operator() {
        let long = "x".repeat(45);
        let mut text = String::new();
        write_statement(
            &mut text,
            2,
            &format!("return {long} && (a || {long}) || b;"),
        );
        assert_eq!(
            text,
            format!("  return {long} && (a || {long})\n      || b;\n")
        );
    }
}
