//! Faults in a user's rule: a message, the places it speaks of, and what to write instead.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

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
#[derive(Clone, PartialEq, Eq)]
pub struct Diagnostics {
    /// The text, where there is one.
    pub source: Option<Arc<Source>>,
    /// At least one.
    pub items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Faults in the order of the text, each once.
    pub fn sorted(source: Option<Arc<Source>>, mut items: Vec<Diagnostic>) -> Self {
        items.sort_by_key(|item| item.labels.first().map(|label| label.span));
        let mut kept: Vec<Diagnostic> = Vec::with_capacity(items.len());
        for item in items {
            let place = |item: &Diagnostic| item.labels.first().map(|label| label.span);
            let said = kept
                .iter()
                .rev()
                .take_while(|other| place(other) == place(&item))
                .any(|other| *other == item);
            if !said {
                kept.push(item);
            }
        }
        Self {
            source,
            items: kept,
        }
    }

    /// Draws every fault under the lines it speaks of, as rustc does.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut out = String::new();
        for (i, item) in self.items.iter().enumerate() {
            if i != 0 {
                out.push('\n');
            }
            out.push_str(&renderer.render(&[self.report(item)]));
            out.push('\n');
        }
        out
    }

    fn report<'a>(&'a self, item: &'a Diagnostic) -> Group<'a> {
        let title = Level::ERROR.primary_title(&item.message).id(item.code);
        let mut group = match (&self.source, item.labels.is_empty()) {
            (Some(source), false) => {
                let mut snippet = Snippet::source(&source.text).path(&source.name);
                for (i, label) in item.labels.iter().enumerate() {
                    let kind = if i == 0 {
                        AnnotationKind::Primary
                    } else {
                        AnnotationKind::Context
                    };
                    let mark = kind.span(byte_range(&source.text, label.span));
                    snippet = snippet.annotation(if label.text.is_empty() {
                        mark
                    } else {
                        mark.label(&label.text)
                    });
                }
                title.element(snippet)
            }
            (Some(_) | None, _) => Group::with_title(title),
        };
        if let Some(help) = &item.help {
            group = group.element(Level::HELP.message(help));
        }
        group
    }
}

/// The bytes of a span, moved out to whole characters of the text.
fn byte_range(text: &str, span: Span) -> Range<usize> {
    let start = text.floor_char_boundary(span.start as usize);
    let end = text.ceil_char_boundary((span.end as usize).min(text.len()));
    start..end.max(start)
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

/// Drawn under the source: this is what a `main` that returns an error prints.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.render(false))
    }
}

impl std::error::Error for Diagnostics {}
