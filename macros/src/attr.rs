//! The attributes of parameters: `#[range(1..=64)]` and `#[extent(batch, kv_len)]`.

use proc_macro2::TokenStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprRange, Meta, Token};

/// What attributes say of a capture.
#[derive(Default)]
pub(crate) struct Declared {
    /// The range of its values.
    pub(crate) range: Option<TokenStream>,
    /// The extents of its axes.
    pub(crate) extent: Option<Punctuated<Expr, Token![,]>>,
}

impl Declared {
    /// Takes our attributes out of `attrs`, which rustc would not know.
    pub(crate) fn take(attrs: &mut Vec<Attribute>, errors: &mut Vec<syn::Error>) -> Self {
        let mut declared = Self::default();
        attrs.retain(|attr| {
            let path = attr.path();
            if path.is_ident("range") {
                match range(attr) {
                    Ok(_) if declared.range.is_some() => errors.push(twice(attr, "range")),
                    Ok(range) => declared.range = Some(range),
                    Err(error) => errors.push(error),
                }
                false
            } else if path.is_ident("extent") {
                let parse = Punctuated::parse_terminated;
                match attr.parse_args_with(parse) {
                    Ok(_) if declared.extent.is_some() => errors.push(twice(attr, "extent")),
                    Ok(extent) => declared.extent = Some(extent),
                    Err(error) => errors.push(error),
                }
                false
            } else {
                if path.is_ident("cfg") || path.is_ident("cfg_attr") {
                    errors.push(syn::Error::new_spanned(
                        attr,
                        "expected a parameter that is always there, found a condition\nhelp: put the condition on the function",
                    ));
                }
                true
            }
        });
        declared
    }
}

fn twice(attr: &Attribute, name: &str) -> syn::Error {
    syn::Error::new_spanned(
        attr,
        format!("expected one `{name}` of a capture, found another"),
    )
}

/// The tokens of a range with two ends.
fn range(attr: &Attribute) -> syn::Result<TokenStream> {
    let error = || {
        syn::Error::new_spanned(
            attr,
            "expected a range with two ends\nhelp: write `#[range(1..=64)]`",
        )
    };
    let Meta::List(list) = &attr.meta else {
        return Err(error());
    };
    let range: ExprRange = syn::parse2(list.tokens.clone()).map_err(|_| error())?;
    if range.start.is_none() || range.end.is_none() {
        return Err(error());
    }
    Ok(list.tokens.clone())
}
