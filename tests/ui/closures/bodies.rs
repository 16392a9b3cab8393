use maskwright::mask;

fn main() {
    let n = 3;
    let _ = mask!(|q, kv| (0..n).any(|i| q - kv == i));
    let _ = mask!(|q, kv| q.log(kv));
    let _ = mask!(|q, kv| q + 1.0 < kv);
    let _ = mask!(|q, kv| self.window < q);
}
