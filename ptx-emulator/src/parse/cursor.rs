//! A place among the tokens, what may be asked of it, and faults at it.

use super::error::{ParseError, ParseFault};
use super::token::{Kind, Token, tokens};

/// Longest text, so that an offset fits in 32 bits.
const MAX_TEXT_BYTES: u64 = u32::MAX as u64;

/// Most characters of a line that an error quotes.
const MAX_QUOTE_CHARS: usize = 160;

/// Most bytes of a token that an error quotes.
const MAX_FOUND_CHARS: usize = 60;

/// A place among the tokens of a text.
pub(super) struct Cursor<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    next: usize,
}

/// The place of a token, for faults that are found later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(usize);

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Result<Self, ParseError> {
        if MAX_TEXT_BYTES <= text.len() as u64 {
            let fault = ParseFault::TooLarge {
                what: "the bytes of a text",
                limit: MAX_TEXT_BYTES - 1,
                found: text.len().to_string(),
            };
            return Err(error(text, 0, 1, fault));
        }
        let tokens = tokens(text).map_err(|it| error(text, it.at, it.line, it.fault))?;
        let next = 0;
        Ok(Self { text, tokens, next })
    }

    /// The token `ahead` of the next one; [`Kind::End`] beyond the last.
    fn token(&self, ahead: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.next + ahead).min(last)]
    }

    fn text_of(&self, token: Token) -> &'t str {
        &self.text[token.start as usize..token.end as usize]
    }

    pub(super) fn kind(&self) -> Kind {
        self.token(0).kind
    }

    pub(super) fn kind_ahead(&self, ahead: usize) -> Kind {
        self.token(ahead).kind
    }

    pub(super) fn line(&self) -> u32 {
        self.token(0).line
    }

    pub(super) fn place(&self) -> Place {
        Place(self.next)
    }

    /// Goes back, or on, to a place.
    pub(super) fn go_to(&mut self, place: Place) {
        self.next = place.0;
    }

    pub(super) fn is_end(&self) -> bool {
        self.kind() == Kind::End
    }

    pub(super) fn at_mark(&self, mark: u8) -> bool {
        self.kind() == Kind::Mark(mark)
    }

    /// Takes the next token, whatever it is.
    pub(super) fn take(&mut self) -> &'t str {
        let token = self.token(0);
        if token.kind != Kind::End {
            self.next += 1;
        }
        self.text_of(token)
    }

    /// Takes a mark if it is next.
    pub(super) fn took_mark(&mut self, mark: u8) -> bool {
        let is_next = self.at_mark(mark);
        if is_next {
            self.next += 1;
        }
        is_next
    }

    pub(super) fn mark(&mut self, mark: u8, expected: &'static str) -> Result<(), ParseError> {
        if self.took_mark(mark) {
            return Ok(());
        }
        Err(self.unexpected(expected))
    }

    pub(super) fn end_of_statement(&mut self) -> Result<(), ParseError> {
        self.mark(b';', "`;`")
    }

    pub(super) fn word(&mut self, expected: &'static str) -> Result<&'t str, ParseError> {
        match self.kind() {
            Kind::Word => Ok(self.take()),
            _ => Err(self.unexpected(expected)),
        }
    }

    pub(super) fn string(&mut self) -> Result<&'t str, ParseError> {
        match self.kind() {
            Kind::Text => Ok(self.take().trim_matches('"')),
            _ => Err(self.unexpected("a string")),
        }
    }

    /// What hangs on the dot that is next, without taking it.
    pub(super) fn peek_dotted(&self) -> Option<&'t str> {
        let token = self.token(0);
        (token.kind == Kind::Dotted).then(|| &self.text_of(token)[1..])
    }

    /// Takes `.name` if it is next.
    pub(super) fn took_dotted(&mut self, name: &str) -> bool {
        let is_next = self.peek_dotted() == Some(name);
        if is_next {
            self.next += 1;
        }
        is_next
    }

    pub(super) fn peek(&self) -> &'t str {
        self.text_of(self.token(0))
    }

    /// Takes all up to the closing mark of the pair that is next, the mark included.
    pub(super) fn skip_pair(&mut self, open: u8, close: u8) -> Result<(), ParseError> {
        let mut depth = 0_usize;
        loop {
            match self.kind() {
                Kind::End => return Err(self.unexpected("the end of what a bracket opened")),
                Kind::Mark(mark) if mark == open => depth += 1,
                Kind::Mark(mark) if mark == close => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.next += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Takes all up to the next `;`, which is taken too.
    pub(super) fn skip_statement(&mut self) -> Result<(), ParseError> {
        while !self.at_mark(b';') {
            if self.is_end() {
                return Err(self.unexpected("`;`"));
            }
            self.next += 1;
        }
        self.next += 1;
        Ok(())
    }

    /// What is next, in the words of an error.
    pub(super) fn found(&self) -> String {
        let token = self.token(0);
        match token.kind {
            Kind::End => "the end of the text".to_owned(),
            _ => format!("`{}`", shortened(self.text_of(token), MAX_FOUND_CHARS)),
        }
    }

    /// The fault that something else had to be next.
    pub(super) fn unexpected(&self, expected: &'static str) -> ParseError {
        let found = self.found();
        self.fault(ParseFault::Unexpected { expected, found })
    }

    /// A fault at the next token.
    pub(super) fn fault(&self, fault: ParseFault) -> ParseError {
        self.fault_at(self.place(), fault)
    }

    /// A fault at a token that may be behind.
    pub(super) fn fault_at(&self, place: Place, fault: ParseFault) -> ParseError {
        let token = self.tokens[place.0.min(self.tokens.len() - 1)];
        error(self.text, token.start as usize, token.line, fault)
    }
}

fn error(text: &str, at: usize, line: u32, fault: ParseFault) -> ParseError {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[at..]
        .find('\n')
        .map_or(text.len(), |length| at + length);
    ParseError {
        line,
        column: text[start..at].chars().count() as u32 + 1,
        text: shortened(text[start..end].trim(), MAX_QUOTE_CHARS),
        fault,
    }
}

/// The text, or its beginning and an ellipsis.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
