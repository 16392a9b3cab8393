//! Round trips, files as other programs write them, and files that are damaged.

use std::error::Error as _;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn spec(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Puts bytes into a file and reads them as a tensor.
    fn read(&self, name: &str, bytes: &[u8]) -> Result<Tensor, TensorFileError> {
        let file = name.split(':').next().unwrap();
        fs::write(self.0.path().join(file), bytes).unwrap();
        read_tensor(&self.spec(name))
    }
}

/// The whole chain of messages, with the folder left out.
fn message(folder: &Folder, error: &TensorFileError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text.replace(&format!("{}/", folder.0.path().display()), "")
}

#[track_caller]
fn check_error(name: &str, bytes: &[u8], expected: &str) {
    let folder = Folder::new();
    let error = folder.read(name, bytes).unwrap_err();
    assert_eq!(message(&folder, &error), expected);
}

/// A `.npy` file of version 1 with this header and data.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn npy_of(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    npy(&header, data)
}

fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// Values that show the sign, both ends and rounding of each type.
fn data(dtype: Dtype, len: usize) -> TensorData {
    macro_rules! cycle {
        ($($value:expr),*) => {
            [$($value),*].into_iter().cycle().take(len).collect::<Vec<_>>().into()
        };
    }
    match dtype {
        Dtype::Bool => cycle![true, false, false],
        Dtype::I8 => cycle![i8::MIN, -1, 0, i8::MAX],
        Dtype::U8 => cycle![0_u8, 1, u8::MAX],
        Dtype::I16 => cycle![i16::MIN, -2, 258, i16::MAX],
        Dtype::U16 => cycle![0_u16, 258, u16::MAX],
        Dtype::I32 => cycle![i32::MIN, -2, 66_051, i32::MAX],
        Dtype::U32 => cycle![0_u32, 66_051, u32::MAX],
        Dtype::I64 => cycle![i64::MIN, -2, 1 << 40, i64::MAX],
        Dtype::U64 => cycle![0_u64, 1 << 40, u64::MAX],
        Dtype::F16 => cycle![f16::MIN, f16::from_f32(0.1), f16::INFINITY, f16::NEG_ZERO],
        Dtype::BF16 => cycle![
            bf16::MIN,
            bf16::from_f32(0.1),
            bf16::INFINITY,
            bf16::NEG_ZERO
        ],
        Dtype::F32 => cycle![f32::MIN, 0.1_f32, f32::NEG_INFINITY, -0.0],
        Dtype::F64 => cycle![f64::MIN, 0.1_f64, f64::NEG_INFINITY, -0.0],
    }
}

#[test]
fn every_dtype_and_shape_round_trips() {
    let folder = Folder::new();
    let shapes: [&[usize]; 6] = [&[], &[0], &[3], &[2, 0, 4], &[2, 3, 4], &[1; 40]];
    for &dtype in Dtype::ALL {
        for shape in shapes {
            let len = shape.iter().product();
            let tensor = Tensor::new(shape, data(dtype, len)).unwrap();
            for name in ["x.npy", "x.safetensors:layer.0:q.npy"] {
                let spec = folder.spec(name);
                if dtype == Dtype::BF16 && name == "x.npy" {
                    assert!(write_tensor(&spec, &tensor).is_err());
                    continue;
                }
                write_tensor(&spec, &tensor).unwrap();
                let back = read_tensor(&spec).unwrap();
                // By bytes, so that the sign of zero counts.
                assert_eq!((back.dtype(), &back.shape), (dtype, &tensor.shape));
                assert_eq!(back.data.to_le_bytes(), tensor.data.to_le_bytes());
                assert_eq!(back, tensor);
            }
            let alone = read_tensor(&folder.spec("x.safetensors")).unwrap();
            assert_eq!(alone, tensor);
        }
    }
    let names = fs::read_dir(folder.0.path()).unwrap().count();
    assert_eq!(names, 2, "temporaries were left");
}

#[test]
fn headers_are_written_as_numpy_writes_them() {
    let folder = Folder::new();
    let check = |shape: &[usize], text: &str| {
        let tensor = Tensor::new(shape, vec![0_i32; shape.iter().product()]).unwrap();
        write_tensor(&folder.spec("x.npy"), &tensor).unwrap();
        let bytes = fs::read(folder.spec("x.npy")).unwrap();
        let header = format!("{{'descr': '<i4', 'fortran_order': False, 'shape': {text}, }}");
        let expected = npy(&format!("{header:117}\n"), &tensor.data.to_le_bytes());
        assert_eq!(bytes, expected);
    };
    check(&[], "()");
    check(&[3], "(3,)");
    check(&[2, 3], "(2, 3)");
}

