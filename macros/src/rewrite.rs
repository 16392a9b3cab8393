//! The two things that are rewritten in the author's own function: reads of captures, and functions of numbers.

use maskwright_dsl::ir::{MathFn, Ty};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::token::Paren;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Expr, ExprCall, ExprIndex, ExprParen, ExprPath, Path, PathArguments, parse_quote_spanned,
};

/// Functions of numbers of more than one type.
const OVERLOADED: [&str; 14] = [
    "min",
    "max",
    "clamp",
    "abs",
    "signum",
    "pow",
    "div_floor",
    "rem_floor",
    "div_euclid",
    "rem_euclid",
    "wrapping_add",
    "wrapping_sub",
    "wrapping_mul",
    "wrapping_neg",
];

/// Whether a name is that of a function of numbers.
pub(crate) fn is_function(name: &str) -> bool {
    OVERLOADED.contains(&name) || is_float_function(name)
}

fn is_float_function(name: &str) -> bool {
    name == "powi" || name == "powf" || MathFn::ALL.into_iter().any(|f| f.name() == name)
}

/// An annotated function that a body calls.
pub(crate) struct Callee {
    /// How the text calls it.
    pub(crate) words: String,
    /// The type beside it.
    pub(crate) path: Path,
}

/// Rewrites a body, and collects what it calls.
pub(crate) struct Rewrite<'a> {
    /// Names of captured buffers.
    pub(crate) buffers: &'a dyn Fn(&Ident) -> bool,
    /// Names that stand for references already, so that `&x` is `x`.
    pub(crate) borrowed: &'a dyn Fn(&Ident) -> bool,
    /// Whether `inf` is a name of the author's.
    pub(crate) names_inf: bool,
    pub(crate) callees: Vec<Callee>,
}

impl VisitMut for Rewrite<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::Index(index) = expr
            && let Some(read) = self.read(index)
        {
            *expr = read;
            return;
        }
        visit_mut::visit_expr_mut(self, expr);
        let new = match expr {
            Expr::MethodCall(call) if is_function(&call.method.to_string()) => {
                let span = call.method.span();
                let arguments = std::iter::once(&*call.receiver).chain(&call.args);
                Some(function(&call.method, None, arguments, span))
            }
            Expr::Call(call) => self.call(call),
            Expr::Reference(reference) => match &*reference.expr {
                Expr::Path(path) if path.path.get_ident().is_some_and(self.borrowed) => {
                    Some((*reference.expr).clone())
                }
                _ => None,
            },
            // rustc forgets that what `macro_rules!` passed on is one operand.
            Expr::Group(group) => Some(Expr::Paren(ExprParen {
                attrs: Vec::new(),
                paren_token: Paren(hidden(group.expr.span())),
                expr: group.expr.clone(),
            })),
            Expr::Path(path) if !self.names_inf && path.path.is_ident("inf") => {
                let span = hidden(path.span());
                Some(parse_quote_spanned!(span=> ::core::primitive::f32::INFINITY))
            }
            _ => None,
        };
        if let Some(new) = new {
            *expr = new;
        }
    }
}

