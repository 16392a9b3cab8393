use maskwright::prelude::*;

#[score_mod]
fn late(h: i32, score: f32) -> f32 {
    score + h as f32
}

#[score_mod]
fn missing(h: i32) -> f32 {
    h as f32
}

fn main() {}
