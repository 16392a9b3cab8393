//! Faults in a user's rule: a message, the places it speaks of, and what to write instead.

use std::fmt;
use std::sync::Arc;

use crate::ir::{Source, Span};

/// One fault in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What kind of fault it is, a stable short name such as `out-of-bounds`.
    pub code: &'static str,
    /// What was expected and what was found.
    pub message: String,
    /// Places in the source, the main one first; may be empty for a rule without text.
    pub labels: Vec<Label>,
    /// What to write instead.
    pub help: Option<String>,
}

/// A place that a [`Diagnostic`] speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Bytes of the source.
    pub span: Span,
    /// What stands under the mark; may be empty.
    pub text: String,
}

impl Diagnostic {
    /// A fault at `span`, if the place is known.
    pub fn new(code: &'static str, message: impl Into<String>, span: Option<Span>) -> Self {
        Self {
            code,
            message: message.into(),
            labels: span
                .map(|span| Label {
                    span,
                    text: String::new(),
                })
                .into_iter()
                .collect(),
            help: None,
        }
    }

    /// Adds a text under the main place.
    #[must_use]
    pub fn labelled(mut self, text: impl Into<String>) -> Self {
        if let Some(label) = self.labels.first_mut() {
            label.text = text.into();
        }
        self
    }

    /// Adds another place.
    #[must_use]
    pub fn and_label(mut self, span: Option<Span>, text: impl Into<String>) -> Self {
        if let Some(span) = span {
            self.labels.push(Label {
                span,
                text: text.into(),
            });
        }
        self
    }

    /// Says what to write instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Every fault that one stage found in a rule, in source order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    /// The text, where there is one.
    pub source: Option<Arc<Source>>,
    /// At least one.
    pub items: Vec<Diagnostic>,
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.items.iter().enumerate() {
            if i != 0 {
                writeln!(f)?;
            }
            write!(f, "{}", item.message)?;
            if let Some(help) = &item.help {
                write!(f, "; {help}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}
