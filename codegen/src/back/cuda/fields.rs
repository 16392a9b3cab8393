//! The struct of parameters as C++ declares it.

use crate::plan::{ParamLayout, ParamType};

/// Declarations of all parameters, in their order.
pub(super) fn fields(params: &ParamLayout) -> Vec<String> {
    let field = |ty, name: &str| match ty {
        ParamType::Pointer(to) => format!("{to}* {name}"),
        ParamType::I64 => format!("long long {name}"),
        ParamType::I32 | ParamType::Bool => format!("int {name}"),
        ParamType::U32 => format!("unsigned {name}"),
        ParamType::F32 => format!("float {name}"),
    };
    let params = params.params().iter();
    params.map(|param| field(param.ty, &param.name)).collect()
}
