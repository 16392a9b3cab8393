//! RULE and its flags become rules with bound values: the one place where that happens.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use maskwright::BoundRule;
use maskwright_dsl::capture::CaptureValue;
use maskwright_dsl::catalogue::{self, Catalogue};
use maskwright_dsl::ir::{CaptureKind, Rule, RuleKind, Source, Ty, Var};
use maskwright_dsl::text::{
    Item, ItemKind, LowerOptions, Module, ParamTy, lower, lower_expression, parse,
};

use crate::args::RuleArgs;
use crate::bucket::is_name;
use crate::capture::{Given, integer};
use crate::error::{CliError, suggest};

/// A RULE as a command asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// An expression, a name, or a file.
    pub(crate) text: &'a str,
    /// Mask or score, where the command takes one of them only.
    pub(crate) kind: Option<RuleKind>,
}

impl<'a> Wanted<'a> {
    /// A rule of either kind.
    pub(crate) fn any(text: &'a str) -> Self {
        Self { text, kind: None }
    }

    /// A rule of one kind.
    pub(crate) fn of(text: &'a str, kind: RuleKind) -> Self {
        Self {
            text,
            kind: Some(kind),
        }
    }
}

/// Finds a rule and binds what the flags give it.
pub(crate) fn resolve(text: &str, flags: &RuleArgs) -> Result<BoundRule, CliError> {
    let mut rules = resolve_all(&[Wanted::any(text)], flags)?;
    Ok(rules.remove(0))
}

