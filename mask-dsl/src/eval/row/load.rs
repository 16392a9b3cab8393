//! Reads of captured buffers at 128 keys: a run of elements where the index follows the key, else a gather.

use std::ops::Range;

use super::lanes::{File, LANES, Lane, Lanes, Reg};
use super::tape::Axis;
use crate::capture::{BufferData, CapturedBuffer};
use crate::ir::{Const, Ty};

/// Which element each lane reads.
#[expect(
    clippy::large_enum_variant,
    reason = "it stays on the stack for the time of one read"
)]
enum Places {
    /// Lane `i` of `lanes` reads element `start + i * step`; the others read nothing.
    Run {
        lanes: Range<usize>,
        start: i64,
        step: i64,
    },
    /// Lane `i` reads element `at[i]`, or nothing if there is none.
    Each(Lanes<usize>),
}

/// Reads into `dst`; whether some lane leaves the buffer, and then which, in `fault`. Such lanes hold 0.
pub(super) fn load(
    file: &mut File,
    values: &[Option<Const>],
    buffer: &CapturedBuffer,
    axes: &[Axis],
    unit: bool,
    dst: Reg,
    fault: &mut Lanes<u8>,
) -> bool {
    let (places, bad) = places(file, values, buffer, axes, unit, fault);
    match buffer.data() {
        BufferData::Bool(v) => read(v, &places, &mut file.bools[dst.slot], u8::from),
        BufferData::Bits(v) => read_bits(v, &places, &mut file.bools[dst.slot]),
        BufferData::I8(v) => read(v, &places, &mut file.i32s[dst.slot], i32::from),
        BufferData::U8(v) => read(v, &places, &mut file.i32s[dst.slot], i32::from),
        BufferData::I16(v) => read(v, &places, &mut file.i32s[dst.slot], i32::from),
        BufferData::U16(v) => read(v, &places, &mut file.i32s[dst.slot], i32::from),
        BufferData::I32(v) => read(v, &places, &mut file.i32s[dst.slot], |v| v),
        BufferData::I64(v) => read(v, &places, &mut file.i64s[dst.slot], |v| v),
        BufferData::U32(v) => read(v, &places, &mut file.u32s[dst.slot], |v| v),
        BufferData::F16(v) => read(v, &places, &mut file.f32s[dst.slot], half::f16::to_f32),
        BufferData::Bf16(v) => read(v, &places, &mut file.f32s[dst.slot], half::bf16::to_f32),
        BufferData::F32(v) => read(v, &places, &mut file.f32s[dst.slot], |v| v),
        BufferData::F64(v) => read(v, &places, &mut file.f32s[dst.slot], |v| v as f32),
    }
    bad
}

/// Poisons `dst` where an index is, and at the lanes of `fault`.
pub(super) fn spread(file: &mut File, dst: Reg, axes: &[Axis], fault: Option<&Lanes<u8>>) {
    let mut regs = [dst; 8];
    let mut used = 0;
    let mut fault = fault.copied();
    for axis in axes {
        let Axis::Lanes(reg) = axis else { continue };
        if let Some(place) = regs.get_mut(used) {
            *place = *reg;
            used += 1;
        } else if let Some(poison) = file.poison(*reg) {
            let fault = fault.get_or_insert([0; LANES]);
            for i in 0..LANES {
                fault[i] |= poison[i];
            }
        }
    }
    file.spread(dst, &regs[..used], fault.as_ref());
}

