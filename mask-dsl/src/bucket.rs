//! Buckets: the ranges of lengths and query offsets that one compiled rule or block mask holds for.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// How the two lengths of a call are tied to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Relation {
    /// `q_len == kv_len`: self-attention without a cache.
    Equal,
    /// `q_len <= kv_len`: chunked prefill and decoding.
    AtMost,
    /// Any two lengths of the ranges.
    Free,
}

impl Relation {
    /// Tells whether the two lengths stand in this relation.
    pub fn holds(self, q_len: u64, kv_len: u64) -> bool {
        match self {
            Self::Equal => q_len == kv_len,
            Self::AtMost => q_len <= kv_len,
            Self::Free => true,
        }
    }

    /// The relation that says what both say.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Equal, _) | (_, Self::Equal) => Self::Equal,
            (Self::AtMost, _) | (_, Self::AtMost) => Self::AtMost,
            (Self::Free, Self::Free) => Self::Free,
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "q==kv",
            Self::AtMost => "q<=kv",
            Self::Free => "free",
        })
    }
}

/// One call of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// Query rows of the call.
    pub q_len: u64,
    /// Keys of the call.
    pub kv_len: u64,
    /// Absolute position of the first query row.
    pub q_offset: i64,
}

/// Ranges of `q_len`, `kv_len` and the query offset, and the relation of the two lengths.
///
/// The fields are plain, so a bucket can be put together that has no member; [`Bucket::check`] finds out, and
/// [`Bucket::tight`] gives the same members with ranges whose ends are all attained.
///
/// # Example
/// ```
/// use maskwright_dsl::bucket::Bucket;
/// let bucket: Bucket = "q=1..=64,kv=1..=4096,relation=q<=kv".parse().unwrap();
/// assert!(bucket.contains(1, 4096, 0));
/// assert!(!bucket.contains(64, 63, 0));
/// assert_eq!(bucket.to_string().parse(), Ok(bucket));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Query rows of a call.
    pub q_len: RangeInclusive<u64>,
    /// Keys of a call.
    pub kv_len: RangeInclusive<u64>,
    /// How the two are tied.
    pub relation: Relation,
    /// Absolute position of the first query row.
    pub q_offset: RangeInclusive<i64>,
}

/// Why a bucket could not be read, or holds nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// A range ends before it starts.
    #[error("the range of {field} is empty: {text}")]
    EmptyRange {
        /// Which range.
        field: &'static str,
        /// The range as written.
        text: String,
    },
    /// Each range has values, but no two of them stand in the relation.
    #[error("no q_len of {q_len} and kv_len of {kv_len} satisfy {relation}")]
    NoMember {
        /// Range of query lengths.
        q_len: String,
        /// Range of key lengths.
        kv_len: String,
        /// The relation asked for.
        relation: Relation,
    },
    /// A number is missing, malformed or too large.
    #[error("{field}: expected {expected}, found '{found}'")]
    Value {
        /// Which part of the bucket.
        field: &'static str,
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A part is not one of those a bucket has.
    #[error("expected one of q=, kv=, relation=, offset= or a range of lengths, found '{found}'")]
    UnknownPart {
        /// The part as written.
        found: String,
    },
    /// A part stands twice.
    #[error("{field} is given twice")]
    Repeated {
        /// Which part.
        field: &'static str,
    },
    /// A part that the others need is not there.
    #[error("a bucket needs {missing}, or a range of lengths such as 1..=4096")]
    Missing {
        /// Which part.
        missing: &'static str,
    },
}

impl Bucket {
    /// Makes a bucket of one call.
    pub fn single(q_len: u64, kv_len: u64, q_offset: i64) -> Self {
        Self {
            q_len: q_len..=q_len,
            kv_len: kv_len..=kv_len,
            relation: Relation::Free,
            q_offset: q_offset..=q_offset,
        }
    }

    /// Makes the bucket of self-attention at every length of the range.
    pub fn self_attention(lengths: RangeInclusive<u64>) -> Self {
        Self {
            q_len: lengths.clone(),
            kv_len: lengths,
            relation: Relation::Equal,
            q_offset: 0..=0,
        }
    }

    /// Tells whether a call belongs to the bucket.
    pub fn contains(&self, q_len: u64, kv_len: u64, q_offset: i64) -> bool {
        self.q_len.contains(&q_len)
            && self.kv_len.contains(&kv_len)
            && self.q_offset.contains(&q_offset)
            && self.relation.holds(q_len, kv_len)
    }

    /// Checks that the bucket has a member.
    ///
    /// # Errors
    /// [`BucketError::EmptyRange`] or [`BucketError::NoMember`].
    pub fn check(&self) -> Result<(), BucketError> {
        self.tight().map(|_| ())
    }

