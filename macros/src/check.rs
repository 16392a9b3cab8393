//! What the head of an annotated function may not be: each fault at its token, with what to write instead.

use maskwright_dsl::ir::{RuleKind, Var};
use quote::ToTokens;
use syn::{Error, FnArg, GenericParam, Pat, ReturnType, Safety, Type};

use crate::ast::{Role, RuleFn, bare, buffer};

/// Reports everything that is wrong with the head.
pub(crate) fn check(rule: &RuleFn, errors: &mut Vec<Error>) {
    no_qualifiers(rule, errors);
    no_generic_types(rule, errors);
    parameters_are_names(rule, errors);
    result_is_written(rule, errors);
    score_comes_first(rule, errors);
    for param in &rule.params {
        capture_is_known(param, errors);
        no_unused_variable(param, errors);
        extent_is_of_a_buffer(param, errors);
        if param.ident == rule.item.sig.ident {
            errors.push(fault(
                &param.ident,
                "a parameter has the name of its function",
                "choose another name for the capture",
            ));
        }
    }
    for constant in &rule.consts {
        if constant.declared.extent.is_some() {
            errors.push(fault(
                &constant.ident,
                "expected a buffer with extents, found a constant",
                "leave `#[extent(..)]` out",
            ));
        }
    }
}

fn fault(at: impl ToTokens, message: impl std::fmt::Display, help: &str) -> Error {
    Error::new_spanned(at, format!("{message}\nhelp: {help}"))
}

fn no_qualifiers(rule: &RuleFn, errors: &mut Vec<Error>) {
    let sig = &rule.item.sig;
    let mut refuse = |token: Option<&dyn ToTokens>, word: &str| {
        if let Some(token) = token {
            errors.push(fault(
                token,
                format!("expected a plain function, found `{word}`"),
                "leave it out: a rule is one expression over its parameters",
            ));
        }
    };
    refuse(sig.constness.as_ref().map(|t| t as _), "const");
    refuse(sig.asyncness.as_ref().map(|t| t as _), "async");
    match &sig.safety {
        Safety::Unsafe(token) => refuse(Some(token), "unsafe"),
        Safety::Safe(token) => refuse(Some(token), "safe"),
        Safety::Default => {}
    }
    refuse(sig.abi.as_ref().map(|t| t as _), "extern");
    refuse(sig.variadic.as_ref().map(|t| t as _), "...");
}

fn no_generic_types(rule: &RuleFn, errors: &mut Vec<Error>) {
    let generics = &rule.item.sig.generics;
    for param in &generics.params {
        match param {
            GenericParam::Type(param) => errors.push(fault(
                param,
                format!(
                    "expected `const`, found the type parameter `{}`",
                    param.ident
                ),
                "a rule has no type parameters; `const N: i32` is a loop bound",
            )),
            GenericParam::Lifetime(_) | GenericParam::Const(_) => {}
        }
    }
    if let Some(clause) = &generics.where_clause {
        errors.push(fault(
            clause,
            "expected the body of the rule, found `where`",
            "leave it out: a rule has no type parameters",
        ));
    }
}

fn parameters_are_names(rule: &RuleFn, errors: &mut Vec<Error>) {
    for input in &rule.item.sig.inputs {
        match input {
            FnArg::Receiver(receiver) => errors.push(fault(
                receiver,
                "expected a variable or a capture, found `self`",
                "a rule stands outside of `impl`: pass each value by its own name",
            )),
            FnArg::Typed(input) => {
                let Pat::Ident(pat) = &*input.pat else {
                    errors.push(fault(
                        &input.pat,
                        "expected the name of a variable or a capture, found a pattern",
                        "give each value a parameter of its own, and leave out what the rule does not read",
                    ));
                    continue;
                };
                if pat.by_ref.is_some() || pat.subpat.is_some() {
                    errors.push(fault(
                        pat,
                        "expected the name of a variable or a capture, found a pattern",
                        "write the name alone",
                    ));
                }
                if pat.ident.to_string().starts_with("r#") {
                    errors.push(fault(
                        &pat.ident,
                        "expected a plain name, found a raw one",
                        "choose another name: texts of rules have no raw names",
                    ));
                }
            }
        }
    }
}

