//! The nodes of a graph, and its edges while they are found.

use hashbrown::HashMap;

use crate::algorithms::call_tree::{CallTree, Calls};
use crate::algorithms::critical_path::model::{COUNTS, Device, Edge, Host, Kind, Node};
use crate::columns::arrow::NONE;

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
    /// By the id of the event.
    pub ends: Map<Ends>,
    pub edges: Vec<Edge>,
    /// Number of the edge between two nodes.
    pub known: HashMap<(u32, u32), u32, foldhash::fast::RandomState>,
    /// Row of the host that encloses each, by the id of the event.
    pub callers: Map<u32>,
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
        self.ends.reserve(self.nodes.len() / 2);
        // There are somewhat more edges than nodes.
        self.known.reserve(self.nodes.len());
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
        let tree = CallTree::new(Calls { id: &id, start: &start, end: &end, thread: &thread, is_cut: None });
        let called = id.iter().zip(&tree.parent).filter(|(_, parent)| **parent != NONE);
        self.callers = called.map(|(&event, &parent)| (event, id[parent as usize])).collect();
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
            Kind::Operator => self.callers.get(&from.event).copied().unwrap_or(NONE),
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
