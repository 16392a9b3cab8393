//! The words of a PTX text.

use super::error::ParseFault;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, with its `%` or `$` if it has one; also an opcode and `_`.
    Word,
    /// A dot and what hangs on it: `.reg`, `.2d`, `.shared::cta`.
    Dotted,
    /// A number of any form, without a sign.
    Number,
    /// A string, with its quotes.
    Text,
    /// One of the characters `{}[]()<>,;:+-=@!|` and the like.
    Mark(u8),
    /// The end of the text.
    End,
}

/// A token: a piece of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// The first byte.
    pub(super) start: u32,
    /// One past the last byte.
    pub(super) end: u32,
    /// Line, from 1.
    pub(super) line: u32,
}

/// A fault at a byte of the text.
pub(super) struct TokenFault {
    pub(super) at: usize,
    pub(super) line: u32,
    pub(super) fault: ParseFault,
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// Cuts the text into tokens, the last of which is [`Kind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, TokenFault> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::with_capacity(bytes.len() / 4);
    let (mut at, mut line) = (0, 1);
    while let Some(&first) = bytes.get(at) {
        let start = at;
        let kind = match first {
            b'\n' => {
                line += 1;
                at += 1;
                continue;
            }
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = skip_while(bytes, at, |byte| byte != b'\n');
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let Some(length) = text[at + 2..].find("*/") else {
                    return Err(unterminated("comment", start, line));
                };
                let end = at + 2 + length + 2;
                line += newlines(&bytes[at..end]);
                at = end;
                continue;
            }
            b'"' => {
                at += 1;
                loop {
                    match bytes.get(at) {
                        None => return Err(unterminated("string", start, line)),
                        Some(b'"') => break,
                        Some(b'\\') => at += 2,
                        Some(_) => at += 1,
                    }
                }
                at += 1;
                Kind::Text
            }
            b'.' if bytes.get(at + 1).copied().is_some_and(is_name) => {
                at = skip_while(bytes, at + 1, is_name);
                while bytes.get(at..at + 2) == Some(b"::")
                    && bytes.get(at + 2).copied().is_some_and(is_name)
                {
                    at = skip_while(bytes, at + 2, is_name);
                }
                Kind::Dotted
            }
            b'0'..=b'9' => {
                at = number_end(bytes, at);
                Kind::Number
            }
            b'%' | b'$' | b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                at = skip_while(bytes, at + 1, is_name);
                Kind::Word
            }
            b'!'..=b'/' | b':'..=b'@' | b'['..=b'`' | b'{'..=b'~' => {
                at += 1;
                Kind::Mark(first)
            }
            _ => {
                let found = text[at..].chars().next().unwrap_or('\u{fffd}');
                let fault = ParseFault::Character { found };
                return Err(TokenFault { at, line, fault });
            }
        };
        tokens.push(Token {
            kind,
            start: start as u32,
            end: at as u32,
            line,
        });
        line += newlines(&bytes[start..at]);
    }
    tokens.push(Token {
        kind: Kind::End,
        start: at as u32,
        end: at as u32,
        line,
    });
    Ok(tokens)
}

/// `0x1F`, `12U`, `0f3F800000`, `1.5e-3`: a fraction and an exponent only after decimal digits.
fn number_end(bytes: &[u8], start: usize) -> usize {
    let digits = skip_while(bytes, start, |byte| byte.is_ascii_digit());
    let mut end = digits;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = skip_while(bytes, end + 1, |byte| byte.is_ascii_digit());
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            end = skip_while(bytes, end + 1 + sign, |byte| byte.is_ascii_digit());
        }
    }
    skip_while(bytes, end, is_name)
}

fn skip_while(bytes: &[u8], start: usize, holds: impl Fn(u8) -> bool) -> usize {
    let rest = &bytes[start..];
    start + rest.iter().take_while(|&&byte| holds(byte)).count()
}

fn newlines(bytes: &[u8]) -> u32 {
    bytes.split(|&byte| byte == b'\n').skip(1).count() as u32
}

fn unterminated(what: &'static str, at: usize, line: u32) -> TokenFault {
    let fault = ParseFault::Unterminated { what };
    TokenFault { at, line, fault }
}
