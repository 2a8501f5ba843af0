//! What each instruction of a program computes and moves, by its shapes.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::xplane::hlo::config::{holds, whole};
use crate::xplane::hlo::products::Product;

/// Fusions within fusions below this depth are not looked into: nothing here may recurse on input.
const MAX_DEPTH: usize = 8;
/// Operands that are compared with those before them; of more, some may be counted twice.
const MOST_COMPARED: usize = 256;
/// What only names, holds or gives something.
const FREE: [&[u8]; 9] = [
    b"parameter",
    b"constant",
    b"tuple",
    b"get-tuple-element",
    b"bitcast",
    b"after-all",
    b"partition-id",
    b"replica-id",
    b"iota",
];
/// What runs other instructions, which have work of their own.
const CONTAINERS: [&[u8]; 2] = [b"while", b"conditional"];
/// What reads only as much of its first operand as it gives.
const SLICES: [&[u8]; 3] = [b"slice", b"dynamic-slice", b"gather"];
const UPDATE: &[u8] = b"dynamic-update-slice";

/// Floating-point operations of an instruction and bytes that it reads and writes; none where its shapes do not tell.
#[derive(Default)]
pub struct Work {
    pub flops: Option<i64>,
    pub bytes: Option<i64>,
    /// What is multiplied in the largest product, e.g. `bf16`, or `f32 highest` where fewer bits are forbidden.
    pub product_type: String,
    /// Opcodes of what a fusion is made of, each once.
    pub inside: String,
}

/// An instruction as far as its work depends on it.
#[derive(Default)]
pub struct Node<'a> {
    pub id: i64,
    pub opcode: &'a [u8],
    pub target: &'a [u8],
    pub config: &'a [u8],
    /// Dimensions of the result, of a tuple those of its first part.
    pub dimensions: Vec<i64>,
    /// Bytes of the result, and of a tuple's first part.
    pub bytes: i64,
    pub first_bytes: i64,
    pub operands: Vec<i64>,
    pub called: Vec<i64>,
    /// Type of the result's elements.
    pub element_type: &'static str,
    pub parameter: i64,
    /// Whether no bits of its operands may be left out.
    pub is_exact: bool,
    pub product: Product,
}

/// The instructions of one program.
#[derive(Default)]
pub struct Program<'a> {
    nodes: Vec<Node<'a>>,
    by_id: HashMap<i64, u32>,
    computations: HashMap<i64, Computation>,
    /// The instructions that use the result of each.
    users: HashMap<i64, Vec<u32>>,
    /// By where a computation begins and the number of its parameter.
    parameters: HashMap<(u32, i64), i64>,
    /// What is inside computations, as far as it was asked for.
    known: RefCell<HashMap<i64, Inside>>,
}

/// Operations of a computation, and its largest product.
type Inside = (Option<i64>, Option<u32>);

#[derive(Clone, Copy)]
struct Computation {
    first: u32,
    end: u32,
    root: i64,
}

impl<'a> Program<'a> {
    pub fn add(&mut self, node: Node<'a>) {
        let at = self.nodes.len() as u32;
        self.by_id.insert(node.id, at);
        for (place, id) in node.operands.iter().enumerate() {
            if !node.operands[..place.min(MOST_COMPARED)].contains(id) {
                self.users.entry(*id).or_default().push(at);
            }
        }
        self.nodes.push(node);
    }

