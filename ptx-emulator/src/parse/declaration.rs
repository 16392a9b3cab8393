//! The parts of a declaration: state space, alignment, type, dimensions.

use super::cursor::Cursor;
use super::error::{ParseError, ParseFault};
use super::literal::count;
use super::token::Kind;
use crate::ast::{Space, Type};

/// Largest alignment.
const MAX_ALIGN: u64 = 1 << 20;

/// Largest variable of global memory, in bytes.
const MAX_VARIABLE_BYTES: u64 = 1 << 32;

/// Largest variable of any other space, in bytes. A thread has 512 KiB of local memory, and less of all others.
const MAX_SMALL_VARIABLE_BYTES: u64 = 1 << 20;

/// Most dimensions of an array.
const MAX_DIMENSIONS: usize = 16;

/// The type named by what hangs on a dot.
pub(super) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "b8" => Type::B8,
        "b16" => Type::B16,
        "b32" => Type::B32,
        "b64" => Type::B64,
        "b128" => Type::B128,
        "u8" => Type::U8,
        "u16" => Type::U16,
        "u32" => Type::U32,
        "u64" => Type::U64,
        "s8" => Type::S8,
        "s16" => Type::S16,
        "s32" => Type::S32,
        "s64" => Type::S64,
        "f16" => Type::F16,
        "f16x2" => Type::F16x2,
        "bf16" => Type::Bf16,
        "bf16x2" => Type::Bf16x2,
        "tf32" => Type::Tf32,
        "f32" => Type::F32,
        "f64" => Type::F64,
        "e4m3" => Type::E4m3,
        "e5m2" => Type::E5m2,
        "e4m3x2" => Type::E4m3x2,
        "e5m2x2" => Type::E5m2x2,
        "pred" => Type::Pred,
        _ => return None,
    })
}

/// The space in which a variable may be declared.
pub(super) fn space_named(name: &str) -> Option<Space> {
    Some(match name {
        "global" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "local" => Space::Local,
        "const" => Space::Const,
        "param" => Space::Param,
        _ => return None,
    })
}

/// What stands between the state space and the name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) ty: Type,
    /// Elements of the vector; 1 where there is none.
    pub(super) lanes: u64,
    /// Alignment in bytes, the natural one where none is given.
    pub(super) align: u64,
}

impl Shape {
    /// Bytes of an element, all of its lanes.
    pub(super) fn bytes(self) -> u64 {
        self.ty.bytes() * self.lanes
    }
}

/// `.align 4 .v2 .b8`, and for a parameter `.u64 .ptr .global .align 1`, whose alignment is that of what it points to.
pub(super) fn shape(cursor: &mut Cursor<'_>) -> Result<Shape, ParseError> {
    let (mut ty, mut lanes, mut align, mut is_pointer) = (None, 1, None, false);
    while let Some(dotted) = cursor.peek_dotted() {
        match dotted {
            "align" => {
                cursor.take();
                let place = cursor.place();
                let found = count(cursor, "an alignment", MAX_ALIGN)?;
                if !found.is_power_of_two() {
                    let found = found.to_string();
                    let expected = "a power of two as an alignment";
                    return Err(cursor.fault_at(place, ParseFault::Number { expected, found }));
                }
                if !is_pointer {
                    align = Some(found);
                }
                continue;
            }
            "attribute" => {
                cursor.take();
                if !cursor.at_mark(b'(') {
                    return Err(cursor.unexpected("`(`"));
                }
                cursor.skip_pair(b'(', b')')?;
                continue;
            }
            "ptr" => is_pointer = true,
            "v2" => lanes = 2,
            "v4" => lanes = 4,
            "v8" => lanes = 8,
            "texref" | "samplerref" | "surfref" => {
                let what = "textures, samplers and surfaces";
                return Err(cursor.fault(ParseFault::Unsupported { what }));
            }
            _ if is_pointer && space_named(dotted).is_some() => {}
            _ => match type_named(dotted) {
                Some(named) if ty.is_none() => ty = Some(named),
                Some(_) | None => return Err(cursor.unexpected("a type, `.align` or a name")),
            },
        }
        cursor.take();
    }
    let Some(ty) = ty else {
        return Err(cursor.unexpected("a type"));
    };
    let natural = ty.bytes() * lanes;
    let align = align.unwrap_or(natural);
    Ok(Shape { ty, lanes, align })
}

/// `[4][32]` after a name; an empty first pair of brackets is `None`.
pub(super) fn dimensions(cursor: &mut Cursor<'_>) -> Result<Vec<Option<u64>>, ParseError> {
    let mut dimensions = Vec::new();
    while cursor.at_mark(b'[') {
        if dimensions.len() == MAX_DIMENSIONS {
            return Err(cursor.fault(ParseFault::TooLarge {
                what: "the dimensions of an array",
                limit: MAX_DIMENSIONS as u64,
                found: "more".to_owned(),
            }));
        }
        cursor.take();
        if cursor.at_mark(b']') && dimensions.is_empty() {
            dimensions.push(None);
        } else if cursor.kind() == Kind::Number {
            dimensions.push(Some(count(cursor, "a dimension", MAX_VARIABLE_BYTES)?));
        } else {
            return Err(cursor.unexpected("a number of elements"));
        }
        cursor.mark(b']', "`]`")?;
    }
    Ok(dimensions)
}

/// Bytes of an array in `space`, 0 where its first dimension is not given.
pub(super) fn array_bytes(
    cursor: &Cursor<'_>,
    space: Space,
    element_bytes: u64,
    dimensions: &[Option<u64>],
) -> Result<u64, ParseError> {
    let limit = match space {
        Space::Global => MAX_VARIABLE_BYTES,
        _ => MAX_SMALL_VARIABLE_BYTES,
    };
    let bytes = dimensions.iter().try_fold(element_bytes, |bytes, extent| {
        bytes.checked_mul(extent.unwrap_or(0))
    });
    match bytes {
        Some(bytes) if bytes <= limit => Ok(bytes),
        Some(_) | None => Err(cursor.fault(ParseFault::TooLarge {
            what: "the bytes of a variable",
            limit,
            found: bytes.map_or("more".to_owned(), |bytes| bytes.to_string()),
        })),
    }
}
