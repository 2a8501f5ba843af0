//! The nodes of a graph, and its edges while they are found.

use hashbrown::HashMap;

use crate::algorithms::call_tree::{CallTree, Calls};
use crate::algorithms::critical_path::model::{COUNTS, Device, Edge, Host, Kind, Node};
use crate::columns::arrow::NONE;
use crate::columns::id_map::IdMap;

/// The nodes of an event.
#[derive(Clone, Copy)]
pub struct Ends {
    pub start: u32,
    pub end: u32,
}

/// Work that ended: its end, and the event.
#[derive(Clone, Copy)]
pub struct Done {
    pub node: u32,
    pub time: i64,
}

pub type Map<V> = HashMap<u32, V, foldhash::fast::RandomState>;

pub struct Builder<'a> {
    pub host: Host<'a>,
    pub device: Device<'a>,
    /// Rows of the host that matter, by their ids.
    pub rows: Vec<u32>,
    pub nodes: Vec<Node>,
    /// Of events, and the place of each by its id.
    ends: Vec<Ends>,
    places: IdMap,
    pub edges: Vec<Edge>,
    /// Number of the edge between two nodes.
    pub known: HashMap<(u32, u32), u32, foldhash::fast::RandomState>,
    /// Id of the host's event that encloses each, by the id of the event.
    callers: IdMap,
}

impl<'a> Builder<'a> {
    pub fn new(host: Host<'a>, device: Device<'a>) -> Self {
        // What took no time neither encloses nor delays anything.
        let rows = (0..host.id.len() as u32).filter(|&row| host.start[row as usize] < host.end[row as usize]).collect();
        let mut builder = Self {
            host,
            device,
            rows,
            nodes: Vec::new(),
            ends: Vec::new(),
            places: IdMap::of_rows(std::iter::empty()),
            edges: Vec::new(),
            known: HashMap::default(),
            callers: IdMap::of_rows(std::iter::empty()),
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
        let starts = || self.nodes.iter().filter(|node| node.is_start);
        self.places = IdMap::of_rows(starts().map(|node| i64::from(node.event)));
        self.ends = vec![Ends { start: NONE, end: NONE }; self.nodes.len() / 2];
        for (number, node) in (0..).zip(&self.nodes) {
            let ends = &mut self.ends[self.places.get(i64::from(node.event)) as usize];
            *if node.is_start { &mut ends.start } else { &mut ends.end } = number;
        }
        // There are somewhat more edges than nodes.
        self.known.reserve(self.nodes.len());
    }

    /// The nodes of an event, if it has any.
    pub fn ends_of(&self, event: u32) -> Option<Ends> {
        self.ends.get(self.places.get(i64::from(event)) as usize).copied()
    }

    fn find_callers(&mut self) {
        fn chosen<T: Copy>(column: &[T], rows: &[u32]) -> Vec<T> {
            rows.iter().map(|&row| column[row as usize]).collect()
        }
        let id = chosen(self.host.id, &self.rows);
        let (start, end) = (chosen(self.host.start, &self.rows), chosen(self.host.end, &self.rows));
        let thread = chosen(self.host.thread, &self.rows);
        let tree = CallTree::new(Calls { id: &id, start: &start, end: &end, thread: &thread, is_cut: None });
        let called = id.iter().zip(&tree.parent).filter(|(_, parent)| **parent != NONE);
        self.callers = IdMap::of_pairs(called.map(|(&event, &parent)| (i64::from(event), id[parent as usize])));
    }

    /// Add an edge, or say anew what the one between these nodes is.
    pub fn add(&mut self, from: u32, to: u32, kind: Kind, weight: i64) {
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
            Kind::Operator => self.callers.get(i64::from(from.event)),
            _ => NONE,
        }
    }

    pub fn time(&self, node: u32) -> i64 {
        self.nodes[node as usize].time
    }

    pub fn between(&self, from: u32, to: u32) -> i64 {
        self.time(to).saturating_sub(self.time(from))
    }
}
