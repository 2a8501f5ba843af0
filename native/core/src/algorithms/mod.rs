//! What is computed of columns, whichever format they came from.

pub mod bins;
pub mod call_kinds;
pub mod call_shifts;
pub mod call_tree;
pub mod critical_path;
pub mod device_graph;
pub mod distinct;
pub mod groups;
pub mod held_up;
pub mod host_graph;
pub mod intervals;
pub mod meetings;
pub mod open_calls;
pub mod order;
pub mod places;
pub mod replay;
pub mod same;
pub mod waits;
