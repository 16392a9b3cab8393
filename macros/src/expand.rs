//! `#[attention_mask]` and `#[score_mod]`: the function, and the struct that binds its captures.
//!
//! `fn packed(q: i32, kv: i32, doc: &[i32]) -> bool { doc[q] == doc[kv] }` expands to
//!
//! ```text
//! fn packed(q: i32, kv: i32, doc: &[i32]) -> bool { read(doc, [to_i64(q)]) == read(doc, [to_i64(kv)]) }
//! struct packed {}
//! impl packed {
//!     fn bind(doc: impl IntoBuffer<i32, 1>) -> MaskRule { .. }
//!     fn try_bind(doc: impl IntoBuffer<i32, 1>) -> Result<MaskRule, RustRuleError> { .. }
//! }
//! impl AnnotatedFn for packed { fn item() -> &'static RustFn { the function as text } }
//! ```

use maskwright_dsl::ir::{RuleKind, Source, Var};
use maskwright_dsl::text::check_rust_closure;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::visit_mut::VisitMut;
use syn::{Item, ItemFn, ReturnType, Type};

use crate::ast::{Role, RuleFn, bare};
use crate::check::check;
use crate::fallback::{stub_fn, stub_struct};
use crate::rewrite::{Rewrite, callee_list};
use crate::tokens::{Text, joined};

/// Expands an annotated function.
pub(crate) fn expand(kind: RuleKind, args: &TokenStream, item: TokenStream) -> TokenStream {
    let item_fn: ItemFn = match syn::parse2(item.clone()) {
        Ok(item_fn) => item_fn,
        Err(error) => {
            let error = match syn::parse2::<Item>(item.clone()) {
                Ok(Item::Fn(_)) | Err(_) => error,
                Ok(other) => syn::Error::new_spanned(
                    other,
                    format!(
                        "expected a function\nhelp: `#[{}]` stands before a `fn`",
                        attribute(kind)
                    ),
                ),
            };
            let error = error.to_compile_error();
            return quote!(#error #item);
        }
    };
    let mut errors = Vec::new();
    if !args.is_empty() {
        errors.push(syn::Error::new_spanned(
            args,
            format!(
                "expected no arguments of `{}`\nhelp: ranges and extents are declared before a parameter, as in `#[range(1..=64)] window: i32`",
                attribute(kind)
            ),
        ));
    }
    let rule = RuleFn::new(kind, item_fn, &mut errors);
    check(&rule, &mut errors);
    // The tokens as they came: a parser gives brackets other places.
    let body = item.into_iter().last().into_iter().collect();
    let text = print(&rule, body);
    let source = std::sync::Arc::new(Source {
        name: String::new(),
        text: text.as_str().to_owned(),
    });
    // A parameter that has a fault already agrees with everything.
    let unknown: Vec<String> = rule
        .params
        .iter()
        .filter(|param| matches!(param.role, Role::Unknown))
        .map(|param| param.ident.to_string())
        .collect();
    let faults = check_rust_closure(source, kind, &unknown);
    errors.extend(faults.iter().map(|fault| text.error(fault)));
    if let Some(errors) = joined(errors) {
        let errors = errors.to_compile_error();
        let function = stub_fn(&rule);
        let beside = stub_struct(&rule);
        return quote!(#errors #function #beside);
    }
    rust_items(rule, text.as_str())
}

fn attribute(kind: RuleKind) -> &'static str {
    match kind {
        RuleKind::Mask => "attention_mask",
        RuleKind::Score => "score_mod",
    }
}

/// The function as text of the rule language.
fn print(rule: &RuleFn, body: TokenStream) -> Text {
    let sig = &rule.item.sig;
    let mut text = Text::new(sig.fn_token.span);
    text.written("fn ");
    text.name(&sig.ident);
    // Between `<` and `>` no range can be declared.
    let in_parens = rule.consts.iter().any(|c| c.declared.range.is_some());
    let mut before = if in_parens { "(const " } else { "<const " };
    for constant in &rule.consts {
        text.written(before);
        before = ", const ";
        text.name(&constant.ident);
        text.written(": ");
        text.plain(constant.ty.to_token_stream());
        range(&mut text, constant.declared.range.as_ref());
    }
    let mut before = match (rule.consts.is_empty(), in_parens) {
        (true, _) => "(",
        (false, false) => ">(",
        (false, true) => ", ",
    };
    for param in &rule.params {
        if matches!(param.role, Role::Unknown) {
            continue;
        }
        text.written(before);
        before = ", ";
        text.name(&param.ident);
        text.written(": ");
        match (&param.role, param.extent()) {
            (Role::Slice(elem) | Role::Buffer(elem, _), Some(extent)) => {
                text.written("[");
                self::elem(&mut text, elem);
                text.written("; ");
                text.values(extent.to_token_stream());
                text.written("]");
            }
            (Role::Slice(elem), None) => {
                text.written("&[");
                self::elem(&mut text, elem);
                text.written("]");
            }
            (Role::Buffer(elem, rank), None) => {
                text.written("&Buffer<");
                self::elem(&mut text, elem);
                text.written(", ");
                text.plain(rank.clone());
                text.written(">");
            }
            (Role::Variable(_) | Role::Scalar | Role::Unknown, _) => {
                text.plain(param.ty.to_token_stream());
            }
        }
        range(&mut text, param.declared.range.as_ref());
    }
    if before != ", " {
        // Without parameters nothing has opened the parentheses.
        text.written(before);
    }
    text.written(") -> ");
    match &sig.output {
        ReturnType::Type(_, ty) => text.plain(ty.to_token_stream()),
        ReturnType::Default => text.written(match rule.kind {
            RuleKind::Mask => "bool",
            RuleKind::Score => "f32",
        }),
    }
    text.written(" ");
    text.values(body);
    text
}

fn range(text: &mut Text, range: Option<&TokenStream>) {
    if let Some(range) = range {
        text.written(" in ");
        text.values(range.clone());
    }
}

/// The type of elements: `Bits` is the Rust name of `bits`.
fn elem(text: &mut Text, elem: &Type) {
    let is_bits = match bare(elem) {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|segment| segment.ident == "Bits"),
        _ => false,
    };
    if is_bits {
        text.written("bits");
    } else {
        text.plain(elem.to_token_stream());
    }
}

