//! Whether there is memory left, asked before it is used up: an allocation that fails elsewhere ends the process.

use crate::error::Result;

/// Left for all that is small, e.g. for the strings of a block and for saying that memory ran out.
///
/// More than what an allocator serves from memory that it keeps, so that the system is asked.
const MARGIN_BYTES: usize = 64 << 20;

/// An error if there is no room for so many bytes, and some more. Memory that nobody writes to costs nothing.
pub fn has_room(bytes: usize) -> Result<()> {
    Vec::<u8>::new().try_reserve_exact(bytes.saturating_add(MARGIN_BYTES).min(isize::MAX as usize))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_machine_has_room_for_everything() {
        assert!(has_room(1 << 20).is_ok());
        assert_eq!(has_room(usize::MAX).unwrap_err().to_string(), "there is not enough memory");
    }
}