#[test]
fn a_header_too_long_for_version_1_is_written_as_version_2() {
    let folder = Folder::new();
    let spec = folder.spec("x.npy");
    let tensor = Tensor::new(vec![1; 21_000], vec![7_u8]).unwrap();
    write_tensor(&spec, &tensor).unwrap();
    assert_eq!(read_tensor(&spec).unwrap(), tensor);
    let tensor = Tensor::new(vec![1; 21_820], vec![7_u8]).unwrap();
    write_tensor(&spec, &tensor).unwrap();
    let bytes = fs::read(&spec).unwrap();
    assert_eq!(bytes[6..8], [2, 0]);
    assert_eq!((bytes.len() - 1) % 64, 0);
    assert_eq!(read_tensor(&spec).unwrap(), tensor);
}

#[test]
fn other_spellings_of_npy_are_understood() {
    let folder = Folder::new();
    let expect = |bytes: &[u8], shape: &[usize], data: TensorData| {
        let tensor = Tensor {
            shape: shape.to_vec(),
            data,
        };
        assert_eq!(folder.read("x.npy", bytes).unwrap(), tensor);
    };
    let big = npy_of("'>i2'", "(2,)", &[1, 2, 255, 254]);
    expect(&big, &[2], vec![258_i16, -2].into());
    let big = npy_of("'>f2'", "(1,)", &[0x3C, 0]);
    expect(&big, &[1], vec![f16::ONE].into());
    let big = npy_of("'>f8'", "()", &[0x3F, 0xF8, 0, 0, 0, 0, 0, 0]);
    expect(&big, &[], vec![1.5_f64].into());
    expect(&npy_of("'<u1'", "(1,)", &[7]), &[1], vec![7_u8].into());
    // Python 2, double quotes, another order, no trailing comma, no newline.
    let old = npy(
        r#"{"shape":(2L,1L),"fortran_order":False,"descr":"|b1"}"#,
        &[1, 0],
    );
    expect(&old, &[2, 1], vec![true, false].into());
    // Versions 2 and 3 differ in the length and the encoding.
    for version in [2, 3] {
        let header = "{'descr': '|i1', 'fortran_order': False, 'shape': (1,), }   \n";
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([version, 0]);
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.push(0xFF);
        expect(&bytes, &[1], vec![-1_i8].into());
    }
}

#[test]
fn fortran_order_becomes_row_major() {
    let folder = Folder::new();
    let check = |shape: &[usize]| {
        let text: Vec<_> = shape.iter().map(usize::to_string).collect();
        let len: usize = shape.iter().product();
        let header = format!(
            "{{'descr': '|u1', 'fortran_order': True, 'shape': ({},), }}\n",
            text.join(",")
        );
        let stored: Vec<u8> = (0..len as u8).collect();
        let tensor = folder.read("x.npy", &npy(&header, &stored)).unwrap();
        assert_eq!(tensor.shape, shape);
        // Each element is its own place in the file: the sum of index times column-major stride.
        let TensorData::U8(data) = tensor.data else {
            panic!("expected u8");
        };
        for (at, &value) in data.iter().enumerate() {
            let (mut rest, mut place, mut stride) = (at, 0, 1);
            let mut index = vec![0; shape.len()];
            for axis in (0..shape.len()).rev() {
                index[axis] = rest % shape[axis];
                rest /= shape[axis];
            }
            for (axis, &dim) in shape.iter().enumerate() {
                place += index[axis] * stride;
                stride *= dim;
            }
            assert_eq!(usize::from(value), place, "{shape:?} at {index:?}");
        }
    };
    check(&[4]);
    check(&[2, 3]);
    check(&[2, 3, 4]);
    check(&[3, 1, 5, 2]);
    check(&[2, 0, 3]);
    // The example of NumPy's manual: [[0, 1, 2], [3, 4, 5]] in Fortran order.
    let header = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n";
    let tensor = folder
        .read("x.npy", &npy(header, &[0, 3, 1, 4, 2, 5]))
        .unwrap();
    assert_eq!(tensor.data, vec![0_u8, 1, 2, 3, 4, 5].into());
}

