//! XSpace, the profile format of XLA: planes of lines of events, to columns.
//!
//! The names of a plane's events and stats stand behind its lines, so that a file is walked twice: first past the lines,
//! reading all else, then through the lines, several at once.

mod ancestry;
mod hlo;
pub mod protobuf;
mod signatures;
pub mod space;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::columns::table::{ArgColumn, ArgType, ArgValues, NONE};
use crate::error::{Error, Result};
use crate::problems::{Problem, Problems};
use crate::trace_event::kineto::MAX_DURATION_NS;
use crate::xplane::hlo::Instructions;
use crate::xplane::protobuf::{Fields, Held, Malformed, Source, Span, Stop, Value, Window};
use crate::xplane::space::{Line, Plane, PlaneStat, Space};

const CANCEL_CHECK: Duration = Duration::from_millis(100);
/// Bytes read at once: few calls, and no more than a cache holds.
const WINDOW_BYTES: usize = 512 << 10;
/// Times beyond it are damage, and picoseconds would not fit in 64 bits (46 days).
pub const MAX_NS: i64 = 4_000_000_000_000_000;
/// Lines that begin later than this give UNIX time, not time since the profile began (1973 in ns).
const FIRST_UNIX_NS: i64 = 100_000_000_000_000_000;
/// A plane's ids up to so many times their number are looked up in a list.
const DENSE: usize = 8;
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// What to keep of a file.
#[derive(Clone, Default)]
pub struct Options {
    /// Stats of events to keep, each as a column.
    pub stats: Vec<(String, ArgType)>,
    /// Whether to keep all arguments of host events as JSON.
    pub arguments: bool,
    /// Whether to read the compiled programs.
    pub hlo: bool,
}

/// Read a profile; `cancelled` is asked now and then whether to stop.
pub fn read(source: &Source, options: &Options, cancelled: &mut dyn FnMut() -> bool) -> Result<Space> {
    if source.is_empty() {
        let reason = "it is empty, as a profile of more than 2 GB becomes; record fewer steps";
        return Err(Error::NotASpace { offset: 0, reason: reason.into() });
    }
    let (mut space, tasks) = index(source, options).map_err(|stop| explained(source, stop))?;
    if space.planes.is_empty() {
        return Err(Error::NotASpace { offset: 0, reason: "it holds no planes".into() });
    }
    let (parts, columns) = decode(source, options, &tasks, &mut space, cancelled)?;
    space.origin_ns = origin(&space, &parts);
    space.take(parts, columns);
    Ok(space)
}

/// Host, begin and end of a recording in UNIX ns, as far as the file says.
pub fn times(source: &Source) -> Result<(String, Option<i64>, Option<i64>)> {
    let (space, _) = index(source, &Options::default()).map_err(|stop| explained(source, stop))?;
    let time = |key: &str| space.plane_stats.iter().find(|stat| stat.key == key).and_then(|stat| stat.whole);
    let host = space.hostnames.first().cloned().unwrap_or_default();
    Ok((host, time("profile_start_time"), time("profile_stop_time")))
}

/// The error a damaged file ends in, with what most likely happened to it.
fn explained(source: &Source, stop: Stop) -> Error {
    let malformed = match stop {
        Stop::Io(error) => return Error::Io(error),
        Stop::Malformed(malformed) => malformed,
    };
    let mut head = vec![0; source.len().min(1 << 20) as usize];
    if source.read_exact_at(&mut head, 0).is_err() {
        head.clear();
    }
    let is_mangled = head.windows(REPLACEMENT.len()).filter(|bytes| *bytes == REPLACEMENT).count() > 8;
    let cause = if is_mangled {
        "; it has passed through a text tool, which replaced bytes that are no UTF-8"
    } else if malformed.reason == LONGER {
        "; it is cut off or damaged"
    } else {
        ""
    };
    Error::NotASpace { offset: malformed.offset, reason: format!("{}{cause}", malformed.reason) }
}

const LONGER: &str = "a field is longer than what it is in";

/// Ids of a plane's metadata to positions in a list.
enum Ids {
    Dense(Vec<u32>),
    Sparse(HashMap<i64, u32>),
}

