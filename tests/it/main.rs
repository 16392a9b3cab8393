//! The integration tests of Maskwright.

mod bugs;
mod corpus;
