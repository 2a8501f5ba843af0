//! One who is told, while a trace is read, where its entries stand.

use crate::error::Result;
use crate::trace_event::fields::Fields;

/// An entry of the array of events.
pub struct Entry<'a> {
    /// Its number in the file.
    pub id: u32,
    /// Where it stands in the window.
    pub start: usize,
    pub end: usize,
    /// The event that it is the end of.
    pub begun: Option<u32>,
    /// None of what is no object.
    pub fields: Option<&'a Fields>,
}

/// Is told everything in the order of the text. Positions are those of a window, and are of use until it ends.
pub trait Observer {
    /// Whether it is worth finding out what it would be told.
    const LOOKS: bool = true;

    /// Text from `at` on is about to be read.
    fn window_begins(&mut self, at: usize);
    /// An array of events begins; `at` is behind its bracket.
    fn array_begins(&mut self, at: usize);
    fn entry(&mut self, w: &[u8], entry: &Entry);
    /// The bracket at `at` closes the array.
    fn array_ends(&mut self, w: &[u8], at: usize);
    /// All up to `at` was read for good.
    fn window_ends(&mut self, w: &[u8], at: usize) -> Result<()>;
}

/// Looks at nothing.
impl Observer for () {
    const LOOKS: bool = false;

    fn window_begins(&mut self, _: usize) {}
    fn array_begins(&mut self, _: usize) {}
    fn entry(&mut self, _: &[u8], _: &Entry) {}
    fn array_ends(&mut self, _: &[u8], _: usize) {}
    fn window_ends(&mut self, _: &[u8], _: usize) -> Result<()> {
        Ok(())
    }
}
