//! `maskwright explain`: why a block has its class, what a cell's value comes from, and where a rule ends.

mod block;
mod cell;
mod rule;

use crate::args::ExplainArgs;
use crate::error::CliError;
use crate::{Outcome, bucket};

pub(crate) fn run(args: &ExplainArgs) -> Result<Outcome, CliError> {
    let bound = crate::rule::resolve(&args.rule, &args.flags)?;
    let scope = bucket::one_scope(&args.flags, args.lengths.given())?;
    bucket::check_scalars(&scope, &[bound.rule()])?;
    super::show::check_plane(args.b, args.h, (args.flags.batch, args.flags.heads))?;
    match (args.block_at, args.cell) {
        (Some(at), _) => block::explain(args, &bound, &scope, at),
        (None, Some(at)) => cell::explain(args, &bound, &scope, at),
        (None, None) => rule::explain(args, &bound, &scope),
    }
}
