//! Reads a stored rule, from bytes that may be anything.

use super::super::arena::{Arena, Expr, ExprId, TypeError};
use super::super::op::Var;
use super::super::rule::{
    CaptureDecl, CaptureId, CaptureKind, DimDecl, DimId, Extent, Rule, RuleKind,
};
use super::super::ty::{Const, Elem, Ty};
use super::codes::{
    BINARY_OPS, TYPES, VARS, binary_code, elem_code, ty_code, unary_code, unary_ops, var_code,
};
use super::{MAGIC, VERSION};

/// Nodes that a stored rule may have.
const MAX_NODES: usize = 1 << 20;
/// Longest path that a stored rule may have: interpreters walk it by recursion.
pub(super) const MAX_DEPTH: u32 = 1 << 14;
/// Captures or dimension names that a stored rule may have.
const MAX_SLOTS: usize = 1 << 12;
/// Axes that a buffer of a stored rule may have.
const MAX_AXES: usize = 64;

/// Why bytes are not a stored rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Something else was stored.
    #[error("expected a rule, found other bytes")]
    NotARule,
    /// Written by another version.
    #[error("expected format version {VERSION}, found {found}")]
    Version {
        /// Version of the bytes.
        found: u8,
    },
    /// The bytes end too early.
    #[error("expected more after byte {at}, found the end")]
    Truncated {
        /// How many bytes there are.
        at: usize,
    },
    /// The bytes go on after the rule.
    #[error("expected the end at byte {at}, found more")]
    Trailing {
        /// Where the rule ends.
        at: usize,
    },
    /// A code stands for nothing.
    #[error("expected a code of {what} at byte {at}, found {found}")]
    Code {
        /// What was expected.
        what: &'static str,
        /// Where.
        at: usize,
        /// What stands there.
        found: u8,
    },
    /// A number is too long.
    #[error("expected a number of at most 64 bits at byte {at}")]
    Number {
        /// Where.
        at: usize,
    },
    /// A name is not UTF-8.
    #[error("expected UTF-8 before byte {at}")]
    Text {
        /// Where the name ends.
        at: usize,
    },
    /// More than a rule may have.
    #[error("expected at most {most} {what}, found {found}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        most: usize,
        /// How many there are.
        found: u64,
    },
    /// Something refers to what is not there.
    #[error("expected one of {there} {what}, found number {found}")]
    Reference {
        /// To what.
        what: &'static str,
        /// How many there are.
        there: usize,
        /// The number.
        found: u64,
    },
    /// A capture is read as what it is not.
    #[error("expected capture {slot} to be {expected}")]
    Capture {
        /// Which capture.
        slot: usize,
        /// What its use takes it for.
        expected: &'static str,
    },
    /// An operator with operands of other types than it takes.
    #[error("an operand has the wrong type")]
    Operand(#[from] TypeError),
    /// A part of the rule has another type than it must have.
    #[error("expected {what} of type {expected}, found {found}")]
    Type {
        /// Which part.
        what: &'static str,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: Ty,
    },
    /// A mask reads the score.
    #[error("expected a mask to read no score")]
    ScoreInMask,
}

