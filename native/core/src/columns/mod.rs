//! Columns while they grow, and as Arrow.

pub mod table;
