//! The integration tests of Maskwright.

mod corpus;