fn result_is_written(rule: &RuleFn, errors: &mut Vec<Error>) {
    if let ReturnType::Default = rule.item.sig.output {
        let (what, ty) = match rule.kind {
            RuleKind::Mask => ("an attention mask", "bool"),
            RuleKind::Score => ("a score_mod", "f32"),
        };
        errors.push(fault(
            &rule.item.sig.ident,
            format!("expected `{ty}` as the result of {what}, found none"),
            &format!("write `-> {ty}` after the parameters"),
        ));
    }
}

fn score_comes_first(rule: &RuleFn, errors: &mut Vec<Error>) {
    if rule.kind == RuleKind::Mask {
        return;
    }
    let is_score = |role: &Role| matches!(role, Role::Variable(Var::Score));
    match rule.params.iter().position(|param| is_score(&param.role)) {
        Some(0) => {}
        Some(at) => errors.push(fault(
            &rule.params[at].ident,
            format!("expected `score` as the first parameter, found it as number {}", at + 1),
            "a score_mod is `fn name(score: f32, ..) -> f32`",
        )),
        None => errors.push(fault(
            &rule.item.sig.ident,
            "expected `score: f32` as the first parameter of a score_mod",
            "write `fn name(score: f32, ..) -> f32`; which cells are attended is said by an attention_mask",
        )),
    }
}

fn capture_is_known(param: &crate::ast::Param, errors: &mut Vec<Error>) {
    if !matches!(param.role, Role::Unknown) {
        return;
    }
    let ty = bare(&param.ty);
    let help = match ty {
        Type::Reference(reference) if reference.mutability.is_some() => {
            "captures are read only: leave `mut` out"
        }
        _ if buffer(ty).is_some() => "a buffer is captured by reference: write `&Buffer<T, N>`",
        Type::Slice(_) | Type::Array(_) => "a buffer of one axis is captured as `&[T]`",
        Type::Reference(reference) => match bare(&reference.elem) {
            Type::Array(_) => {
                "a buffer of one axis is captured as `&[T]`; `#[extent(4)]` declares its length"
            }
            Type::Path(path) if path.path.is_ident("i32") || path.path.is_ident("f32") => {
                "a scalar is captured by value: leave `&` out"
            }
            _ => CAPTURES,
        },
        Type::Path(path)
            if path
                .path
                .segments
                .last()
                .is_some_and(|last| last.ident == "Vec") =>
        {
            "a buffer of one axis is captured as `&[T]`; `bind` takes a `Vec<T>` for it"
        }
        _ => CAPTURES,
    };
    errors.push(fault(
        &param.ty,
        format!("expected the type of a capture for `{}`", param.ident),
        help,
    ));
}

const CAPTURES: &str =
    "scalars are `i32`, `i64`, `u32`, `f32` and `bool`; buffers are `&[T]` and `&Buffer<T, N>`";

fn no_unused_variable(param: &crate::ast::Param, errors: &mut Vec<Error>) {
    let name = param.ident.to_string();
    let Some(variable) = name.strip_prefix('_') else {
        return;
    };
    if Var::from_name(variable).is_some() {
        errors.push(fault(
            &param.ident,
            format!("`{name}` would be a capture"),
            &format!("leave it out: a rule declares the variables that it reads, and `{variable}` is not among them"),
        ));
    }
}

fn extent_is_of_a_buffer(param: &crate::ast::Param, errors: &mut Vec<Error>) {
    let Some(extent) = &param.declared.extent else {
        return;
    };
    if let Role::Variable(_) | Role::Scalar = param.role {
        errors.push(fault(
            &param.ident,
            format!("expected a buffer with extents, found `{}`", param.ident),
            "leave `#[extent(..)]` out",
        ));
    }
    if let Some(axes) = param.role.axes()
        && axes != extent.len()
    {
        errors.push(fault(
            extent,
            format!(
                "`{}` has {axes} ax{}, found {} extent{}",
                param.ident,
                if axes == 1 { "is" } else { "es" },
                extent.len(),
                if extent.len() == 1 { "" } else { "s" }
            ),
            "declare one extent for each axis, outermost first",
        ));
    }
}
