//! The expression arena: nodes are interned, so equal expressions have equal ids, and children precede parents.

use std::collections::HashMap;

use super::op::{BinaryOp, UnaryOp, Var};
use super::rule::{CaptureId, DimId};
use super::ty::{Const, Ty};

/// A node of an [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExprId(u32);

impl ExprId {
    /// Position in the arena: children have smaller ones.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Bytes of the source text, from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// An expression over other expressions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A literal.
    Const(Const),
    /// An index, a size or the score.
    Var(Var),
    /// A captured scalar, known at run time.
    Scalar(CaptureId),
    /// A dimension name: the extent that the bound buffers have there, an `i32`.
    Dim(DimId),
    /// A checked read of a captured buffer; each index is an integer, one per axis.
    Load {
        /// Which buffer.
        buffer: CaptureId,
        /// One index per axis, outermost first.
        index: Box<[ExprId]>,
    },
    /// One argument.
    Unary {
        /// What is done.
        op: UnaryOp,
        /// To what.
        arg: ExprId,
    },
    /// Two arguments.
    Binary {
        /// What is done.
        op: BinaryOp,
        /// Left side.
        lhs: ExprId,
        /// Right side.
        rhs: ExprId,
    },
    /// `x.clamp(lo, hi)`; `lo <= hi` must be provable.
    Clamp {
        /// The number to bound.
        arg: ExprId,
        /// Least result.
        lo: ExprId,
        /// Greatest result.
        hi: ExprId,
    },
    /// `arg as to`: integers wrap as in Rust, floats saturate and NaN gives 0, `bool` gives 0 or 1.
    Cast {
        /// Target type.
        to: Ty,
        /// What is converted.
        arg: ExprId,
    },
    /// `if cond { then } else { otherwise }`; only the chosen branch is evaluated.
    Select {
        /// A `bool`.
        cond: ExprId,
        /// Value where `cond` holds.
        then: ExprId,
        /// Value where it does not.
        otherwise: ExprId,
    },
    /// An eager `let`: `first` must be computable here, then the result is `value`.
    Then {
        /// What must be provable where the `let` stands.
        first: ExprId,
        /// The result.
        value: ExprId,
    },
}

impl Expr {
    /// Calls `f` for each direct operand, in evaluation order.
    pub fn for_each_operand(&self, mut f: impl FnMut(ExprId)) {
        match self {
            Expr::Const(_) | Expr::Var(_) | Expr::Scalar(_) | Expr::Dim(_) => {}
            Expr::Load { index, .. } => index.iter().copied().for_each(f),
            Expr::Unary { arg, .. } | Expr::Cast { arg, .. } => f(*arg),
            Expr::Binary { lhs, rhs, .. } => {
                f(*lhs);
                f(*rhs);
            }
            Expr::Clamp { arg, lo, hi } => {
                f(*arg);
                f(*lo);
                f(*hi);
            }
            Expr::Select {
                cond,
                then,
                otherwise,
            } => {
                f(*cond);
                f(*then);
                f(*otherwise);
            }
            Expr::Then { first, value } => {
                f(*first);
                f(*value);
            }
        }
    }

    /// The same expression with each operand replaced by `f(operand)`.
    pub fn map_operands(&self, mut f: impl FnMut(ExprId) -> ExprId) -> Expr {
        match self {
            Expr::Const(_) | Expr::Var(_) | Expr::Scalar(_) | Expr::Dim(_) => self.clone(),
            Expr::Load { buffer, index } => Expr::Load {
                buffer: *buffer,
                index: index.iter().map(|&i| f(i)).collect(),
            },
            Expr::Unary { op, arg } => Expr::Unary {
                op: *op,
                arg: f(*arg),
            },
            Expr::Binary { op, lhs, rhs } => Expr::Binary {
                op: *op,
                lhs: f(*lhs),
                rhs: f(*rhs),
            },
            Expr::Clamp { arg, lo, hi } => Expr::Clamp {
                arg: f(*arg),
                lo: f(*lo),
                hi: f(*hi),
            },
            Expr::Cast { to, arg } => Expr::Cast {
                to: *to,
                arg: f(*arg),
            },
            Expr::Select {
                cond,
                then,
                otherwise,
            } => Expr::Select {
                cond: f(*cond),
                then: f(*then),
                otherwise: f(*otherwise),
            },
            Expr::Then { first, value } => Expr::Then {
                first: f(*first),
                value: f(*value),
            },
        }
    }
}

/// What stands in place of an expression that [`Arena::import`] copies.
#[derive(Clone, Debug)]
pub enum Replacement {
    /// A node of the arena that is copied into.
    Node(ExprId),
    /// An expression of the same type over nodes of that arena.
    Expr(Expr),
}

/// Why an expression cannot be built from its operands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct TypeError {
    /// What the operator takes.
    pub expected: String,
    /// What it was given.
    pub found: String,
}

