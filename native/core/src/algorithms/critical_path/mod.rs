//! What waited for what in a step: a graph of starts and ends of events, and the longest path through it.

mod builder;
mod model;
mod queues;
mod threads;

pub use self::model::{
    COUNTS, DEVICE_SYNC, Device, EVENT_SYNC, Edge, Host, KINDS, Kind, LOCKS, Node, PROMPT, QUEUE_SYNC, QUEUE_WAIT,
    Rules, WAITS, WORK,
};

use crate::algorithms::critical_path::builder::Builder;
use crate::columns::arrow::NONE;
use crate::columns::grouping::Grouping;

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
    /// comes first, nodes of lower generations before others. Where clocks differ so much, or are so coarse, that events
    /// wait for each other in a circle, the first of these does not wait.
    pub fn longest_path(&self, weights: &[i64]) -> Path {
        let count = self.nodes.len();
        let order = self.order();
        let mut place = vec![NONE; count];
        for (at, &node) in (0..).zip(&order) {
            place[node as usize] = at;
        }
        let waits = |edge: &Edge| place[edge.from as usize] < place[edge.to as usize];
        let edges = (0..).zip(&self.edges).filter(|(_, edge)| waits(edge));
        let reaching = Grouping::new(count, edges.map(|(number, edge)| (edge.to, number)));
        // What has to be over before each node, at best: how long it takes, and the edge through which.
        let mut best = vec![(0_i64, NONE); count];
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
        self.back_from(last, &best)
    }

    /// Connected nodes, each after all that it waits for, but for those with which circles begin.
    fn order(&self) -> Vec<u32> {
        let count = self.nodes.len();
        let leaving = Grouping::new(count, (0..).zip(&self.edges).map(|(number, edge)| (edge.from, number)));
        let mut awaited = vec![0_u32; count];
        for edge in &self.edges {
            awaited[edge.to as usize] += 1;
        }
        let mut order: Vec<u32> = self.connected.iter().copied().filter(|&node| awaited[node as usize] == 0).collect();
        let (mut at, mut stuck) = (0, 0);
        while order.len() < self.connected.len() || at < order.len() {
            let Some(&node) = order.get(at) else {
                while awaited[stuck] == 0 {
                    stuck += 1;
                }
                awaited[stuck] = 0;
                order.push(stuck as u32);
                continue;
            };
            for &number in leaving.of(node) {
                let next = self.edges[number as usize].to as usize;
                // Nobody waits for one that goes first in a circle any more.
                if awaited[next] > 0 {
                    awaited[next] -= 1;
                    if awaited[next] == 0 {
                        order.push(next as u32);
                    }
                }
            }
            at += 1;
        }
        order
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