    /// Name those that were added since `first` as one computation.
    pub fn close(&mut self, id: i64, first: usize, root: i64) {
        let computation = Computation { first: first as u32, end: self.nodes.len() as u32, root };
        let own = self.nodes[first..].iter().filter(|node| node.opcode == b"parameter");
        self.parameters.extend(own.map(|node| ((computation.first, node.parameter), node.id)));
        self.computations.insert(id, computation);
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The work of all, in the order in which they were added.
    pub fn work(&self) -> impl Iterator<Item = Work> {
        (0..self.nodes.len() as u32).map(|at| {
            let (flops, product) = self.flops(at, 0);
            Work { flops, bytes: self.bytes(at), product_type: self.product_type(product), inside: self.opcodes(at) }
        })
    }

    fn opcodes(&self, at: u32) -> String {
        let node = &self.nodes[at as usize];
        let mut found: Vec<&[u8]> = Vec::new();
        if node.opcode == b"fusion" {
            let mut left: Vec<(i64, usize)> = node.called.iter().map(|&id| (id, 0)).collect();
            while let Some((id, depth)) = left.pop() {
                let Some(&Computation { first, end, .. }) = self.computations.get(&id) else { continue };
                for inner in &self.nodes[first as usize..end as usize] {
                    if inner.opcode == b"fusion" && depth < MAX_DEPTH {
                        left.extend(inner.called.iter().map(|&id| (id, depth + 1)));
                    } else if !FREE.contains(&inner.opcode) && !found.contains(&inner.opcode) {
                        found.push(inner.opcode);
                    }
                }
            }
        }
        String::from_utf8_lossy(&found.join(&b' ')).into_owned()
    }

    fn product_type(&self, product: Option<u32>) -> String {
        let Some(node) = product.and_then(|at| self.nodes.get(at as usize)) else { return String::new() };
        let name = node.operands.first().and_then(|&id| self.node(id)).map_or("", |operand| operand.element_type);
        // A library's call has its precision in its configuration.
        let is_exact = node.is_exact || holds(node.config, "operand_precision", "HIGHEST");
        if is_exact { format!("{name} highest") } else { name.to_string() }
    }

    fn node(&self, id: i64) -> Option<&Node<'a>> {
        self.nodes.get(*self.by_id.get(&id)? as usize)
    }

    fn flops(&self, at: u32, depth: usize) -> Inside {
        let node = &self.nodes[at as usize];
        let arrays = || -> Vec<&[i64]> {
            node.operands.iter().map(|&id| self.node(id).map_or(&[][..], |operand| &operand.dimensions)).collect()
        };
        let own = match node.opcode {
            b"dot" => node.product.dot(&node.dimensions, &arrays()),
            b"convolution" => match arrays()[..] {
                [input, kernel, ..] => node.product.convolution(input, kernel, &node.dimensions),
                _ => None,
            },
            b"custom-call" => node.product.custom_call(node.target, node.config, &node.dimensions, &arrays()),
            b"fusion" | b"call" if depth < MAX_DEPTH => return self.inside(node, depth),
            _ => None,
        };
        (own, own.map(|_| at))
    }

    /// The sum of what is inside a fusion, and its largest product.
    fn inside(&self, node: &Node<'_>, depth: usize) -> Inside {
        let mut sum: Option<i64> = None;
        let mut largest = (0, None);
        for id in &node.called {
            let (Some(flops), product) = self.of_computation(*id, depth) else { continue };
            let Some(added) = sum.unwrap_or(0).checked_add(flops) else { return (None, None) };
            sum = Some(added);
            if flops > largest.0 {
                largest = (flops, product);
            }
        }
        (sum, largest.1)
    }

    fn of_computation(&self, id: i64, depth: usize) -> Inside {
        let Some(computation) = self.computations.get(&id) else { return (None, None) };
        if let Some(known) = self.known.borrow().get(&id) {
            return *known;
        }
        // One that calls itself, as no compiler writes it, has nothing inside.
        self.known.borrow_mut().insert(id, (None, None));
        let mut sum: Option<i64> = None;
        let mut largest = (0, None);
        for at in computation.first..computation.end {
            let (Some(flops), product) = self.flops(at, depth + 1) else { continue };
            sum = sum.unwrap_or(0).checked_add(flops);
            if sum.is_none() {
                break;
            }
            if flops > largest.0 {
                largest = (flops, product);
            }
        }
        self.known.borrow_mut().insert(id, (sum, largest.1));
        (sum, largest.1)
    }
}

