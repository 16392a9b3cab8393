//! Operands of instructions.

use super::body::Body;
use super::error::{ParseError, ParseFault};
use super::literal::{Literal, literal};
use super::module::Reader;
use super::scope::{Found, Pending, Use};
use super::token::Kind;
use crate::ast::{Operand, RegisterId};

/// What a name may be where it stands.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// A register, a variable or a function.
    Value,
    /// A label, or a list of labels.
    Jump(Use),
}

/// Special registers, without the `.x` that some have.
const SPECIAL: &[&str] = &[
    "%tid",
    "%ntid",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%ctaid",
    "%nctaid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%is_explicit_cluster",
    "%clusterid",
    "%nclusterid",
    "%cluster_ctaid",
    "%cluster_nctaid",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%clock",
    "%clock_hi",
    "%clock64",
    "%globaltimer",
    "%globaltimer_lo",
    "%globaltimer_hi",
    "%reserved_smem_offset_begin",
    "%reserved_smem_offset_end",
    "%reserved_smem_offset_cap",
    "%reserved_smem_offset_0",
    "%reserved_smem_offset_1",
    "%total_smem_size",
    "%aggr_smem_size",
    "%dynamic_smem_size",
    "%current_graph_exec",
];

/// Those of [`SPECIAL`] that are followed by a number.
const SPECIAL_NUMBERED: &[&str] = &["%pm", "%envreg"];

fn is_special(name: &str) -> bool {
    let stem = name
        .trim_end_matches("_64")
        .trim_end_matches(|it: char| it.is_ascii_digit());
    SPECIAL.contains(&name) || stem != name && SPECIAL_NUMBERED.contains(&stem)
}

impl<'t> Reader<'t> {
    /// Any operand, with `a|b` as one.
    pub(super) fn operand(
        &mut self,
        body: &mut Body<'t>,
        role: Role,
    ) -> Result<Operand, ParseError> {
        let first = match self.cursor.kind() {
            Kind::Mark(b'{') => Operand::Vector(self.vector(body)?),
            Kind::Mark(b'[') => self.address(body)?,
            Kind::Mark(b'!') => {
                self.cursor.take();
                Operand::Not(self.register(body)?)
            }
            Kind::Word => self.named(body, role)?,
            _ => self.number()?,
        };
        if self.cursor.took_mark(b'|') {
            let second = self.element(body)?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        let Operand::Symbol(name) = first else {
            return Ok(first);
        };
        if self.cursor.at_mark(b'+') || self.cursor.at_mark(b'-') {
            return Ok(Operand::SymbolOffset(name, self.offset()?));
        }
        Ok(Operand::Symbol(name))
    }

    /// `{a, b}`, without vectors inside.
    fn vector(&mut self, body: &mut Body<'t>) -> Result<Vec<Operand>, ParseError> {
        let mut elements = Vec::new();
        self.cursor.mark(b'{', "`{`")?;
        loop {
            elements.push(self.element(body)?);
            if self.cursor.took_mark(b'}') {
                return Ok(elements);
            }
            self.cursor.mark(b',', "`,` or `}`")?;
        }
    }

    /// A name or a number.
    pub(super) fn element(&mut self, body: &mut Body<'t>) -> Result<Operand, ParseError> {
        match self.cursor.kind() {
            Kind::Word => self.named(body, Role::Value),
            _ => self.number(),
        }
    }

    /// `[base+offset, {coordinates}]`
    fn address(&mut self, body: &mut Body<'t>) -> Result<Operand, ParseError> {
        self.cursor.mark(b'[', "`[`")?;
        let base = Box::new(self.element(body)?);
        let offset = self.offset()?;
        let mut coordinates = Vec::new();
        if self.cursor.took_mark(b',') {
            coordinates = self.vector(body)?;
        }
        self.cursor.mark(b']', "`]`")?;
        Ok(Operand::Address {
            base,
            offset,
            coordinates,
        })
    }

    /// The sum of the numbers that follow: `+8`, `+-4`, `-4`, or nothing.
    fn offset(&mut self) -> Result<i64, ParseError> {
        let mut sum = 0_i64;
        while self.cursor.at_mark(b'+') || self.cursor.at_mark(b'-') {
            let place = self.cursor.place();
            let Literal::Integer(term) = literal(&mut self.cursor)? else {
                self.cursor.go_to(place);
                return Err(self.cursor.unexpected("a number of bytes"));
            };
            let next = i64::try_from(term)
                .ok()
                .and_then(|term| sum.checked_add(term));
            sum = next.ok_or_else(|| {
                let fault = ParseFault::TooLarge {
                    what: "an offset",
                    limit: i64::MAX as u64,
                    found: term.to_string(),
                };
                self.cursor.fault_at(place, fault)
            })?;
        }
        Ok(sum)
    }

    fn number(&mut self) -> Result<Operand, ParseError> {
        if !matches!(self.cursor.kind(), Kind::Number | Kind::Mark(b'-' | b'+')) {
            return Err(self.cursor.unexpected("an operand"));
        }
        Ok(match literal(&mut self.cursor)? {
            Literal::Integer(value) => Operand::Integer(value),
            Literal::F32(bits) => Operand::F32(bits),
            Literal::F64(bits) => Operand::F64(bits),
        })
    }

    /// A register by name.
    pub(super) fn register(&mut self, body: &mut Body<'t>) -> Result<RegisterId, ParseError> {
        let place = self.cursor.place();
        let name = self.cursor.word("a register")?;
        match body.find(name) {
            Some(Found::Register(register)) => Ok(register),
            Some(Found::Variable(_)) | None => {
                let name = name.to_owned();
                let what = "register";
                Err(self
                    .cursor
                    .fault_at(place, ParseFault::Unknown { what, name }))
            }
        }
    }

    fn named(&mut self, body: &mut Body<'t>, role: Role) -> Result<Operand, ParseError> {
        let place = self.cursor.place();
        let name = self.cursor.take();
        if let Role::Jump(needed) = role {
            body.pending(Pending {
                name,
                place,
                needed,
            });
            // The number is put in when the label is known.
            return Ok(Operand::Label(u32::MAX));
        }
        let found = match name {
            "_" => Operand::Sink,
            "WARP_SZ" => Operand::Integer(32),
            _ => match body.find(name) {
                Some(Found::Register(register)) => Operand::Register(register),
                Some(Found::Variable(unique)) => Operand::Symbol(unique),
                None if is_special(name) => return Ok(Operand::Special(self.special(name)?)),
                None => match self.global(name) {
                    Some(unique) => Operand::Symbol(unique),
                    None if self.functions.contains_key(name) => Operand::Symbol(name.to_owned()),
                    None => {
                        let what = if name.starts_with('%') {
                            "register"
                        } else {
                            "variable or function"
                        };
                        let name = name.to_owned();
                        return Err(self
                            .cursor
                            .fault_at(place, ParseFault::Unknown { what, name }));
                    }
                },
            },
        };
        if self.cursor.kind() == Kind::Dotted {
            let what = "elements of vector registers";
            return Err(self.cursor.fault(ParseFault::Unsupported { what }));
        }
        Ok(found)
    }

    /// A special register with its axis, where it has one.
    fn special(&mut self, name: &str) -> Result<String, ParseError> {
        match self.cursor.peek_dotted() {
            None => Ok(name.to_owned()),
            Some(axis @ ("x" | "y" | "z" | "w")) => {
                self.cursor.take();
                Ok(format!("{name}.{axis}"))
            }
            Some(_) => Err(self.cursor.unexpected("`.x`, `.y` or `.z`")),
        }
    }
}
