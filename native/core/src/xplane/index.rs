//! Everything of a profile but the events of its lines.

use std::collections::HashSet;

use crate::columns::arrow::NONE;
use crate::columns::id_map::IdMap;
use crate::problems::{Problem, Problems};
use crate::xplane::damage::is_mangled;
use crate::xplane::hlo::Instructions;
use crate::xplane::model::Options;
use crate::xplane::protobuf::{
    FieldValue, Fields, LONGER, Malformed, Source, Span, Stop, Value, WINDOW_BYTES, Window, text,
};
use crate::xplane::schema::{map_entry, x_event_metadata, x_plane, x_space, x_stat_metadata};
use crate::xplane::space::{Line, Plane, Space};
use crate::xplane::stats::{Dictionary, Key, Stat, StatValue};

/// Lines of one plane, with what its ids mean.
pub struct Lines {
    pub dictionary: Dictionary,
    pub spans: Vec<(u32, Span)>,
}

/// Everything but the lines' events.
pub fn index(source: &Source, options: &Options) -> std::result::Result<(Space, Vec<Lines>), Stop> {
    let mut space = Space::new(source.len(), options);
    let mut window = Window::new(source, WINDOW_BYTES);
    let mut rest = Span { start: 0, end: source.len() };
    let mut lines = Vec::new();
    let mut stops = Vec::new();
    loop {
        let offset = rest.start;
        let Some((number, held)) = window.field(&mut rest)? else { break };
        if let FieldValue::Cut(span) = held {
            space.problems.add(Problem::CutOff, span.end, &[]);
            stops.push(Malformed { offset, reason: LONGER });
        }
        match (number, held) {
            (x_space::PLANES, FieldValue::Bytes(span) | FieldValue::Cut(span)) => {
                lines.push(plane(&mut window, span, options, &mut space)?);
            }
            (x_space::ERRORS, FieldValue::Bytes(span)) => space.errors.push(text(&mut window, span)?),
            (x_space::WARNINGS, FieldValue::Bytes(span)) => space.warnings.push(text(&mut window, span)?),
            (x_space::HOSTNAMES, FieldValue::Bytes(span)) => space.hostnames.push(text(&mut window, span)?),
            _ => {}
        }
    }
    for malformed in &window.damage {
        malformed.tell(&mut space.problems);
    }
    stops.append(&mut window.damage);
    // What is damaged is a profile as long as it has a plane by name, unless hardly a number of it is what it was.
    let is_any = space.planes.iter().any(|plane| !plane.name.is_empty());
    match stops.first() {
        Some(&stop) if !is_any || is_mangled(source) => Err(stop.into()),
        _ => Ok((space, lines)),
    }
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
            (x_plane::ID, FieldValue::Number(value)) => id = value as i64,
            (x_plane::NAME, FieldValue::Bytes(span)) => name = text(window, span)?,
            (x_plane::LINES, FieldValue::Bytes(span) | FieldValue::Cut(span)) => lines.push(span),
            (x_plane::EVENT_METADATA, FieldValue::Bytes(span)) => events.push(span),
            (x_plane::STAT_METADATA, FieldValue::Bytes(span)) => keys.push(span),
            (x_plane::STATS, FieldValue::Bytes(span)) => stats.push(span),
            _ => {}
        }
    }
    let (keys, key_places) = dictionary_keys(window, &keys, options, &mut space.problems)?;
    let number = space.planes.len() as u32;
    let is_programs = name == "/host:metadata";
    let keeps_arguments = options.arguments && !name.starts_with("/device:");
    space.planes.push(Plane { id, name });
    let mut dictionary =
        Dictionary { keys, key_places, metadata_rows: IdMap::of_rows([].into_iter()), keeps_arguments };
    for span in stats {
        match Stat::read(window.bytes(span)?, span.start) {
            Ok(stat) => dictionary.plane_stat(number, &stat, space),
            Err(malformed) => malformed.tell(&mut space.problems),
        }
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
    problems: &mut Problems,
) -> std::result::Result<(Vec<Key>, IdMap), Stop> {
    let mut keys = Vec::with_capacity(spans.len());
    let mut ids = Vec::with_capacity(spans.len());
    for &span in spans {
        let (id, value, origin) = match entry(window.bytes(span)?, span.start) {
            Ok(entry) => entry,
            Err(malformed) => {
                malformed.tell(problems);
                continue;
            }
        };
        let mut name: &[u8] = b"";
        for field in Fields::new(value, origin) {
            match field {
                Ok((x_stat_metadata::NAME, Value::Bytes(text))) => name = text,
                Ok(_) => {}
                Err(malformed) => malformed.tell(problems),
            }
        }
        let column = options.stats.iter().position(|(key, _)| key.as_bytes() == name);
        let is_internal = name.starts_with(b"_") && !name.starts_with(b"_ipl_")
            || matches!(name, b"group_id" | b"step_name" | b"is_eager");
        ids.push(id);
        keys.push(Key {
            name: name.to_vec(),
            column: column.map_or(NONE, |at| at as u32),
            is_internal,
            is_operation: name == b"hlo_op",
            is_duration: name == b"device_duration_ps",
        });
    }
    Ok((keys, IdMap::of_rows(ids.into_iter())))
}

