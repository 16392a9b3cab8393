use maskwright::{mask, score};

fn main() {
    let w = 3;
    let _ = mask!(|q, key| q - key < w);
    let _ = mask!(|q| q < kv);
    let _ = mask!(|score, q| score < q as f32);
    let _ = score!(|h| h as f32);
    let _ = mask!(w < 4);
    let _ = mask!(|(q, kv)| kv <= q);
}