    /// Narrows the ranges to values that some member has; the members stay the same.
    ///
    /// A bucket of one pair of lengths becomes [`Relation::Free`], so that equal buckets compare equal.
    ///
    /// # Errors
    /// [`BucketError::EmptyRange`] or [`BucketError::NoMember`].
    pub fn tight(&self) -> Result<Self, BucketError> {
        nonempty("q_len", &self.q_len)?;
        nonempty("kv_len", &self.kv_len)?;
        nonempty("q_offset", &self.q_offset)?;
        let (mut q, mut kv) = (bounds(&self.q_len), bounds(&self.kv_len));
        match self.relation {
            Relation::Equal => {
                q = (q.0.max(kv.0), q.1.min(kv.1));
                kv = q;
            }
            Relation::AtMost => {
                q.1 = q.1.min(kv.1);
                kv.0 = kv.0.max(q.0);
            }
            Relation::Free => {}
        }
        if q.1 < q.0 || kv.1 < kv.0 {
            return Err(BucketError::NoMember {
                q_len: range_text(&self.q_len),
                kv_len: range_text(&self.kv_len),
                relation: self.relation,
            });
        }
        let implied = match self.relation {
            Relation::Equal => q.0 == q.1,
            Relation::AtMost => q.1 <= kv.0,
            Relation::Free => true,
        };
        Ok(Self {
            q_len: q.0..=q.1,
            kv_len: kv.0..=kv.1,
            relation: if implied {
                Relation::Free
            } else {
                self.relation
            },
            q_offset: self.q_offset.clone(),
        })
    }

    /// The members of both buckets, or `None` where they share none.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        Self {
            q_len: overlap(&self.q_len, &other.q_len),
            kv_len: overlap(&self.kv_len, &other.kv_len),
            relation: self.relation.and(other.relation),
            q_offset: overlap(&self.q_offset, &other.q_offset),
        }
        .tight()
        .ok()
    }

    /// Tells whether the bucket has exactly one member.
    pub fn is_single(&self) -> bool {
        self.tight().is_ok_and(|tight| {
            tight.q_len.start() == tight.q_len.end()
                && tight.kv_len.start() == tight.kv_len.end()
                && tight.q_offset.start() == tight.q_offset.end()
        })
    }

    /// The key lengths that go with a query length, or `None` where none does.
    pub fn kv_lens(&self, q_len: u64) -> Option<RangeInclusive<u64>> {
        if !self.q_len.contains(&q_len) {
            return None;
        }
        let (low, high) = bounds(&self.kv_len);
        let (low, high) = match self.relation {
            Relation::Equal => (low.max(q_len), high.min(q_len)),
            Relation::AtMost => (low.max(q_len), high),
            Relation::Free => (low, high),
        };
        (low <= high).then_some(low..=high)
    }

    /// Every pair `(q_len, kv_len)` of the bucket, in rising order.
    pub fn lengths(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.q_len
            .clone()
            .filter_map(|q_len| Some((q_len, self.kv_lens(q_len)?)))
            .flat_map(|(q_len, kv_lens)| kv_lens.map(move |kv_len| (q_len, kv_len)))
    }

    /// Every member, in rising order of `(q_len, kv_len, q_offset)`.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.lengths().flat_map(|(q_len, kv_len)| {
            self.q_offset.clone().map(move |q_offset| Member {
                q_len,
                kv_len,
                q_offset,
            })
        })
    }

    /// The members at the corners of the bucket: shortest and longest on each axis, and at both ends of the offset.
    pub fn ends(&self) -> Vec<Member> {
        let Ok(tight) = self.tight() else {
            return Vec::new();
        };
        let (q, kv) = (bounds(&tight.q_len), bounds(&tight.kv_len));
        // The corners of the region are where a bound of one axis meets a bound of the other, or the line q == kv.
        let mut corners = Vec::new();
        for q_len in [q.0, q.1, kv.0.clamp(q.0, q.1), kv.1.clamp(q.0, q.1)] {
            if let Some(kv_lens) = tight.kv_lens(q_len) {
                for kv_len in [*kv_lens.start(), *kv_lens.end()] {
                    for q_offset in [*tight.q_offset.start(), *tight.q_offset.end()] {
                        corners.push(Member {
                            q_len,
                            kv_len,
                            q_offset,
                        });
                    }
                }
            }
        }
        corners.sort_unstable();
        corners.dedup();
        corners
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_origin = self.q_offset == (0..=0);
        if self.relation == Relation::Equal && self.q_len == self.kv_len && at_origin {
            return f.write_str(&range_text(&self.q_len));
        }
        let (q_len, kv_len) = (range_text(&self.q_len), range_text(&self.kv_len));
        write!(f, "q={q_len},kv={kv_len}")?;
        if self.relation != Relation::Free {
            write!(f, ",relation={}", self.relation)?;
        }
        if !at_origin {
            write!(f, ",offset={}", range_text(&self.q_offset))?;
        }
        Ok(())
    }
}

impl FromStr for Bucket {
    type Err = BucketError;

