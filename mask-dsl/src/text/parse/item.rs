//! Heads of rules and functions.

use crate::diagnostic::Diagnostic;
use crate::ir::{Elem, RuleKind, Ty};

use super::super::ast::{Block, Item, ItemKind, Loc, Name, Param, ParamTy};
use super::super::lex::Tok;
use super::Parser;

/// What stands before an item.
#[derive(Default)]
struct Preamble {
    doc: Vec<String>,
    kind: Option<RuleKind>,
}

impl Parser {
    pub(super) fn items(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        while self.peek() != &Tok::End {
            let before = self.pos;
            if let Some(item) = self.item() {
                items.push(item);
            } else {
                if self.pos == before {
                    self.bump();
                }
                self.skip_to_item();
            }
        }
        items
    }

    /// Whether the head of a rule of text comes next, which nothing else looks like.
    pub(super) fn at_rule(&self) -> bool {
        (self.at_word("mask") || self.at_word("score"))
            && matches!(self.peek_at(1), Tok::Ident(_))
            && (self.sign_ahead(2, "(") || self.sign_ahead(2, "="))
    }

    /// Whether a rule, a function, or what stands before one comes next.
    pub(super) fn at_item(&self) -> bool {
        match self.peek() {
            Tok::Doc(_) => true,
            Tok::Sign(sign) => *sign == "#" && self.sign_ahead(1, "["),
            Tok::Ident(word) => match word.as_str() {
                "mask" | "score" => self.at_rule(),
                "fn" => matches!(self.peek_at(1), Tok::Ident(_)),
                "pub" => true,
                _ => false,
            },
            Tok::Int(..) | Tok::Float(_) | Tok::Str(_) | Tok::Lifetime | Tok::Bad | Tok::End => {
                false
            }
        }
    }

    fn skip_to_item(&mut self) {
        while !self.at_item() && self.peek() != &Tok::End {
            self.bump();
        }
    }

    fn preamble(&mut self) -> Preamble {
        let mut preamble = Preamble::default();
        loop {
            match self.peek().clone() {
                Tok::Doc(line) => {
                    preamble.doc.push(line);
                    self.bump();
                }
                Tok::Sign("#") => {
                    self.bump();
                    if self.expect("[") {
                        self.attribute(&mut preamble);
                        self.skip_to(&[]);
                        self.expect("]");
                    }
                }
                Tok::Ident(word) if word == "pub" => {
                    self.bump();
                    if self.eat("(") {
                        self.skip_to(&[]);
                        self.expect(")");
                    }
                }
                Tok::Ident(_)
                | Tok::Int(..)
                | Tok::Float(_)
                | Tok::Str(_)
                | Tok::Lifetime
                | Tok::Sign(_)
                | Tok::Bad
                | Tok::End => return preamble,
            }
        }
    }

    fn attribute(&mut self, preamble: &mut Preamble) {
        let mut last = String::new();
        while let Tok::Ident(word) = self.peek().clone() {
            last = word;
            self.bump();
            if !self.eat("::") {
                break;
            }
        }
        match last.as_str() {
            "attention_mask" => preamble.kind = Some(RuleKind::Mask),
            "score_mod" => preamble.kind = Some(RuleKind::Score),
            "doc" if self.at("=") => {
                self.bump();
                if let Tok::Str(text) = self.peek() {
                    for line in text.split('\n') {
                        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
                        preamble.doc.push(line.to_owned());
                    }
                }
            }
            _ => {}
        }
    }

    fn item(&mut self) -> Option<Item> {
        let preamble = self.preamble();
        let loc = self.loc();
        if self.at_word("fn") {
            return self.function(&preamble, None);
        }
        let kind = if self.at_word("mask") {
            RuleKind::Mask
        } else if self.at_word("score") {
            RuleKind::Score
        } else {
            self.unexpected("`mask`, `score` or `fn`");
            return None;
        };
        self.bump();
        let name = self.name("the name of the rule")?;
        let params = self.params()?;
        if self.at("->") {
            self.instead(
                "expected `=` or `{` after the parameters of a rule, found `->`",
                self.loc(),
                "a mask gives a bool and a score an f32, so no type is written",
            );
            self.bump();
            self.scalar_ty();
        }
        let body = self.body()?;
        Some(Item {
            doc: preamble.doc.join("\n"),
            kind: ItemKind::Rule(kind),
            name,
            params,
            body,
            loc: loc.to(self.last_loc()),
        })
    }

    /// One annotated function, alone in its text.
    pub(super) fn rust_fn(&mut self, kind: RuleKind) -> Option<Item> {
        let preamble = self.preamble();
        if !self.at_word("fn") {
            self.unexpected("`fn`");
            return None;
        }
        let item = self.function(&preamble, Some(kind));
        if self.peek() != &Tok::End {
            self.unexpected("the end of the function");
        }
        item
    }