/// Finds rules and binds what the flags give them; a name goes to every rule that declares it.
pub(crate) fn resolve_all(
    wanted: &[Wanted<'_>],
    flags: &RuleArgs,
) -> Result<Vec<BoundRule>, CliError> {
    let given = Given::read(&flags.set, &flags.capture)?;
    let texts = wanted
        .iter()
        .map(|wanted| find(wanted.text, &given))
        .collect::<Result<Vec<_>, _>>()?;
    let missing: Vec<_> = texts
        .iter()
        .filter_map(|text| text.missing(&given))
        .collect();
    if !missing.is_empty() {
        // A misspelt name is the likeliest reason for a missing one.
        let declared: Vec<&str> = texts.iter().flat_map(Text::declared).collect();
        let strangers = strangers(&given, &declared);
        if strangers.iter().any(|(_, meant)| meant.is_some()) {
            return Err(CliError::Unknown {
                names: strangers,
                rules: missing
                    .iter()
                    .map(|(rule, missing)| {
                        let decls: Vec<_> = missing.iter().map(|(decl, _)| decl.as_str()).collect();
                        format!("rule {rule} still needs {}", decls.join(", "))
                    })
                    .collect(),
            });
        }
        return Err(CliError::Missing { rules: missing });
    }
    let mut used: Vec<String> = Vec::new();
    let mut declared = Vec::new();
    let mut bound = Vec::new();
    for (text, wanted) in texts.iter().zip(wanted) {
        let rule = text.lower(wanted.kind, &given)?;
        check_kind(&rule, wanted.kind)?;
        used.extend(text.constants().map(str::to_owned));
        used.extend(rule.captures.iter().map(|decl| decl.name.clone()));
        used.extend(rule.dims.iter().map(|dim| dim.name.clone()));
        declared.push(describe_names(&rule, text));
        bound.push(bind(rule, text, &given)?);
    }
    let used: Vec<&str> = used.iter().map(String::as_str).collect();
    let strangers = strangers(&given, &used);
    if !strangers.is_empty() {
        return Err(CliError::Unknown {
            names: strangers,
            rules: declared,
        });
    }
    Ok(bound)
}

/// The given names that no rule knows, each with the known one that was perhaps meant.
fn strangers(given: &Given, known: &[&str]) -> Vec<(String, Option<String>)> {
    given
        .names()
        .filter(|name| !known.contains(name))
        .map(|name| (name.to_owned(), suggest(name, known.iter().copied())))
        .collect()
}

fn describe_names(rule: &Rule, text: &Text) -> String {
    let captures = rule.captures.iter().map(|decl| decl.name.as_str());
    let dims = rule.dims.iter().map(|dim| dim.name.as_str());
    let names: Vec<&str> = text.constants().chain(captures).chain(dims).collect();
    if names.is_empty() {
        format!("rule {} reads no captured value", rule.name)
    } else {
        format!("rule {} reads {}", rule.name, names.join(", "))
    }
}

fn check_kind(rule: &Rule, wanted: Option<RuleKind>) -> Result<(), CliError> {
    let name = |kind| match kind {
        RuleKind::Mask => "mask",
        RuleKind::Score => "score",
    };
    match wanted {
        Some(kind) if kind != rule.kind => Err(CliError::Kind {
            expected: name(kind),
            found: name(rule.kind),
            rule: rule.name.clone(),
        }),
        Some(_) | None => Ok(()),
    }
}

/// Where a rule is written.
enum Text {
    /// A rule of a module, by its position.
    Item { module: Module, at: usize },
    /// An expression.
    Expression(String),
}

/// A text as RULE: a file, a name of the catalogue, or an expression.
fn find(text: &str, given: &Given) -> Result<Text, CliError> {
    if let Some((path, name)) = file_of(text) {
        let source = fs::read_to_string(&path).map_err(|source| CliError::Read {
            path: path.clone(),
            source,
        })?;
        return item_of(
            Arc::new(Source {
                name: path.display().to_string(),
                text: source,
            }),
            name.as_deref(),
        );
    }
    let name = text.trim();
    if let Some(entry) = catalogue::find(name) {
        return item_of(entry.source(), Some(name));
    }
    let is_value = Var::from_name(name).is_some()
        || ["true", "false"].contains(&name)
        || given.names().any(|known| known == name);
    if is_name(name) && !is_value {
        let names = catalogue::entries().iter().map(|entry| entry.name);
        return Err(CliError::NoSuchRule {
            name: name.to_owned(),
            suggestion: suggest(name, names),
        });
    }
    Ok(Text::Expression(text.to_owned()))
}

/// The file that a RULE names, and the rule in it.
fn file_of(text: &str) -> Option<(PathBuf, Option<String>)> {
    if let Some(at) = text.rfind(".mask:") {
        let (path, name) = (&text[..at + ".mask".len()], &text[at + ".mask:".len()..]);
        if is_name(name) {
            return Some((path.into(), Some(name.to_owned())));
        }
    }
    // An expression may end in a read of something called `mask`, but not in `.mask`.
    if text.strip_suffix(".mask").is_some() {
        return Some((text.into(), None));
    }
    let path = Path::new(text);
    (catalogue::find(text).is_none() && path.is_file()).then(|| (path.into(), None))
}

fn item_of(source: Arc<Source>, name: Option<&str>) -> Result<Text, CliError> {
    let module = parse(source)?;
    let is_rule = |item: &Item| match item.kind {
        ItemKind::Rule(_) | ItemKind::RustRule(_) => true,
        ItemKind::Function { .. } => false,
    };
    let mut found = module
        .items
        .iter()
        .enumerate()
        .filter(|(_, item)| is_rule(item) && name.is_none_or(|name| item.name.text == name))
        .map(|(at, _)| at);
    match (found.next(), found.next()) {
        (Some(at), None) => Ok(Text::Item { module, at }),
        // The front end says which rules there are.
        _ => match lower(&module, name, &LowerOptions::default(), &Catalogue) {
            Err(faults) => Err(faults.into()),
            Ok(rule) => {
                let at = module
                    .items
                    .iter()
                    .position(|item| item.name.text == rule.name)
                    .unwrap_or(0);
                Ok(Text::Item { module, at })
            }
        },
    }
}

impl Text {
    fn item(&self) -> Option<&Item> {
        match self {
            Self::Item { module, at } => module.items.get(*at),
            Self::Expression(_) => None,
        }
    }

    /// Names of constants: known when the rule is compiled.
    fn constants(&self) -> impl Iterator<Item = &str> {
        let params = self.item().map_or(&[][..], |item| &item.params);
        params
            .iter()
            .filter(|param| matches!(param.ty, ParamTy::Const(_)))
            .map(|param| param.name.text.as_str())
    }

    /// Names of parameters that need values.
    fn declared(&self) -> impl Iterator<Item = &str> {
        let item = self.item();
        let params = item.map_or(&[][..], |item| &item.params);
        let rust = item.is_some_and(|item| matches!(item.kind, ItemKind::RustRule(_)));
        params
            .iter()
            .map(|param| param.name.text.as_str())
            .filter(move |name| !(rust && Var::from_name(name).is_some()))
    }

    /// The rule and its parameters without a value: their declarations, and how to give them.
    fn missing(&self, given: &Given) -> Option<(String, Vec<(String, String)>)> {
        let Self::Item { module, at } = self else {
            return None;
        };
        let item = module.items.get(*at)?;
        let names: Vec<&str> = self
            .declared()
            .filter(|name| given.setting(name).is_none() && given.file(name).is_none())
            .collect();
        let missing: Vec<(String, String)> = item
            .params
            .iter()
            .filter(|param| names.contains(&param.name.text.as_str()))
            .map(|param| {
                let name = &param.name.text;
                let span = param.loc.0;
                let text = &module.source.text;
                let decl = text.get(span.start as usize..span.end as usize);
                let decl: Vec<&str> = decl.unwrap_or(name).split_whitespace().collect();
                let how = match param.ty {
                    ParamTy::Scalar(_) | ParamTy::Const(_) => format!("--set {name}=VALUE"),
                    ParamTy::Shaped { .. } | ParamTy::Unshaped { .. } => {
                        format!("--capture {name}=FILE (.npy, or .safetensors:tensor)")
                    }
                };
                (decl.join(" "), how)
            })
            .collect();
        (!missing.is_empty()).then(|| (item.name.text.clone(), missing))
    }

    /// The rule itself.
    fn lower(&self, kind: Option<RuleKind>, given: &Given) -> Result<Rule, CliError> {
        let mut options = LowerOptions::default();
        match self {
            Self::Item { module, at } => {
                let item = &module.items[*at];
                for name in self.constants() {
                    if given.file(name).is_some() {
                        return Err(CliError::CaptureConstant {
                            name: name.to_owned(),
                            what: "a constant",
                            rule: item.name.text.clone(),
                        });
                    }
                }
                options.consts = constants(item, given)?;
                Ok(lower(module, Some(&item.name.text), &options, &Catalogue)?)
            }
            Self::Expression(text) => {
                for setting in &given.settings {
                    options
                        .free_scalars
                        .insert(setting.name.clone(), setting.literal_ty()?);
                }
                for file in &given.files {
                    let rank = file.buffer.shape().len();
                    let elem = file.free_elem();
                    if rank == 0 {
                        let ty = elem.loads_as();
                        options.free_scalars.insert(file.name.clone(), ty);
                    } else {
                        options.free_buffers.insert(file.name.clone(), (elem, rank));
                    }
                }
                let kind = kind.unwrap_or(if mentions_score(text) {
                    RuleKind::Score
                } else {
                    RuleKind::Mask
                });
                Ok(lower_expression(text, kind, &options, &Catalogue)?)
            }
        }
    }
}

/// Values of the constants of a rule.
fn constants(item: &Item, given: &Given) -> Result<BTreeMap<String, i64>, CliError> {
    let mut consts = BTreeMap::new();
    for param in &item.params {
        let (ParamTy::Const(ty), Some(setting)) = (&param.ty, given.setting(&param.name.text))
        else {
            continue;
        };
        let value = match ty {
            Ty::Bool => setting.text.parse::<bool>().ok().map(i64::from),
            Ty::I32 | Ty::I64 | Ty::U32 => setting.value(*ty)?.as_int(),
            Ty::F32 => integer(&setting.text),
        };
        let value = value.ok_or_else(|| CliError::Value {
            name: setting.name.clone(),
            expected: format!("a constant of type {ty}"),
            found: setting.text.clone(),
        })?;
        consts.insert(param.name.text.clone(), value);
    }
    Ok(consts)
}

/// Whether an expression reads the score.
fn mentions_score(text: &str) -> bool {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .any(|word| word == "score")
}

fn bind(rule: Rule, text: &Text, given: &Given) -> Result<BoundRule, CliError> {
    let mut values = Vec::with_capacity(rule.captures.len());
    let mut missing = Vec::new();
    for decl in &rule.captures {
        let name = &decl.name;
        let value = match (&decl.kind, given.setting(name), given.file(name)) {
            (CaptureKind::Scalar(ty), Some(setting), _) => {
                CaptureValue::Scalar(setting.value(*ty)?)
            }
            (CaptureKind::Scalar(ty), None, Some(file)) => file.as_scalar(*ty)?,
            (CaptureKind::Buffer { elem, .. }, None, Some(file)) => file.as_buffer(*elem)?,
            (CaptureKind::Buffer { .. }, Some(_), _) => {
                return Err(CliError::SetBuffer {
                    name: name.clone(),
                    rule: rule.name.clone(),
                });
            }
            (CaptureKind::Scalar(_), None, None) => {
                missing.push((name.clone(), format!("--set {name}=VALUE")));
                continue;
            }
            (CaptureKind::Buffer { .. }, None, None) => {
                missing.push((name.clone(), format!("--capture {name}=FILE")));
                continue;
            }
        };
        values.push(value);
    }
    if !missing.is_empty() {
        return Err(CliError::Missing {
            rules: vec![(rule.name.clone(), missing)],
        });
    }
    let mut dims = Vec::new();
    for dim in &rule.dims {
        let is_capture = rule.capture_named(&dim.name).is_some();
        if is_capture || text.constants().any(|name| name == dim.name) {
            continue;
        }
        if given.file(&dim.name).is_some() {
            return Err(CliError::CaptureConstant {
                name: dim.name.clone(),
                what: "a dimension name",
                rule: rule.name.clone(),
            });
        }
        if let Some(setting) = given.setting(&dim.name) {
            let value = setting.value(Ty::I32)?.as_int();
            let value = value.expect("an i32 is an integer") as i32;
            dims.push((dim.name.clone(), value));
        }
    }
    let dims: Vec<(&str, i32)> = dims
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    Ok(BoundRule::new(Arc::new(rule), values, &dims)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_from_expressions() {
        let file =
            |text: &str| file_of(text).map(|(path, name)| (path.display().to_string(), name));
        assert_eq!(file("a/b.mask"), Some(("a/b.mask".to_owned(), None)));
        assert_eq!(
            file("a/b.mask:window"),
            Some(("a/b.mask".to_owned(), Some("window".to_owned())))
        );
        assert_eq!(file("kv <= q"), None);
    }

    #[test]
    fn a_score_is_read_as_a_word() {
        assert!(mentions_score("if kv <= q { score } else { -inf }"));
        assert!(!mentions_score("scores <= q"));
    }
}
