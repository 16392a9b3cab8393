//! Prints tokens as text of the rule language, and remembers which bytes came from where.

use std::ops::Range;

use maskwright_dsl::diagnostic::Diagnostic;
use proc_macro2::{Delimiter, Ident, LineColumn, Spacing, Span, TokenStream, TokenTree};

/// What groups without delimiters are: fragments that `macro_rules!` passed on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fragment {
    /// A value, which stays one operand.
    Value,
    /// A type or a pattern, which takes no parentheses.
    Plain,
}

/// Attributes that do not change what a statement means.
const HARMLESS: [&str; 7] = [
    "allow", "expect", "warn", "deny", "doc", "rustfmt", "clippy",
];

/// Text with the places that it came from.
pub(crate) struct Text {
    printed: String,
    marks: Vec<(Range<usize>, Span)>,
    /// Where the last token ended in its file.
    last: Option<LineColumn>,
    /// Column of the first token, which starts our lines.
    margin: usize,
    glue: Glue,
}

/// How the next token may follow the last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Glue {
    /// A word or a number ended.
    Word,
    /// A sign ended, which is all of itself.
    Sign,
    /// A sign that the next one continues.
    Joint,
    /// Anything may follow.
    Free,
}

impl Text {
    /// No text yet; lines will start at the column of `start`.
    pub(crate) fn new(start: Span) -> Self {
        Self {
            printed: String::new(),
            marks: Vec::new(),
            last: None,
            margin: start.start().column,
            glue: Glue::Free,
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.printed
    }

    pub(crate) fn len(&self) -> usize {
        self.printed.len()
    }

    /// Adds text that nobody wrote; what follows starts without a gap.
    pub(crate) fn written(&mut self, text: &str) {
        self.printed.push_str(text);
        self.glue = Glue::Free;
        self.last = None;
    }

    /// Adds a name.
    pub(crate) fn name(&mut self, name: &Ident) {
        self.token(&name.to_string(), name.span(), Glue::Word);
    }

    /// Adds a type or a pattern.
    pub(crate) fn plain(&mut self, tokens: TokenStream) {
        self.tokens(tokens, Fragment::Plain);
    }

    /// Adds expressions and statements.
    pub(crate) fn values(&mut self, tokens: TokenStream) {
        self.tokens(tokens, Fragment::Value);
    }

    fn tokens(&mut self, tokens: TokenStream, fragment: Fragment) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(ident) => {
                    self.token(&ident.to_string(), ident.span(), Glue::Word);
                }
                TokenTree::Literal(literal) => {
                    self.token(&literal.to_string(), literal.span(), Glue::Word);
                }
                TokenTree::Punct(punct) => {
                    if punct.as_char() == '#'
                        && let Some(TokenTree::Group(group)) = tokens.peek()
                        && is_harmless(&group.stream())
                    {
                        tokens.next();
                        continue;
                    }
                    let mut sign = [0; 4];
                    let glue = match punct.spacing() {
                        Spacing::Joint => Glue::Joint,
                        Spacing::Alone => Glue::Sign,
                    };
                    self.token(punct.as_char().encode_utf8(&mut sign), punct.span(), glue);
                }
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::None => {
                            let stream = group.stream();
                            let alone = stream.clone().into_iter().nth(1).is_none();
                            if alone || fragment == Fragment::Plain {
                                self.tokens(stream, fragment);
                            } else {
                                self.token("(", group.span(), Glue::Free);
                                self.tokens(stream, fragment);
                                self.token(")", group.span(), Glue::Free);
                            }
                            continue;
                        }
                    };
                    // A bracket that a parser made anew has the place of the whole group.
                    let (first, last) = (group.span_open(), group.span_close());
                    let (from, to) = (first.start(), last.end());
                    let inner = LineColumn {
                        column: from.column + 1,
                        ..from
                    };
                    self.token_at(open, first, (from, inner), Glue::Free);
                    self.tokens(group.stream(), fragment);
                    let inner = LineColumn {
                        column: to.column.saturating_sub(1),
                        ..to
                    };
                    self.token_at(close, last, (inner, to), Glue::Free);
                }
            }
        }
    }

    fn token(&mut self, token: &str, span: Span, glue: Glue) {
        self.token_at(token, span, (span.start(), span.end()), glue);
    }

    fn token_at(
        &mut self,
        token: &str,
        span: Span,
        (start, end): (LineColumn, LineColumn),
        glue: Glue,
    ) {
        if self.glue != Glue::Joint {
            self.gap(start);
            let merges = match self.glue {
                Glue::Word => token.starts_with(|c: char| c == '_' || c.is_alphanumeric()),
                Glue::Sign => matches!(glue, Glue::Sign | Glue::Joint),
                Glue::Joint | Glue::Free => false,
            };
            if merges && !self.printed.ends_with([' ', '\n']) {
                self.printed.push(' ');
            }
        }
        let from = self.printed.len();
        self.printed.push_str(token);
        self.marks.push((from..self.printed.len(), span));
        self.last = Some(end);
        self.glue = glue;
    }

    /// Keeps the author's lines and spaces, where the places of tokens tell them.
    fn gap(&mut self, start: LineColumn) {
        let Some(last) = self.last else { return };
        if last.line < start.line && start.line - last.line < 16 {
            // Comments are gone, and blank lines with them.
            self.printed.push('\n');
            let indent = start.column.saturating_sub(self.margin).min(80);
            self.printed.extend(std::iter::repeat_n(' ', indent));
        } else if last.line == start.line && last.column <= start.column {
            if last.column < start.column {
                self.printed.push(' ');
            }
        } else {
            self.printed.push(' ');
        }
    }

    /// A fault as an error of the compiler, at the tokens that it speaks of.
    pub(crate) fn error(&self, fault: &Diagnostic) -> syn::Error {
        let mut message = fault.message.clone();
        if let Some(help) = &fault.help {
            message.push_str("\nhelp: ");
            message.push_str(help);
        }
        let place = fault.labels.first().map(|label| label.span);
        let marked = place.and_then(|place| {
            let (start, end) = (place.start as usize, (place.end as usize).max(1));
            let touched = |(bytes, _): &&(Range<usize>, Span)| {
                start < bytes.end && bytes.start < end.max(start + 1)
            };
            let first = self.marks.iter().find(touched).or(self.marks.last())?;
            let last = self.marks.iter().rev().find(touched).unwrap_or(first);
            Some((first.1, last.1))
        });
        match marked {
            Some((first, last)) => error_between(first, last, message),
            None => syn::Error::new(Span::call_site(), message),
        }
    }
}