impl Ids {
    fn new(ids: &[(i64, u32)]) -> Self {
        let most = ids.iter().map(|(id, _)| *id).max().unwrap_or(0);
        let is_dense = ids.iter().all(|(id, _)| *id >= 0) && (most as usize) < ids.len() * DENSE + 64;
        if !is_dense {
            return Ids::Sparse(ids.iter().copied().collect());
        }
        let mut places = vec![NONE; most as usize + 1];
        for &(id, place) in ids {
            places[id as usize] = place;
        }
        Ids::Dense(places)
    }

    #[inline(always)]
    fn get(&self, id: i64) -> u32 {
        match self {
            Ids::Dense(places) => usize::try_from(id).ok().and_then(|id| places.get(id)).copied().unwrap_or(NONE),
            Ids::Sparse(places) => places.get(&id).copied().unwrap_or(NONE),
        }
    }
}

/// A key of stats, in one plane.
struct Key {
    name: Vec<u8>,
    /// The column that keeps it, or `NONE`.
    column: u32,
    /// The profiler's own bookkeeping, and no argument of the event.
    is_internal: bool,
    /// Only operations of a device have it; their arguments have columns of their own.
    is_operation: bool,
}

/// What the ids in a plane's events mean.
struct Dictionary {
    keys: Vec<Key>,
    key_places: Ids,
    /// To rows of the space's metadata.
    metadata_rows: Ids,
    keeps_arguments: bool,
}

/// A line to be decoded.
struct Task<'a> {
    line: u32,
    span: Span,
    dictionary: &'a Dictionary,
}

/// Lines of one plane, with what its ids mean.
struct Lines {
    dictionary: Dictionary,
    spans: Vec<(u32, Span)>,
}

/// Everything but the lines' events.
fn index(source: &Source, options: &Options) -> std::result::Result<(Space, Vec<Lines>), Stop> {
    let mut space = Space::new(source.len(), options);
    let mut window = Window::new(source, WINDOW_BYTES);
    let mut rest = Span { start: 0, end: source.len() };
    let mut lines = Vec::new();
    while let Some((number, held)) = window.field(&mut rest)? {
        match (number, held) {
            (1, Held::Bytes(span)) => lines.push(plane(&mut window, span, options, &mut space)?),
            (2, Held::Bytes(span)) => space.errors.push(text(&mut window, span)?),
            (3, Held::Bytes(span)) => space.warnings.push(text(&mut window, span)?),
            (4, Held::Bytes(span)) => space.hostnames.push(text(&mut window, span)?),
            _ => {}
        }
    }
    Ok((space, lines))
}

fn text(window: &mut Window<'_>, span: Span) -> std::result::Result<String, Stop> {
    Ok(String::from_utf8_lossy(window.bytes(span)?).into_owned())
}

/// A plane's names, stats and where its lines are.
fn plane(
    window: &mut Window<'_>,
    span: Span,
    options: &Options,
    space: &mut Space,
) -> std::result::Result<Lines, Stop> {
    let (mut id, mut name) = (0, String::new());
    let (mut lines, mut events, mut keys, mut stats) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut rest = span;
    while let Some((number, held)) = window.field(&mut rest)? {
        match (number, held) {
            (1, Held::Number(value)) => id = value as i64,
            (2, Held::Bytes(span)) => name = text(window, span)?,
            (3, Held::Bytes(span)) => lines.push(span),
            (4, Held::Bytes(span)) => events.push(span),
            (5, Held::Bytes(span)) => keys.push(span),
            (6, Held::Bytes(span)) => stats.push(span),
            _ => {}
        }
    }
    let (keys, key_places) = dictionary_keys(window, &keys, options)?;
    let number = space.planes.len() as u32;
    let is_programs = name == "/host:metadata";
    let keeps_arguments = options.arguments && !name.starts_with("/device:");
    space.planes.push(Plane { id, name });
    let mut dictionary = Dictionary { keys, key_places, metadata_rows: Ids::new(&[]), keeps_arguments };
    for span in stats {
        let stat = Stat::read(window.bytes(span)?, span.start)?;
        dictionary.plane_stat(number, &stat, space);
    }
    dictionary.metadata_rows = metadata(window, &events, &dictionary, options.hlo && is_programs, space)?;
    let first = space.lines.len() as u32;
    space.lines.resize_with(space.lines.len() + lines.len(), || Line { plane: number, ..Line::default() });
    Ok(Lines { dictionary, spans: (first..).zip(lines).collect() })
}

