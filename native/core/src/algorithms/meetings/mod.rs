//! When ranks would meet, and the job would end, if some of their time were not spent: replay from meeting to meeting.
//!
//! Between two meetings a rank goes its own way. What it did there stays as long as it was recorded, but for what a
//! change removes. A collective ends its transfer after the last rank has come; a rank that stood still for it goes on
//! when it ends, and one that computed beside it does not notice. Without changes the replay gives the recorded times.

mod course;
mod host;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::columns::NONE;
use course::Moved;
pub use course::{Late, Removed};
pub use host::Wait;

/// One rank at one meeting, on the clock of the job.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    /// Its place among the ranks.
    pub rank: u32,
    pub arrival: i64,
    pub left: i64,
    /// How long it stood still until it left.
    pub held: i64,
    /// When it needed what it received, if that is known.
    pub needed: Option<i64>,
    /// When it had computed what it sends, if it then stood in its queue and that is known.
    pub ready: Option<i64>,
    /// Those of one group stand in one queue of the rank's, or those of several.
    pub queue: u32,
    /// How many of the rank's operations of this kind it stood still for.
    pub held_ratio: f64,
    /// Whether that queue is that of its only device: of several each has its own, and the last to come is told of.
    /// Backends of hosts have several, too.
    pub is_of_one: bool,
    /// The kernel that is one of several messages, or `NONE`, and when that ended.
    pub kernel: u32,
    pub ended: i64,
}

/// What is known of a rank beside its visits.
#[derive(Clone, Debug, Default)]
pub struct Rank {
    /// When it ended, if that is recorded.
    pub end: Option<i64>,
    pub late: Vec<Late>,
    /// When its host had waited for its devices; nothing where that is not known of all its time.
    pub waits: Option<Vec<Wait>>,
}

/// What one rank does not do.
#[derive(Clone, Debug, Default)]
pub struct Less {
    pub removed: Removed,
    /// The part of it that hosts do not spend: they launch what comes after it earlier, too.
    pub of_hosts: Removed,
    /// All that hosts do not do, also while their devices work, where that is known.
    pub spent: Removed,
    /// What a host whose waits are known spares before a time.
    pub spared: Removed,
    /// When waits ended that such a host does without, until the device has done what it did before.
    pub without: HashSet<i64>,
}

/// In ns: what starts so soon after the work before it on its queue was waiting for that.
const QUEUED: i64 = 10_000;

struct Meeting {
    id: i64,
    /// When the last one came.
    come: i64,
    visits: Range<usize>,
}

/// The meeting of a kernel that is held last, and for how long the kernel went on after all.
#[derive(Clone, Copy)]
struct Last {
    meeting: usize,
    after: i64,
}

/// All meetings of a job, which can be held again.
pub struct Meetings {
    /// In the order in which the last ones came.
    meetings: Vec<Meeting>,
    visits: Vec<Visit>,
    ranks: Vec<Rank>,
    queue_count: usize,
    /// Of kernels of several messages.
    last: Vec<Last>,
}

impl Meetings {
    /// `matches` has the meeting of each visit.
    pub fn new(matches: &[i64], visits: &[Visit], mut ranks: Vec<Rank>) -> Self {
        for rank in &mut ranks {
            rank.late.sort_unstable();
            if let Some(waits) = &mut rank.waits {
                waits.sort_unstable();
            }
        }
        let (meetings, visits) = held(matches, visits);
        let queue_count = visits.iter().map(|visit| visit.queue as usize + 1).max().unwrap_or(0);
        let last = last_of_kernels(&meetings, &visits);
        Self { meetings, visits, ranks, queue_count, last }
    }

