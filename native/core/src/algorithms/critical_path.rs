//! What waited for what in a step: a graph of starts and ends of events, and the longest path through it.

use hashbrown::HashMap;

use crate::algorithms::call_tree::{CallTree, Calls};
use crate::columns::table::NONE;

/// Host events as columns of equal length, in any order.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Distinct among all events, of the host and of devices.
    pub id: &'a [u32],
    pub start: &'a [i64],
    pub end: &'a [i64],
    /// Which events can enclose each other.
    pub thread: &'a [u32],
    /// Sum of `COUNTS`, `WAITS` and `LOCKS`; 0 for an event that only encloses others.
    pub role: &'a [u8],
}

/// The event's start and end are nodes.
pub const COUNTS: u8 = 1;
/// It waits for a device, so its own time is none of the host's.
pub const WAITS: u8 = 2;
/// It holds the runtime's lock, which one thread has at a time.
pub const LOCKS: u8 = 4;

/// Device events as columns of equal length, in any order.
#[derive(Clone, Copy)]
pub struct Device<'a> {
    pub id: &'a [u32],
    pub start: &'a [i64],
    pub end: &'a [i64],
    pub device: &'a [u32],
    /// What runs one after the other; `NONE` for waiting that is on no queue.
    pub queue: &'a [u32],
    /// Id of the host event that asked for it, or `NONE`.
    pub call: &'a [u32],
    /// One of the five below, for work plus `PROMPT`.
    pub role: &'a [u8],
    /// Id of the work that it waits for, or `NONE`.
    pub after: &'a [u32],
    /// Id of the work that has to wait with it, or `NONE`.
    pub holds: &'a [u32],
}

pub const WORK: u8 = 0;
/// A call waited until all work of the event's queue was done.
pub const QUEUE_SYNC: u8 = 1;
/// A call waited until all work of the event's device was done.
pub const DEVICE_SYNC: u8 = 2;
/// A call waited until the work of `after` was done.
pub const EVENT_SYNC: u8 = 3;
/// The work of `holds` has to wait for that of `after`.
pub const QUEUE_WAIT: u8 = 4;
/// The work's start may have waited for its launch, as far as its queue tells.
pub const PROMPT: u8 = 8;

/// What the end of an edge waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// An event that took its time.
    Operator,
    /// Something that had to be over; takes no time itself.
    Dependency,
    /// Work reached an empty queue.
    LaunchDelay,
    /// Work followed other work of its queue.
    KernelDelay,
    /// A synchronisation; takes no time itself.
    Sync,
}

/// All kinds, by their numbers.
pub const KINDS: [&str; 5] = ["operator", "dependency", "launch_delay", "kernel_delay", "sync"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Id of the event.
    pub event: u32,
    pub time: i64,
    pub is_start: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    pub from: u32,
    pub to: u32,
    pub kind: Kind,
    /// Time from one end to the other, as far as it counts; negative where clocks differ.
    pub weight: i64,
    /// Id of the event whose time that is, or `NONE`.
    pub event: u32,
}

/// How a graph is made.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Work that starts so long after the work before it, or later, did not wait for that.
    pub longest_kernel_delay: i64,
    /// Draw an edge without weight from a launch to its work where that waited for something else.
    pub has_all_launches: bool,
}

/// Starts and ends of events, and which of them came after which.
pub struct Graph {
    /// By time, then by event; a start before its end.
    pub nodes: Vec<Node>,
    /// In the order in which they were found; at most one between two nodes.
    pub edges: Vec<Edge>,
    /// Nodes that have edges, in the order of these.
    pub connected: Vec<u32>,
}

/// The longest path: its nodes, and the edges between them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Path {
    pub nodes: Vec<u32>,
    pub edges: Vec<u32>,
}

impl Graph {
    pub fn new(host: Host, device: Device, rules: Rules) -> Self {
        let mut builder = Builder::new(host, device);
        builder.take_lock();
        builder.follow_threads();
        builder.follow_queues(rules);
        let mut is_connected = vec![false; builder.nodes.len()];
        let mut connected = Vec::new();
        for node in builder.edges.iter().flat_map(|edge| [edge.from, edge.to]) {
            if !std::mem::replace(&mut is_connected[node as usize], true) {
                connected.push(node);
            }
        }
        Self { nodes: builder.nodes, edges: builder.edges, connected }
    }

    /// The longest path where edge `n` takes `weights[n]`, which may not be negative.
    ///
    /// Of equally long ways to a node the one whose edge was found first, and of equally long paths the one whose end
    /// comes first, nodes of lower generations before others. Where clocks differ so much that events wait for each
    /// other in a circle, edges against the order of nodes do not count.
    pub fn longest_path(&self, weights: &[i64]) -> Path {
        let all = |_: &Edge| true;
        self.longest(weights, all).or_else(|| self.longest(weights, |edge| edge.from < edge.to)).unwrap_or_default()
    }

