//! Bytes of files and object stores, packed or not, in and out.

pub(crate) mod blocks;
pub(crate) mod checksum;
pub(crate) mod ends;
pub(crate) mod inflate;
pub(crate) mod packed_writer;
pub(crate) mod read_ahead;

pub use self::blocks::{Block, Blocks};
pub use self::checksum::checksum;
pub use self::ends::{ends, ends_of_stream};