#[test]
fn everything_becomes_f32() {
    let check = |data: TensorData, expected: &[f32]| assert_eq!(data.to_f32_vec(), expected);
    check(vec![true, false].into(), &[1.0, 0.0]);
    check(vec![-128_i8].into(), &[-128.0]);
    check(vec![255_u8].into(), &[255.0]);
    check(vec![-300_i16].into(), &[-300.0]);
    check(vec![65_535_u16].into(), &[65_535.0]);
    check(vec![16_777_217_i32].into(), &[16_777_216.0]);
    check(vec![u32::MAX].into(), &[4_294_967_296.0]);
    check(vec![i64::MIN].into(), &[-9_223_372_036_854_775_808.0]);
    check(vec![u64::MAX].into(), &[18_446_744_073_709_551_616.0]);
    check(vec![f16::from_f32(1.5)].into(), &[1.5]);
    check(vec![bf16::from_f32(-2.5)].into(), &[-2.5]);
    check(vec![0.1_f32].into(), &[0.1]);
    check(vec![0.1_f64, 1e300].into(), &[0.1, f32::INFINITY]);
}

#[test]
fn names_choose_format_and_tensor() {
    let check = |spec: &str, expected: &str| {
        assert_eq!(read_tensor(spec).unwrap_err().to_string(), expected);
    };
    check(
        "x.bin",
        "expected `<file>.npy` or `<file>.safetensors:<name>`, found `x.bin`",
    );
    check(
        "x.safetensors:",
        "expected a tensor name that is not empty and not `__metadata__`, found ``",
    );
    let header = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"I16","shape":[],"data_offsets":[2,4]}}"#;
    let file = safetensors(header, &[1, 2, 3, 4]);
    let folder = Folder::new();
    let b = folder.read("x.safetensors:b", &file).unwrap();
    assert_eq!(b, Tensor::new([2], vec![1_u8, 2]).unwrap());
    let a = folder.read("x.safetensors:a", &file).unwrap();
    assert_eq!(a, Tensor::new([], vec![0x0403_i16]).unwrap());
    check_error(
        "x.safetensors:c",
        &file,
        "expected a tensor `c` in x.safetensors, found a, b",
    );
    check_error(
        "x.safetensors",
        &file,
        "expected one tensor or a name, as in `x.safetensors:<name>`, found a, b",
    );
    check_error(
        "x.safetensors",
        &safetensors("{}", &[]),
        "expected one tensor or a name, as in `x.safetensors:<name>`, found none",
    );
}

#[test]
fn bad_npy_files_say_what_was_expected_and_found() {
    let check = |bytes: &[u8], expected: &str| check_error("x.npy", bytes, expected);
    let header = |text: &str| npy(text, &[]);
    check(
        b"",
        "cannot read the header of x.npy: the file does not begin with the magic bytes `\\x93NUMPY`",
    );
    check(
        b"PK\x03\x04 a zip archive",
        "cannot read the header of x.npy: the file does not begin with the magic bytes `\\x93NUMPY`",
    );
    check(
        b"\x93NUMPY\x04\x01\0\0",
        "cannot read the header of x.npy: expected version 1.0, 2.0 or 3.0, found 4.1",
    );
    check(
        b"\x93NUMPY\x02\0\xff\xff\xff\xff{}",
        "cannot read the header of x.npy: expected a header of at most 2 bytes, found a length of 4294967295",
    );
    check(
        &header("{'descr': '<i4', 'fortran_order': False}"),
        "cannot read the header of x.npy: expected the key `shape`, found none",
    );
    check(
        &header("{'descr': '<i4', 'descr': '<i4'}"),
        "cannot read the header of x.npy: expected `descr`, `fortran_order` and `shape` once each, found a further `descr`",
    );
    check(
        &header("{'shape': (1, -2)}"),
        "cannot read the header of x.npy: expected a dimension of at most 64 bits at byte 14 of `{'shape': (1, -2)}`",
    );
    check(
        &header("{'shape': (18446744073709551616,)}"),
        "cannot read the header of x.npy: expected a dimension of at most 64 bits at byte 11 of `{'shape': (18446744073709551616,)}`",
    );
    check(
        &npy_of("'<i4'", "(4294967296, 4294967296)", &[]),
        "expected a shape that fits into memory in x.npy, found [4294967296, 4294967296]",
    );
    check(
        &npy_of("'<i4'", "(1099511627776,)", &[0; 8]),
        "expected 4398046511104 bytes of data in x.npy for i32 of shape [1099511627776], found 8",
    );
    check(
        &npy_of("'<i4'", "(2,)", &[0; 7]),
        "expected 8 bytes of data in x.npy for i32 of shape [2], found 7",
    );
    check(
        &npy_of("'<i4'", "(2,)", &[0; 9]),
        "expected 8 bytes of data in x.npy for i32 of shape [2], found 9",
    );
    check(
        &npy_of("'|b1'", "(3,)", &[0, 1, 7]),
        "expected 0 or 1 for the bool at index 2 in x.npy, found 7",
    );
    let dtypes = "expected one of bool, i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64 in x.npy, found dtype";
    for dtype in ["<c8", "|O", "<U3", "<M8[ns]", "|i4", "=i4", "i4", "", "é"] {
        check(
            &npy_of(&format!("'{dtype}'"), "(1,)", &[]),
            &format!("{dtypes} {dtype}"),
        );
    }
    check(
        &npy_of("[('a', '<i4'), ('b', '<f4')]", "(1,)", &[]),
        &format!("{dtypes} [('a', '<i4'), ('b', '<f4')]"),
    );
    check(
        &npy_of("'<V2'", "(1,)", &[0, 0]),
        &format!(
            "{dtypes} <V2; bfloat16 loses its type in .npy, store it as `<file>.safetensors:<name>` instead"
        ),
    );
    // A shape with a 0 has no elements, however large its other dimensions are.
    let folder = Folder::new();
    let empty = npy_of("'<i4'", "(4294967296, 4294967296, 0)", &[]);
    assert!(folder.read("x.npy", &empty).unwrap().data.is_empty());
}