    /// The longest path over edges that `counts`, unless these lead in a circle.
    fn longest(&self, weights: &[i64], counts: impl Fn(&Edge) -> bool) -> Option<Path> {
        let edges = || self.edges.iter().enumerate().filter(|(_, edge)| counts(edge));
        let count = self.nodes.len();
        let leaving = Grouped::new(count, edges().map(|(number, edge)| (edge.from, number as u32)));
        let mut awaited = vec![0_u32; count];
        for (_, edge) in edges() {
            awaited[edge.to as usize] += 1;
        }
        let mut order: Vec<u32> = self.connected.iter().copied().filter(|&node| awaited[node as usize] == 0).collect();
        // What has to be over before each node, at best: how long it takes, and the edge through which.
        let mut best = vec![(0_i64, NONE); count];
        let mut at = 0;
        while let Some(&node) = order.get(at) {
            for &number in leaving.of(node) {
                let next = self.edges[number as usize].to as usize;
                awaited[next] -= 1;
                if awaited[next] == 0 {
                    order.push(next as u32);
                }
            }
            at += 1;
        }
        if order.len() < self.connected.len() {
            return None;
        }
        let reaching = Grouped::new(count, edges().map(|(number, edge)| (edge.to, number as u32)));
        for &node in &order {
            for &number in reaching.of(node) {
                let from = self.edges[number as usize].from as usize;
                let length = best[from].0.saturating_add(weights[number as usize]);
                let known = &mut best[node as usize];
                if known.1 == NONE || length > known.0 {
                    *known = (length, number);
                }
            }
        }
        // Of equal ones `max_by_key` would take the last.
        let last = order.iter().copied().rev().max_by_key(|&node| best[node as usize].0);
        Some(self.back_from(last, &best))
    }

    fn back_from(&self, last: Option<u32>, best: &[(i64, u32)]) -> Path {
        let mut path = Path::default();
        let mut node = last;
        while let Some(at) = node {
            path.nodes.push(at);
            let number = best[at as usize].1;
            node = (number != NONE).then(|| {
                path.edges.push(number);
                self.edges[number as usize].from
            });
        }
        path.nodes.reverse();
        path.edges.reverse();
        path
    }
}

/// Numbers in groups, in the order in which they were given.
struct Grouped {
    starts: Vec<u32>,
    numbers: Vec<u32>,
}

impl Grouped {
    fn new(groups: usize, members: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
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

    fn of(&self, group: u32) -> &[u32] {
        let group = group as usize;
        &self.numbers[self.starts[group] as usize..self.starts[group + 1] as usize]
    }
}

/// The nodes of an event.
#[derive(Clone, Copy)]
struct Ends {
    start: u32,
    end: u32,
}

/// Work that ended: its end, and the event.
#[derive(Clone, Copy)]
struct Done {
    node: u32,
    time: i64,
}

type Map<V> = HashMap<u32, V, foldhash::fast::RandomState>;

struct Builder<'a> {
    host: Host<'a>,
    device: Device<'a>,
    /// Rows of the host that matter, by their ids.
    rows: Vec<u32>,
    nodes: Vec<Node>,
    /// By the id of the event.
    ends: Map<Ends>,
    edges: Vec<Edge>,
    /// Number of the edge between two nodes.
    known: HashMap<(u32, u32), u32, foldhash::fast::RandomState>,
    /// Row of the host that encloses each, by the id of the event.
    callers: Map<u32>,
}

impl<'a> Builder<'a> {
    fn new(host: Host<'a>, device: Device<'a>) -> Self {
        // What took no time neither encloses nor delays anything.
        let rows = (0..host.id.len() as u32).filter(|&row| host.start[row as usize] < host.end[row as usize]).collect();
        let mut builder = Self {
            host,
            device,
            rows,
            nodes: Vec::new(),
            ends: Map::default(),
            edges: Vec::new(),
            known: HashMap::default(),
            callers: Map::default(),
        };
        builder.place_nodes();
        builder.find_callers();
        builder
    }

    fn place_nodes(&mut self) {
        let host = self.rows.iter().map(|&row| row as usize).filter(|&row| self.host.role[row] & COUNTS != 0);
        let host = host.map(|row| (self.host.id[row], self.host.start[row], self.host.end[row]));
        let device = (0..self.device.id.len()).filter(|&row| self.device.queue[row] != NONE);
        let device = device.map(|row| (self.device.id[row], self.device.start[row], self.device.end[row]));
        let both = host.chain(device).flat_map(|(event, start, end)| {
            let start = Node { event, time: start, is_start: true };
            [start, Node { event, time: end.max(start.time), is_start: false }]
        });
        self.nodes = both.collect();
        self.nodes.sort_unstable_by_key(|node| (node.time, node.event, !node.is_start));
        for (number, node) in self.nodes.iter().enumerate() {
            let number = number as u32;
            let ends = self.ends.entry(node.event).or_insert(Ends { start: number, end: number });
            *if node.is_start { &mut ends.start } else { &mut ends.end } = number;
        }
    }