/// What is moved.
impl<'a> Program<'a> {
    fn bytes(&self, at: u32) -> Option<i64> {
        let node = &self.nodes[at as usize];
        if FREE.contains(&node.opcode) || CONTAINERS.contains(&node.opcode) {
            return None;
        }
        let of = |place: usize| node.operands.get(place).and_then(|&id| self.node(id)).map_or(0, |node| node.bytes);
        match node.opcode {
            b"custom-call" => match whole(node.config, "bytes_accessed").filter(|bytes| *bytes > 0) {
                Some(declared) => Some(declared),
                // What libraries work in is no result.
                None if node.target.starts_with(b"__cu") => self.read(node, None)?.checked_add(node.first_bytes),
                None => self.read(node, None)?.checked_add(node.bytes),
            },
            b"fusion" => {
                let inner = node.called.first().and_then(|id| self.computations.get(id));
                let written = inner.and_then(|inner| self.written(inner.root)).unwrap_or(node.bytes);
                self.read(node, inner)?.checked_add(written)
            }
            UPDATE => of(1).checked_mul(2),
            opcode if SLICES.contains(&opcode) => {
                let indices = if opcode == b"gather" { of(1) } else { 0 };
                node.bytes.checked_mul(2)?.checked_add(indices)
            }
            _ => self.read(node, None)?.checked_add(node.bytes),
        }
    }

    /// Bytes of the operands, each once; of a fusion's those that are used `inside`.
    fn read(&self, node: &Node<'_>, inside: Option<&Computation>) -> Option<i64> {
        let mut sum = 0i64;
        for (place, id) in node.operands.iter().enumerate() {
            if node.operands[..place.min(MOST_COMPARED)].contains(id) {
                continue;
            }
            let Some(operand) = self.node(*id) else { continue };
            let used = inside.and_then(|inside| self.used(inside, place));
            sum = sum.checked_add(used.unwrap_or(operand.bytes).min(operand.bytes))?;
        }
        Some(sum)
    }

    /// How much of a parameter is read where only parts of it are; none where all of it is.
    fn used(&self, inside: &Computation, parameter: usize) -> Option<i64> {
        let id = self.parameters.get(&(inside.first, parameter as i64))?;
        let mut sum = 0i64;
        for user in self.users.get(id)?.iter().map(|&at| &self.nodes[at as usize]) {
            let is_sliced = user.operands.split_first().is_some_and(|(first, rest)| first == id && !rest.contains(id));
            match user.opcode {
                UPDATE if is_sliced => {}
                opcode if is_sliced && SLICES.contains(&opcode) => sum = sum.checked_add(user.bytes)?,
                _ => return None,
            }
        }
        Some(sum)
    }

    /// How much of a fusion's result is written: of what is updated in place, the update.
    fn written(&self, root: i64) -> Option<i64> {
        let node = self.plain(root)?;
        if node.opcode != b"tuple" {
            return self.written_by(node);
        }
        let parts = node.operands.iter().map(|&id| self.written_by(self.plain(id)?));
        parts.into_iter().try_fold(0i64, |sum, part| sum.checked_add(part?))
    }

    fn written_by(&self, node: &Node<'_>) -> Option<i64> {
        match (node.opcode, node.operands.get(1)) {
            (UPDATE, Some(&update)) => Some(self.node(update)?.bytes),
            _ => Some(node.bytes),
        }
    }

    /// What an instruction gives another look of, or itself.
    fn plain(&self, id: i64) -> Option<&Node<'a>> {
        let mut node = self.node(id)?;
        for _ in 0..MAX_DEPTH {
            match (node.opcode, node.operands.first()) {
                (b"bitcast", Some(&of)) => node = self.node(of)?,
                _ => break,
            }
        }
        Some(node)
    }
}
