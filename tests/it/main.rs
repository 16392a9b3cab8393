//! The integration tests of Maskwright.

mod bugs;
mod catalogue;
mod corpus;
