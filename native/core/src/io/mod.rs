//! Bytes of files and object stores, packed or not, in and out.

pub mod blocks;
pub mod packed_writer;
mod read_ahead;