    fn function(&mut self, preamble: &Preamble, kind: Option<RuleKind>) -> Option<Item> {
        let loc = self.loc();
        self.bump();
        let name = self.name("the name of the function")?;
        let mut params = Vec::new();
        if self.eat("<") {
            self.generics(&mut params)?;
        }
        params.extend(self.params()?);
        let kind = kind.or(preamble.kind);
        let type_loc = self.loc();
        let returns = if self.eat("->") {
            self.scalar_ty()
        } else {
            self.unexpected("`->` and the type of the result");
            None
        };
        let kind = match kind {
            Some(kind) => {
                let expected = match kind {
                    RuleKind::Mask => Ty::Bool,
                    RuleKind::Score => Ty::F32,
                };
                if let Some(found) = returns
                    && found != expected
                {
                    let rule = match kind {
                        RuleKind::Mask => "an attention mask",
                        RuleKind::Score => "a score_mod",
                    };
                    self.faults.push(
                        Diagnostic::new(
                            "type-mismatch",
                            format!(
                                "expected `{expected}` as the result of {rule}, found `{found}`"
                            ),
                            Some(type_loc.to(self.last_loc()).0),
                        )
                        .help(format!("write `-> {expected}`")),
                    );
                }
                ItemKind::RustRule(kind)
            }
            None => ItemKind::Function {
                returns: returns.unwrap_or(Ty::Bool),
            },
        };
        let body = self.body()?;
        Some(Item {
            doc: preamble.doc.join("\n"),
            kind,
            name,
            params,
            body,
            loc: loc.to(self.last_loc()),
        })
    }

    fn body(&mut self) -> Option<Block> {
        if self.at("{") {
            return Some(self.block());
        }
        if !self.eat("=") {
            self.unexpected("`=` or `{` before the body");
            return None;
        }
        let tail = self.expr();
        self.eat(";");
        if self.peek() != &Tok::End && !self.at_item() {
            self.unexpected("an operator, or the next rule");
            self.skip_to_item();
        }
        Some(Block {
            loc: tail.loc,
            stmts: Vec::new(),
            tail: Some(Box::new(tail)),
        })
    }

    /// `const N: i32, 'a>` after a `<`.
    fn generics(&mut self, params: &mut Vec<Param>) -> Option<()> {
        while !self.at(">") && self.peek() != &Tok::End {
            let loc = self.loc();
            if self.peek() == &Tok::Lifetime {
                self.bump();
            } else if self.eat_word("const") {
                params.push(self.const_param(loc)?);
            } else {
                self.report(
                    Diagnostic::new(
                        "unsupported",
                        format!("expected `const`, found {}", self.found()),
                        Some(loc.0),
                    )
                    .help("a rule has no type parameters; `const N: i32` is a loop bound"),
                );
                return None;
            }
            if !self.eat(",") {
                break;
            }
        }
        self.expect(">").then_some(())
    }

    fn const_param(&mut self, loc: Loc) -> Option<Param> {
        let name = self.name("the name of the constant")?;
        self.expect(":");
        let ty_loc = self.loc();
        let ty = match self.peek() {
            // A length in Rust; every size is an `i32` here.
            Tok::Ident(word) if word == "usize" => {
                self.bump();
                Some(Ty::I32)
            }
            Tok::Ident(_)
            | Tok::Int(..)
            | Tok::Float(_)
            | Tok::Str(_)
            | Tok::Lifetime
            | Tok::Doc(_)
            | Tok::Sign(_)
            | Tok::Bad
            | Tok::End => self.scalar_ty(),
        };
        if ty == Some(Ty::F32) {
            self.instead(
                "expected an integer type for a constant, found `f32`",
                ty_loc,
                "constants are loop bounds; capture a float as a scalar",
            );
        }
        Some(Param {
            name,
            ty: ParamTy::Const(ty.unwrap_or(Ty::I32)),
            range: None,
            loc: loc.to(self.last_loc()),
        })
    }

    fn declared_range(&mut self) -> Option<super::super::ast::Range> {
        if self.eat_word("in") {
            self.range()
        } else {
            None
        }
    }

    fn params(&mut self) -> Option<Vec<Param>> {
        if !self.expect("(") {
            return None;
        }
        let mut params = Vec::new();
        while !self.at(")") && self.peek() != &Tok::End {
            if let Some(param) = self.param() {
                params.push(param);
            } else {
                self.skip_to(&[","]);
            }
            if !self.eat(",") {
                break;
            }
        }
        if !self.eat(")") {
            self.unexpected("`,` or `)`");
            return None;
        }
        Some(params)
    }

