//! What is kept of a file: which events, and which of their args.

use crate::columns::arg_column::ArgType;
use crate::trace_event::kineto::{CLASS, CLASSES, Class, STEP, Table};
use crate::trace_event::lexer::{Raw, RawKind};
use crate::trace_event::options::Options;

/// What goes into tables; the rest is counted.
pub struct TableFilter {
    pub classes: [bool; CLASSES],
    /// Classes of which steps are kept and nothing else.
    only_steps: [bool; CLASSES],
    pub instants: bool,
    pub counters: bool,
    pub hardware_counters: bool,
    pub flows: bool,
    pub labels: bool,
    /// Whether all fields of an entry are wanted, whatever table it goes into.
    pub all_fields: bool,
}

impl TableFilter {
    pub fn of(options: &Options) -> Self {
        let has = |table: Table| options.tables.contains(&table);
        let held = |class: Class| options.tables.iter().filter(move |table| table.holds(class));
        Self {
            classes: CLASS.map(|class| held(class).next().is_some()),
            only_steps: CLASS.map(|class| held(class).all(|table| *table == Table::Steps)),
            instants: has(Table::Instants) || has(Table::Memory),
            counters: has(Table::Counters),
            hardware_counters: has(Table::HardwareCounters),
            flows: has(Table::Flows),
            labels: has(Table::TrackLabels),
            all_fields: false,
        }
    }

    /// Whether a complete event of a class goes into a table; one without a name, or none yet, may.
    #[inline(always)]
    pub fn holds(&self, class: Class, w: &[u8], name: Raw) -> bool {
        let may_be_step = || name.kind != RawKind::Text || name.of(w).starts_with(STEP);
        self.classes[class as usize] && (!self.only_steps[class as usize] || may_be_step())
    }
}

/// Whose args are wanted, and which.
pub struct ArgProjection {
    pub keys: Keys,
    pub by_class: [bool; CLASSES],
    pub of_instants: bool,
}

impl ArgProjection {
    pub fn of(options: &Options) -> Self {
        let has_args = |class: Class| options.tables.iter().any(|table| table.holds(class) && table.has_args());
        let any = !options.args.is_empty();
        Self {
            keys: Keys::new(&options.args),
            by_class: CLASS.map(|class| any && has_args(class)),
            of_instants: any && TableFilter::of(options).instants,
        }
    }
}

/// Which arg has a column: found by a few bytes of its key, then compared.
pub struct Keys {
    /// A power of two of them, most of them free.
    slots: Vec<u32>,
    keys: Vec<Vec<u8>>,
}

pub const FREE: u32 = u32::MAX;
const FEWEST_SLOTS: usize = 256;

impl Keys {
    pub fn new(args: &[(String, ArgType)]) -> Self {
        let slots = (args.len() * 4).next_power_of_two().max(FEWEST_SLOTS);
        let mut keys =
            Self { slots: vec![FREE; slots], keys: args.iter().map(|(key, _)| key.clone().into()).collect() };
        for column in 0..keys.keys.len() {
            let slot = keys.slot(&keys.keys[column]);
            keys.slots[slot] = column as u32;
        }
        keys
    }

    /// The slot of a key, or the free one where it would be.
    #[inline(always)]
    fn slot(&self, key: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = match key {
            [] => 0,
            [first, .., last] => {
                let middle = key[key.len() / 2];
                key.len() * 31 + *first as usize * 7 + *last as usize * 13 + middle as usize * 3
            }
            [only] => *only as usize,
        } & mask;
        while self.slots[slot] != FREE && self.keys[self.slots[slot] as usize] != key {
            slot = (slot + 1) & mask;
        }
        slot
    }

    #[inline(always)]
    pub fn find(&self, key: &[u8]) -> u32 {
        self.slots[self.slot(key)]
    }
}
