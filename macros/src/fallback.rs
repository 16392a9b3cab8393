//! What stands in place of a rule with errors, so that they are the only ones.

use maskwright_dsl::ir::RuleKind;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{FnArg, ReturnType, parse_quote};

use crate::ast::RuleFn;
use crate::expand::{bind_params, rule_type};

/// The function without its body.
pub(crate) fn stub_fn(rule: &RuleFn) -> TokenStream {
    let mut function = rule.item.clone();
    let inputs = std::mem::take(&mut function.sig.inputs);
    let is_param = |input: &FnArg| matches!(input, FnArg::Typed(_));
    function.sig.inputs = inputs.into_iter().filter(is_param).collect();
    if let ReturnType::Default = function.sig.output {
        function.sig.output = match rule.kind {
            RuleKind::Mask => parse_quote!(-> bool),
            RuleKind::Score => parse_quote!(-> f32),
        };
    }
    *function.block = parse_quote!({ ::maskwright::__private::reported() });
    quote! {
        #[allow(unused_variables, dead_code, reason = "its body is left out after an error")]
        #function
    }
}

/// The struct beside the function; within an `impl` there can be none.
pub(crate) fn stub_struct(rule: &RuleFn) -> TokenStream {
    if rule.item.sig.receiver().is_some() {
        return TokenStream::new();
    }
    let (vis, name) = (&rule.item.vis, &rule.item.sig.ident);
    let params = bind_params(rule);
    let generics = &rule.item.sig.generics;
    let clause = &generics.where_clause;
    let result = rule_type(rule.kind);
    quote! {
        #[allow(non_camel_case_types, dead_code, reason = "it is named after its function")]
        #vis struct #name {}

        #[allow(unused_variables, dead_code, reason = "its body is left out after an error")]
        impl #name {
            #vis fn bind #generics (#(#params),*) -> #result #clause {
                ::maskwright::__private::reported()
            }

            #vis fn try_bind #generics (
                #(#params),*
            ) -> ::core::result::Result<#result, ::maskwright::RustRuleError> #clause {
                ::maskwright::__private::reported()
            }
        }

        impl ::maskwright::__private::AnnotatedFn for #name {
            fn item() -> &'static ::maskwright::__private::RustFn {
                ::maskwright::__private::reported()
            }
        }
    }
}

/// A value in place of a closure.
pub(crate) fn stub_value(kind: RuleKind) -> TokenStream {
    let result = rule_type(kind);
    quote!(::maskwright::__private::reported::<#result>())
}
