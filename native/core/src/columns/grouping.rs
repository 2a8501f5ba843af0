//! Numbers by the group that each is in.

/// Numbers in groups, in the order in which they were given.
pub struct Grouping {
    /// Where each group begins, and where the last one ends.
    starts: Vec<u32>,
    numbers: Vec<u32>,
}

impl Grouping {
    /// Pairs of a group, below `groups`, and a number.
    pub fn new(groups: usize, members: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0_u32; groups + 1];
        for (group, _) in members.clone() {
            starts[group as usize + 1] += 1;
        }
        for group in 0..groups {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        let mut numbers = vec![0; starts[groups] as usize];
        for (group, number) in members {
            numbers[next[group as usize] as usize] = number;
            next[group as usize] += 1;
        }
        Self { starts, numbers }
    }

    /// The rows of each group, given the group of each row.
    pub fn of_rows(groups: usize, group: &[u32]) -> Self {
        Self::new(groups, group.iter().copied().zip(0..))
    }

    pub fn of(&self, group: u32) -> &[u32] {
        let group = group as usize;
        &self.numbers[self.starts[group] as usize..self.starts[group + 1] as usize]
    }

    /// All numbers in order of their groups, and how many each group has.
    pub fn into_parts(self) -> (Vec<u32>, impl Iterator<Item = usize>) {
        let sizes = (1..self.starts.len()).map(move |end| (self.starts[end] - self.starts[end - 1]) as usize);
        (self.numbers, sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_a_group_may_have_none() {
        let groups = Grouping::of_rows(4, &[2, 0, 2, 3]);
        assert_eq!([0, 1, 2, 3].map(|group| groups.of(group).to_vec()), [vec![1], vec![], vec![0, 2], vec![3]]);
        let (numbers, sizes) = groups.into_parts();
        assert_eq!((numbers, sizes.collect::<Vec<_>>()), (vec![1, 0, 2, 3], vec![1, 0, 2, 1]));
    }

    #[test]
    fn without_groups_there_is_nothing() {
        assert_eq!(Grouping::of_rows(0, &[]).into_parts().0, []);
    }
}
