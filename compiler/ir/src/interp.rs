//! The CPU oracle.
