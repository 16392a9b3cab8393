//! Examples of Maskwright.
