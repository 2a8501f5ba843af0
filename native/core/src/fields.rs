//! The fields of one entry of the events array, and which of its args are wanted.

use crate::kineto::{CLASS, Class, Table};
use crate::layout::{Layouts, Visitor};
use crate::scan::{Raw, RawKind, Scan, nested};
use crate::store::Categories;
use crate::table::ArgType;
use crate::trace_event::Options;

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
    Args,
    /// Any other.
    Other,
}

const FIELDS: usize = Field::Other as usize + 1;

/// The fields of one entry, as they stand.
#[derive(Default)]
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
    pub instants: bool,
    pub counters: bool,
    pub flows: bool,
    pub labels: bool,
}

impl Kept {
    pub fn of(options: &Options) -> Self {
        let has = |table: Table| options.tables.contains(&table);
        Self {
            classes: CLASS.map(|class| options.tables.iter().any(|table| table.holds(class))),
            instants: has(Table::Instants) || has(Table::Memory),
            counters: has(Table::Counters),
            flows: has(Table::Flows),
            labels: has(Table::TrackLabels),
        }
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
    pub scratch: &'a mut Vec<(u8, Raw)>,
    pub arg_layouts: &'a mut [Layouts<u8>; CLASSES],
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
        match (key, self.fields.phase) {
            (Field::Category, b'X') => !self.kept.classes[self.class as usize],
            (Field::Phase, b'i' | b'I') => !self.kept.instants,
            (Field::Phase, b'C') => !self.kept.counters,
            (Field::Phase, b's' | b't' | b'f') => !self.kept.flows,
            (Field::Phase, b'M') => !self.kept.labels,
            _ => false,
        }
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
    scratch: &'a mut Vec<(u8, Raw)>,
}

impl Visitor for ArgVisitor<'_> {
    /// The column of an arg, or `FREE`.
    type Key = u8;

    #[inline(always)]
    fn key(&self, key: &[u8]) -> u8 {
        self.keys.find(key)
    }

    #[inline(always)]
    fn begin(&mut self) {
        self.scratch.clear();
    }

    #[inline(always)]
    fn visit(&mut self, key: u8, raw: Raw) {
        if key != FREE {
            self.scratch.push((key, raw));
        }
    }

    #[inline(always)]
    fn is_enough(&self, _: u8) -> bool {
        false
    }

    #[inline(always)]
    fn enter(&mut self, w: &[u8], _: u8, at: usize) -> Scan<usize> {
        nested(w, at)
    }
}

/// Which arg has a column: found by a few bytes of its key, then compared.
pub struct Keys {
    slots: [u8; SLOTS],
    keys: Vec<Vec<u8>>,
}

const SLOTS: usize = 256;
const FREE: u8 = u8::MAX;

impl Keys {
    pub fn new(args: &[(String, ArgType)]) -> Self {
        let mut keys = Self { slots: [FREE; SLOTS], keys: args.iter().map(|(key, _)| key.clone().into()).collect() };
        for (column, key) in keys.keys.iter().enumerate() {
            let mut slot = Self::slot(key);
            while keys.slots[slot] != FREE {
                slot = (slot + 1) % SLOTS;
            }
            keys.slots[slot] = column as u8;
        }
        keys
    }

    #[inline(always)]
    fn slot(key: &[u8]) -> usize {
        match key {
            [] => 0,
            [first, .., last] => {
                let middle = key[key.len() / 2];
                (key.len() * 31 + *first as usize * 7 + *last as usize * 13 + middle as usize * 3) % SLOTS
            }
            [only] => *only as usize,
        }
    }

    #[inline(always)]
    fn find(&self, key: &[u8]) -> u8 {
        let mut slot = Self::slot(key);
        while self.slots[slot] != FREE && self.keys[self.slots[slot] as usize] != key {
            slot = (slot + 1) % SLOTS;
        }
        self.slots[slot]
    }
}
