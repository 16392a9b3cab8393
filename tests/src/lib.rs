//! The test harness of Maskwright.
