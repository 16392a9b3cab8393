//! The integration tests of Maskwright.

mod annotated;
mod bugs;
mod catalogue;
mod corpus;
mod cuda;
