//! What calls are, told once for each name.

use hashbrown::HashMap;

/// What calls are by their name and category, as columns of equal length; each pair once.
#[derive(Clone, Copy)]
pub struct Kinds<'a> {
    pub name: &'a [u32],
    pub category: &'a [u32],
    /// Bits of `open_calls::traits`.
    pub traits: &'a [u16],
    /// See `open_calls::Calls`.
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
