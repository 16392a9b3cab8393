//! An annotated function as we see it: variables, captures and constants, each with the tokens it came from.

use maskwright_dsl::ir::{RuleKind, Var};
use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, FnArg, GenericArgument, GenericParam, ItemFn, Pat, PathArguments, Token, Type,
};

use crate::attr::Declared;

/// An annotated function.
pub(crate) struct RuleFn {
    pub(crate) kind: RuleKind,
    /// The function without our attributes.
    pub(crate) item: ItemFn,
    pub(crate) params: Vec<Param>,
    pub(crate) consts: Vec<Const>,
}

/// A parameter with a name.
pub(crate) struct Param {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) role: Role,
    pub(crate) declared: Declared,
}

/// What a parameter is.
pub(crate) enum Role {
    Variable(Var),
    /// A capture of one value, or of what rustc and the rule language will look at.
    Scalar,
    /// `&[T]`
    Slice(Type),
    /// `&Buffer<T, N>`
    Buffer(Type, TokenStream),
    /// Something that no rule captures.
    Unknown,
}

impl Param {
    /// The declared extents, if there is one for each axis.
    pub(crate) fn extent(&self) -> Option<&Punctuated<Expr, Token![,]>> {
        let axes = self.role.axes()?;
        let extent = self.declared.extent.as_ref();
        extent.filter(|extent| extent.len() == axes)
    }
}

impl Role {
    /// The number of axes of a buffer, where it is a literal.
    pub(crate) fn axes(&self) -> Option<usize> {
        match self {
            Role::Slice(_) => Some(1),
            Role::Buffer(_, rank) => rank.to_string().parse().ok(),
            Role::Variable(_) | Role::Scalar | Role::Unknown => None,
        }
    }
}

/// A `const` parameter.
pub(crate) struct Const {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) declared: Declared,
}

impl RuleFn {
    /// Takes a function apart. What cannot be a part of a rule is left to the checks.
    pub(crate) fn new(kind: RuleKind, mut item: ItemFn, errors: &mut Vec<syn::Error>) -> Self {
        let mut consts = Vec::new();
        for param in &mut item.sig.generics.params {
            if let GenericParam::Const(param) = param {
                consts.push(Const {
                    ident: param.ident.clone(),
                    ty: param.ty.clone(),
                    declared: Declared::take(&mut param.attrs, errors),
                });
            }
        }
        let mut params = Vec::new();
        for input in &mut item.sig.inputs {
            let FnArg::Typed(input) = input else {
                continue;
            };
            let declared = Declared::take(&mut input.attrs, errors);
            let Pat::Ident(pat) = &*input.pat else {
                continue;
            };
            params.push(Param {
                role: role(&pat.ident, &input.ty),
                ident: pat.ident.clone(),
                ty: (*input.ty).clone(),
                declared,
            });
        }
        Self {
            kind,
            item,
            params,
            consts,
        }
    }

    /// The captures, by slot.
    pub(crate) fn captures(&self) -> impl Iterator<Item = &Param> {
        let is_capture = |param: &&Param| !matches!(param.role, Role::Variable(_));
        self.params.iter().filter(is_capture)
    }

    /// The documentation, lines joined by line feeds.
    pub(crate) fn doc(&self) -> String {
        let lines: Vec<String> = self.item.attrs.iter().filter_map(doc_line).collect();
        lines.join("\n")
    }

    /// Conditions on the function, which hold for all that stands beside it.
    pub(crate) fn conditions(&self) -> Vec<&Attribute> {
        let is_condition = |attr: &&Attribute| attr.path().is_ident("cfg");
        self.item.attrs.iter().filter(is_condition).collect()
    }
}

fn doc_line(attr: &Attribute) -> Option<String> {
    let meta = attr.meta.require_name_value().ok()?;
    if !meta.path.is_ident("doc") {
        return None;
    }
    let Expr::Lit(literal) = &meta.value else {
        return None;
    };
    let syn::Lit::Str(text) = &literal.lit else {
        return None;
    };
    let text = text.value();
    let lines = text
        .split('\n')
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    Some(lines.collect::<Vec<_>>().join("\n"))
}

fn role(ident: &Ident, ty: &Type) -> Role {
    if let Some(var) = Var::from_name(&ident.to_string()) {
        return Role::Variable(var);
    }
    match bare(ty) {
        Type::Path(path) => {
            let simple = path
                .path
                .segments
                .iter()
                .all(|segment| matches!(segment.arguments, PathArguments::None));
            if simple && path.qself.is_none() {
                Role::Scalar
            } else {
                Role::Unknown
            }
        }
        Type::Reference(reference) if reference.mutability.is_none() => {
            match bare(&reference.elem) {
                Type::Slice(slice) => Role::Slice((*slice.elem).clone()),
                elem => buffer(elem).unwrap_or(Role::Unknown),
            }
        }
        _ => Role::Unknown,
    }
}

/// `Buffer<T, N>`, by any path.
pub(crate) fn buffer(ty: &Type) -> Option<Role> {
    let Type::Path(path) = bare(ty) else {
        return None;
    };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(args) = &last.arguments else {
        return None;
    };
    let mut args = args.args.iter();
    let (Some(GenericArgument::Type(elem)), Some(rank), None) =
        (args.next(), args.next(), args.next())
    else {
        return None;
    };
    (last.ident == "Buffer").then(|| Role::Buffer(elem.clone(), rank.to_token_stream()))
}

/// The type within parentheses and the groups of `macro_rules!`.
pub(crate) fn bare(mut ty: &Type) -> &Type {
    loop {
        ty = match ty {
            Type::Group(group) => &group.elem,
            Type::Paren(paren) => &paren.elem,
            _ => return ty,
        };
    }
}