/// The argument of the function that is a variable.
pub(crate) fn variable(var: Var, point: &Ident, sizes: &Ident) -> TokenStream {
    match var {
        Var::B => quote!(#point.b),
        Var::H => quote!(#point.h),
        Var::QIdx => quote!(#point.q_idx),
        Var::KvIdx => quote!(#point.kv_idx),
        Var::Score => quote!(#point.score),
        Var::QLen => quote!(#sizes.q_len),
        Var::KvLen => quote!(#sizes.kv_len),
        Var::Batch => quote!(#sizes.batch),
        Var::NumQHeads => quote!(#sizes.num_q_heads),
    }
}

/// The parameters of `bind`, with the types that it takes.
pub(crate) fn bind_params(rule: &RuleFn) -> Vec<TokenStream> {
    let param = |param: &crate::ast::Param| {
        let (ident, ty) = (&param.ident, &param.ty);
        if let Some((elem, rank)) = buffer_type(&param.role) {
            quote!(#ident: impl ::maskwright::__private::IntoBuffer<#elem, #rank>)
        } else {
            quote!(#ident: #ty)
        }
    };
    rule.captures().map(param).collect()
}

fn buffer_type(role: &Role) -> Option<(TokenStream, TokenStream)> {
    match role {
        Role::Slice(elem) => Some((elem.to_token_stream(), quote!(1))),
        Role::Buffer(elem, rank) => Some((elem.to_token_stream(), rank.clone())),
        Role::Variable(_) | Role::Scalar | Role::Unknown => None,
    }
}

/// The rule that `bind` gives.
pub(crate) fn rule_type(kind: RuleKind) -> TokenStream {
    match kind {
        RuleKind::Mask => quote!(::maskwright::MaskRule),
        RuleKind::Score => quote!(::maskwright::ScoreRule),
    }
}

fn rust_items(mut rule: RuleFn, text: &str) -> TokenStream {
    let callees = rewrite(&mut rule);
    let function = &rule.item;
    let (vis, name) = (&function.vis, &function.sig.ident);
    let conditions = rule.conditions();
    let doc = rule.doc();
    let (kind, method, result) = match rule.kind {
        RuleKind::Mask => (quote!(Mask), quote!(mask), rule_type(rule.kind)),
        RuleKind::Score => (quote!(Score), quote!(score), rule_type(rule.kind)),
    };
    let hidden = |name: &str| Ident::new(name, Span::mixed_site());
    let (point, sizes, values) = (hidden("_point"), hidden("_sizes"), hidden("values"));
    let item = hidden("ITEM");

    // Each capture becomes a buffer or stays a scalar, then its value is taken, then the closure moves it.
    let params = bind_params(&rule);
    let names: Vec<&Ident> = rule.captures().map(|param| &param.ident).collect();
    let mut held = Vec::new();
    let mut views = Vec::new();
    for param in rule.captures() {
        let ident = &param.ident;
        if let Some((elem, rank)) = buffer_type(&param.role) {
            held.push(quote! {
                let #ident = ::maskwright::__private::IntoBuffer::<#elem, #rank>::into_buffer(#ident);
            });
        }
        if let Role::Slice(_) = param.role {
            views.push(quote!(let #ident = ::maskwright::__private::Slice::new(&#ident);));
        }
    }
    let args = rule.params.iter().map(|param| {
        let ident = &param.ident;
        match &param.role {
            Role::Variable(var) => variable(*var, &point, &sizes),
            Role::Scalar | Role::Unknown => quote!(#ident),
            Role::Slice(_) | Role::Buffer(..) => quote!(&#ident),
        }
    });
    let const_params = rule.consts.iter().map(|constant| {
        let (ident, ty) = (&constant.ident, &constant.ty);
        quote!(const #ident: #ty)
    });
    let const_params: Vec<TokenStream> = const_params.collect();
    let consts: Vec<&Ident> = rule.consts.iter().map(|constant| &constant.ident).collect();
    let const_names = consts.iter().map(ToString::to_string);
    let generics = (!consts.is_empty()).then(|| quote!(::<#(#consts),*>));
    let const_params = (!consts.is_empty()).then(|| quote!(<#(#const_params),*>));

    let about =
        format!("The rule of the function [`{name}`](fn@{name}), which binds what it captures.");
    let bind_doc = "Binds captured values, in the order of the parameters.\n\n# Panics\nIf what the function calls makes no sense with it; `try_bind` gives an error.";
    let try_doc = "Binds captured values, in the order of the parameters.\n\n# Errors\nIf what the function calls makes no sense with it, or a name in a declared extent has no value.";
    quote! {
        #function

        #(#conditions)*
        #[doc = #about]
        #[allow(non_camel_case_types, dead_code, reason = "it is named after its function, and may serve calls alone")]
        #[derive(Clone, Copy, Debug)]
        #vis struct #name {}

        #(#conditions)*
        #[allow(dead_code, clippy::too_many_arguments, reason = "a rule may serve calls alone, and captures what it captures")]
        impl #name {
            #[doc = #bind_doc]
            #[must_use]
            #[track_caller]
            #vis fn bind #const_params (#(#params),*) -> #result {
                ::maskwright::__private::bound(Self::try_bind #generics (#(#names),*))
            }

            #[doc = #try_doc]
            #vis fn try_bind #const_params (
                #(#params),*
            ) -> ::core::result::Result<#result, ::maskwright::RustRuleError> {
                #(#held)*
                let #values = ::maskwright::__private::vec![
                    #(::maskwright::__private::Held::value(&#names)),*
                ];
                #(#views)*
                <Self as ::maskwright::__private::AnnotatedFn>::item().#method(
                    &[#((#const_names, #consts as _)),*],
                    #values,
                    move |#point, #sizes| #name #generics (#(#args),*),
                )
            }
        }

        #(#conditions)*
        impl ::maskwright::__private::AnnotatedFn for #name {
            fn item() -> &'static ::maskwright::__private::RustFn {
                static #item: ::maskwright::__private::RustFn = ::maskwright::__private::RustFn::new(
                    ::maskwright::__private::RuleKind::#kind,
                    ::core::concat!(::core::file!(), ":", ::core::line!()),
                    #doc,
                    #text,
                    #callees,
                );
                &#item
            }
        }
    }
}

/// Rewrites the body, and gives what it calls.
fn rewrite(rule: &mut RuleFn) -> TokenStream {
    let buffers: Vec<&Ident> = rule
        .params
        .iter()
        .filter(|param| matches!(param.role, Role::Slice(_) | Role::Buffer(..)))
        .map(|param| &param.ident)
        .collect();
    let names_inf = rule.params.iter().any(|param| param.ident == "inf")
        || crate::scope::binds(&rule.item.block, "inf");
    let is_buffer = |name: &Ident| buffers.contains(&name);
    let mut rewrite = Rewrite {
        buffers: &is_buffer,
        borrowed: &|_| false,
        names_inf,
        callees: Vec::new(),
    };
    rewrite.visit_block_mut(&mut rule.item.block);
    callee_list(&rewrite.callees)
}