/// Names of stats, which are also the texts that stats refer to.
fn dictionary_keys(
    window: &mut Window<'_>,
    spans: &[Span],
    options: &Options,
) -> std::result::Result<(Vec<Key>, Ids), Stop> {
    let mut keys = Vec::with_capacity(spans.len());
    let mut ids = Vec::with_capacity(spans.len());
    for &span in spans {
        let (id, value, origin) = entry(window.bytes(span)?, span.start)?;
        let mut name: &[u8] = b"";
        for field in Fields::new(value, origin) {
            if let (2, Value::Bytes(text)) = field? {
                name = text;
            }
        }
        let column = options.stats.iter().position(|(key, _)| key.as_bytes() == name);
        let is_internal = name.starts_with(b"_") && !name.starts_with(b"_ipl_")
            || matches!(name, b"group_id" | b"step_name" | b"is_eager");
        ids.push((id, keys.len() as u32));
        keys.push(Key {
            name: name.to_vec(),
            column: column.map_or(NONE, |at| at as u32),
            is_internal,
            is_operation: name == b"hlo_op",
        });
    }
    Ok((keys, Ids::new(&ids)))
}

/// Key, value and where the value begins, of a map's entry.
fn entry(bytes: &[u8], origin: u64) -> std::result::Result<(i64, &[u8], u64), Malformed> {
    let (mut key, mut value, mut at): (i64, &[u8], u64) = (0, b"", origin);
    let mut fields = Fields::new(bytes, origin);
    while let Some(field) = fields.next() {
        match field? {
            (1, Value::Varint(number)) => key = number as i64,
            (2, Value::Bytes(bytes)) => (value, at) = (bytes, fields.offset() - bytes.len() as u64),
            _ => {}
        }
    }
    Ok((key, value, at))
}

/// What a plane's events have in common: one row of the space's metadata each; returns their rows by id.
fn metadata(
    window: &mut Window<'_>,
    spans: &[Span],
    dictionary: &Dictionary,
    has_programs: bool,
    space: &mut Space,
) -> std::result::Result<Ids, Stop> {
    let mut ids = Vec::with_capacity(spans.len());
    for &span in spans {
        let (id, value, origin) = entry(window.bytes(span)?, span.start)?;
        let row = space.metadata_names.len() as u32;
        let (mut name, mut display): (&[u8], &[u8]) = (b"", b"");
        let mut program = Program::default();
        let mut fields = Fields::new(value, origin);
        while let Some(field) = fields.next() {
            match field? {
                (2, Value::Bytes(text)) => name = text,
                (4, Value::Bytes(text)) => display = text,
                (5, Value::Bytes(bytes)) => {
                    let origin = fields.offset() - bytes.len() as u64;
                    let stat = Stat::read(bytes, origin)?;
                    if let Some(key) = dictionary.key(stat.key) {
                        if let Some(column) = space.metadata_stats.get_mut(key.column as usize) {
                            dictionary.keep(column, row, &stat);
                        }
                        program.see(&key.name, &stat);
                    }
                }
                _ => {}
            }
        }
        if has_programs {
            program.read(name, &mut space.instructions, &mut space.programs)?;
        }
        space.metadata_names.push(space.names.code(name));
        space.metadata_displays.push(if display.is_empty() { NONE } else { space.names.code(display) });
        ids.push((id, row));
    }
    Ok(Ids::new(&ids))
}

/// A compiled program among the metadata.
#[derive(Default)]
struct Program<'a> {
    proto: Option<(&'a [u8], u64)>,
    id: Option<i64>,
}

impl<'a> Program<'a> {
    fn see(&mut self, key: &[u8], stat: &Stat<'a>) {
        match (key, stat.value) {
            (b"Hlo Proto", StatValue::Blob(bytes)) => self.proto = Some((bytes, stat.offset)),
            (b"program_id", StatValue::Int(id)) => self.id = Some(id),
            (b"program_id", StatValue::Uint(id)) => self.id = Some(id as i64),
            _ => {}
        }
    }