    /// Reads `1..=4096` (self-attention) or `q=1..=64,kv=1..=4096,relation=q<=kv,offset=0..=100`.
    ///
    /// A range is `a..=b`, `a..b` (without `b`) or one number. Without a relation the two lengths are free, without
    /// an offset it is 0.
    fn from_str(text: &str) -> Result<Self, BucketError> {
        let (mut both, mut q_len, mut kv_len) = (None, None, None);
        let (mut relation, mut q_offset) = (None, None);
        for part in text.split(',').map(str::trim) {
            // `relation=q==kv` has several equals signs; the first one ends the name.
            match part
                .split_once('=')
                .map(|(name, value)| (name.trim(), value.trim()))
            {
                Some(("q", value)) => once("q", &mut q_len, length_range("q", value)?)?,
                Some(("kv", value)) => once("kv", &mut kv_len, length_range("kv", value)?)?,
                Some(("relation", value)) => {
                    once("relation", &mut relation, parse_relation(value)?)?;
                }
                Some(("offset", value)) => once("offset", &mut q_offset, offset_range(value)?)?,
                _ if part.starts_with(|c: char| c.is_ascii_digit()) => {
                    once(
                        "the range of lengths",
                        &mut both,
                        length_range("lengths", part)?,
                    )?;
                }
                _ => {
                    return Err(BucketError::UnknownPart {
                        found: part.to_owned(),
                    });
                }
            }
        }
        let (q_len, kv_len, default_relation) = match (both, q_len, kv_len) {
            (Some(both), None, None) => (both.clone(), both, Relation::Equal),
            (Some(_), Some(_), _) => return Err(BucketError::Repeated { field: "q" }),
            (Some(_), None, Some(_)) => return Err(BucketError::Repeated { field: "kv" }),
            (None, Some(q_len), Some(kv_len)) => (q_len, kv_len, Relation::Free),
            (None, None, Some(_)) => return Err(BucketError::Missing { missing: "q=" }),
            (None, Some(_), None) => return Err(BucketError::Missing { missing: "kv=" }),
            (None, None, None) => {
                return Err(BucketError::Missing {
                    missing: "q= and kv=",
                });
            }
        };
        let bucket = Self {
            q_len,
            kv_len,
            relation: relation.unwrap_or(default_relation),
            q_offset: q_offset.unwrap_or(0..=0),
        };
        bucket.check()?;
        Ok(bucket)
    }
}

fn once<T>(field: &'static str, slot: &mut Option<T>, value: T) -> Result<(), BucketError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(BucketError::Repeated { field }),
    }
}

fn parse_relation(text: &str) -> Result<Relation, BucketError> {
    let compact: String = text.split_whitespace().collect();
    match compact.as_str() {
        "q==kv" => Ok(Relation::Equal),
        "q<=kv" => Ok(Relation::AtMost),
        "free" => Ok(Relation::Free),
        _ => Err(BucketError::Value {
            field: "relation",
            expected: "q==kv, q<=kv or free",
            found: text.to_owned(),
        }),
    }
}

fn length_range(field: &'static str, text: &str) -> Result<RangeInclusive<u64>, BucketError> {
    parse_range(
        field,
        "a range of lengths such as 1..=4096",
        text,
        |end: u64| end.checked_sub(1),
    )
}

fn offset_range(text: &str) -> Result<RangeInclusive<i64>, BucketError> {
    parse_range(
        "offset",
        "a range of positions such as 0..=100",
        text,
        |end: i64| end.checked_sub(1),
    )
}

fn parse_range<T: FromStr + Copy + PartialOrd>(
    field: &'static str,
    expected: &'static str,
    text: &str,
    before: impl Fn(T) -> Option<T>,
) -> Result<RangeInclusive<T>, BucketError> {
    let number = |digits: &str| {
        digits
            .trim()
            .replace('_', "")
            .parse::<T>()
            .map_err(|_| BucketError::Value {
                field,
                expected,
                found: text.to_owned(),
            })
    };
    let empty = || BucketError::EmptyRange {
        field,
        text: text.to_owned(),
    };
    let range = if let Some((start, end)) = text.split_once("..=") {
        number(start)?..=number(end)?
    } else if let Some((start, end)) = text.split_once("..") {
        number(start)?..=before(number(end)?).ok_or_else(empty)?
    } else {
        let only = number(text)?;
        only..=only
    };
    if range.is_empty() {
        return Err(empty());
    }
    Ok(range)
}

fn bounds<T: Copy>(range: &RangeInclusive<T>) -> (T, T) {
    (*range.start(), *range.end())
}

fn overlap<T: Copy + Ord>(a: &RangeInclusive<T>, b: &RangeInclusive<T>) -> RangeInclusive<T> {
    *a.start().max(b.start())..=*a.end().min(b.end())
}

fn range_text<T: fmt::Display + PartialEq>(range: &RangeInclusive<T>) -> String {
    if range.start() == range.end() {
        range.start().to_string()
    } else {
        format!("{}..={}", range.start(), range.end())
    }
}

fn nonempty<T: fmt::Display + PartialOrd>(
    field: &'static str,
    range: &RangeInclusive<T>,
) -> Result<(), BucketError> {
    if range.is_empty() {
        return Err(BucketError::EmptyRange {
            field,
            text: range_text(range),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