    fn find_callers(&mut self) {
        fn chosen<T: Copy>(column: &[T], rows: &[u32]) -> Vec<T> {
            rows.iter().map(|&row| column[row as usize]).collect()
        }
        let id = chosen(self.host.id, &self.rows);
        let (start, end) = (chosen(self.host.start, &self.rows), chosen(self.host.end, &self.rows));
        let thread = chosen(self.host.thread, &self.rows);
        let tree = CallTree::new(Calls { id: &id, start: &start, end: &end, thread: &thread });
        let called = id.iter().zip(&tree.parent).filter(|(_, parent)| **parent != NONE);
        self.callers = called.map(|(&event, &parent)| (event, id[parent as usize])).collect();
    }

    /// Add an edge, or say anew what the one between these nodes is.
    fn add(&mut self, from: u32, to: u32, kind: Kind, weight: i64) {
        let edge = Edge { from, to, kind, weight, event: self.event_of(from, to, kind) };
        let next = self.edges.len() as u32;
        let number = *self.known.entry((from, to)).or_insert(next);
        if number == next {
            self.edges.push(edge);
        } else {
            self.edges[number as usize] = edge;
        }
    }

    /// The event whose time passes between two nodes.
    fn event_of(&self, from: u32, to: u32, kind: Kind) -> u32 {
        let (from, to) = (self.nodes[from as usize], self.nodes[to as usize]);
        match kind {
            Kind::KernelDelay => from.event,
            Kind::Operator if from.is_start => from.event,
            Kind::Operator if !to.is_start => to.event,
            // Between two calls it is their caller's.
            Kind::Operator => self.callers.get(&from.event).copied().unwrap_or(NONE),
            _ => NONE,
        }
    }

    fn time(&self, node: u32) -> i64 {
        self.nodes[node as usize].time
    }

    fn between(&self, from: u32, to: u32) -> i64 {
        self.time(to).saturating_sub(self.time(from))
    }

    /// Calls of all threads that hold the runtime's lock at once wait for each other.
    fn take_lock(&mut self) {
        let locks = self.locks();
        let mut held: Vec<u32> = Vec::new();
        let mut before: Option<u32> = None;
        let nodes: Vec<u32> = (0..self.nodes.len() as u32).filter(|&node| locks[node as usize]).collect();
        for node in nodes {
            let Node { event, is_start, .. } = self.nodes[node as usize];
            if is_start {
                held.push(node);
            } else {
                while let Some(start) = held.pop() {
                    if self.nodes[start as usize].event == event {
                        self.add(start, node, Kind::Operator, self.between(start, node));
                    } else {
                        self.add(start, node, Kind::Dependency, 0);
                    }
                }
                if let Some(before) = before.filter(|&before| !self.nodes[before as usize].is_start) {
                    self.add(before, node, Kind::Dependency, 0);
                }
            }
            before = Some(node);
        }
    }

    /// For each node whether its event holds the runtime's lock.
    fn locks(&self) -> Vec<bool> {
        let mut locks = vec![false; self.nodes.len()];
        for &row in &self.rows {
            if self.host.role[row as usize] & (COUNTS | LOCKS) == COUNTS | LOCKS {
                let ends = self.ends[&self.host.id[row as usize]];
                locks[ends.start as usize] = true;
                locks[ends.end as usize] = true;
            }
        }
        locks
    }

    /// What a thread does follows what it did before.
    fn follow_threads(&mut self) {
        let locks = self.locks();
        let mut points: Vec<Point> = Vec::with_capacity(2 * self.rows.len());
        for &row in &self.rows {
            let at = row as usize;
            if self.host.role[at] & COUNTS != 0 {
                let lasts = self.host.end[at].saturating_sub(self.host.start[at]);
                let id = i64::from(self.host.id[at]);
                // Of starts at one time the outer comes first, of ends the inner, and ends come before starts.
                points.push((self.host.thread[at], self.host.end[at], false, lasts, -id, row));
                points.push((self.host.thread[at], self.host.start[at], true, -lasts, id, row));
            }
        }
        points.sort_unstable();
        for thread in points.chunk_by(|one, other| one.0 == other.0) {
            self.follow_thread(thread, &locks);
        }
    }