/// The rule that [`encode`](super::encode) wrote.
///
/// # Errors
/// [`DecodeError`] if the bytes are not such, or do not make a well-typed rule.
pub fn decode(bytes: &[u8]) -> Result<Rule, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    if reader.take(MAGIC.len()).ok() != Some(MAGIC.as_slice()) {
        return Err(DecodeError::NotARule);
    }
    let found = reader.byte()?;
    if found != VERSION {
        return Err(DecodeError::Version { found });
    }
    let rule = reader.rule()?;
    if reader.at != bytes.len() {
        return Err(DecodeError::Trailing { at: reader.at });
    }
    Ok(rule)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..n).ok_or(DecodeError::Truncated {
            at: self.bytes.len(),
        })?;
        self.at += n;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<u64, DecodeError> {
        let start = self.at;
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(DecodeError::Number { at: start });
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DecodeError::Number { at: start })
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        let n = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        let bytes = self.take(n)?;
        let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::Text { at: self.at })?;
        Ok(text.to_owned())
    }

    /// A count, which is also no more than the bytes that are left, as everything counted takes one at least.
    fn count(&mut self, what: &'static str, most: usize) -> Result<usize, DecodeError> {
        let found = self.number()?;
        let most_here = most.min(self.bytes.len() - self.at);
        match usize::try_from(found) {
            Ok(n) if n <= most_here => Ok(n),
            Ok(n) if n <= most => Err(DecodeError::Truncated {
                at: self.bytes.len(),
            }),
            Ok(_) | Err(_) => Err(DecodeError::TooMany { what, most, found }),
        }
    }

    /// A byte that `find` knows.
    fn code<T>(
        &mut self,
        what: &'static str,
        find: impl FnOnce(u8) -> Option<T>,
    ) -> Result<T, DecodeError> {
        let at = self.at;
        let found = self.byte()?;
        find(found).ok_or(DecodeError::Code { what, at, found })
    }

    fn ty(&mut self) -> Result<Ty, DecodeError> {
        self.code("a type", |code| {
            TYPES.into_iter().find(|ty| ty_code(*ty) == code)
        })
    }

    fn rule(&mut self) -> Result<Rule, DecodeError> {
        let name = self.text()?;
        let doc = self.text()?;
        let kind = self.code("a rule kind", |code| match code {
            0 => Some(RuleKind::Mask),
            1 => Some(RuleKind::Score),
            _ => None,
        })?;
        let n_captures = self.count("captures", MAX_SLOTS)?;
        let mut captures = Vec::with_capacity(n_captures);
        for _ in 0..n_captures {
            captures.push(self.capture()?);
        }
        let n_dims = self.count("dimension names", MAX_SLOTS)?;
        let mut dims = Vec::with_capacity(n_dims);
        for _ in 0..n_dims {
            let name = self.text()?;
            dims.push(DimDecl { name, span: None });
        }
        let n_nodes = self.count("nodes", MAX_NODES)?;
        let mut arena = Arena::new();
        let mut nodes = Vec::with_capacity(n_nodes);
        for _ in 0..n_nodes {
            let (expr, ty) = self.node(&nodes, &captures, n_dims)?;
            if expr == Expr::Var(Var::Score) && kind == RuleKind::Mask {
                return Err(DecodeError::ScoreInMask);
            }
            let id = arena.intern(expr, ty, None)?;
            if MAX_DEPTH < arena.depth(id) {
                return Err(DecodeError::TooMany {
                    what: "nodes on a path",
                    most: MAX_DEPTH as usize,
                    found: u64::from(arena.depth(id)),
                });
            }
            nodes.push(id);
        }
        let root = self.reference(&nodes)?;
        let expected = match kind {
            RuleKind::Mask => Ty::Bool,
            RuleKind::Score => Ty::F32,
        };
        let found = arena.ty(root);
        if found != expected {
            let (what, expected) = ("a result", expected.name());
            return Err(DecodeError::Type {
                what,
                expected,
                found,
            });
        }
        for decl in &mut captures {
            if let CaptureKind::Buffer { extents, .. } = &mut decl.kind {
                for extent in extents {
                    if let Some(id) = self.declared(&nodes, &arena)? {
                        *extent = Extent::AtLeast(id);
                    }
                }
            }
            decl.min = self.declared(&nodes, &arena)?;
            decl.max = self.declared(&nodes, &arena)?;
        }
        Ok(Rule {
            name,
            doc,
            kind,
            captures,
            dims,
            arena,
            root,
            source: None,
        })
    }

    /// A capture without its extents and range, which follow the nodes.
    fn capture(&mut self) -> Result<CaptureDecl, DecodeError> {
        let name = self.text()?;
        let is_buffer = self.code("a capture kind", |code| match code {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        })?;
        let kind = if is_buffer {
            let elem = self.code("an element type", |code| {
                Elem::ALL.into_iter().find(|elem| elem_code(*elem) == code)
            })?;
            let rank = self.count("axes", MAX_AXES)?;
            let extents = vec![Extent::Unspecified; rank];
            CaptureKind::Buffer { elem, extents }
        } else {
            CaptureKind::Scalar(self.ty()?)
        };
        Ok(CaptureDecl {
            name,
            kind,
            min: None,
            max: None,
            span: None,
        })
    }

    fn declared(&mut self, nodes: &[ExprId], arena: &Arena) -> Result<Option<ExprId>, DecodeError> {
        let Some(number) = self.number()?.checked_sub(1) else {
            return Ok(None);
        };
        let id = node_numbered(number, nodes)?;
        let found = arena.ty(id);
        if !found.is_int() {
            return Err(DecodeError::Type {
                what: "an extent or bound",
                expected: "an integer",
                found,
            });
        }
        Ok(Some(id))
    }

    fn reference(&mut self, nodes: &[ExprId]) -> Result<ExprId, DecodeError> {
        let number = self.number()?;
        node_numbered(number, nodes)
    }

    fn slot(&mut self, what: &'static str, there: usize) -> Result<u32, DecodeError> {
        let found = self.number()?;
        match u32::try_from(found) {
            Ok(slot) if (slot as usize) < there => Ok(slot),
            Ok(_) | Err(_) => Err(DecodeError::Reference { what, there, found }),
        }
    }

    /// A node over earlier ones, with its type where the capture decides it.
    fn node(
        &mut self,
        nodes: &[ExprId],
        captures: &[CaptureDecl],
        n_dims: usize,
    ) -> Result<(Expr, Option<Ty>), DecodeError> {
        let at = self.at;
        let expr = match self.byte()? {
            0 => Expr::Const(self.constant()?),
            1 => Expr::Var(self.code("a variable", |code| {
                VARS.into_iter().find(|var| var_code(*var) == code)
            })?),
            2 => {
                let slot = CaptureId(self.slot("captures", captures.len())?);
                let CaptureKind::Scalar(ty) = captures[slot.index()].kind else {
                    return Err(DecodeError::Capture {
                        slot: slot.index(),
                        expected: "a scalar",
                    });
                };
                return Ok((Expr::Scalar(slot), Some(ty)));
            }
            3 => Expr::Dim(DimId(self.slot("dimension names", n_dims)?)),
            4 => {
                let buffer = CaptureId(self.slot("captures", captures.len())?);
                let CaptureKind::Buffer { elem, extents } = &captures[buffer.index()].kind else {
                    return Err(DecodeError::Capture {
                        slot: buffer.index(),
                        expected: "a buffer",
                    });
                };
                let mut index = Vec::with_capacity(extents.len());
                for _ in extents {
                    index.push(self.reference(nodes)?);
                }
                let index = index.into();
                return Ok((Expr::Load { buffer, index }, Some(elem.loads_as())));
            }
            5 => Expr::Unary {
                op: self.code("an operator", |code| {
                    unary_ops().find(|op| unary_code(*op) == code)
                })?,
                arg: self.reference(nodes)?,
            },
            6 => Expr::Binary {
                op: self.code("an operator", |code| {
                    BINARY_OPS.into_iter().find(|op| binary_code(*op) == code)
                })?,
                lhs: self.reference(nodes)?,
                rhs: self.reference(nodes)?,
            },
            7 => Expr::Clamp {
                arg: self.reference(nodes)?,
                lo: self.reference(nodes)?,
                hi: self.reference(nodes)?,
            },
            8 => Expr::Cast {
                to: self.ty()?,
                arg: self.reference(nodes)?,
            },
            9 => Expr::Select {
                cond: self.reference(nodes)?,
                then: self.reference(nodes)?,
                otherwise: self.reference(nodes)?,
            },
            10 => Expr::Then {
                first: self.reference(nodes)?,
                value: self.reference(nodes)?,
            },
            found => {
                let what = "a node";
                return Err(DecodeError::Code { what, at, found });
            }
        };
        Ok((expr, None))
    }

    fn constant(&mut self) -> Result<Const, DecodeError> {
        let ty = self.ty()?;
        let at = self.at;
        let bits = self.number()?;
        let fits = match ty {
            Ty::Bool => bits < 2,
            Ty::I32 | Ty::U32 | Ty::F32 => u32::try_from(bits).is_ok(),
            Ty::I64 => true,
        };
        if !fits {
            return Err(DecodeError::Number { at });
        }
        Ok(match ty {
            Ty::Bool => Const::Bool(bits == 1),
            Ty::I32 => Const::I32(bits as u32 as i32),
            Ty::I64 => Const::I64(bits as i64),
            Ty::U32 => Const::U32(bits as u32),
            Ty::F32 => Const::F32(f32::from_bits(bits as u32)),
        })
    }
}

fn node_numbered(found: u64, nodes: &[ExprId]) -> Result<ExprId, DecodeError> {
    let node = usize::try_from(found).ok().and_then(|at| nodes.get(at));
    node.copied().ok_or(DecodeError::Reference {
        what: "earlier nodes",
        there: nodes.len(),
        found,
    })
}
