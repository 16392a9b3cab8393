//! Cuts text into tokens. Every byte of the text is in a token, in white space or in a comment.

use crate::diagnostic::Diagnostic;
use crate::ir::{Span, Ty};

use super::ast::Loc;

/// A word, number or sign of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tok {
    /// A name or a word of the language.
    Ident(String),
    /// An integer literal with its suffix.
    Int(u64, Option<Ty>),
    /// A float literal.
    Float(f32),
    /// A string in quotes; only attributes hold any.
    Str(String),
    /// `'a`; only Rust types hold any.
    Lifetime,
    /// `///` and what follows it on the line.
    Doc(String),
    /// A sign of one to three characters.
    Sign(&'static str),
    /// Something that has been reported.
    Bad,
    /// The end of the text.
    End,
}

/// A token and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) tok: Tok,
    pub(super) loc: Loc,
    /// Where a `//` comment starts on the same line, after the token.
    pub(super) comment: Option<Loc>,
}

/// Signs, longest first.
const SIGNS: [&str; 50] = [
    "<<=", ">>=", "..=", "...", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "->", "=>", "::",
    "..", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "(", ")", "[", "]", "{", "}", ",", ";",
    ":", "=", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "!", ".", "#", "?", "@", "$",
];

/// Cuts `text` into tokens, ending with [`Tok::End`].
pub(super) fn lex(text: &str, faults: &mut Vec<Diagnostic>) -> Vec<Token> {
    let mut lexer = Lexer {
        text,
        at: 0,
        tokens: Vec::new(),
        faults,
    };
    lexer.run();
    lexer.tokens
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    faults: &'a mut Vec<Diagnostic>,
}

