//! Tests of buckets.

use super::*;

#[track_caller]
fn round_trip(text: &str, canonical: &str) {
    let bucket: Bucket = text.parse().unwrap();
    assert_eq!(bucket.to_string(), canonical);
    assert_eq!(canonical.parse(), Ok(bucket));
}

#[test]
fn text_and_bucket_say_the_same() {
    round_trip("1..=4096", "1..=4096");
    round_trip(" 1 .. 4_097 ", "1..=4096");
    round_trip("64", "64");
    round_trip(
        "1..=8,offset=-3..=4",
        "q=1..=8,kv=1..=8,relation=q==kv,offset=-3..=4",
    );
    round_trip("q=1,kv=0..=9", "q=1,kv=0..=9");
    round_trip("q=1..=2,kv=0..=9,relation=free", "q=1..=2,kv=0..=9");
    round_trip(
        "kv=1..=8192, q=1..=4096, relation=q <= kv, offset=0..=100",
        "q=1..=4096,kv=1..=8192,relation=q<=kv,offset=0..=100",
    );
}

#[track_caller]
fn refuses(text: &str, message: &str) {
    assert_eq!(text.parse::<Bucket>().unwrap_err().to_string(), message);
}

#[test]
fn errors_say_what_was_expected() {
    refuses("5..=4", "the range of lengths is empty: 5..=4");
    refuses("0..0", "the range of lengths is empty: 0..0");
    refuses(
        "q=1..=2",
        "a bucket needs kv=, or a range of lengths such as 1..=4096",
    );
    refuses("1..=2,kv=3", "kv is given twice");
    refuses(
        "q=9,kv=1..=8,relation=q<=kv",
        "no q_len of 9 and kv_len of 1..=8 satisfy q<=kv",
    );
    refuses(
        "q=x,kv=1",
        "q: expected a range of lengths such as 1..=4096, found 'x'",
    );
    refuses(
        "1..=2,relation=q>kv",
        "relation: expected q==kv, q<=kv or free, found 'q>kv'",
    );
    refuses(
        "batch=2",
        "expected one of q=, kv=, relation=, offset= or a range of lengths, found 'batch=2'",
    );
    refuses(
        "",
        "expected one of q=, kv=, relation=, offset= or a range of lengths, found ''",
    );
    refuses(
        "99999999999999999999",
        "lengths: expected a range of lengths such as 1..=4096, found '99999999999999999999'",
    );
}

#[test]
fn ends_are_the_corners_of_all_members() {
    for text in [
        "3..=7",
        "q=2..=6,kv=1..=8,relation=q<=kv,offset=0..=2",
        "q=2..=6,kv=4..=5,relation=q<=kv",
        "q=2..=6,kv=4..=9",
        "q=0..=3,kv=2..=9,relation=q==kv",
    ] {
        let bucket: Bucket = text.parse().unwrap();
        let members: Vec<Member> = bucket.members().collect();
        let tight = bucket.tight().unwrap();
        assert!(tight.members().eq(members.iter().copied()), "{text}");
        let ends = bucket.ends();
        for end in &ends {
            assert!(members.contains(end), "{text}: {end:?}");
        }
        for key in [
            |m: &Member| m.q_len as i64,
            |m: &Member| m.kv_len as i64,
            |m: &Member| m.q_offset,
        ] {
            assert_eq!(
                ends.iter().map(key).min(),
                members.iter().map(key).min(),
                "{text}"
            );
            assert_eq!(
                ends.iter().map(key).max(),
                members.iter().map(key).max(),
                "{text}"
            );
        }
    }
}

#[test]
fn intersection_has_the_members_of_both() {
    let a: Bucket = "q=1..=6,kv=1..=8,relation=q<=kv".parse().unwrap();
    let b: Bucket = "3..=20".parse().unwrap();
    let both = a.intersect(&b).unwrap();
    let expected: Vec<Member> = a
        .members()
        .filter(|m| b.contains(m.q_len, m.kv_len, m.q_offset))
        .collect();
    assert_eq!(both.members().collect::<Vec<_>>(), expected);
    assert_eq!(a.intersect(&"9..=20".parse().unwrap()), None);
}
