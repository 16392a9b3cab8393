//! The templates: whole kernels with named holes, which hold the algorithm and decide nothing.

use tera::{Context, Delimiters, Tera};

use super::error::CudaError;

/// The file of the kernel that evaluates a rule alone.
pub(super) const EVALUATE: &str = "evaluate.cu";

/// The file of the instructions that C++ has no words for.
pub(super) const PRELUDE: &str = "prelude.cuh";

/// The file of the forward kernel that runs on `sm_80` and later.
pub(super) const FORWARD_SM80: &str = "forward_sm80.cu";

const TEMPLATES: [(&str, &str); 3] = [
    (
        EVALUATE,
        include_str!("../../../templates/cuda/evaluate.cu"),
    ),
    (PRELUDE, include_str!("../../../templates/cuda/prelude.cuh")),
    (
        FORWARD_SM80,
        include_str!("../../../templates/cuda/forward_sm80.cu"),
    ),
];

/// Fills in a template.
pub(super) fn render(template: &'static str, context: &Context) -> Result<String, CudaError> {
    let fail = |source| CudaError::Template { template, source };
    engine()
        .and_then(|engine| engine.render(template, context))
        .map_err(fail)
}

fn engine() -> Result<Tera, tera::Error> {
    let mut engine = Tera::new();
    // The usual delimiters stand in inline PTX and in initialisers of C++; these stand in neither.
    engine.set_delimiters(Delimiters {
        block_start: "<%".into(),
        block_end: "%>".into(),
        variable_start: "<$".into(),
        variable_end: "$>".into(),
        comment_start: "<#".into(),
        comment_end: "#>".into(),
    })?;
    engine.autoescape_on(Vec::<&'static str>::new());
    engine.add_raw_templates(TEMPLATES)?;
    Ok(engine)
}