/// The nodes of one rule, interned.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    exprs: Vec<Expr>,
    tys: Vec<Ty>,
    depths: Vec<u32>,
    spans: Vec<Option<Span>>,
    ids: HashMap<Expr, ExprId>,
}

impl Arena {
    /// An arena without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.exprs.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.exprs.is_empty()
    }

    /// The node at `id`.
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.index()]
    }

    /// The type of the node at `id`.
    pub fn ty(&self, id: ExprId) -> Ty {
        self.tys[id.index()]
    }

    /// Longest path from `id` down to a leaf; a leaf has 0.
    pub fn depth(&self, id: ExprId) -> u32 {
        self.depths[id.index()]
    }

    /// Where the node was first written, if it was.
    pub fn span(&self, id: ExprId) -> Option<Span> {
        self.spans[id.index()]
    }

    /// All ids, children before parents.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = ExprId> + use<> {
        (0..self.exprs.len() as u32).map(ExprId)
    }

    /// The value of a constant node.
    pub fn as_const(&self, id: ExprId) -> Option<Const> {
        match self.expr(id) {
            Expr::Const(value) => Some(*value),
            Expr::Var(_)
            | Expr::Scalar(_)
            | Expr::Dim(_)
            | Expr::Load { .. }
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => None,
        }
    }

    /// Interns an expression whose type is known from elsewhere (`Scalar`, `Load`), or checks one against its operands.
    ///
    /// # Errors
    /// [`TypeError`] if the operands do not have the types that the operator takes. `leaf_ty` is the type of a
    /// `Scalar` or `Load`, and is ignored for everything else.
    pub fn intern(
        &mut self,
        expr: Expr,
        leaf_ty: Option<Ty>,
        span: Option<Span>,
    ) -> Result<ExprId, TypeError> {
        if let Some(&id) = self.ids.get(&expr) {
            if self.spans[id.index()].is_none() {
                self.spans[id.index()] = span;
            }
            return Ok(id);
        }
        let ty = self.type_of(&expr, leaf_ty)?;
        let mut depth = 0;
        expr.for_each_operand(|operand| depth = depth.max(self.depth(operand) + 1));
        let id =
            ExprId(u32::try_from(self.exprs.len()).expect("an arena holds fewer than 2^32 nodes"));
        self.ids.insert(expr.clone(), id);
        self.exprs.push(expr);
        self.tys.push(ty);
        self.depths.push(depth);
        self.spans.push(span);
        Ok(id)
    }

    /// A literal.
    pub fn constant(&mut self, value: Const) -> ExprId {
        self.intern(Expr::Const(value), None, None)
            .expect("a literal has its own type")
    }

    /// A variable.
    pub fn var(&mut self, var: Var) -> ExprId {
        self.intern(Expr::Var(var), None, None)
            .expect("a variable has its own type")
    }

    /// An operator with one argument, which the caller knows to be well typed.
    pub fn unary(&mut self, op: UnaryOp, arg: ExprId) -> ExprId {
        self.known(&Expr::Unary { op, arg })
    }

    /// An operator with two arguments, which the caller knows to be well typed.
    pub fn binary(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.known(&Expr::Binary { op, lhs, rhs })
    }

    /// An `if`, which the caller knows to be well typed.
    pub fn select(&mut self, cond: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        self.known(&Expr::Select {
            cond,
            then,
            otherwise,
        })
    }

    /// Interns an expression built from well-typed parts by a pass of ours.
    ///
    /// # Panics
    /// If it is ill typed, which is a fault of that pass.
    pub fn known(&mut self, expr: &Expr) -> ExprId {
        match self.intern(expr.clone(), None, None) {
            Ok(id) => id,
            Err(error) => panic!("a pass built an ill-typed {expr:?}: {error}"),
        }
    }

    /// Copies `id` and all below it from another arena; keeps spans. What `replace` answers for a leaf or a read
    /// (whose operands are already ours) stands in its place.
    pub fn import(
        &mut self,
        from: &Arena,
        id: ExprId,
        replace: &mut dyn FnMut(&mut Arena, &Expr) -> Option<Replacement>,
    ) -> ExprId {
        let mut needed = vec![false; id.index() + 1];
        needed[id.index()] = true;
        for i in (0..=id.index()).rev() {
            if needed[i] {
                from.exprs[i].for_each_operand(|operand| needed[operand.index()] = true);
            }
        }
        let mut map: Vec<Option<ExprId>> = vec![None; id.index() + 1];
        for i in 0..=id.index() {
            if !needed[i] {
                continue;
            }
            let moved = from.exprs[i]
                .map_operands(|operand| map[operand.index()].expect("children precede parents"));
            let moved = match replace(self, &moved) {
                Some(Replacement::Node(node)) => {
                    map[i] = Some(node);
                    continue;
                }
                Some(Replacement::Expr(expr)) => expr,
                None => moved,
            };
            let new = self
                .intern(moved, Some(from.tys[i]), from.spans[i])
                .expect("the other arena was well typed");
            map[i] = Some(new);
        }
        map[id.index()].expect("the root was marked as needed")
    }

    fn type_of(&self, expr: &Expr, leaf_ty: Option<Ty>) -> Result<Ty, TypeError> {
        match expr {
            Expr::Const(value) => Ok(value.ty()),
            Expr::Var(var) => Ok(var.ty()),
            Expr::Dim(_) => Ok(Ty::I32),
            Expr::Scalar(_) => Ok(leaf_ty.expect("a captured scalar comes with its type")),
            Expr::Load { index, .. } => {
                for &i in index {
                    self.expect_int(i)?;
                }
                Ok(leaf_ty.expect("a captured buffer comes with its type"))
            }
            Expr::Unary { op, arg } => type_of_unary(*op, self.ty(*arg)),
            Expr::Binary { op, lhs, rhs } => type_of_binary(*op, self.ty(*lhs), self.ty(*rhs)),
            Expr::Clamp { arg, lo, hi } => {
                let ty = self.ty(*arg);
                expect(ty != Ty::Bool, "a number", ty)?;
                expect(self.ty(*lo) == ty, ty.name(), self.ty(*lo))?;
                expect(self.ty(*hi) == ty, ty.name(), self.ty(*hi))?;
                Ok(ty)
            }
            Expr::Cast { to, arg } => {
                let from = self.ty(*arg);
                expect(
                    *to != Ty::Bool || from == Ty::Bool,
                    "a comparison instead of `as bool`",
                    from,
                )?;
                Ok(*to)
            }
            Expr::Select {
                cond,
                then,
                otherwise,
            } => {
                expect(self.ty(*cond) == Ty::Bool, "bool", self.ty(*cond))?;
                let ty = self.ty(*then);
                expect(self.ty(*otherwise) == ty, ty.name(), self.ty(*otherwise))?;
                Ok(ty)
            }
            Expr::Then { value, .. } => Ok(self.ty(*value)),
        }
    }

    fn expect_int(&self, id: ExprId) -> Result<(), TypeError> {
        expect(self.ty(id).is_int(), "an integer", self.ty(id))
    }
}

