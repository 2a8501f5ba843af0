//! A trace as a new file: byte for byte the same, but for events that are changed, left out or added.

pub(crate) mod changes;
pub(crate) mod merge;
pub(crate) mod rewriter;
pub(crate) mod tracks;

pub use self::changes::{Changes, Edit};
pub use self::merge::{Detail, Part, Timeline, text, write};
pub use self::rewriter::{Rewritten, rewrite, rewrite_blocks};