    /// Add its instructions, unless a plane before has had it. It is called `module(program id)`.
    fn read(
        &self,
        name: &[u8],
        instructions: &mut Instructions,
        known: &mut HashSet<Vec<u8>>,
    ) -> std::result::Result<(), Malformed> {
        let Some((proto, origin)) = self.proto else { return Ok(()) };
        if !known.insert(name.to_vec()) {
            return Ok(());
        }
        let (module, written) = split_program(name);
        let Some(id) = written.or(self.id) else { return Ok(()) };
        instructions.add(proto, origin, module, id)
    }
}

/// Name and number of `jit_f(17342868964687645945)`.
pub fn split_program(name: &[u8]) -> (&[u8], Option<i64>) {
    let parts = name.strip_suffix(b")").and_then(|name| {
        let open = name.iter().rposition(|&byte| byte == b'(')?;
        let digits = std::str::from_utf8(&name[open + 1..]).ok()?;
        let id = digits.parse::<u64>().map(|id| id as i64).or_else(|_| digits.parse::<i64>()).ok()?;
        Some((&name[..open], Some(id)))
    });
    parts.unwrap_or((name, None))
}

/// A key with its value.
struct Stat<'a> {
    key: i64,
    value: StatValue<'a>,
    /// Where in the file its bytes begin.
    offset: u64,
}

#[derive(Clone, Copy)]
enum StatValue<'a> {
    None,
    Double(f64),
    Uint(u64),
    Int(i64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
    /// The name of the stat of that id.
    Reference(i64),
}

impl<'a> Stat<'a> {
    #[inline(always)]
    fn read(bytes: &'a [u8], origin: u64) -> std::result::Result<Self, Malformed> {
        let mut stat = Stat { key: 0, value: StatValue::None, offset: origin };
        let mut fields = Fields::new(bytes, origin);
        while let Some(field) = fields.next() {
            match field? {
                (1, Value::Varint(id)) => stat.key = id as i64,
                (2, Value::Fixed64(bits)) => stat.value = StatValue::Double(f64::from_bits(bits)),
                (3, Value::Varint(number)) => stat.value = StatValue::Uint(number),
                (4, Value::Varint(number)) => stat.value = StatValue::Int(number as i64),
                (5, Value::Bytes(text)) => stat.value = StatValue::Text(text),
                (6, Value::Bytes(bytes)) => {
                    stat.value = StatValue::Blob(bytes);
                    stat.offset = fields.offset() - bytes.len() as u64;
                }
                (7, Value::Varint(id)) => stat.value = StatValue::Reference(id as i64),
                _ => {}
            }
        }
        Ok(stat)
    }
}

impl Dictionary {
    fn key(&self, id: i64) -> Option<&Key> {
        self.keys.get(self.key_places.get(id) as usize)
    }

    /// The text of a value that is text.
    fn text<'a>(&'a self, value: StatValue<'a>) -> Option<&'a [u8]> {
        match value {
            StatValue::Text(text) => Some(text),
            StatValue::Reference(id) => Some(self.key(id).map_or(b"".as_slice(), |key| &key.name)),
            _ => None,
        }
    }

    /// Keep a stat's value for `row` of a column; the last one counts.
    #[inline(always)]
    fn keep(&self, column: &mut ArgColumn, row: u32, stat: &Stat<'_>) {
        if column.rows.last() == Some(&row) {
            column.pop();
        }
        let is_kept = match &mut column.values {
            ArgValues::Int(values) => self.whole(stat.value).map(|value| values.push(value)),
            ArgValues::Float(values) => self.number(stat.value).map(|value| values.push(value)),
            ArgValues::Text(codes, strings) => {
                let code = match (self.text(stat.value), stat.value) {
                    (Some(text), _) => Some(strings.code(text)),
                    (None, StatValue::Int(value)) => Some(strings.code(value.to_string().as_bytes())),
                    (None, StatValue::Uint(value)) => Some(strings.code(value.to_string().as_bytes())),
                    (None, StatValue::Double(value)) => Some(strings.code(value.to_string().as_bytes())),
                    _ => None,
                };
                code.map(|code| codes.push(code))
            }
        };
        if is_kept.is_some() {
            column.rows.push(row);
        }
    }

