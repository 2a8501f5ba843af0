//! What becomes of an entry of the events array: a row of a table, or a problem.

use crate::columns::arg_column::ArgColumn;
use crate::columns::arrow::NONE;
use crate::columns::interner::Interner;
use crate::problems::Problem;
use crate::trace_event::columns::FlowPhase;
use crate::trace_event::fields::{EntryVisitor, Field, Fields};
use crate::trace_event::kineto::{CLASSES, Class};
use crate::trace_event::lexer::{Raw, Scan};
use crate::trace_event::options::Options;
use crate::trace_event::place::Place;
use crate::trace_event::projection::{ArgProjection, TableFilter};
use crate::trace_event::store::{Store, arg_columns};
use crate::trace_event::templates::Layouts;

/// Takes entries into a store.
pub struct EventSink {
    pub store: Store,
    /// Entries that had a phase, or a time and a duration: what makes a file a trace.
    pub recognised: u64,
    pub(super) entries: Layouts<Field>,
    pub(super) arg_layouts: [Layouts<u32>; CLASSES],
    pub(super) projection: ArgProjection,
    pub(super) filter: TableFilter,
    /// Args of the entry being read: their column and value.
    pub(super) scratch: Vec<(u32, Raw)>,
    /// Ids of arrows that are no numbers.
    pub(super) flow_names: Interner,
    /// Args that stand at the ends of spans, for the rows of these.
    pub(super) late: Vec<ArgColumn>,
    /// By track: the spans begun and not ended.
    pub(super) open: Vec<Vec<Begun>>,
    /// Whether an entry needed others of the file: the end of a span, an id that is no number.
    pub needs_others: bool,
}

/// A span whose end is to come.
pub struct Begun {
    pub id: u32,
    /// `NONE` if it is not kept.
    pub row: u32,
}

impl EventSink {
    pub fn new(options: &Options) -> Self {
        Self {
            store: Store::new(&options.args),
            recognised: 0,
            entries: Layouts::default(),
            arg_layouts: Default::default(),
            projection: ArgProjection::of(options),
            filter: TableFilter::of(options),
            scratch: Vec::new(),
            flow_names: Interner::default(),
            late: arg_columns(&options.args),
            open: Vec::new(),
            needs_others: false,
        }
    }

    /// Find all fields of every entry, also of those that no table holds.
    pub fn find_all_fields(&mut self) {
        self.filter.all_fields = true;
    }

    /// What was taken so far; what comes goes into a store that is empty.
    pub fn take_store(&mut self, empty: Store) -> Store {
        self.open.clear();
        self.recognised = 0;
        self.needs_others = false;
        std::mem::replace(&mut self.store, empty)
    }

    /// Put the args of ends to their spans, and say which of these never ended, at the end of the text.
    pub fn end_of_text(&mut self, end: u64) {
        for (column, late) in self.store.spans.args.iter_mut().zip(&mut self.late) {
            column.overlay(late);
        }
        for Begun { row, .. } in std::mem::take(&mut self.open).into_iter().flatten().filter(|begun| begun.row != NONE)
        {
            let name = self.store.spans.name[row as usize];
            let name = if name == NONE { Vec::new() } else { self.store.names.get(name).to_vec() };
            self.store.problems.add(Problem::BeginWithoutEnd, end, &name);
        }
    }

    /// The fields of the entry whose brace is at `at`, its wanted args in `scratch`; returns the position behind it.
    #[inline(always)]
    pub fn fields(&mut self, w: &[u8], at: usize, fields: &mut Fields) -> Scan<usize> {
        let Self { entries, store, filter, projection, scratch, arg_layouts, .. } = self;
        let (categories, class) = (&mut store.categories, Class::Other);
        entries.read(
            w,
            at,
            &mut EntryVisitor { w, fields, categories, class, filter, projection, scratch, arg_layouts },
        )
    }

    /// Put a whole entry where it belongs.
    #[inline(always)]
    pub fn take(&mut self, w: &[u8], fields: &Fields, start: usize, end: usize, origin: i64) {
        let id = self.store.counts.entries as u32;
        self.store.counts.entries += 1;
        let at = Place { w, start, end, origin };
        if fields.has_duplicate {
            self.problem(Problem::DuplicateKey, &at);
        }
        match fields.phase {
            b'X' => {
                self.recognised += 1;
                self.complete(&at, fields, id);
            }
            0 if !fields.get(Field::Time).is_absent() && !fields.get(Field::Duration).is_absent() => {
                self.recognised += 1;
                self.problem(Problem::MissingPhase, &at);
                self.complete(&at, fields, id);
            }
            _ => self.take_rare(&at, fields, id),
        }
    }

    fn take_rare(&mut self, at: &Place, fields: &Fields, id: u32) {
        self.recognised += u64::from(fields.phase != 0);
        self.needs_others |= matches!(fields.phase, b'B' | b'E');
        match fields.phase {
            b'B' => self.begin(at, fields, id),
            b'E' => self.end(at, fields),
            b'i' | b'I' => self.instant(at, fields, id),
            b'C' => self.counter(at, fields, id),
            b's' => self.flow(at, fields, FlowPhase::Start),
            b't' => self.flow(at, fields, FlowPhase::Step),
            b'f' => self.flow(at, fields, FlowPhase::End),
            b'M' => self.label(at, fields),
            0 => self.problem(Problem::NotAnEvent, at),
            _ => self.problem(Problem::UnknownPhase, at),
        }
    }
}
