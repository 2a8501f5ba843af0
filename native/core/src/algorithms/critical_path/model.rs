//! What a graph of a step is made from, and what it is made of.

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
