use maskwright::mask;

fn main() {
    let _ = mask!(|q, kv| q - 4 < kv <= q);
    let _ = mask!(|q, kv| kv <= q and q - kv < 4);
    let _ = mask!(|q, kv| kv <= q && not (q == 3));
}
