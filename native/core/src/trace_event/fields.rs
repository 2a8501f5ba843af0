//! The fields of one entry of the events array, and which of its args are wanted.

use crate::columns::table::ArgType;
use crate::trace_event::Options;
use crate::trace_event::kineto::{CLASS, Class, STEP, Table};
use crate::trace_event::lexer::{Raw, RawKind, Scan, nested};
use crate::trace_event::store::Categories;
use crate::trace_event::templates::{Layouts, Visitor};

/// A field of an entry that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Field {
    Phase,
    Name,
    Category,
    Pid,
    Tid,
    Time,
    Duration,
    Id,
    BindId,
    Args,
    /// Any other.
    Other,
}

const FIELDS: usize = Field::Other as usize + 1;

/// The fields of one entry, as they stand.
#[derive(Clone, Default)]
pub struct Fields {
    raw: [Raw; FIELDS],
    /// The letter of the phase; 0 where there is none, `?` where it is no single letter.
    pub phase: u8,
    pub has_duplicate: bool,
}

impl Fields {
    #[inline(always)]
    fn clear(&mut self) {
        for raw in &mut self.raw {
            raw.kind = RawKind::Absent;
        }
        self.phase = 0;
        self.has_duplicate = false;
    }

    /// A field; one that is absent has no text.
    #[inline(always)]
    pub fn get(&self, field: Field) -> Raw {
        let raw = self.raw[field as usize];
        if raw.is_absent() { Raw::default() } else { raw }
    }
}

pub const CLASSES: usize = Class::Other as usize + 1;

/// What goes into tables; the rest is counted.
pub struct Kept {
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

impl Kept {
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
pub struct Wanted {
    pub keys: Keys,
    pub by_class: [bool; CLASSES],
    pub of_instants: bool,
}

impl Wanted {
    pub fn of(options: &Options) -> Self {
        let has_args = |class: Class| options.tables.iter().any(|table| table.holds(class) && table.has_args());
        let any = !options.args.is_empty();
        Self {
            keys: Keys::new(&options.args),
            by_class: CLASS.map(|class| any && has_args(class)),
            of_instants: any && Kept::of(options).instants,
        }
    }
}

pub struct EntryVisitor<'a> {
    pub w: &'a [u8],
    pub fields: &'a mut Fields,
    pub categories: &'a mut Categories,
    /// Of the category, once it is known.
    pub class: Class,
    pub kept: &'a Kept,
    pub wanted: &'a Wanted,
    pub scratch: &'a mut Vec<(u32, Raw)>,
    pub arg_layouts: &'a mut [Layouts<u32>; CLASSES],
}

impl Visitor for EntryVisitor<'_> {
    type Key = Field;

    fn key(&self, key: &[u8]) -> Field {
        match key {
            b"ph" => Field::Phase,
            b"name" => Field::Name,
            b"cat" => Field::Category,
            b"pid" => Field::Pid,
            b"tid" => Field::Tid,
            b"ts" => Field::Time,
            b"dur" => Field::Duration,
            b"id" => Field::Id,
            b"bind_id" => Field::BindId,
            b"args" => Field::Args,
            _ => Field::Other,
        }
    }

    #[inline(always)]
    fn begin(&mut self) {
        self.fields.clear();
        self.scratch.clear();
    }

    #[inline(always)]
    fn visit(&mut self, key: Field, raw: Raw) {
        if key == Field::Phase {
            self.fields.phase = if let [letter] = raw.of(self.w) { *letter } else { b'?' };
        }
        if key == Field::Category {
            let code = self.categories.code(self.w, raw);
            self.class = self.categories.class(code);
        }
        let slot = &mut self.fields.raw[key as usize];
        self.fields.has_duplicate |= !slot.is_absent() && key != Field::Other;
        *slot = raw;
    }

    #[inline(always)]
    fn is_enough(&self, key: Field) -> bool {
        let is_enough = match (key, self.fields.phase) {
            (Field::Category | Field::Name, b'X') => {
                !self.fields.get(Field::Category).is_absent()
                    && !self.kept.holds(self.class, self.w, self.fields.get(Field::Name))
            }
            (Field::Phase, b'i' | b'I') => !self.kept.instants,
            (Field::Phase, b'C') => !self.kept.counters,
            (Field::Phase, b's' | b't' | b'f') => !self.kept.flows,
            (Field::Phase, b'M') => !self.kept.labels,
            _ => false,
        };
        is_enough && !self.kept.all_fields
    }

    #[inline(always)]
    fn enter(&mut self, w: &[u8], key: Field, at: usize) -> Scan<usize> {
        if key != Field::Args || w[at] != b'{' {
            return nested(w, at);
        }
        let category = self.fields.get(Field::Category);
        let class = self.class;
        // The class says whether they are wanted; where it is not known yet they are looked at.
        let is_wanted = match self.fields.phase {
            b'X' | b'B' => category.is_absent() || self.wanted.by_class[class as usize],
            b'i' | b'I' => self.wanted.of_instants,
            0 => true,
            _ => false,
        };
        if !is_wanted {
            return nested(w, at);
        }
        let keys = &self.wanted.keys;
        self.arg_layouts[class as usize].read(w, at, &mut ArgVisitor { keys, scratch: self.scratch })
    }
}

struct ArgVisitor<'a> {
    keys: &'a Keys,
    scratch: &'a mut Vec<(u32, Raw)>,
}

impl Visitor for ArgVisitor<'_> {
    /// The column of an arg, or `FREE`.
    type Key = u32;

    #[inline(always)]
    fn key(&self, key: &[u8]) -> u32 {
        self.keys.find(key)
    }

    #[inline(always)]
    fn begin(&mut self) {
        self.scratch.clear();
    }

    #[inline(always)]
    fn visit(&mut self, key: u32, raw: Raw) {
        if key != FREE {
            self.scratch.push((key, raw));
        }
    }

    #[inline(always)]
    fn is_enough(&self, _: u32) -> bool {
        false
    }

    #[inline(always)]
    fn enter(&mut self, w: &[u8], _: u32, at: usize) -> Scan<usize> {
        nested(w, at)
    }
}

/// Which arg has a column: found by a few bytes of its key, then compared.
pub struct Keys {
    /// A power of two of them, most of them free.
    slots: Vec<u32>,
    keys: Vec<Vec<u8>>,
}

const FREE: u32 = u32::MAX;
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
    fn find(&self, key: &[u8]) -> u32 {
        self.slots[self.slot(key)]
    }
}
