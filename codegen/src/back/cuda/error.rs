//! Why a prepared rule has no CUDA text.

/// Why a prepared rule has no CUDA text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The rule is larger than any kernel for it should be.
    #[error("the rule has {nodes} expressions, which is more than the {limit} that are compiled")]
    TooLarge {
        /// Expressions that the result depends on.
        nodes: usize,
        /// How many are accepted.
        limit: usize,
    },
    /// A mask where a `score_mod` is printed, or the other way round.
    #[error("expected a {expected}, found the {found} `{name}`")]
    Kind {
        /// `mask` or `score_mod`.
        expected: &'static str,
        /// `mask` or `score_mod`.
        found: &'static str,
        /// The rule.
        name: String,
    },
    /// A kernel with a rule that its plan knows nothing of, or without one that it counts on.
    #[error("the kernel was planned {}", if *planned { format!("with a {kind}, but got none") } else { format!("without a {kind}, but got one") })]
    Planned {
        /// `mask` or `score_mod`.
        kind: &'static str,
        /// Whether the plan counts on it.
        planned: bool,
    },
    /// A template of ours could not be filled in.
    #[error("the template `{template}` cannot be rendered")]
    Template {
        /// Its name.
        template: &'static str,
        /// What the engine says.
        source: tera::Error,
    },
}
