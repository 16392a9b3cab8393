//! Rules to be printed: the catalogue, and texts.

use std::sync::Arc;

use maskwright_dsl::bind::BoundRule;
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::capture::CaptureValue;
use maskwright_dsl::catalogue::{Catalogue, entries};
use maskwright_dsl::eval::Sizes;
use maskwright_dsl::ir::Source;
use maskwright_dsl::pipeline::{Prepared, Scope, prepare};
use maskwright_dsl::text::{LowerOptions, lower, parse};

use crate::host::Subject;

const SIZES: Sizes = Sizes {
    batch: 2,
    num_q_heads: 4,
    q_len: 200,
    kv_len: 200,
};

/// A rule in the text of the language, bound and prepared for [`SIZES`].
pub(crate) fn prepared(
    source: Arc<Source>,
    name: Option<&str>,
    values: Vec<CaptureValue>,
) -> Prepared {
    let faults = |faults: maskwright_dsl::diagnostic::Diagnostics| -> ! {
        panic!("{}", faults.render(false))
    };
    let module = parse(source).unwrap_or_else(|e| faults(e));
    let rule =
        lower(&module, name, &LowerOptions::default(), &Catalogue).unwrap_or_else(|e| faults(e));
    let bound = BoundRule::new(Arc::new(rule), values, &[]).unwrap();
    let scope = Scope::new(Bucket::single(200, 200, 0), 2, 4);
    prepare(&bound, &scope).unwrap_or_else(|e| faults(e))
}

/// Every rule of the catalogue with its sample.
pub(crate) fn catalogue() -> Vec<Subject> {
    let subject = |entry: &maskwright_dsl::catalogue::CatalogueEntry| {
        let values = entry.sample(&SIZES).into_iter().map(|(_, value)| value);
        Subject {
            name: entry.name.to_owned(),
            prepared: prepared(entry.source(), Some(entry.name), values.collect()),
            sizes: SIZES,
            q_offset: 0,
        }
    };
    entries().iter().map(subject).collect()
}