fn expect(holds: bool, expected: &str, found: Ty) -> Result<(), TypeError> {
    if holds {
        return Ok(());
    }
    Err(TypeError {
        expected: expected.to_owned(),
        found: found.name().to_owned(),
    })
}

fn type_of_binary(op: BinaryOp, lhs: Ty, rhs: Ty) -> Result<Ty, TypeError> {
    match op {
        BinaryOp::Shl | BinaryOp::Shr => {
            expect(lhs.is_int(), "an integer", lhs)?;
            expect(rhs.is_int(), "an integer", rhs)?;
            return Ok(lhs);
        }
        BinaryOp::Pow => {
            expect(lhs.is_int(), "an integer", lhs)?;
            expect(matches!(rhs, Ty::I32 | Ty::U32), "i32 or u32", rhs)?;
            return Ok(lhs);
        }
        BinaryOp::Powi => {
            expect(lhs == Ty::F32, "f32", lhs)?;
            expect(rhs == Ty::I32, "i32", rhs)?;
            return Ok(lhs);
        }
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge => expect(lhs != Ty::Bool, "a number", lhs)?,
        BinaryOp::DivFloor
        | BinaryOp::RemFloor
        | BinaryOp::DivEuclid
        | BinaryOp::RemEuclid
        | BinaryOp::WrappingAdd
        | BinaryOp::WrappingSub
        | BinaryOp::WrappingMul => expect(lhs.is_int(), "an integer", lhs)?,
        BinaryOp::Powf => expect(lhs == Ty::F32, "f32", lhs)?,
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => {
            expect(lhs != Ty::F32, "bool or an integer", lhs)?;
        }
        BinaryOp::And | BinaryOp::Or => expect(lhs == Ty::Bool, "bool", lhs)?,
        BinaryOp::Eq | BinaryOp::Ne => {}
    }
    expect(lhs == rhs, lhs.name(), rhs)?;
    Ok(if op.is_comparison() { Ty::Bool } else { lhs })
}

fn type_of_unary(op: UnaryOp, ty: Ty) -> Result<Ty, TypeError> {
    match op {
        UnaryOp::Not => expect(ty != Ty::F32, "bool or an integer", ty)?,
        UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Signum => {
            expect(
                matches!(ty, Ty::I32 | Ty::I64 | Ty::F32),
                "a signed number",
                ty,
            )?;
        }
        UnaryOp::WrappingNeg => expect(ty.is_int(), "an integer", ty)?,
        UnaryOp::Math(_) => expect(ty == Ty::F32, "f32", ty)?,
    }
    Ok(ty)
}