fn loc(start: usize, end: usize) -> Loc {
    Loc::new(start as u32, end as u32)
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn fault(&mut self, message: impl Into<String>, start: usize, help: &str) {
        let span = Span {
            start: start as u32,
            end: self.at as u32,
        };
        let fault = Diagnostic::new("syntax", message, Some(span));
        self.faults.push(if help.is_empty() {
            fault
        } else {
            fault.help(help)
        });
    }

    fn push(&mut self, tok: Tok, start: usize) {
        self.tokens.push(Token {
            tok,
            loc: loc(start, self.at),
            comment: None,
        });
    }

    fn eat_while(&mut self, holds: impl Fn(char) -> bool) {
        let len = self
            .rest()
            .find(|c: char| !holds(c))
            .unwrap_or(self.rest().len());
        self.at += len;
    }

    fn run(&mut self) {
        while let Some(c) = self.rest().chars().next() {
            let start = self.at;
            if c.is_whitespace() || c == '\u{feff}' {
                self.at += c.len_utf8();
            } else if self.rest().starts_with("//") {
                self.line_comment(start);
            } else if self.rest().starts_with("/*") {
                self.block_comment(start);
            } else if c.is_ascii_digit() {
                self.number(start);
            } else if c == '_' || c.is_alphabetic() {
                self.eat_while(|c| c == '_' || c.is_alphanumeric());
                let word = self.text[start..self.at].to_owned();
                self.push(Tok::Ident(word), start);
            } else if c == '"' {
                self.string(start);
            } else if c == '\'' {
                self.at += 1;
                self.eat_while(|c| c == '_' || c.is_alphanumeric());
                if self.rest().starts_with('\'') {
                    self.at += 1;
                    self.fault(
                        "expected a number, a name or an operator, found a character",
                        start,
                        "",
                    );
                    self.push(Tok::Bad, start);
                } else {
                    self.push(Tok::Lifetime, start);
                }
            } else if let Some(sign) = SIGNS.iter().find(|sign| self.rest().starts_with(**sign)) {
                self.at += sign.len();
                self.push(Tok::Sign(sign), start);
            } else {
                self.unknown(c, start);
            }
        }
        self.push(Tok::End, self.at);
    }

    fn unknown(&mut self, c: char, start: usize) {
        self.at += c.len_utf8();
        let instead = match c {
            '≤' => "write `<=`",
            '≥' => "write `>=`",
            '≠' => "write `!=`",
            '∧' => "write `&&`",
            '∨' => "write `||`",
            '¬' | '~' => "write `!`",
            '×' | '·' => "write `*`",
            '÷' => "write `/`",
            '−' | '–' => "write `-`",
            '∞' => "write `inf`",
            _ => "",
        };
        self.fault(
            format!("expected a number, a name or an operator, found `{c}`"),
            start,
            instead,
        );
        self.push(Tok::Bad, start);
    }

    fn line_comment(&mut self, start: usize) {
        let len = self.rest().find('\n').unwrap_or(self.rest().len());
        let line = self.rest()[..len].trim_end_matches('\r').to_owned();
        self.at += len;
        if let Some(doc) = line.strip_prefix("///")
            && !doc.starts_with('/')
        {
            let doc = doc.strip_prefix(' ').unwrap_or(doc).trim_end().to_owned();
            self.push(Tok::Doc(doc), start);
        } else if let Some(token) = self.tokens.last_mut()
            && !self.text[token.loc.0.end as usize..start].contains('\n')
        {
            token.comment = Some(loc(start, start + 2));
        }
    }

    fn block_comment(&mut self, start: usize) {
        let mut depth = 0usize;
        loop {
            let rest = self.rest();
            if rest.starts_with("/*") {
                depth += 1;
                self.at += 2;
            } else if rest.starts_with("*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return;
                }
            } else if let Some(c) = rest.chars().next() {
                self.at += c.len_utf8();
            } else {
                let end = self.at;
                self.at = start + 2;
                self.fault(
                    "expected `*/` at the end of this comment, found the end of the text",
                    start,
                    "",
                );
                self.at = end;
                return;
            }
        }
    }

    fn string(&mut self, start: usize) {
        self.at += 1;
        let mut value = String::new();
        while let Some(c) = self.rest().chars().next() {
            self.at += c.len_utf8();
            match c {
                '"' => {
                    self.push(Tok::Str(value), start);
                    return;
                }
                '\\' => {
                    if let Some(c) = self.rest().chars().next() {
                        self.at += c.len_utf8();
                        value.push(match c {
                            'n' => '\n',
                            't' => '\t',
                            c => c,
                        });
                    }
                }
                c => value.push(c),
            }
        }
        let end = self.at;
        self.at = start + 1;
        self.fault(
            "expected `\"` at the end of this string, found the end of the text",
            start,
            "",
        );
        self.at = end;
    }

    fn number(&mut self, start: usize) {
        let radix = match self.rest().get(..2) {
            Some("0x") => 16,
            Some("0b") => 2,
            Some("0o") => 8,
            _ => 10,
        };
        if radix != 10 {
            self.at += 2;
        }
        let digits_at = self.at;
        if radix == 16 {
            self.eat_while(|c| c == '_' || c.is_ascii_hexdigit());
        } else {
            self.eat_while(|c| c == '_' || c.is_ascii_digit());
        }
        let mut float = false;
        if radix == 10 {
            // `1..4` is a range, `1.max(2)` a method, `1.` a float.
            let after = self.rest().strip_prefix('.').map(|r| r.chars().next());
            if let Some(next) = after
                && !next.is_some_and(|c| c == '.' || c == '_' || c.is_alphabetic())
            {
                float = true;
                self.at += 1;
                self.eat_while(|c| c == '_' || c.is_ascii_digit());
            }
            if self.rest().starts_with(['e', 'E']) {
                let exponent = self.rest()[1..].trim_start_matches(['+', '-']);
                let signs = self.rest().len() - 1 - exponent.len();
                if signs <= 1 && exponent.starts_with(|c: char| c.is_ascii_digit()) {
                    float = true;
                    self.at += 1 + signs;
                    self.eat_while(|c| c == '_' || c.is_ascii_digit());
                }
            }
        }
        let digits: String = self.text[digits_at..self.at]
            .chars()
            .filter(|c| *c != '_')
            .collect();
        let suffix_at = self.at;
        self.eat_while(|c| c == '_' || c.is_alphanumeric());
        let suffix = self.text[suffix_at..self.at].trim_start_matches('_');
        let ty = match (suffix, Ty::from_name(suffix)) {
            ("", _) => None,
            (_, Some(ty)) if ty != Ty::Bool && (radix == 10 || ty != Ty::F32) => Some(ty),
            (other, _) => {
                let message = format!(
                    "expected `i32`, `i64`, `u32` or `f32` after a number, found `{other}`"
                );
                self.fault(message, suffix_at, "");
                self.push(Tok::Bad, start);
                return;
            }
        };
        let tok = if float || ty == Some(Ty::F32) {
            self.float(&digits, ty, start)
        } else {
            match u64::from_str_radix(&digits, radix) {
                Ok(value) => Tok::Int(value, ty),
                Err(_) if digits.is_empty() => {
                    self.fault("expected digits after the prefix", start, "");
                    Tok::Bad
                }
                Err(_) => {
                    self.fault(
                        "this number is too large or holds a wrong digit",
                        start,
                        "integers have at most 64 bits",
                    );
                    Tok::Bad
                }
            }
        };
        self.push(tok, start);
    }

    fn float(&mut self, digits: &str, ty: Option<Ty>, start: usize) -> Tok {
        if !matches!(ty, None | Some(Ty::F32)) {
            self.fault(
                "expected `f32` after a float literal, found an integer type",
                start,
                "",
            );
            return Tok::Bad;
        }
        match digits.parse::<f32>() {
            Ok(value) if value.is_finite() => Tok::Float(value),
            Ok(_) | Err(_) => {
                self.fault(
                    "this number is too large for `f32`",
                    start,
                    "infinity is written `inf`",
                );
                Tok::Bad
            }
        }
    }
}
