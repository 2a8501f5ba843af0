//! The fields of one entry of the events array.

use crate::trace_event::columns::Categories;
use crate::trace_event::kineto::{CLASSES, Class};
use crate::trace_event::lexer::{Raw, RawKind, Scan, nested};
use crate::trace_event::projection::{ArgProjection, FREE, Keys, TableFilter};
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

pub struct EntryVisitor<'a> {
    pub w: &'a [u8],
    pub fields: &'a mut Fields,
    pub categories: &'a mut Categories,
    /// Of the category, once it is known.
    pub class: Class,
    pub filter: &'a TableFilter,
    pub projection: &'a ArgProjection,
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
                    && !self.filter.holds(self.class, self.w, self.fields.get(Field::Name))
            }
            (Field::Phase, b'i' | b'I') => !self.filter.instants,
            (Field::Phase, b'C') => !self.filter.counters,
            (Field::Phase, b's' | b't' | b'f') => !self.filter.flows,
            (Field::Phase, b'M') => !self.filter.labels,
            _ => false,
        };
        is_enough && !self.filter.all_fields
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
            b'X' | b'B' | b'E' => category.is_absent() || self.projection.by_class[class as usize],
            b'i' | b'I' => self.projection.of_instants,
            0 => true,
            _ => false,
        };
        if !is_wanted {
            return nested(w, at);
        }
        let keys = &self.projection.keys;
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
