//! Names, tracks and times of events.

use crate::columns::arrow::NONE;
use crate::io::blocks::offset;
use crate::problems::Problem;
use crate::trace_event::columns::intern;
use crate::trace_event::events::EventSink;
use crate::trace_event::fields::{Field, Fields};
use crate::trace_event::kineto::{MAX_DURATION_NS, MAX_TIME_NS, MIN_TIME_NS};
use crate::trace_event::lexer::{Raw, RawKind};
use crate::trace_event::number::{Decimal, TO_NS, decimal};
use crate::trace_event::place::Place;
use crate::trace_event::unescape::decode;

impl EventSink {
    #[inline(always)]
    pub fn name(&mut self, at: &Place, raw: Raw) -> u32 {
        if raw.is_absent() {
            self.problem(Problem::MissingName, at);
            return NONE;
        }
        let text = raw.of(at.w);
        let is_odd = raw.kind == RawKind::EscapedText || !text.is_ascii();
        if is_odd && decode(text).1 {
            self.problem(Problem::BadText, at);
        }
        intern(&mut self.store.names, at.w, raw)
    }

    #[inline(always)]
    pub fn track(&mut self, at: &Place, fields: &Fields) -> u32 {
        self.store.tracks.code(fields.get(Field::Pid).of(at.w), fields.get(Field::Tid).of(at.w))
    }

    /// The track of an event that is on a thread. One that has neither process nor thread was never on one.
    #[inline(always)]
    pub fn thread(&mut self, at: &Place, fields: &Fields) -> u32 {
        if fields.get(Field::Pid).is_absent() != fields.get(Field::Tid).is_absent() {
            self.problem(Problem::MissingThread, at);
        }
        self.track(at, fields)
    }

    /// Nanoseconds of a start time; without one the entry is lost, and said to be.
    #[inline(always)]
    pub fn time(&mut self, at: &Place, raw: Raw) -> Option<i64> {
        match decimal(raw.of(at.w), TO_NS) {
            Decimal::Is { value: value @ MIN_TIME_NS..=MAX_TIME_NS, rounded } => {
                if rounded || raw.kind != RawKind::Bare {
                    self.odd_number(at, raw, rounded);
                }
                Some(value)
            }
            Decimal::Is { .. } | Decimal::Overflow => {
                self.problem(Problem::TimeOverflow, at);
                None
            }
            Decimal::Not => {
                self.problem(Problem::MissingTime, at);
                None
            }
        }
    }

    #[inline(always)]
    pub fn duration(&mut self, at: &Place, raw: Raw) -> i64 {
        match decimal(raw.of(at.w), TO_NS) {
            Decimal::Is { value: value @ 0..=MAX_DURATION_NS, rounded: false } if raw.kind == RawKind::Bare => value,
            other => self.odd_duration(at, raw, other),
        }
    }

    #[cold]
    pub fn odd_duration(&mut self, at: &Place, raw: Raw, decimal: Decimal) -> i64 {
        match decimal {
            Decimal::Is { value, .. } if value < 0 => self.problem(Problem::NegativeDuration, at),
            Decimal::Is { value, .. } if value > MAX_DURATION_NS => self.problem(Problem::AbsurdDuration, at),
            Decimal::Overflow => self.problem(Problem::AbsurdDuration, at),
            Decimal::Not => self.problem(Problem::MissingDuration, at),
            Decimal::Is { value, rounded } => {
                self.odd_number(at, raw, rounded);
                return value;
            }
        }
        0
    }

    #[cold]
    pub fn odd_number(&mut self, at: &Place, raw: Raw, rounded: bool) {
        if rounded {
            self.problem(Problem::SubNanosecond, at);
        }
        if raw.is_text() {
            self.problem(Problem::NumberAsText, at);
        }
    }

    #[cold]
    pub fn problem(&mut self, problem: Problem, at: &Place) {
        self.store.problems.add(problem, offset(at.origin, at.start), &at.w[at.start..at.end]);
    }
}