    /// A whole number; ids of 64 bits keep their bits.
    #[inline(always)]
    fn whole(&self, value: StatValue<'_>) -> Option<i64> {
        match value {
            StatValue::Int(value) => Some(value),
            StatValue::Uint(value) => Some(value as i64),
            StatValue::Double(value) if value.fract() == 0.0 && value.abs() < 9e18 => Some(value as i64),
            _ => std::str::from_utf8(self.text(value)?).ok()?.parse().ok(),
        }
    }

    fn number(&self, value: StatValue<'_>) -> Option<f64> {
        match value {
            StatValue::Double(value) => Some(value),
            StatValue::Int(value) => Some(value as f64),
            StatValue::Uint(value) => Some(value as f64),
            _ => std::str::from_utf8(self.text(value)?).ok()?.parse().ok(),
        }
    }

    fn plane_stat(&self, plane: u32, stat: &Stat<'_>, space: &mut Space) {
        let Some(key) = self.key(stat.key) else { return };
        let text = self.text(stat.value).map(|text| String::from_utf8_lossy(text).into_owned());
        let key = String::from_utf8_lossy(&key.name).into_owned();
        let (whole, number) =
            if text.is_some() { (None, None) } else { (self.whole(stat.value), self.number(stat.value)) };
        if text.is_some() || number.is_some() {
            space.plane_stats.push(PlaneStat { plane, key, whole, number, text });
        }
    }

    /// Add `"key":value` to the JSON text of an event's arguments.
    fn argument(&self, json: &mut Vec<u8>, key: &Key, stat: &Stat<'_>) {
        json.push(if json.is_empty() { b'{' } else { b',' });
        quote(json, &key.name);
        json.push(b':');
        match stat.value {
            StatValue::Int(value) => json.extend(value.to_string().bytes()),
            StatValue::Uint(value) => json.extend(value.to_string().bytes()),
            StatValue::Double(value) if value.is_finite() => json.extend(format!("{value:?}").bytes()),
            StatValue::Text(_) | StatValue::Reference(_) => quote(json, self.text(stat.value).unwrap_or_default()),
            // Bytes of a message that nobody declared say nothing.
            _ => json.extend(b"null"),
        }
    }
}

fn quote(json: &mut Vec<u8>, text: &[u8]) {
    json.push(b'"');
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '"' | '\\' => json.extend([b'\\', character as u8]),
            control if control < ' ' => json.extend(format!("\\u{:04x}", control as u32).bytes()),
            other => json.extend(other.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    json.push(b'"');
}

/// What every event has, in file order.
#[derive(Default)]
pub struct Columns {
    /// Rows of the space's metadata.
    pub metadata: Vec<u32>,
    /// From the line's own time on.
    pub start_ps: Vec<i64>,
    pub duration_ps: Vec<i64>,
}

/// Where a line's events go.
struct Slot<'a> {
    metadata: &'a mut [u32],
    start_ps: &'a mut [i64],
    duration_ps: &'a mut [i64],
}

/// What else there is of one line.
pub struct Part {
    pub line: u32,
    pub head: LineHead,
    pub count: u32,
    /// Of some events; rows are counted from the line's first.
    pub stats: Vec<ArgColumn>,
    pub arguments: ArgColumn,
    pub problems: Problems,
    /// Where in the file the line begins.
    pub offset: u64,
}

#[derive(Default)]
pub struct LineHead {
    pub id: i64,
    pub name: String,
    pub display: String,
    pub timestamp_ns: i64,
}

impl LineHead {
    pub fn is_unix(&self) -> bool {
        self.timestamp_ns > FIRST_UNIX_NS
    }
}

/// The time from which on the profile's times count, in UNIX ns; 0 where it does not say.
fn origin(space: &Space, parts: &[Part]) -> i64 {
    let begun = space.plane_stats.iter().find(|stat| stat.key == "profile_start_time").and_then(|stat| stat.whole);
    let begun = begun.filter(|begun| (FIRST_UNIX_NS..i64::MAX - MAX_NS).contains(begun));
    let earliest = || parts.iter().map(|part| &part.head).filter(|head| head.is_unix()).map(|head| head.timestamp_ns);
    begun.or_else(|| earliest().min()).filter(|origin| *origin < i64::MAX - 2 * MAX_NS).unwrap_or(0)
}

