//! Names in CUDA text: those of captured values as far as C++ allows, and names for shared values.

use std::collections::BTreeSet;

/// What no name of ours may be: keywords, what the functions are called with, and names of the device's own library.
const RESERVED: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "compl",
    "const",
    "constexpr",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "while",
    "xor",
    "xor_eq",
    "p",
    "b",
    "h",
    "q",
    "kv",
    "row",
    "col",
    "score",
    "min",
    "max",
    "abs",
    "clamp",
    "signum",
    "quotient",
    "mask_rows",
    "mask_row",
    "mask_col",
    "mask_mod",
    "score_row",
    "score_col",
    "score_mod",
];

/// Names that are taken in one scope.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
    temporaries: u32,
}

impl Names {
    /// `wanted` if it is free, or else with a number behind.
    pub(super) fn take(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut number = 2;
        while RESERVED.contains(&name.as_str()) || !self.taken.insert(name.clone()) {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        name
    }

    /// The next of `t0`, `t1`, … that is free.
    pub(super) fn take_temporary(&mut self) -> String {
        loop {
            let name = format!("t{}", self.temporaries);
            self.temporaries += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// The part of a name that C++ takes: letters of other alphabets become `_`, and no two `_` stand together.
pub(super) fn plain(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() { c } else { '_' };
        if c != '_' || !plain.ends_with('_') {
            plain.push(c);
        }
    }
    plain.trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gets_a_number() {
        let mut names = Names::default();
        let taken = ["doc_q", "doc_q", "while", "doc_q"].map(|name| names.take(name));
        assert_eq!(taken, ["doc_q", "doc_q_2", "while_2", "doc_q_3"]);
        assert_eq!(
            [names.take_temporary(), names.take_temporary()],
            ["t0", "t1"]
        );
    }

    #[test]
    fn a_name_keeps_what_cpp_takes() {
        assert_eq!(plain("doc__ids_"), "doc_ids");
        assert_eq!(plain("größe"), "gr_e");
        assert_eq!(plain("_"), "");
    }
}
