use maskwright::mask;

fn main() {
    let name = String::from("w");
    let wide = 3u64;
    let _ = mask!(|q| q < name);
    let _ = mask!(|q| q < wide);
}