/// An error that marks everything from one token to another.
pub(crate) fn error_between(
    first: Span,
    last: Span,
    message: impl std::fmt::Display,
) -> syn::Error {
    let ends = [first, last].map(|span| TokenTree::from(Ident::new("_place", span)));
    syn::Error::new_spanned(TokenStream::from_iter(ends), message)
}

/// Joins errors into one; `None` if there are none.
pub(crate) fn joined(errors: impl IntoIterator<Item = syn::Error>) -> Option<syn::Error> {
    errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    })
}

fn is_harmless(attribute: &TokenStream) -> bool {
    match attribute.clone().into_iter().next() {
        Some(TokenTree::Ident(name)) => HARMLESS.iter().any(|harmless| name == harmless),
        Some(TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        let tokens: TokenStream = source.parse().unwrap();
        let mut text = Text::new(tokens.clone().into_iter().next().unwrap().span());
        text.values(tokens);
        assert_eq!(text.as_str(), expected);
    }

    #[test]
    fn lines_and_spaces_are_kept_and_comments_are_not() {
        check(
            "a<=b && // why\n    x[i]\n        .min(-1)",
            "a<=b &&\n    x[i]\n        .min(-1)",
        );
        check("  f::<4>(1..=n) >> 2", "f::<4>(1..=n) >> 2");
        check(
            "{ #[allow(unused)] let x = 0x80u32; x }",
            "{ let x = 0x80u32; x }",
        );
    }

    #[test]
    fn tokens_without_places_do_not_merge() {
        let tokens = quote::quote!(let x = a as i32 - -b; x && !c);
        let mut text = Text::new(Span::call_site());
        text.values(tokens);
        let words: Vec<_> = text.as_str().split_whitespace().collect();
        assert!(words.contains(&"let") && words.contains(&"as"), "{words:?}");
        assert!(text.as_str().contains("&&"));
    }

    #[test]
    fn faults_are_marked_where_their_tokens_stand() {
        let tokens: TokenStream = "kv <= qq".parse().unwrap();
        let mut text = Text::new(Span::call_site());
        text.written("fn m() -> bool ");
        text.values(tokens);
        let at = text.as_str().find("qq").unwrap() as u32;
        let span = maskwright_dsl::ir::Span {
            start: at,
            end: at + 2,
        };
        let error = text.error(&Diagnostic::new("unknown-name", "no", Some(span)).help("yes"));
        assert_eq!(error.to_string(), "no\nhelp: yes");
        assert_eq!(error.span().start(), LineColumn { line: 1, column: 6 });
    }
}