#[test]
fn bad_safetensors_files_say_what_was_expected_and_found() {
    let check = |bytes: &[u8], expected: &str| check_error("x.safetensors:a", bytes, expected);
    check(
        b"short",
        "expected a header of at most 0 bytes in x.safetensors, found a length of 5",
    );
    check(
        &[255; 16],
        "expected a header of at most 8 bytes in x.safetensors, found a length of 18446744073709551615",
    );
    check(
        &safetensors("{]", &[]),
        "cannot read the header of x.safetensors: key must be a string at line 1 column 2",
    );
    let one = r#"{"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}"#;
    check(
        &safetensors(one, &[0; 7]),
        "expected 8 bytes of data in x.safetensors for all tensors, found 7",
    );
    check(
        &safetensors(one, &[0; 9]),
        "expected 8 bytes of data in x.safetensors for all tensors, found 9",
    );
    let fp8 = r#"{"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}"#;
    check(
        &safetensors(fp8, &[0; 2]),
        "expected one of bool, i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64 in x.safetensors, found dtype F8_E4M3",
    );
    let flag = r#"{"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}"#;
    check(
        &safetensors(flag, &[1, 2]),
        "expected 0 or 1 for the bool at index 1 in x.safetensors, found 2",
    );
    let folder = Folder::new();
    for header in [
        // Offsets that overlap, leave a gap, run backwards, or do not fit the shape; a product that overflows.
        r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
        r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
        r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}}"#,
        r#"{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,2]}}"#,
        r#"{"a":{"dtype":"U8","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}}"#,
        r#"{"a":{"dtype":"X9","shape":[2],"data_offsets":[0,2]}}"#,
        r#"{"a":{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}}"#,
        "[]",
        "",
    ] {
        let error = folder
            .read("x.safetensors:a", &safetensors(header, &[0; 2]))
            .unwrap_err();
        assert!(
            matches!(error, TensorFileError::SafetensorsHeader { .. }),
            "{header}: {error}"
        );
    }
    // Sizes that add up to all of the address space: the crate's own reader adds the header to this unchecked.
    let half = u64::MAX / 16;
    let huge: Vec<_> = (0..16)
        .map(|i| {
            let (from, to) = (i * half, (i + 1) * half);
            format!(r#""{i:02}":{{"dtype":"U8","shape":[{half}],"data_offsets":[{from},{to}]}}"#)
        })
        .collect();
    let huge = safetensors(&format!("{{{}}}", huge.join(",")), &[0; 2]);
    assert!(matches!(
        folder.read("x.safetensors:00", &huge),
        Err(TensorFileError::DataLength {
            expected: 18_446_744_073_709_551_600,
            found: 2,
            ..
        })
    ));
}