/// Decode all lines; they come back in file order.
fn decode(
    source: &Source,
    options: &Options,
    planes: &[Lines],
    space: &mut Space,
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<(Vec<Part>, Columns)> {
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for plane in planes {
        tasks.extend(plane.spans.iter().map(|&(line, span)| Task { line, span, dictionary: &plane.dictionary }));
    }
    // Counting first costs little, and columns of the right size are filled where they are.
    let mut counts = Vec::with_capacity(tasks.len());
    each(source, &tasks, cancelled, |window, task, _| count(window, task.span), |count| counts.push(count))?;
    let total = counts.iter().sum::<u64>();
    if total >= u64::from(NONE) {
        let reason = format!("it has {total} events, more than four billion; record fewer steps");
        return Err(Error::NotASpace { offset: 0, reason });
    }
    let size = total as usize;
    let mut columns = Columns { metadata: vec![NONE; size], start_ps: vec![0; size], duration_ps: vec![0; size] };
    let mut parts = Vec::with_capacity(tasks.len());
    {
        let slots = slots(&mut columns, &counts);
        let decode_line = |window: &mut Window<'_>, task: &Task<'_>, at: usize| {
            let slot = slots[at].lock().ok().and_then(|mut slot| slot.take());
            line(window, task, options, slot.ok_or_else(|| io::Error::from(io::ErrorKind::Other))?)
        };
        let mut first = 0;
        each(source, &tasks, cancelled, decode_line, |mut part| {
            space.take_stats(&mut part, first);
            first += part.count;
            parts.push(part);
        })?;
    }
    Ok((parts, columns))
}

/// The columns, cut where lines end.
fn slots<'a>(columns: &'a mut Columns, counts: &[u64]) -> Vec<Mutex<Option<Slot<'a>>>> {
    let (mut metadata, mut start_ps, mut duration_ps) =
        (&mut columns.metadata[..], &mut columns.start_ps[..], &mut columns.duration_ps[..]);
    let mut slots = Vec::with_capacity(counts.len());
    for &count in counts {
        let count = count as usize;
        let (of_metadata, of_start, of_duration);
        (of_metadata, metadata) = metadata.split_at_mut(count);
        (of_start, start_ps) = start_ps.split_at_mut(count);
        (of_duration, duration_ps) = duration_ps.split_at_mut(count);
        slots.push(Mutex::new(Some(Slot { metadata: of_metadata, start_ps: of_start, duration_ps: of_duration })));
    }
    slots
}

/// Hand the result of `work` for each task to `take`, in their order; as many threads work as there are CPUs.
fn each<T: Send>(
    source: &Source,
    tasks: &[Task<'_>],
    cancelled: &mut dyn FnMut() -> bool,
    work: impl Fn(&mut Window<'_>, &Task<'_>, usize) -> std::result::Result<T, Stop> + Sync,
    mut take: impl FnMut(T),
) -> Result<()> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(tasks.len());
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = channel();
    let mut taken = 0;
    thread::scope(|scope| -> Result<()> {
        for _ in 0..workers {
            let (next, stopped, work, sender) = (&next, &stopped, &work, sender.clone());
            thread::Builder::new().name("holotrace-decode".into()).spawn_scoped(scope, move || {
                let mut window = Window::new(source, WINDOW_BYTES);
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(at) else { return };
                    let outcome = work(&mut window, task, at);
                    if sender.send((at, outcome)).is_err() || stopped.load(Ordering::Relaxed) {
                        return;
                    }
                }
            })?;
        }
        drop(sender);
        let outcome = collect(source, &results, cancelled, |result| {
            taken += 1;
            take(result);
        });
        stopped.store(true, Ordering::Relaxed);
        outcome
    })?;
    if taken < tasks.len() {
        return Err(Error::Defect("a decoder panicked".into()));
    }
    Ok(())
}

/// Hand over what arrives in order, until all has arrived: each is let go as soon as the ones before it have come.
fn collect<T>(
    source: &Source,
    results: &Receiver<(usize, std::result::Result<T, Stop>)>,
    cancelled: &mut dyn FnMut() -> bool,
    mut take: impl FnMut(T),
) -> Result<()> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    loop {
        match results.recv_timeout(CANCEL_CHECK) {
            Ok((at, outcome)) => drop(early.insert(at, outcome.map_err(|stop| explained(source, stop))?)),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) if cancelled() => return Err(Error::Cancelled),
            Err(RecvTimeoutError::Timeout) => {}
        }
        while let Some(result) = early.remove(&next) {
            take(result);
            next += 1;
        }
    }
}

