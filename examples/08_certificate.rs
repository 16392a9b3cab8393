//! Reading a certificate: what was compared with what, at which lengths, and what it rests on; and what a mismatch looks like.

use std::sync::Arc;

use maskwright::Scope;
use maskwright::ir::Const;
use maskwright::prelude::*;
use maskwright::verify::{VerifyError, VerifyRequest, verify};

/// Chunks that do not see one another.
#[attention_mask]
fn chunked(q_idx: i32, kv_idx: i32, #[range(1..=4096)] chunk: i32) -> bool {
    kv_idx <= q_idx && q_idx / chunk == kv_idx / chunk
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rule = chunked::bind(100);
    let scope = Scope::new("1..=1000".parse()?, 1, 1);
    let verified = verify(&VerifyRequest::of_mask(&rule, scope.clone()))?;
    let certificate = verified.certificate();
    println!("{certificate}\n");
    assert!(certificate.exhaustive);
    assert!(
        certificate
            .preconditions
            .iter()
            .any(|line| line.contains("chunk"))
    );

    // Suppose the author meant something else: the function is the law, so the rule is not cached, and the first
    // cells that differ are drawn.
    let meant = |point: &maskwright::eval::Point, _: &maskwright::eval::Sizes| {
        Const::Bool(point.kv_idx < point.q_idx && point.q_idx / 100 == point.kv_idx / 100)
    };
    let other = MaskRule::new(rule.bound().clone().with_reference(Arc::new(meant)))
        .map_err(|_| "a mask")?;
    match verify(&VerifyRequest::of_mask(&other, scope)) {
        Err(VerifyError::Mismatch(report)) => println!("{report}\n{}", report.draw()),
        Err(other) => return Err(other.into()),
        Ok(_) => return Err("a rule that contradicts its author was verified".into()),
    }
    Ok(())
}
