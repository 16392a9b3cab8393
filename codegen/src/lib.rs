//! Code generation of Maskwright.