/// Number of events in a line.
fn count(window: &mut Window<'_>, span: Span) -> std::result::Result<u64, Stop> {
    let mut rest = span;
    let mut count = 0;
    while let Some((number, held)) = window.field(&mut rest)? {
        count += u64::from(number == 4 && matches!(held, Held::Bytes(_)));
    }
    Ok(count)
}

fn line(
    window: &mut Window<'_>,
    task: &Task<'_>,
    options: &Options,
    mut slot: Slot<'_>,
) -> std::result::Result<Part, Stop> {
    let mut part = Part {
        line: task.line,
        head: LineHead::default(),
        count: 0,
        stats: options.stats.iter().map(|(key, kind)| ArgColumn::new(key.clone(), *kind)).collect(),
        arguments: ArgColumn::new("arguments".into(), ArgType::Text),
        problems: Problems::default(),
        offset: task.span.start,
    };
    let mut json = Vec::new();
    let mut rest = task.span;
    while let Some((number, held)) = window.field(&mut rest)? {
        match (number, held) {
            (4, Held::Bytes(span)) => {
                event(window.bytes(span)?, span.start, task.dictionary, &mut part, &mut slot, &mut json)?;
            }
            (1, Held::Number(id)) => part.head.id = id as i64,
            (2, Held::Bytes(span)) => part.head.name = text(window, span)?,
            (3, Held::Number(time)) => part.head.timestamp_ns = time as i64,
            (11, Held::Bytes(span)) => part.head.display = text(window, span)?,
            _ => {}
        }
    }
    Ok(part)
}

#[inline(always)]
fn event(
    bytes: &[u8],
    origin: u64,
    dictionary: &Dictionary,
    part: &mut Part,
    slot: &mut Slot<'_>,
    json: &mut Vec<u8>,
) -> std::result::Result<(), Malformed> {
    let (mut id, mut offset_ps, mut duration_ps) = (0, 0, 0);
    let row = part.count;
    let mut has_arguments = dictionary.keeps_arguments;
    json.clear();
    let mut fields = Fields::new(bytes, origin);
    while let Some(field) = fields.next() {
        match field? {
            (1, Value::Varint(number)) => id = number as i64,
            (2, Value::Varint(number)) => offset_ps = number as i64,
            (3, Value::Varint(number)) => duration_ps = number as i64,
            (4, Value::Bytes(bytes)) => {
                let stat = Stat::read(bytes, fields.offset() - bytes.len() as u64)?;
                let Some(key) = dictionary.key(stat.key) else { continue };
                if let Some(column) = part.stats.get_mut(key.column as usize) {
                    dictionary.keep(column, row, &stat);
                }
                has_arguments &= !key.is_operation;
                if has_arguments && !key.is_internal {
                    dictionary.argument(json, key, &stat);
                }
            }
            _ => {}
        }
    }
    if offset_ps.unsigned_abs() > MAX_NS as u64 * 1000 {
        part.problems.add(Problem::AbsurdTime, origin, &[]);
        offset_ps = 0;
    }
    if duration_ps < 0 {
        part.problems.add(Problem::NegativeDuration, origin, &[]);
    } else if duration_ps > MAX_DURATION_NS * 1000 {
        part.problems.add(Problem::AbsurdDuration, origin, &[]);
        duration_ps = 0;
    }
    let metadata = dictionary.metadata_rows.get(id);
    if metadata == NONE {
        part.problems.add(Problem::MissingName, origin, &[]);
    }
    part.count += 1;
    let at = row as usize;
    (slot.metadata[at], slot.start_ps[at], slot.duration_ps[at]) = (metadata, offset_ps, duration_ps.max(0));
    if has_arguments && !json.is_empty() {
        json.push(b'}');
        if let ArgValues::Text(codes, strings) = &mut part.arguments.values {
            codes.push(strings.code(json));
            part.arguments.rows.push(row);
        }
    }
    Ok(())
}
