//! The syntax tree as text.
