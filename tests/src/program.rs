//! A rule of the corpus with the captured values of one case: parsed, lowered and bound.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::capture::CaptureValue;
use maskwright_dsl::ir::{CaptureDecl, CaptureKind, Const, Elem, RuleKind, Source, Ty};
use maskwright_dsl::pipeline::{Prepared, Scope, prepare};
use maskwright_dsl::text::{self, EmptyLibrary, ItemKind, LowerOptions, Module, ParamTy};

use crate::case::{Case, Kind, RuleFile, Scalar};

/// How the integers of a rule are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// At run time, except those that bound loops.
    RunTime,
    /// All of them when the rule is compiled.
    Const,
}

/// One case of one rule, in one form.
#[derive(Debug)]
pub struct Program {
    /// The rule.
    pub file: &'static RuleFile,
    /// Its case.
    pub case: &'static Case,
    /// How its integers are given.
    pub form: Form,
    /// The rule with its captured values.
    pub bound: BoundRule,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.file.id, self.case.id)?;
        match self.form {
            Form::RunTime => Ok(()),
            Form::Const => f.write_str(" (const)"),
        }
    }
}

impl Program {
    /// Parses, lowers and binds a case. `None` where the form is no other than [`Form::RunTime`].
    ///
    /// # Errors
    /// What the compiler or the binding says, or what does not fit in the case file.
    pub fn new(
        file: &'static RuleFile,
        case: &'static Case,
        form: Form,
    ) -> Result<Option<Program>, String> {
        let source = Arc::new(Source {
            name: format!("{}.mask", file.id.to_lowercase()),
            text: file.rule.clone(),
        });
        let mut module = text::parse(source).map_err(|faults| faults.render(false))?;
        match form {
            Form::RunTime => {}
            Form::Const => {
                if !make_const(&mut module) {
                    return Ok(None);
                }
            }
        }
        let options = LowerOptions {
            consts: integers(case),
            ..LowerOptions::default()
        };
        let rule = text::lower(&module, None, &options, &EmptyLibrary)
            .map_err(|faults| faults.render(false))?;
        let kind = match rule.kind {
            RuleKind::Mask => Kind::Mask,
            RuleKind::Score => Kind::Score,
        };
        if kind != file.kind {
            return Err(format!("expected a {:?} rule, found {kind:?}", file.kind));
        }
        check_names(&module, case)?;
        let values = rule
            .captures
            .iter()
            .map(|decl| value(decl, case))
            .collect::<Result<Vec<_>, _>>()?;
        let dims: Vec<(&str, i32)> = case
            .dims
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        let bound =
            BoundRule::new(Arc::new(rule), values, &dims).map_err(|error| error.to_string())?;
        Ok(Some(Program {
            file,
            case,
            form,
            bound,
        }))
    }

    /// What the rule is prepared for: this one call.
    pub fn scope(&self) -> Scope {
        let [batch, num_q_heads, q_len, kv_len] = self.case.size;
        let bucket = Bucket::single(u64::from(q_len), u64::from(kv_len), 0);
        Scope::new(bucket, batch, num_q_heads)
    }

    /// The rule, proved and simplified for this call.
    ///
    /// # Errors
    /// What validation says.
    pub fn prepare(&self) -> Result<Prepared, String> {
        prepare(&self.bound, &self.scope()).map_err(|faults| faults.render(false))
    }
}

fn integers(case: &Case) -> BTreeMap<String, i64> {
    let integer = |(name, value): (&String, &Scalar)| match value {
        Scalar::Int(value) => Some((name.clone(), *value)),
        Scalar::Bool(_) | Scalar::Float(_) => None,
    };
    case.scalars.iter().filter_map(integer).collect()
}

/// Declares the integer scalars of the rule `const`, and tells whether there are any.
fn make_const(module: &mut Module) -> bool {
    let mut any = false;
    for item in &mut module.items {
        if let ItemKind::Function { .. } = item.kind {
            continue;
        }
        for param in &mut item.params {
            if let ParamTy::Scalar(ty @ (Ty::I32 | Ty::I64 | Ty::U32)) = param.ty {
                param.ty = ParamTy::Const(ty);
                any = true;
            }
        }
    }
    any
}

/// Checks that the case gives no value that the rule does not take.
fn check_names(module: &Module, case: &Case) -> Result<(), String> {
    let rules = module
        .items
        .iter()
        .filter(|item| !matches!(item.kind, ItemKind::Function { .. }));
    let taken: BTreeSet<&str> = rules
        .flat_map(|item| &item.params)
        .map(|param| param.name.text.as_str())
        .collect();
    let mut given = case.scalars.keys().chain(case.buffers.keys());
    match given.find(|name| !taken.contains(name.as_str())) {
        Some(name) => Err(format!("the rule has no parameter {name}")),
        None => Ok(()),
    }
}

fn value(decl: &CaptureDecl, case: &Case) -> Result<CaptureValue, String> {
    let name = &decl.name;
    match &decl.kind {
        CaptureKind::Scalar(ty) => {
            let given = case
                .scalars
                .get(name)
                .ok_or_else(|| format!("the case gives no scalar {name}"))?;
            let value = match (given, ty) {
                (Scalar::Bool(v), Ty::Bool) => Some(Const::Bool(*v)),
                (Scalar::Int(v), Ty::I32 | Ty::I64 | Ty::U32) => Const::from_int(*ty, *v),
                (Scalar::Float(v), Ty::F32) => Some(Const::F32(*v as f32)),
                (Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_), _) => None,
            };
            let value = value.ok_or_else(|| format!("expected {name}: {ty}, found {given:?}"))?;
            Ok(CaptureValue::Scalar(value))
        }
        CaptureKind::Buffer { .. } => {
            let given = case
                .buffers
                .get(name)
                .ok_or_else(|| format!("the case gives no buffer {name}"))?;
            let elem = Elem::from_name(&given.elem)
                .ok_or_else(|| format!("there is no element type {}", given.elem))?;
            let buffer = given
                .recipe
                .buffer(elem, &given.shape)
                .map_err(|error| format!("buffer {name}: {error}"))?;
            Ok(CaptureValue::Buffer(buffer))
        }
    }
}