fn places(
    file: &File,
    values: &[Option<Const>],
    buffer: &CapturedBuffer,
    axes: &[Axis],
    unit: bool,
    fault: &mut Lanes<u8>,
) -> (Places, bool) {
    let nothing = Places::Run {
        lanes: 0..0,
        start: 0,
        step: 0,
    };
    let mut start = buffer.offset() as i64;
    let shape = buffer.shape().iter().zip(buffer.strides());
    for (axis, (&extent, &stride)) in axes.iter().zip(shape.clone()) {
        let Axis::Uniform(id) = axis else { continue };
        let index = values[id.index()].and_then(Const::as_int);
        let Some(index) = index.filter(|i| (0..extent as i64).contains(i)) else {
            fault.fill(1);
            return (nothing, true);
        };
        start += index * stride;
    }
    let per_key = axes
        .iter()
        .zip(shape)
        .filter_map(|(axis, shape)| match axis {
            Axis::Uniform(_) => None,
            Axis::Lanes(reg) => Some((*reg, shape)),
        });
    if unit
        && let Some((reg, (&extent, &step))) = per_key.clone().next()
        && file.poison(reg).is_none()
    {
        let first = first_lane(file, reg);
        let from = first.saturating_neg().clamp(0, LANES as i64);
        let to = (extent as i64)
            .saturating_sub(first)
            .clamp(from, LANES as i64);
        let (from, to) = (from as usize, to as usize);
        let bad = from != 0 || to != LANES;
        if bad {
            fault.fill(1);
            fault[from..to].fill(0);
        }
        if from == to {
            return (nothing, bad);
        }
        let run = Places::Run {
            lanes: from..to,
            start: start + (first + from as i64) * step - from as i64 * step,
            step,
        };
        return (run, bad);
    }
    let mut at = [start; LANES];
    let mut outside = [0u8; LANES];
    for (reg, (&extent, &stride)) in per_key {
        let extent = extent as u64;
        match reg.ty {
            Ty::I32 => index_lanes(&file.i32s[reg.slot], extent, stride, &mut at, &mut outside),
            Ty::I64 => index_lanes(&file.i64s[reg.slot], extent, stride, &mut at, &mut outside),
            Ty::U32 => index_lanes(&file.u32s[reg.slot], extent, stride, &mut at, &mut outside),
            Ty::Bool | Ty::F32 => unreachable!("the arena is typed: an index is an integer"),
        }
    }
    let bad = outside.iter().fold(0, |any, lane| any | lane) != 0;
    if bad {
        *fault = outside;
    }
    let mut elements = [usize::MAX; LANES];
    for i in 0..LANES {
        if outside[i] == 0 {
            elements[i] = at[i] as usize;
        }
    }
    (Places::Each(elements), bad)
}

fn first_lane(file: &File, reg: Reg) -> i64 {
    match reg.ty {
        Ty::I32 => i64::from(file.i32s[reg.slot][0]),
        Ty::I64 => file.i64s[reg.slot][0],
        Ty::U32 => i64::from(file.u32s[reg.slot][0]),
        Ty::Bool | Ty::F32 => unreachable!("the arena is typed: an index is an integer"),
    }
}

fn index_lanes<T: Copy + Into<i64>>(
    index: &Lanes<T>,
    extent: u64,
    stride: i64,
    at: &mut Lanes<i64>,
    outside: &mut Lanes<u8>,
) {
    for i in 0..LANES {
        let index: i64 = index[i].into();
        // A negative index is a huge unsigned one.
        outside[i] |= u8::from(extent <= index as u64);
        at[i] = at[i].wrapping_add(index.wrapping_mul(stride));
    }
}

fn read<S: Copy, T: Lane>(
    elements: &[S],
    places: &Places,
    out: &mut Lanes<T>,
    widen: impl Fn(S) -> T,
) {
    match places {
        Places::Run { lanes, start, step } => {
            if lanes.len() < LANES {
                out.fill(T::default());
            }
            if lanes.is_empty() {
                return;
            }
            let first = start + lanes.start as i64 * step;
            if *step == 1 {
                let from = &elements[first as usize..][..lanes.len()];
                for (out, element) in out[lanes.clone()].iter_mut().zip(from) {
                    *out = widen(*element);
                }
            } else {
                for (i, out) in out[lanes.clone()].iter_mut().enumerate() {
                    *out = widen(elements[(first + i as i64 * step) as usize]);
                }
            }
        }
        Places::Each(at) => {
            for i in 0..LANES {
                out[i] = elements.get(at[i]).map_or(T::default(), |v| widen(*v));
            }
        }
    }
}

fn read_bits(bytes: &[u8], places: &Places, out: &mut Lanes<u8>) {
    let bit = |at: usize| {
        let byte = bytes.get(at / 8).copied().unwrap_or(0);
        byte >> (at % 8) & 1
    };
    match places {
        Places::Run { lanes, start, step } => {
            out.fill(0);
            for i in lanes.clone() {
                out[i] = bit((start + i as i64 * step) as usize);
            }
        }
        Places::Each(at) => {
            for i in 0..LANES {
                out[i] = bit(at[i]);
            }
        }
    }
}