    fn follow_thread(&mut self, points: &[Point], locks: &[bool]) {
        let mut last: Option<u32> = None;
        let mut open = 0_usize;
        for &(.., is_start, _, _, row) in points {
            let ends = self.ends[&self.host.id[row as usize]];
            let node = if is_start { ends.start } else { ends.end };
            if let Some(last) = last {
                let both_lock = locks[last as usize] && locks[node as usize];
                let follows = !self.nodes[last as usize].is_start && is_start;
                // Within the lock its own edges say what came after what.
                if !both_lock || follows {
                    let is_apart = is_start && open == 0;
                    let waits = !is_start && self.host.role[row as usize] & WAITS != 0;
                    let kind = if is_apart { Kind::Dependency } else { Kind::Operator };
                    let weight = if is_apart || waits { 0 } else { self.between(last, node) };
                    self.add(last, node, kind, weight);
                }
            }
            open = if is_start { open + 1 } else { open - 1 };
            last = Some(node);
        }
    }

    /// What runs on a queue follows its launch, what ran before it, or what it was made to wait for.
    fn follow_queues(&mut self, rules: Rules) {
        let mut order: Vec<usize> = (0..self.device.id.len()).collect();
        let is_work = |row: usize| self.device.role[row] & !PROMPT == WORK;
        order.sort_unstable_by_key(|&row| {
            let time = if is_work(row) { self.device.start[row] } else { self.device.end[row] };
            (time, self.device.id[row])
        });
        // Queues in the order in which they were used first, so that the result depends on nothing else.
        let mut queues: Vec<(u32, Done)> = Vec::new();
        let mut place: Map<usize> = Map::default();
        let mut held: Map<Vec<Done>> = Map::default();
        for row in order {
            if is_work(row) {
                let queue = self.device.queue[row];
                let Some(&ends) = self.ends.get(&self.device.id[row]) else { continue };
                let before = place.get(&queue).map(|&place| queues[place].1);
                let waited_for = held.remove(&self.device.id[row]).unwrap_or_default();
                self.follow_queue(row, ends, before, &waited_for, rules);
                let done = Done { node: ends.end, time: self.time(ends.end) };
                match place.get(&queue) {
                    Some(&place) => queues[place].1 = done,
                    None => {
                        place.insert(queue, queues.len());
                        queues.push((self.device.device[row], done));
                    }
                }
                continue;
            }
            let done = |id: &u32| self.ends.get(id).map(|ends| Done { node: ends.end, time: self.time(ends.end) });
            if self.device.role[row] == QUEUE_WAIT {
                if let Some(done) = done(&self.device.after[row]) {
                    held.entry(self.device.holds[row]).or_default().push(done);
                }
                continue;
            }
            let Some(&call) = self.ends.get(&self.device.call[row]) else { continue };
            let waited_for: Vec<Done> = match self.device.role[row] {
                QUEUE_SYNC => place.get(&self.device.queue[row]).map(|&place| queues[place].1).into_iter().collect(),
                DEVICE_SYNC => {
                    let device = self.device.device[row];
                    queues.iter().filter(|queue| queue.0 == device).map(|queue| queue.1).collect()
                }
                _ => done(&self.device.after[row]).into_iter().collect(),
            };
            for done in waited_for {
                self.add(done.node, call.end, Kind::Sync, 0);
            }
        }
    }

    fn follow_queue(&mut self, row: usize, ends: Ends, before: Option<Done>, waited_for: &[Done], rules: Rules) {
        let start = self.device.start[row];
        for done in waited_for {
            self.add(done.node, ends.start, Kind::Sync, 0);
        }
        let synced = waited_for.iter().map(|done| done.time).max();
        let launch = self.ends.get(&self.device.call[row]).map(|call| call.start);
        let was_free = |launch: u32| {
            let time = self.time(launch);
            before.is_none_or(|before| before.time < time) && synced.is_none_or(|synced| synced < time)
        };
        let prompt = launch.filter(|&launch| self.device.role[row] & PROMPT != 0 && was_free(launch));
        if let Some(launch) = prompt {
            self.add(launch, ends.start, Kind::LaunchDelay, self.between(launch, ends.start));
        } else if let Some(before) = before {
            let delay = start.saturating_sub(before.time);
            if delay < rules.longest_kernel_delay && synced.is_none_or(|synced| synced < before.time) {
                self.add(before.node, ends.start, Kind::KernelDelay, delay);
            }
        }
        if let Some(launch) = launch.filter(|_| rules.has_all_launches && prompt.is_none()) {
            self.add(launch, ends.start, Kind::LaunchDelay, 0);
        }
        self.add(ends.start, ends.end, Kind::Operator, self.between(ends.start, ends.end));
    }
}

/// A start or an end: thread, time, whether it is a start, two that decide between those of one time, and the row.
type Point = (u32, i64, bool, i64, i64, u32);