    /// When each rank ends if it does `less`, and transfers of meetings take so many times as long.
    pub fn ends(&self, less: &[Less], transfers: &HashMap<i64, f64>) -> Vec<Option<i64>> {
        let mut ranks: Vec<_> = self.ranks.iter().zip(less).map(|(rank, less)| Moved::new(rank, less)).collect();
        // When the meeting before was left: as recorded, and now.
        let mut before: Vec<Option<(i64, f64)>> = vec![None; self.queue_count];
        let mut over = vec![f64::NEG_INFINITY; self.last.len()];
        for (at, meeting) in self.meetings.iter().enumerate() {
            let visits = &self.visits[meeting.visits.clone()];
            let came = visits
                .iter()
                .map(|visit| came(visit, before[visit.queue as usize], &mut ranks[visit.rank as usize]))
                .fold(f64::NEG_INFINITY, f64::max);
            let factor = transfers.get(&meeting.id).copied().unwrap_or(1.0);
            for visit in visits {
                let mut ended = came + (visit.left - meeting.come) as f64 * factor;
                let mut left = visit.left;
                let mut is_last = true;
                if visit.kernel != NONE {
                    let kernel = visit.kernel as usize;
                    over[kernel] = over[kernel].max(ended);
                    ended = over[kernel] + self.last[kernel].after as f64;
                    left = visit.ended;
                    is_last = self.last[kernel].meeting == at;
                }
                before[visit.queue as usize] = Some((left, ended));
                if is_last {
                    goes_on(visit, left, ended, &mut ranks[visit.rank as usize]);
                }
            }
        }
        let end = |(rank, moved): (&Rank, &mut Moved)| rank.end.map(|end| moved.at(end).round_ties_even() as i64);
        self.ranks.iter().zip(&mut ranks).map(end).collect()
    }
}

/// When a rank comes to a meeting now.
fn came(visit: &Visit, before: Option<(i64, f64)>, rank: &mut Moved) -> f64 {
    let (left, leaves) = before.unwrap_or((visit.arrival - QUEUED, f64::NEG_INFINITY));
    if (0..QUEUED).contains(&(visit.arrival - left)) {
        // It stood in the queue behind the meeting before.
        let ready = visit.ready.map_or(leaves, |ready| rank.at(ready));
        return leaves.max(ready) + visit.arrival as f64 - left as f64;
    }
    let own = rank.at(visit.arrival);
    // One queue holds its meetings one after the other, also those that did not wait for each other.
    if visit.is_of_one && visit.arrival >= left { own.max(leaves) } else { own }
}

/// Lets a rank go on when a meeting that it left is over.
fn goes_on(visit: &Visit, left: i64, ended: f64, rank: &mut Moved) {
    // What it stood still for until it came is needed at once.
    let until = left + if visit.held > 0 { QUEUED } else { 0 };
    match visit.needed {
        Some(needed) if needed > until => rank.goes_on(needed, needed, ended, 1.0),
        // A transfer of its own that was recorded as hidden in part stays so.
        _ if visit.held > 0 => rank.goes_on(left, left - visit.held, ended, visit.held_ratio),
        _ => {}
    }
}

/// The meetings in the order in which the last ones came, and their visits, those of each together.
fn held(matches: &[i64], visits: &[Visit]) -> (Vec<Meeting>, Vec<Visit>) {
    let mut order: Vec<usize> = (0..visits.len()).collect();
    let mut known: HashMap<i64, (usize, i64)> = HashMap::new();
    for (&id, visit) in matches.iter().zip(visits) {
        let number = known.len();
        let (_, come) = known.entry(id).or_insert((number, visit.arrival));
        *come = visit.arrival.max(*come);
    }
    order.sort_by_key(|&row| {
        let (number, come) = known[&matches[row]];
        (come, number)
    });
    let sorted = order.iter().map(|&row| visits[row]).collect();
    let mut meetings: Vec<Meeting> = Vec::with_capacity(known.len());
    for (at, &row) in order.iter().enumerate() {
        let id = matches[row];
        match meetings.last_mut().filter(|meeting| meeting.id == id) {
            Some(meeting) => meeting.visits.end = at + 1,
            None => meetings.push(Meeting { id, come: known[&id].1, visits: at..at + 1 }),
        }
    }
    (meetings, sorted)
}

fn last_of_kernels(meetings: &[Meeting], visits: &[Visit]) -> Vec<Last> {
    let kernels = visits.iter().map(|visit| visit.kernel).filter(|&kernel| kernel != NONE);
    let mut last = vec![Last { meeting: 0, after: i64::MAX }; kernels.max().map_or(0, |kernel| kernel as usize + 1)];
    for (at, meeting) in meetings.iter().enumerate() {
        for visit in visits[meeting.visits.clone()].iter().filter(|visit| visit.kernel != NONE) {
            let Last { meeting, after } = &mut last[visit.kernel as usize];
            *meeting = at;
            *after = visit.ended.saturating_sub(visit.left).min(*after);
        }
    }
    last
}
