//! Cranelift IR of a prepared rule: one function that evaluates a tile of cells.
//!
//! A mask becomes `fn(args, b, h, q0, n_q, kv0, n_kv, bits, row_bytes)`, which writes bit `j` of row `i` for the cell
//! `(b, h, q0 + i, kv0 + j)`; after the last key it may zero bits up to the end of its 64-bit word. A `score_mod` becomes the same function
//! with the address of scores in place of bits, which it changes in place. `args` is the table of [`ArgsLayout`].

mod arith;
mod callee;
mod division;
mod emit;
mod facts;
mod layout;
mod load;
mod node;
mod tile;

use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{AbiParam, Function, Signature, UserFuncName};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use maskwright_dsl::pipeline::Prepared;

use emit::Emitter;
use facts::Facts;
use tile::Params;

pub use callee::Callee;
pub use layout::{ArgsLayout, AxisSlots, BufferSlots, CaptureSlots, unit_stride};

/// Nodes beyond which a rule is refused: its code would hold millions of instructions.
const MAX_NODES: usize = 50_000;

/// Why a prepared rule has no Cranelift IR.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// Addresses are taken to have 64 bits.
    #[error("expected a target with 64-bit addresses, found {bits} bits")]
    PointerWidth {
        /// Width of an address.
        bits: u8,
    },
    /// The rule is larger than any machine code for it should be.
    #[error("the rule has {nodes} expressions, which is more than the {limit} that are compiled")]
    TooLarge {
        /// Expressions that the result depends on.
        nodes: usize,
        /// How many are accepted.
        limit: usize,
    },
}

/// A rule as Cranelift IR.
#[derive(Debug)]
pub struct Lowered {
    /// The function over a tile. It refers to [`Callee`]s as user names `0:index`.
    pub function: Function,
    /// The table that its first argument points to.
    pub layout: ArgsLayout,
}

/// Lowers a prepared rule.
///
/// # Errors
/// [`LowerError`] if the target or the size of the rule rules it out.
pub fn lower(prepared: &Prepared, target: TargetFrontendConfig) -> Result<Lowered, LowerError> {
    let bits = target.pointer_bits();
    if bits != 64 {
        return Err(LowerError::PointerWidth { bits });
    }
    let rule = prepared.rule();
    let facts = Facts::new(rule);
    let nodes = facts.needed.iter().filter(|needed| **needed).count();
    if MAX_NODES < nodes {
        return Err(LowerError::TooLarge {
            nodes,
            limit: MAX_NODES,
        });
    }
    let layout = ArgsLayout::new(rule, prepared.bindings());
    let call_conv = target.default_call_conv;
    let mut function =
        Function::with_name_signature(UserFuncName::user(1, 0), signature(call_conv));
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut function, &mut context);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let params = builder.block_params(entry).to_vec();
    let [args, b, h, q0, n_q, kv0, n_kv, out, row_bytes] = params[..] else {
        unreachable!("the signature has nine parameters")
    };
    let lanes = facts.in_lanes.iter().filter(|needed| **needed).count();
    let mut emitter = Emitter::new(
        builder,
        rule,
        &facts,
        &layout,
        call_conv,
        args,
        groups_per_step(lanes),
    );
    emitter.emit_tile(&Params {
        b,
        h,
        q0,
        n_q,
        kv0,
        n_kv,
        out,
        row_bytes,
    });
    emitter.builder.finalize(target);
    Ok(Lowered { function, layout })
}

/// Parameters of a lowered function.
pub fn signature(call_conv: CallConv) -> Signature {
    let mut signature = Signature::new(call_conv);
    signature.params = [I64, I32, I32, I32, I64, I32, I64, I64, I64]
        .map(AbiParam::new)
        .to_vec();
    signature
}

/// Groups of four keys that one step evaluates: fewer for large rules, whose code is long enough.
fn groups_per_step(lanes: usize) -> usize {
    match lanes {
        0..=60 => 8,
        61..=200 => 4,
        _ => 2,
    }
}
