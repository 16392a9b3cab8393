//! What a command's rule is prepared for: `--bucket`, the lengths, and the counts.

use std::collections::BTreeMap;

use maskwright_dsl::block_mask::BlockSize;
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::ir::{CaptureKind, Rule};
use maskwright_dsl::pipeline::Scope;

use crate::args::{RuleArgs, whole};
use crate::error::{CliError, suggest};

/// Lengths and ranges of scalars, as one `--bucket` says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    /// `None` where only scalars are given ranges.
    pub(crate) bucket: Option<Bucket>,
    pub(crate) scalars: BTreeMap<String, (i64, i64)>,
}

/// The parts that a bucket itself has.
const PARTS: [&str; 4] = ["q", "kv", "relation", "offset"];

/// Reads one `--bucket`: entries of run-time scalars are split off first.
pub(crate) fn parse(text: &str) -> Result<Asked, CliError> {
    let mut scalars = BTreeMap::new();
    let mut rest = Vec::new();
    for part in text.split(',') {
        let scalar = part.split_once('=').filter(|(name, range)| {
            // `1..=4096` has an equals sign, but what stands before it is no name.
            let name = name.trim();
            is_name(name) && !PARTS.contains(&name) && !range.is_empty()
        });
        let Some((name, range)) = scalar else {
            rest.push(part);
            continue;
        };
        let name = name.trim();
        let range = scalar_range(range).ok_or_else(|| CliError::ScalarRange {
            name: name.to_owned(),
            found: range.to_owned(),
        })?;
        if scalars.insert(name.to_owned(), range).is_some() {
            return Err(CliError::Twice {
                name: name.to_owned(),
            });
        }
    }
    let bucket = match rest.join(",").trim() {
        "" if !scalars.is_empty() => None,
        text => Some(text.parse::<Bucket>()?.tight()?),
    };
    Ok(Asked { bucket, scalars })
}

/// `a..=b`, `a..b` or one number.
fn scalar_range(text: &str) -> Option<(i64, i64)> {
    let number = |text: &str| whole(text).and_then(|n| i64::try_from(n).ok());
    let (lo, hi) = if let Some((lo, hi)) = text.split_once("..=") {
        (number(lo)?, number(hi)?)
    } else if let Some((lo, hi)) = text.split_once("..") {
        (number(lo)?, number(hi)?.checked_sub(1)?)
    } else {
        let one = number(text)?;
        (one, one)
    };
    (lo <= hi).then_some((lo, hi))
}

/// Whether a text is an identifier.
pub(crate) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The scope of one call.
pub(crate) fn single(flags: &RuleArgs, q_len: u64, kv_len: u64) -> Scope {
    let bucket = Bucket::single(q_len, kv_len, flags.q_offset);
    Scope::new(bucket, flags.batch, flags.heads)
}

/// The scopes that the `--bucket` flags ask for; `lengths` stand in where a bucket only has ranges of scalars.
pub(crate) fn scopes(
    flags: &RuleArgs,
    lengths: Option<(u64, u64)>,
) -> Result<Vec<Scope>, CliError> {
    flags
        .bucket
        .iter()
        .map(|text| {
            let asked = parse(text)?;
            let bucket = match (asked.bucket, lengths) {
                (Some(bucket), _) => bucket,
                (None, Some((q_len, kv_len))) => Bucket::single(q_len, kv_len, flags.q_offset),
                (None, None) => return Err(CliError::NoLengths),
            };
            let mut scope = Scope::new(bucket, flags.batch, flags.heads);
            scope.scalar_ranges = asked.scalars;
            Ok(scope)
        })
        .collect()
}

/// The one scope of a command: its bucket if there is one, its lengths otherwise.
pub(crate) fn one_scope(flags: &RuleArgs, lengths: Option<(u64, u64)>) -> Result<Scope, CliError> {
    let mut scopes = scopes(flags, lengths)?;
    match (scopes.len(), lengths) {
        (0, Some((q_len, kv_len))) => Ok(single(flags, q_len, kv_len)),
        (0, None) => Err(CliError::NoLengths),
        (1, _) => Ok(scopes.remove(0)),
        (found, _) => Err(CliError::SeveralBuckets { found }),
    }
}

/// The one block size of a command.
pub(crate) fn one_block(flags: &RuleArgs) -> Result<BlockSize, CliError> {
    match flags.block[..] {
        [] => Ok(BlockSize::default()),
        [block] => Ok(block),
        _ => Err(CliError::SeveralBlocks {
            found: flags.block.len(),
        }),
    }
}

/// Checks that every scalar with a range is an integer scalar of one of the rules.
pub(crate) fn check_scalars(scope: &Scope, rules: &[&Rule]) -> Result<(), CliError> {
    for name in scope.scalar_ranges.keys() {
        let scalars = || {
            rules.iter().flat_map(|rule| {
                rule.captures
                    .iter()
                    .filter(|decl| matches!(decl.kind, CaptureKind::Scalar(ty) if ty.is_int()))
            })
        };
        if !scalars().any(|decl| decl.name == *name) {
            return Err(CliError::UnknownScalar {
                name: name.clone(),
                suggestion: suggest(name, scalars().map(|decl| decl.name.as_str())),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use maskwright_dsl::bucket::Relation;

    #[test]
    fn scalars_are_split_off() {
        let asked = parse("1..=4096,window=1..=512").unwrap();
        assert_eq!(asked.bucket, Some(Bucket::self_attention(1..=4096)));
        assert_eq!(asked.scalars["window"], (1, 512));
        let asked = parse("q=1..=4,kv=1..=9,relation=q<=kv,offset=0..=3,w=5").unwrap();
        assert_eq!(asked.bucket.unwrap().relation, Relation::AtMost);
        assert_eq!(asked.scalars["w"], (5, 5));
        assert_eq!(parse("w=-3..3").unwrap().bucket, None);
    }

    #[test]
    fn faults_are_said() {
        for bad in [
            "", "w=", "w=3..=1", "w=1,w=2", "9..=1", "q=1..=4", "nonsense",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
