//! Macros of Maskwright.
