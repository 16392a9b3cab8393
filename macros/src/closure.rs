//! `mask!` and `score!`: a closure over variables, which captures what is around it.
//!
//! `mask!(|q, kv| q - kv < w)` expands to
//!
//! ```text
//! {
//!     static SITE: RustClosure = RustClosure::new(.., "q: i32, kv: i32", "{ q - kv < w }", ..);
//!     let held = Capture::hold(&w);
//!     SITE.mask(vec![Captured::new("w", &held)], move |point, sizes| {
//!         let q: i32 = point.q_idx;
//!         let kv: i32 = point.kv_idx;
//!         let w = Held::see(&held);
//!         q - kv < w
//!     })
//! }
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use maskwright_dsl::ir::{RuleKind, Source, Var};
use maskwright_dsl::text::check_rust_closure;
use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, Pat, PatIdent, Token, Type, parse_quote};

use crate::expand::variable;
use crate::fallback::stub_value;
use crate::rewrite::{Rewrite, callee_list, hidden};
use crate::scope::{binds, captured};
use crate::tokens::{Text, joined};

/// The longest text that is the name of its rule.
const MAX_SHOWN: usize = 60;

/// Expands a closure.
pub(crate) fn expand(kind: RuleKind, input: TokenStream) -> TokenStream {
    match expand_checked(kind, input) {
        Ok(expanded) => expanded,
        Err(errors) => {
            let errors = errors.to_compile_error();
            let stub = stub_value(kind);
            quote!({ #errors #stub })
        }
    }
}

/// `|q, kv| body`, the body still as tokens: what is no Rust may be a common slip, which the text knows.
struct Closure {
    params: Vec<Param>,
    result: Option<Type>,
    body: TokenStream,
}

struct Param {
    pat: PatIdent,
    ty: Option<Type>,
}

impl Parse for Closure {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        input.parse::<Option<Token![move]>>()?;
        let mut params = Vec::new();
        if input.peek(Token![||]) {
            input.parse::<Token![||]>()?;
        } else if input.peek(Token![|]) {
            input.parse::<Token![|]>()?;
            while !input.peek(Token![|]) {
                let pat = match Pat::parse_single(input)? {
                    Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => pat,
                    other => {
                        return Err(syn::Error::new_spanned(
                            other,
                            "expected the name of a variable, found a pattern\nhelp: leave out what the rule does not read",
                        ));
                    }
                };
                let ty = if input.peek(Token![:]) {
                    input.parse::<Token![:]>()?;
                    Some(input.parse()?)
                } else {
                    None
                };
                params.push(Param { pat, ty });
                if !input.peek(Token![|]) {
                    input.parse::<Token![,]>()?;
                }
            }
            input.parse::<Token![|]>()?;
        } else {
            return Err(input.error(
                "expected a closure\nhelp: write `|q, kv| kv <= q`: its parameters are variables of the rule",
            ));
        }
        let result = if input.peek(Token![->]) {
            input.parse::<Token![->]>()?;
            Some(input.parse()?)
        } else {
            None
        };
        let body: TokenStream = input.parse()?;
        if body.is_empty() {
            return Err(input.error("expected the value of the rule after its variables"));
        }
        Ok(Self {
            params,
            result,
            body,
        })
    }
}

/// A closure as text: its variables, then its body in braces.
struct Printed {
    text: Text,
    variables: String,
    body: String,
}

fn expand_checked(kind: RuleKind, input: TokenStream) -> syn::Result<TokenStream> {
    let closure: Closure = syn::parse2(input)?;
    let printed = print(kind, &closure);
    let mut errors = Vec::new();
    let mut unknown = check_params(kind, &closure, &mut errors);
    let params: Vec<&Ident> = closure
        .params
        .iter()
        .map(|param| &param.pat.ident)
        .collect();

    let body = match block(closure.body.clone()) {
        Ok(body) => body,
        Err(error) => {
            // Not Rust: the text may know what was meant.
            unknown.extend(words(&closure.body));
            let faults = faults(kind, &printed.text, &unknown);
            errors.extend(if faults.is_empty() {
                vec![error]
            } else {
                faults
            });
            return Err(joined(errors).expect("there is at least one error"));
        }
    };
    let captures = captured(&body, &params);
    for name in &captures {
        if Var::from_name(&name.to_string()).is_some() {
            errors.push(syn::Error::new_spanned(
                name,
                format!("`{name}` is a variable of rules, not a capture\nhelp: add it to the parameters of the closure"),
            ));
        }
    }
    unknown.extend(captures.iter().map(ToString::to_string));
    errors.extend(faults(kind, &printed.text, &unknown));
    match joined(errors) {
        Some(errors) => Err(errors),
        None => Ok(rust_block(kind, &closure, &printed, body, &captures)),
    }
}

/// Reports parameters that are no variables, and gives their names.
fn check_params(kind: RuleKind, closure: &Closure, errors: &mut Vec<syn::Error>) -> Vec<String> {
    let mut unknown = Vec::new();
    for param in &closure.params {
        let name = &param.pat.ident;
        if Var::from_name(&name.to_string()).is_none() {
            errors.push(syn::Error::new_spanned(
                name,
                format!("expected a variable, found `{name}`\nhelp: variables are `b`, `h`, `q`, `kv` and the sizes; a capture is used by its name, without a parameter"),
            ));
            unknown.push(name.to_string());
        }
    }
    if kind == RuleKind::Score {
        let at = closure
            .params
            .iter()
            .position(|param| param.pat.ident == "score");
        if at != Some(0) {
            let message =
                "expected `score` as the first parameter\nhelp: write `score!(|score, ..| ..)`";
            errors.push(match (at, closure.params.first()) {
                (Some(at), _) => syn::Error::new_spanned(&closure.params[at].pat.ident, message),
                (None, Some(first)) => syn::Error::new_spanned(&first.pat.ident, message),
                (None, None) => syn::Error::new(Span::call_site(), message),
            });
        }
    }
    unknown
}

fn faults(kind: RuleKind, text: &Text, unknown: &[String]) -> Vec<syn::Error> {
    let source = Arc::new(Source {
        name: String::new(),
        text: text.as_str().to_owned(),
    });
    let faults = check_rust_closure(source, kind, unknown);
    faults.iter().map(|fault| text.error(fault)).collect()
}

fn print(kind: RuleKind, closure: &Closure) -> Printed {
    let first = closure.body.clone().into_iter().next();
    let start = first.map_or_else(Span::call_site, |token| token.span());
    let mut text = Text::new(start);
    text.written("fn closure(");
    let head = text.len();
    let mut is_first = true;
    for param in &closure.params {
        let Some(var) = Var::from_name(&param.pat.ident.to_string()) else {
            continue;
        };
        if !is_first {
            text.written(", ");
        }
        is_first = false;
        text.name(&param.pat.ident);
        text.written(": ");
        match &param.ty {
            Some(ty) => text.plain(quote!(#ty)),
            None => text.written(var.ty().name()),
        }
    }
    let variables = text.as_str()[head..].to_owned();
    text.written(") -> ");
    match (&closure.result, kind) {
        (Some(ty), _) => text.plain(quote!(#ty)),
        (None, RuleKind::Mask) => text.written("bool"),
        (None, RuleKind::Score) => text.written("f32"),
    }
    text.written(" ");
    let body = text.len();
    if is_block(&closure.body) {
        text.values(closure.body.clone());
    } else {
        text.written("{ ");
        text.values(closure.body.clone());
        text.written(" }");
    }
    let body = text.as_str()[body..].to_owned();
    Printed {
        text,
        variables,
        body,
    }
}

/// Whether the tokens are one pair of braces.
fn is_block(body: &TokenStream) -> bool {
    let mut tokens = body.clone().into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Group(group)), None) => group.delimiter() == Delimiter::Brace,
        _ => false,
    }
}

fn block(body: TokenStream) -> syn::Result<Block> {
    if is_block(&body) {
        return syn::parse2(body);
    }
    let expr: Expr = syn::parse2(body)?;
    Ok(parse_quote!({ #expr }))
}

/// Every word of some tokens that may be a name.
fn words(tokens: &TokenStream) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for token in tokens.clone() {
        match token {
            TokenTree::Ident(ident) => {
                words.insert(ident.to_string());
            }
            TokenTree::Group(group) => words.extend(self::words(&group.stream())),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    words
}

/// What the rule is called in messages: the closure itself, or its start.
fn shown(closure: &Closure, printed: &Printed) -> String {
    let params: Vec<String> = closure
        .params
        .iter()
        .map(|param| param.pat.ident.to_string())
        .collect();
    let body: Vec<&str> = printed.body.split_whitespace().collect();
    let body = body.join(" ");
    let value = body
        .strip_prefix("{ ")
        .and_then(|body| body.strip_suffix(" }"))
        .unwrap_or(&body);
    let shown = format!("|{}| {value}", params.join(", "));
    match shown.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

fn rust_block(
    kind: RuleKind,
    closure: &Closure,
    printed: &Printed,
    mut body: Block,
    captures: &[Ident],
) -> TokenStream {
    let is_capture = |name: &Ident| captures.contains(name);
    let names_inf = binds(&body, "inf");
    let mut rewrite = Rewrite {
        buffers: &is_capture,
        borrowed: &is_capture,
        names_inf,
        callees: Vec::new(),
    };
    rewrite.visit_block_mut(&mut body);
    let body = &body.stmts;
    let callees = callee_list(&rewrite.callees);

    let private = |name: &str| Ident::new(name, Span::mixed_site());
    let (site, point, sizes) = (private("SITE"), private("_point"), private("_sizes"));
    let variables = closure.params.iter().filter_map(|param| {
        let pat = &param.pat;
        let var = Var::from_name(&pat.ident.to_string())?;
        let value = variable(var, &point, &sizes);
        let ty = Ident::new(var.ty().name(), Span::mixed_site());
        Some(quote!(let #pat: ::core::primitive::#ty = #value;))
    });
    let held: Vec<Ident> = (0..captures.len())
        .map(|i| format_ident!("held_{i}", span = Span::mixed_site()))
        .collect();
    let holds = captures.iter().zip(&held).map(|(name, held)| {
        let span = hidden(name.span());
        quote_spanned!(span=> let #held = ::maskwright::__private::Capture::hold(&#name);)
    });
    let sees = captures
        .iter()
        .zip(&held)
        .map(|(name, held)| quote!(let #name = ::maskwright::__private::Held::see(&#held);));
    let names = captures.iter().map(ToString::to_string);
    let (kind_name, method, result) = match kind {
        RuleKind::Mask => (quote!(Mask), quote!(mask), quote!(bool)),
        RuleKind::Score => (quote!(Score), quote!(score), quote!(f32)),
    };
    let shown = shown(closure, printed);
    let (variables_text, body_text) = (&printed.variables, &printed.body);
    quote! {{
        static #site: ::maskwright::__private::RustClosure = ::maskwright::__private::RustClosure::new(
            ::maskwright::__private::RuleKind::#kind_name,
            ::core::concat!(::core::file!(), ":", ::core::line!()),
            #shown,
            #variables_text,
            #body_text,
            #callees,
        );
        #(#holds)*
        #site.#method(
            ::maskwright::__private::vec![
                #(::maskwright::__private::Captured::new(#names, &#held)),*
            ],
            move |
                #point: &::maskwright::__private::Point,
                #sizes: &::maskwright::__private::Sizes,
            | -> ::core::primitive::#result {
                #(#variables)*
                #(#sees)*
                #(#body)*
            },
        )
    }}
}