    fn param(&mut self) -> Option<Param> {
        while let Tok::Doc(_) = self.peek() {
            self.bump();
        }
        let loc = self.loc();
        if self.eat_word("const") {
            let mut param = self.const_param(loc)?;
            param.range = self.declared_range();
            param.loc = loc.to(self.last_loc());
            return Some(param);
        }
        self.eat_word("mut");
        let name = self.name("the name of a parameter")?;
        if !self.at(":") {
            self.report(
                Diagnostic::new(
                    "syntax",
                    format!("expected `:` and a type after `{}`, found {}", name.text, self.found()),
                    Some(self.loc().0),
                )
                .help("parameters are `window: i32` or `doc: [i32; kv_len]`; `b`, `h`, `q`, `kv` need no declaration"),
            );
            return None;
        }
        self.bump();
        let ty = self.param_ty(&name)?;
        let range = self.declared_range();
        Some(Param {
            name,
            ty,
            range,
            loc: loc.to(self.last_loc()),
        })
    }

    fn param_ty(&mut self, name: &Name) -> Option<ParamTy> {
        if self.eat("&") {
            if self.peek() == &Tok::Lifetime {
                self.bump();
            }
            self.eat_word("mut");
        }
        if self.at("[") {
            return self.buffer_ty(name);
        }
        if matches!(self.peek(), Tok::Ident(_)) && self.names_buffer() {
            while !self.at("<") {
                self.bump();
            }
            self.bump();
            if self.peek() == &Tok::Lifetime {
                self.bump();
                self.expect(",");
            }
            let elem = self.elem()?;
            if !self.expect(",") {
                return None;
            }
            let rank = if let Tok::Int(rank, _) = *self.peek() {
                usize::try_from(rank).ok().filter(|rank| *rank <= 8)
            } else {
                None
            };
            let Some(rank) = rank else {
                self.unexpected("the number of axes, at most 8");
                return None;
            };
            self.bump();
            self.expect(">");
            return Some(ParamTy::Unshaped { elem, rank });
        }
        if let Tok::Ident(word) = self.peek()
            && Ty::from_name(word).is_none()
            && Elem::from_name(word).is_some()
        {
            self.report(
                Diagnostic::new(
                    "type-mismatch",
                    format!("expected the type of a value, found `{word}`"),
                    Some(self.loc().0),
                )
                .help(format!(
                    "`{word}` is a type of elements, as in `[{word}; kv_len]`; values are `i32`, `i64`, `u32`, `f32` or `bool`"
                )),
            );
            return None;
        }
        self.scalar_ty().map(ParamTy::Scalar)
    }

    /// Whether a path that ends in `Buffer<` comes next.
    fn names_buffer(&self) -> bool {
        let mut ahead = 0;
        while self.sign_ahead(ahead + 1, "::") {
            ahead += 2;
        }
        self.word_ahead(ahead, "Buffer") && self.sign_ahead(ahead + 1, "<")
    }

    fn elem(&mut self) -> Option<Elem> {
        let loc = self.loc();
        let mut word = String::new();
        while let Tok::Ident(next) = self.peek().clone() {
            word = next;
            self.bump();
            if !self.eat("::") {
                break;
            }
        }
        if word.is_empty() {
            if self.at("[") {
                self.report(
                    Diagnostic::new(
                        "unsupported",
                        "expected a type of elements, found `[`",
                        Some(loc.0),
                    )
                    .help("axes stand in one list, as in `[f32; num_q_heads, kv_len]`"),
                );
            } else {
                self.unexpected("a type of elements, such as `i32`");
            }
            return None;
        }
        let elem = Elem::from_name(&word);
        if elem.is_none() {
            let names: Vec<_> = Elem::ALL.iter().map(|elem| elem.name()).collect();
            self.instead(
                format!("expected a type of elements, found `{word}`"),
                loc.to(self.last_loc()),
                format!("the types of elements are `{}`", names.join("`, `")),
            );
        }
        elem
    }

    /// `[i32; batch, kv_len]`, `[i32;]`, or `[i32]` without extents.
    fn buffer_ty(&mut self, name: &Name) -> Option<ParamTy> {
        self.bump();
        let elem = self.elem();
        let ty = if self.eat(";") {
            let mut dims = Vec::new();
            while !self.at("]") && self.peek() != &Tok::End {
                dims.push(self.expr());
                if !self.eat(",") {
                    break;
                }
            }
            if 8 < dims.len() {
                self.instead(
                    format!(
                        "expected at most 8 axes of `{}`, found {}",
                        name.text,
                        dims.len()
                    ),
                    name.loc,
                    "join axes that are read together",
                );
            }
            elem.map(|elem| ParamTy::Shaped { elem, dims })
        } else {
            elem.map(|elem| ParamTy::Unshaped { elem, rank: 1 })
        };
        if !self.eat("]") {
            self.unexpected("`,` or `]`");
            self.skip_to(&[]);
            self.eat("]");
        }
        ty
    }
}
