//! Which activities are the same one in other places: those that do the same as often as it was done before.

use hashbrown::HashMap;

use crate::algorithms::intervals::in_order;
use crate::columns::arrow::NONE;

type Map<K> = HashMap<K, u32, foldhash::fast::RandomState>;

/// Activities as columns of equal length.
#[derive(Clone, Copy)]
pub struct Activities<'a> {
    pub rank: &'a [u32],
    /// Numbers of threads and queues of their rank.
    pub lane: &'a [u32],
    pub is_device: &'a [u8],
    pub step: &'a [i64],
    pub kind: &'a [u32],
    /// `NONE` where it has none.
    pub name: &'a [u32],
    pub start: &'a [i64],
}

/// For each activity a number that it shares with those of other steps and ranks that do the same and are the n-th to
/// do so: that have its kind and name, and run on devices, or on threads that do the same thing most often.
///
/// Of names that a thread has as often, the one that comes first in `names` tells what it does; all are in there.
pub fn numbered(activities: Activities, names: &[u32]) -> Vec<u32> {
    let place_of: Map<u32> = names.iter().copied().zip(0..).collect();
    let threads = threads(activities, &place_of);
    let mut places: Map<(u32, i64)> = Map::default();
    let mut whats: Map<(u32, u32, u32, bool)> = Map::default();
    let mut counts: Map<(u32, u32)> = Map::default();
    // The numbers of the first, second and so on of each thing that is done.
    let mut numbers: Vec<Vec<u32>> = Vec::new();
    let mut next = 0;
    let mut same = vec![0; activities.start.len()];
    for row in in_order(activities.start) {
        let at = row as usize;
        let (rank, lane, is_device) = (activities.rank[at], activities.lane[at], activities.is_device[at] != 0);
        let thread = if is_device { NONE } else { threads.get(&(rank, lane)).copied().unwrap_or(NONE) };
        let place = numbered_in(&mut places, (rank, activities.step[at]));
        let what = numbered_in(&mut whats, (thread, activities.kind[at], activities.name[at], is_device));
        let count = counts.entry((place, what)).or_default();
        if what as usize == numbers.len() {
            numbers.push(Vec::new());
        }
        let of_what = &mut numbers[what as usize];
        if *count as usize == of_what.len() {
            of_what.push(next);
            next += 1;
        }
        same[at] = of_what[*count as usize];
        *count += 1;
    }
    same
}

fn numbered_in<K: std::hash::Hash + Eq>(known: &mut Map<K>, key: K) -> u32 {
    let next = known.len() as u32;
    *known.entry(key).or_insert(next)
}

/// The place of the name that each thread has most often.
fn threads(activities: Activities, place_of: &Map<u32>) -> Map<(u32, u32)> {
    let mut counts: Map<(u32, u32, u32)> = Map::default();
    for (at, &name) in activities.name.iter().enumerate() {
        if activities.is_device[at] == 0
            && let Some(&place) = place_of.get(&name)
        {
            *counts.entry((activities.rank[at], activities.lane[at], place)).or_default() += 1;
        }
    }
    let mut most: HashMap<(u32, u32), (u32, u32), foldhash::fast::RandomState> = HashMap::default();
    for ((rank, lane, place), count) in counts {
        let best = most.entry((rank, lane)).or_insert((count, place));
        if count > best.0 || (count == best.0 && place < best.1) {
            *best = (count, place);
        }
    }
    most.into_iter().map(|(thread, (_, place))| (thread, place)).collect()
}

/// What those with one number usually take, for each of them: the mean or the median, rounded to even.
pub fn usual(same: &[u32], own: &[i64], is_mean: &[u8]) -> Vec<i64> {
    let count = same.iter().max().map_or(0, |&number| number as usize + 1);
    let mut first = vec![0_u32; count + 1];
    same.iter().for_each(|&number| first[number as usize + 1] += 1);
    (1..first.len()).for_each(|number| first[number] += first[number - 1]);
    let mut place = first.clone();
    let mut grouped = vec![0_i64; own.len()];
    let mut group_is_mean = vec![false; count];
    for (row, &number) in same.iter().enumerate() {
        let at = &mut place[number as usize];
        grouped[*at as usize] = own[row];
        *at += 1;
        group_is_mean[number as usize] = is_mean[row] != 0;
    }
    let usual: Vec<i64> = (0..count)
        .map(|number| {
            let group = &mut grouped[first[number] as usize..first[number + 1] as usize];
            let time = if group_is_mean[number] { mean(group) } else { median(group) };
            time.round_ties_even() as i64
        })
        .collect();
    same.iter().map(|&number| usual[number as usize]).collect()
}

fn mean(times: &[i64]) -> f64 {
    times.iter().map(|&time| time as f64).sum::<f64>() / times.len() as f64
}

fn median(times: &mut [i64]) -> f64 {
    if times.is_empty() {
        return 0.0;
    }
    let middle = times.len() / 2;
    let is_even = times.len().is_multiple_of(2);
    let (below, &mut upper, _) = times.select_nth_unstable(middle);
    match below.iter().max() {
        Some(&lower) if is_even => f64::midpoint(lower as f64, upper as f64),
        _ => upper as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::{Activities, numbered, usual};

    #[test]
    fn the_nth_of_a_place_is_the_nth_of_another() {
        let of_devices = Activities {
            rank: &[0, 0, 1, 1, 1],
            lane: &[0; 5],
            is_device: &[1; 5],
            step: &[0; 5],
            kind: &[0; 5],
            name: &[7, 7, 7, 9, 7],
            start: &[5, 1, 2, 3, 4],
        };
        assert_eq!(numbered(of_devices, &[7, 9]), [2, 0, 0, 1, 2]);
    }

    #[test]
    fn threads_are_the_same_that_mostly_do_the_same() {
        let threads = Activities {
            rank: &[0, 0, 0, 0, 1, 1],
            lane: &[0, 0, 1, 1, 0, 1],
            is_device: &[0; 6],
            step: &[0; 6],
            kind: &[0; 6],
            name: &[7, 9, 9, 9, 9, 7],
            start: &[0, 1, 2, 3, 4, 5],
        };
        assert_eq!(numbered(threads, &[7, 9]), [0, 1, 2, 3, 2, 0]);
    }

    #[test]
    fn usual_is_the_mean_or_the_median() {
        assert_eq!(usual(&[0, 0, 9, 9, 9, 9], &[1, 4, 9, 1, 3, 5], &[1, 1, 0, 0, 0, 0]), [2, 2, 4, 4, 4, 4]);
    }
}
