//! Where in a text an entry stands.

/// Where an entry stands, for what is said of it.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub w: &'a [u8],
    pub start: usize,
    pub end: usize,
    pub origin: i64,
}