impl Rewrite<'_> {
    /// `doc[q]`, `table[[h, q]]`, `table[h][q]`.
    fn read(&mut self, outer: &ExprIndex) -> Option<Expr> {
        let mut axes: Vec<Expr> = Vec::new();
        let mut index = outer;
        let buffer = loop {
            match plain(&index.index) {
                Expr::Array(list) => {
                    axes.splice(0..0, list.elems.iter().cloned());
                }
                one => axes.insert(0, one.clone()),
            }
            match plain(&index.expr) {
                Expr::Index(inner) => index = inner,
                Expr::Path(path) => break path.path.get_ident()?,
                _ => return None,
            }
        };
        if !(self.buffers)(buffer) {
            return None;
        }
        let axes = axes.into_iter().map(|mut axis| {
            self.visit_expr_mut(&mut axis);
            let span = hidden(axis.span());
            let axis = plain(&axis);
            quote_spanned!(span=> ::maskwright::__private::Index::to_i64(#axis))
        });
        let axes: Vec<TokenStream> = axes.collect();
        let span = hidden(outer.span());
        Some(parse_quote_spanned! {span=>
            ::maskwright::__private::read(#buffer, [#(#axes),*])
        })
    }

    fn call(&mut self, call: &ExprCall) -> Option<Expr> {
        let Expr::Path(ExprPath {
            qself: None, path, ..
        }) = plain(&call.func)
        else {
            return None;
        };
        let last = path.segments.last()?;
        let before = path.segments.iter().rev().nth(1);
        let of = before
            .map(|segment| &segment.ident)
            .filter(|name| Ty::from_name(&name.to_string()).is_some());
        if is_function(&last.ident.to_string()) {
            return Some(function(&last.ident, of, call.args.iter(), path.span()));
        }
        if of.is_some() {
            // `i64::from(x)` is the same in Rust.
            return None;
        }
        let words: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        let words = words.join("::");
        if !self.callees.iter().any(|callee| callee.words == words) {
            let mut path = path.clone();
            if let Some(last) = path.segments.last_mut() {
                last.arguments = PathArguments::None;
            }
            self.callees.push(Callee { words, path });
        }
        None
    }
}

/// The call of a function of numbers, with the type that its path named.
fn function<'e>(
    name: &Ident,
    of: Option<&Ident>,
    args: impl Iterator<Item = &'e Expr>,
    span: Span,
) -> Expr {
    let span = hidden(span);
    let of = of
        .filter(|_| !is_float_function(&name.to_string()))
        .map(|of| quote_spanned!(span=> ::<#of>));
    let name = Ident::new(&name.to_string(), span);
    // What was an operand may have parentheses that an argument needs not.
    let args = args.map(plain);
    parse_quote_spanned!(span=> ::maskwright::__private::operator::#name #of (#(#args),*))
}

/// The list of callees that the generated code hands over.
pub(crate) fn callee_list(callees: &[Callee]) -> TokenStream {
    let entries = callees.iter().map(|Callee { words, path }| {
        let span = hidden(path.span());
        quote_spanned! {span=>
            (#words, <#path as ::maskwright::__private::AnnotatedFn>::item())
        }
    });
    quote_spanned!(Span::mixed_site()=> || ::maskwright::__private::vec![#(#entries),*])
}

/// The place of `span`, for names that the author cannot see.
pub(crate) fn hidden(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// The expression within parentheses and the groups of `macro_rules!`.
fn plain(mut expr: &Expr) -> &Expr {
    loop {
        expr = match expr {
            Expr::Paren(paren) => &paren.expr,
            Expr::Group(group) => &group.expr,
            _ => return expr,
        };
    }
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str, callees: &[&str]) {
        let mut expr: Expr = syn::parse_str(source).unwrap();
        let mut rewrite = Rewrite {
            buffers: &|name| name == "doc" || name == "table",
            borrowed: &|name| name == "doc",
            names_inf: false,
            callees: Vec::new(),
        };
        rewrite.visit_expr_mut(&mut expr);
        let text = expr.to_token_stream().to_string();
        let text = text
            .replace(":: maskwright :: __private :: ", "")
            .replace("operator :: ", "")
            .replace("Index :: to_i64", "at");
        assert_eq!(text, expected);
        let words: Vec<_> = rewrite.callees.iter().map(|c| c.words.as_str()).collect();
        assert_eq!(words, callees);
    }

    #[test]
    fn reads_take_checked_indices() {
        check("doc[q + 1]", "read (doc , [at (q + 1)])", &[]);
        check(
            "table[[h, doc[q]]]",
            "read (table , [at (h) , at (read (doc , [at (q)]))])",
            &[],
        );
        check("table[h][q]", "read (table , [at (h) , at (q)])", &[]);
        check("other[q]", "other [q]", &[]);
    }

    #[test]
    fn functions_of_numbers_are_ours() {
        check("x.exp().min(y)", "min (exp (x) , y)", &[]);
        check(
            "f32::exp(x) + std::cmp::min(a, b)",
            "exp (x) + min (a , b)",
            &[],
        );
        check("i64::min(a, 3)", "min :: < i64 > (a , 3)", &[]);
        check("inf", ":: core :: primitive :: f32 :: INFINITY", &[]);
    }

    #[test]
    fn other_calls_are_of_annotated_functions() {
        check("near(&doc, &q)", "near (doc , & q)", &["near"]);
        check(
            "near(q) && a::near::<4>(q) && near(kv)",
            "near (q) && a :: near :: < 4 > (q) && near (kv)",
            &["near", "a::near"],
        );
    }
}