#[test]
fn files_cut_short_or_altered_never_panic() {
    let folder = Folder::new();
    let tensor = Tensor::new([2, 3], vec![1_i32, 2, 3, 4, 5, 6]).unwrap();
    for name in ["x.npy", "x.safetensors:a"] {
        let spec = folder.spec(name);
        write_tensor(&spec, &tensor).unwrap();
        let bytes = fs::read(spec.trim_end_matches(":a")).unwrap();
        for len in 0..bytes.len() {
            assert!(
                folder.read(name, &bytes[..len]).is_err(),
                "{name} cut to {len}"
            );
        }
        for at in 0..bytes.len() {
            for value in [
                0, 1, b' ', b'\'', b'(', b'[', b']', b'}', b'9', b'\\', 128, 255,
            ] {
                let mut bad = bytes.clone();
                bad[at] = value;
                // Some alterations are tensors of other content.
                if let Ok(tensor) = folder.read(name, &bad) {
                    tensor.check().unwrap();
                }
            }
        }
    }
    // Nesting costs no stack.
    let deep = npy_of(&"[".repeat(60_000), "()", &[]);
    assert!(folder.read("x.npy", &deep).is_err());
    let deep = safetensors(&"[".repeat(1_000_000), &[]);
    assert!(folder.read("x.safetensors", &deep).is_err());
}

#[test]
fn paths_that_are_no_files_are_errors_with_the_path() {
    let folder = Folder::new();
    let read = |name: &str| message(&folder, &read_tensor(&folder.spec(name)).unwrap_err());
    assert!(read("none.npy").starts_with("cannot read none.npy: "));
    fs::create_dir(folder.spec("dir.npy")).unwrap();
    assert_eq!(read("dir.npy"), "expected a regular file at dir.npy");

    let tensor = Tensor::new([3], vec![0_i32; 3]).unwrap();
    let write = |name: &str| {
        message(
            &folder,
            &write_tensor(&folder.spec(name), &tensor).unwrap_err(),
        )
    };
    assert!(write("none/x.npy").starts_with("cannot write none/x.npy of 140 bytes: "));
    assert!(write("dir.npy").starts_with("cannot write dir.npy of 140 bytes: "));
    assert_eq!(
        write("x.safetensors"),
        "expected one tensor or a name, as in `x.safetensors:<name>`, found none"
    );
    assert_eq!(
        fs::read_dir(folder.0.path()).unwrap().count(),
        1,
        "temporaries were left"
    );
}

#[test]
fn tensors_that_cannot_be_written_are_errors() {
    let folder = Folder::new();
    let write = |name: &str, shape: &[usize], data: TensorData| {
        let tensor = Tensor {
            shape: shape.to_vec(),
            data,
        };
        message(
            &folder,
            &write_tensor(&folder.spec(name), &tensor).unwrap_err(),
        )
    };
    assert_eq!(
        write("x.npy", &[1], vec![bf16::ONE].into()),
        "expected a dtype that NumPy has for x.npy, found bf16; write `<file>.safetensors:<name>` instead"
    );
    assert_eq!(
        write("x.npy", &[2, 2], vec![0_u8; 3].into()),
        "cannot write a tensor whose shape and data disagree: expected 4 elements for shape [2, 2], found 3"
    );
    assert_eq!(
        write("x.npy", &[1 << 40, 1 << 40], vec![0_u8; 3].into()),
        "cannot write a tensor whose shape and data disagree: expected a shape whose elements can be counted in 64 bits, \
         found [1099511627776, 1099511627776]"
    );
    let huge = write(
        "x.safetensors:a",
        &[1 << 40, 1 << 40, 0],
        vec![0_u8; 0].into(),
    );
    assert!(
        huge.starts_with("cannot lay out x.safetensors as safetensors: "),
        "{huge}"
    );
}

#[cfg(unix)]
#[test]
fn writing_replaces_the_file_behind_a_link() {
    let folder = Folder::new();
    let path = |name: &str| folder.spec(name);
    fs::create_dir(path("disk")).unwrap();
    fs::write(path("disk/real.npy"), b"old").unwrap();
    std::os::unix::fs::symlink(Path::new("disk/real.npy"), path("link.npy")).unwrap();
    let tensor = Tensor::new([1], vec![5_u16]).unwrap();
    write_tensor(&path("link.npy"), &tensor).unwrap();
    assert!(fs::symlink_metadata(path("link.npy")).unwrap().is_symlink());
    assert_eq!(read_tensor(&path("disk/real.npy")).unwrap(), tensor);
}
