//! What calls are, told once for each name.

use hashbrown::HashMap;

/// What a call is by its name and category, as bits.
pub mod traits {
    /// An operator of the framework.
    pub const OPERATOR: u16 = 1;
    /// A call of the device's runtime or driver.
    pub const RUNTIME: u16 = 2;
    pub const ALLOCATES: u16 = 4;
    pub const COPIES: u16 = 8;
    /// Returns when the device has come so far.
    pub const WAITS: u16 = 16;
    /// A function of the program's own, or a range that it named.
    pub const OWN: u16 = 32;
    /// Holds all that goes on in a step, and so tells nothing.
    pub const CONTAINER: u16 = 64;
    pub const MODULE: u16 = 128;
    pub const FUNCTION: u16 = 256;
    pub const RANGE: u16 = 512;
    /// Waits for another thread.
    pub const IDLE: u16 = 1024;
    /// A function of anybody's but the framework's, or a range that the program named.
    pub const TASK: u16 = 2048;
}

/// Kinds of what goes on that follow from what is innermost; names that tell it by themselves have those from ``TOLD``.
pub mod kinds {
    pub const UNRECORDED: u8 = 0;
    pub const LAUNCH: u8 = 1;
    /// A launch that takes so long that it waits for a place in the queue.
    pub const FULL_QUEUE: u8 = 2;
    /// Python between calls that it makes, outside of operators.
    pub const PYTHON: u8 = 3;
    pub const SYNCHRONIZATION: u8 = 4;
    pub const ALLOCATION: u8 = 5;
    pub const COPY: u8 = 6;
    pub const PAUSE: u8 = 7;
    pub const FUNCTION: u8 = 8;
    pub const TOLD: u8 = 9;
    /// A short call of a function that launches nothing: whether it lasts the sum of them tells.
    pub(crate) const BRIEF: u8 = u8::MAX;
}

/// Calls as columns of equal length, in any order.
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    pub start: &'a [i64],
    pub end: &'a [i64],
    pub thread: &'a [u32],
    pub name: &'a [u32],
    /// Bits of `traits`.
    pub traits: &'a [u16],
    /// The kind that its name tells of all that goes on below, or 0.
    pub told: &'a [u8],
    /// Whether, if not 0, it or a call below it put work on a device.
    pub launches: &'a [u8],
}

/// What calls are by their name and category, as columns of equal length; each pair once.
#[derive(Clone, Copy)]
pub struct Kinds<'a> {
    pub name: &'a [u32],
    pub category: &'a [u32],
    /// Bits of `traits`.
    pub traits: &'a [u16],
    /// See `Calls`.
    pub told: &'a [u8],
}

impl Kinds<'_> {
    /// The traits of each call, and what its name tells; nothing of those that are not there.
    pub fn of(self, name: &[u32], category: &[u32]) -> (Vec<u16>, Vec<u8>) {
        let mut known: HashMap<(u32, u32), (u16, u8), foldhash::fast::RandomState> = HashMap::default();
        for at in 0..self.name.len() {
            known.insert((self.name[at], self.category[at]), (self.traits[at], self.told[at]));
        }
        let found = name.iter().zip(category).map(|(&name, &category)| known.get(&(name, category)));
        found.map(|kind| kind.copied().unwrap_or_default()).unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::Kinds;

    #[test]
    fn a_name_is_something_else_in_another_category() {
        let kinds = Kinds { name: &[7, 7], category: &[1, 2], traits: &[4, 8], told: &[0, 3] };
        assert_eq!(kinds.of(&[7, 7, 9], &[2, 1, 1]), (vec![8, 4, 0], vec![3, 0, 0]));
    }
}
