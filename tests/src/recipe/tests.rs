//! Recipes against elements and hashes that numpy 2.4.6 made.

use super::*;

/// A recipe as a case file spells it.
#[derive(Deserialize)]
struct Spelled {
    #[serde(flatten)]
    recipe: Recipe,
}

fn buffer(text: &str, elem: Elem, shape: &[usize]) -> CapturedBuffer {
    let spelled: Spelled = toml::from_str(text).expect("the recipe is well formed");
    spelled
        .recipe
        .buffer(elem, shape)
        .expect("it fills the shape")
}

/// The elements as little-endian bytes.
fn bytes(data: &BufferData) -> Vec<u8> {
    match data {
        BufferData::Bool(v) => v.iter().map(|v| u8::from(*v)).collect(),
        BufferData::Bits(v) | BufferData::U8(v) => v.to_vec(),
        BufferData::I32(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
        BufferData::I64(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
        BufferData::F32(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
        other => panic!("no hash was made for {}", other.elem()),
    }
}

#[track_caller]
fn check(text: &str, elem: Elem, shape: &[usize], sha256: &str) {
    let buffer = buffer(text, elem, shape);
    let found = crate::expect::sha256(&bytes(buffer.data()));
    assert_eq!(found, sha256, "{text}");
}

#[test]
fn the_generator_gives_its_published_numbers() {
    assert_eq!(
        [0, 1, 2].map(|i| splitmix(0, i)),
        [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f
        ]
    );
    assert_eq!(score_input(3), [-0.192_489_62, 1.220_752_7, -1.505_071_2]);
    check(
        "hash_f32 = [777, -4, 4]",
        Elem::F32,
        &[1000],
        "f2219a717db8688721dfcf107c6fad16dd78c3f91f39bb97642dad83f6bbe375",
    );
}

#[test]
fn regular_sequences() {
    check(
        "affine = [3, -7]",
        Elem::I64,
        &[9],
        "f8e06fadf8c1b73d91c66cb82c0999f1026c8de0f2bca2dd253917aff2a2dca9",
    );
    check(
        "affine_clip = [2, -5, -3, 6]",
        Elem::I32,
        &[9],
        "a4d794a63f1e3f0e85803789faae3af01fbb2babb54f383b1868312c68a8088d",
    );
    check(
        "const = 2.5",
        Elem::F32,
        &[3],
        "f2bf874dd5894f96d27ccccafafa0e442fcf9b51a69197355bc0454f2348279b",
    );
    check(
        "segment_values = [[-1, 2], [4, 3]]",
        Elem::I32,
        &[5],
        "13159a44e8625ba17ad9c53975ccbd5962cef4940aada4b0c86632223d435d37",
    );
    check(
        "affine_recip = [3.0, 2.0]",
        Elem::F32,
        &[7],
        "53d468e07f360338cbe1355499b9b327f1a3831c7e2ed6450bad2229b4d2ac75",
    );
    check(
        "sandwich = [6, 8]",
        Elem::F32,
        &[11],
        "e3cde4efd9fa2c573d4bfa253da8183972d8a9d768362228e758a33fb931b8d0",
    );
    check(
        "clipped_hash_dist = [7, 2]",
        Elem::U8,
        &[7, 7],
        "2f3ed6440d8cf98c5f89efbef4735fd260a540c7c8fe052439ccb6444b5da2b1",
    );
    check(
        "clipped_hash_dist = [7, 2]",
        Elem::I32,
        &[2, 7, 7],
        "63a838492f6427e9492bf2b7f3938fa9867a0d8a72c1259b6e8f4be9d09ba09a",
    );
}

#[test]
fn drawn_elements() {
    check(
        "distinct = [21, 8]",
        Elem::I32,
        &[2, 8, 2],
        "f965aed09cefe9de5eb26be506ca00a8fd3daa0e848d193dd826d8edf4797456",
    );
    check(
        "distinct = [93, 8]",
        Elem::I32,
        &[2, 2, 8, 3],
        "1292916f1139675c8498bf8dd1ce1e5895f5cba3ded33831b64f4172f52e3215",
    );
    check(
        "hash_int = [32, 0, 90]",
        Elem::I32,
        &[300],
        "e65d5975249f7205444ef0bbc842a85277ac9d13afc0b52b5024e63f45c86d3b",
    );
    check(
        "hash_bool = [62, 7, 8]",
        Elem::Bool,
        &[1, 16],
        "e7eade507c630be0c0ef1d03adde3b42713d06eb493c7cc231af4af5111c604e",
    );
    check(
        "hash_f32 = [207, -2, 2]",
        Elem::F32,
        &[1, 2, 4, 5],
        "cb95c296ffb38a6f489a0b5419637c0e4613ed2c8f4abe87a00eab11ff5c96b7",
    );
    check(
        "head_override = { of = { hash_int = [5, 0, 9] }, n = 3, v = -1 }",
        Elem::I32,
        &[8],
        "675cf93d9c7a42f5253c3b390bf0ce51f74deae2b2e6398cbb9796717813c9bb",
    );
}

#[test]
fn nested_recipes() {
    check(
        "cols = [{ segment_values = [[3, 3], [7, 4], [10, 3]] }, { segment_values = [[7, 7], [10, 3]] }]",
        Elem::I32,
        &[10, 2],
        "b8e1cbde24624cb5ffbedddebb6785a2dfc4ec5c53708048a1eac2591e66c9bd",
    );
    let rows = buffer(
        "rows = [{ segments = [3, 5] }, { segments = [6, 1, 1] }]",
        Elem::I32,
        &[2, 8],
    );
    let BufferData::I32(rows) = rows.data() else {
        panic!("the buffer holds i32")
    };
    assert_eq!(rows[..], [0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
}

#[test]
fn tables() {
    check(
        "alibi = [12, \"interleave\"]",
        Elem::F32,
        &[12],
        "c9290db60fb24c9fe81d55019168b3f7544d1fbf66417c3c051ce81a3f518005",
    );
    check(
        "alibi = [12, \"ceil\"]",
        Elem::F32,
        &[12],
        "c9290db60fb24c9fe81d55019168b3f7544d1fbf66417c3c051ce81a3f518005",
    );
    check(
        "inverse_pages = { table = [[3, 1, -1, 3], [0, 2, 1, -1]], n_phys = 5 }",
        Elem::I32,
        &[2, 5],
        "bf2bfb0227e794b9cd302c0c0b33e0c356419a8e129d036f5955652e1a94145c",
    );
    let tree = buffer("ancestors = [-1, 0, 0, 1]", Elem::U8, &[4, 4]);
    let BufferData::U8(tree) = tree.data() else {
        panic!("the buffer holds u8")
    };
    assert_eq!(tree[..], [1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1]);
    check(
        "pack_lsb = { of = { hash_bool = [101, 1, 3] }, shape = [1, 1, 12, 4] }",
        Elem::U8,
        &[6],
        "c438ec02cc73e46ce66039c6db46f0d9920b548d54ec8fe07b6b6e9a59f35514",
    );
    check(
        "hash_bool = [101, 1, 3]",
        Elem::Bits,
        &[1, 1, 12, 4],
        "c438ec02cc73e46ce66039c6db46f0d9920b548d54ec8fe07b6b6e9a59f35514",
    );
}

#[test]
fn a_recipe_that_does_not_fill_its_shape_is_refused() {
    let lengths = Recipe::Segments(vec![3, 4]);
    let expected = "expected 8 elements for shape [2, 4], found 7";
    let found = lengths.values(&[2, 4]).expect_err("7 elements are no 8");
    assert_eq!(found.to_string(), expected);
    let rows = Recipe::Rows(vec![lengths]);
    let expected = "expected a shape with 1 entries on that axis, found [2, 7]";
    let found = rows.values(&[2, 7]).expect_err("one row is no two");
    assert_eq!(found.to_string(), expected);
}