/// Key, value and where the value begins, of a map's entry.
fn entry(bytes: &[u8], origin: u64) -> std::result::Result<(i64, &[u8], u64), Malformed> {
    let (mut key, mut value, mut at): (i64, &[u8], u64) = (0, b"", origin);
    let mut fields = Fields::new(bytes, origin);
    while let Some(field) = fields.next() {
        match field? {
            (map_entry::KEY, Value::Varint(number)) => key = number as i64,
            (map_entry::VALUE, Value::Bytes(bytes)) => (value, at) = (bytes, fields.offset() - bytes.len() as u64),
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
) -> std::result::Result<IdMap, Stop> {
    let mut ids = Vec::with_capacity(spans.len());
    for &span in spans {
        let (id, value, origin) = match entry(window.bytes(span)?, span.start) {
            Ok(entry) => entry,
            Err(malformed) => {
                malformed.tell(&mut space.problems);
                continue;
            }
        };
        let row = space.metadata_names.len() as u32;
        let (mut name, mut display): (&[u8], &[u8]) = (b"", b"");
        let mut program = Program::default();
        let mut fields = Fields::new(value, origin);
        while let Some(field) = fields.next() {
            let field = match field {
                Ok(field) => field,
                Err(malformed) => {
                    malformed.tell(&mut space.problems);
                    break;
                }
            };
            match field {
                (x_event_metadata::NAME, Value::Bytes(text)) => name = text,
                (x_event_metadata::DISPLAY_NAME, Value::Bytes(text)) => display = text,
                (x_event_metadata::STATS, Value::Bytes(bytes)) => {
                    let origin = fields.offset() - bytes.len() as u64;
                    let stat = match Stat::read(bytes, origin) {
                        Ok(stat) => stat,
                        Err(malformed) => {
                            malformed.tell(&mut space.problems);
                            continue;
                        }
                    };
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
            let read = program.read(name, &mut space.instructions, &mut space.programs);
            read.unwrap_or_else(|malformed| malformed.tell(&mut space.problems));
        }
        space.metadata_names.push(space.names.code(name));
        space.metadata_displays.push(if display.is_empty() { NONE } else { space.names.code(display) });
        ids.push((id, row));
    }
    Ok(IdMap::of_pairs(ids.into_iter()))
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
fn split_program(name: &[u8]) -> (&[u8], Option<i64>) {
    let parts = name.strip_suffix(b")").and_then(|name| {
        let open = name.iter().rposition(|&byte| byte == b'(')?;
        let digits = std::str::from_utf8(&name[open + 1..]).ok()?;
        let id = digits.parse::<u64>().map(|id| id as i64).or_else(|_| digits.parse::<i64>()).ok()?;
        Some((&name[..open], Some(id)))
    });
    parts.unwrap_or((name, None))
}
