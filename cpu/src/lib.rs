//! The CPU attention engine of Maskwright.
