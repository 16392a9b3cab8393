//! The calls of a bucket at which a rule is checked.

use std::collections::BTreeSet;

use maskwright_dsl::bucket::{Bucket, Member, Relation};

use super::random::Random;

/// Lengths that are tried one after another from the shortest on. Compiled code tells lengths apart by their remainder
/// modulo 64, and whether there is a whole word before the tail.
const RISING_LENGTHS: u64 = 128;

/// Pairs of lengths drawn from the whole bucket.
const SAMPLED_PAIRS: u64 = 64;

/// The other length while one of them is tried in every remainder: a whole word and a tail.
const PARTNER: u64 = 69;

const STREAM: u64 = 1;

/// The longest call at the smallest offset: what an exact block mask speaks of. The bucket is tight.
pub(super) fn largest(bucket: &Bucket) -> Member {
    Member {
        q_len: *bucket.q_len.end(),
        kv_len: *bucket.kv_len.end(),
        q_offset: *bucket.q_offset.start(),
    }
}

/// The calls of a tight bucket that are checked, cheap ones first: its ends, every remainder of each length, one query,
/// no query or key, more queries than keys, and sampled pairs. The largest is among them.
pub(super) fn members(bucket: &Bucket, seed: u64) -> Vec<Member> {
    let mut members: BTreeSet<Member> = bucket.ends().into_iter().collect();
    let largest = largest(bucket);
    members.insert(largest);
    let offset = *bucket.q_offset.start();
    let mut add = |q_len: u64, kv_len: u64, q_offset: i64| {
        if bucket.contains(q_len, kv_len, q_offset) {
            members.insert(Member {
                q_len,
                kv_len,
                q_offset,
            });
        }
    };
    let (q_low, q_high) = (*bucket.q_len.start(), *bucket.q_len.end());
    let (kv_low, kv_high) = (*bucket.kv_len.start(), *bucket.kv_len.end());
    for step in 0..RISING_LENGTHS {
        let q_len = q_low.saturating_add(step).min(q_high);
        if let Some(kv) = bucket.kv_lens(q_len) {
            add(
                q_len,
                kv.start().saturating_add(PARTNER).min(*kv.end()),
                offset,
            );
        }
        let kv_len = kv_low.saturating_add(step).min(kv_high);
        let (low, high) = q_lens(bucket, kv_len);
        add(low.saturating_add(5).min(high), kv_len, offset);
    }
    for few in [0, 1] {
        if let Some(kv) = bucket.kv_lens(few) {
            for kv_len in [*kv.start(), kv.start().saturating_add(PARTNER), *kv.end()] {
                add(few, kv_len, offset);
            }
        }
        let (low, high) = q_lens(bucket, few);
        for q_len in [low, low.saturating_add(PARTNER), high] {
            add(q_len, few, offset);
        }
    }
    let more_queries = kv_low.max(q_low).saturating_add(3);
    for kv_len in [kv_low, more_queries - 2, more_queries - 1] {
        add(more_queries, kv_len, offset);
    }
    let mut random = Random::new(seed, STREAM);
    for pair in 0..SAMPLED_PAIRS {
        // Every other pair is short, where tails matter most.
        let short = |low: u64, high: u64| match pair % 2 {
            0 => high,
            _ => high.min(low.saturating_add(1024)),
        };
        let high = short(q_low, q_high);
        let q_len = q_low + random.below((high - q_low).saturating_add(1));
        let Some(kv) = bucket.kv_lens(q_len) else {
            continue;
        };
        let high = short(*kv.start(), *kv.end());
        let kv_len = kv.start() + random.below((high - kv.start()).saturating_add(1));
        let q_offset = random.within(*bucket.q_offset.start(), *bucket.q_offset.end());
        add(q_len, kv_len, q_offset);
    }
    let mut members: Vec<Member> = members.into_iter().collect();
    // Of calls with equally many cells, the one that exact masks speak of comes last.
    members.sort_by_key(|member| (cells(member), *member == largest, *member));
    members
}

/// Cells of one plane of a call.
pub(super) fn cells(member: &Member) -> u128 {
    u128::from(member.q_len) * u128::from(member.kv_len)
}

/// Least and greatest query length that goes with a key length; crossed where none does.
fn q_lens(bucket: &Bucket, kv_len: u64) -> (u64, u64) {
    let (low, high) = (*bucket.q_len.start(), *bucket.q_len.end());
    match bucket.relation {
        Relation::Equal => (kv_len, kv_len),
        Relation::AtMost => (low, high.min(kv_len)),
        Relation::Free => (low, high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (Bucket, Vec<Member>) {
        let bucket: Bucket = text.parse().unwrap();
        let bucket = bucket.tight().unwrap();
        let members = members(&bucket, 3);
        for member in &members {
            assert!(bucket.contains(member.q_len, member.kv_len, member.q_offset));
        }
        assert_eq!(members.last(), Some(&largest(&bucket)));
        (bucket, members)
    }

    fn remainders(members: &[Member], of: impl Fn(&Member) -> u64) -> usize {
        let found: BTreeSet<u64> = members.iter().map(|member| of(member) % 64).collect();
        found.len()
    }

    #[test]
    fn a_bucket_is_checked_at_every_remainder_of_each_length() {
        for text in [
            "1..=4096",
            "100..=5000",
            "q=1..=4096,kv=1..=4096",
            "q=1..=64,kv=1..=4096,relation=q<=kv",
            "q=0..=200,kv=0..=200,offset=0..=10",
        ] {
            let (_, members) = of(text);
            assert_eq!(remainders(&members, |member| member.q_len), 64, "{text}");
            assert_eq!(remainders(&members, |member| member.kv_len), 64, "{text}");
        }
    }

    #[test]
    fn small_and_odd_calls_are_among_them() {
        let (_, members) = of("q=0..=300,kv=0..=300,offset=5..=9");
        let has = |test: &dyn Fn(&Member) -> bool| members.iter().any(test);
        assert!(has(&|m| m.q_len == 0 && m.kv_len == 300));
        assert!(has(&|m| m.q_len == 300 && m.kv_len == 0));
        assert!(has(&|m| m.q_len == 1 && 64 < m.kv_len));
        assert!(has(&|m| m.kv_len < m.q_len && 0 < m.kv_len));
        assert!(has(&|m| m.q_offset == 9));
        assert!(has(&|m| m.q_offset == 5));
        let cells: Vec<u128> = members.iter().map(cells).collect();
        assert!(cells.is_sorted());
    }

    #[test]
    fn one_call_is_checked_once_and_one_query_in_a_growing_cache() {
        assert_eq!(of("128").1.len(), 1);
        let (_, members) = of("q=1,kv=1..=100000,relation=q<=kv");
        assert!(members.iter().all(|member| member.q_len == 1));
        assert!(128 + 32 < members.len());
    }
}
