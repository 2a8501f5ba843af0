//! What becomes of the events of a trace that is written anew.

use crate::trace_event::lexer::{Raw, Scan, members, value};

/// A key as it stands between its quotes, and a value as JSON.
pub type Member = (String, Vec<u8>);

/// What to write into an event, in the place of members of the same key or behind the others.
#[derive(Debug, Clone, Default)]
pub struct Edit {
    pub fields: Vec<Member>,
    /// Members of its args, which it need not have.
    pub args: Vec<Member>,
}

/// What becomes of a trace; events are known by their number in the file, as the reader counts them.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    pub(super) edits: Vec<Edit>,
    /// Events by number, each with the edit to make; several edits of one are made in order.
    pub(super) edited: Vec<(u32, u32)>,
    pub(super) dropped: Vec<u32>,
    /// Each one or more events with commas between them.
    pub(super) appended: Vec<String>,
    /// Categories; what lasts and has another one is left out, unless it is edited.
    pub(super) only: Option<Vec<String>>,
}

impl Changes {
    pub fn new(edits: Vec<(Vec<u32>, Edit)>, mut dropped: Vec<u32>, appended: Vec<String>) -> Self {
        let mut edited = Vec::new();
        let mut changes = Vec::new();
        for (ids, edit) in edits {
            edited.extend(ids.into_iter().map(|id| (id, changes.len() as u32)));
            changes.push(edit);
        }
        edited.sort_by_key(|&(id, _)| id);
        dropped.sort_unstable();
        dropped.dedup();
        let appended = appended.into_iter().filter(|text| !text.trim_ascii().is_empty()).collect();
        Self { edits: changes, edited, dropped, appended, only: None }
    }

    /// Leave out what lasts and is of no such category, unless it is edited.
    pub fn only(self, categories: Option<Vec<String>>) -> Self {
        Self { only: categories, ..self }
    }

    pub fn drops(&self, id: u32) -> bool {
        self.dropped.binary_search(&id).is_ok()
    }

    /// The last event that something becomes of.
    pub fn last(&self) -> Option<u32> {
        self.edited.last().map(|&(id, _)| id).max(self.dropped.last().copied())
    }
}

/// The event after an edit.
pub fn edited(event: &[u8], edit: &Edit) -> Scan<Vec<u8>> {
    let mut fields = edit.fields.clone();
    if !edit.args.is_empty() {
        let args = args_of(event)?;
        let args = with_members(args.map_or(b"{}", |raw| raw.of(event)), &edit.args)?;
        fields.push(("args".into(), args));
    }
    with_members(event, &fields)
}

/// The args of an event, if they are an object.
fn args_of(event: &[u8]) -> Scan<Option<Raw>> {
    let mut found = None;
    members(event, 0, |key, start| {
        let (raw, end) = value(event, start)?;
        if key.of(event) == b"args" {
            found = (event[start] == b'{').then_some(raw);
        }
        Ok(end)
    })?;
    Ok(found)
}

/// An object with these members, in the place of those of the same key or behind the others.
pub fn with_members(object: &[u8], wanted: &[Member]) -> Scan<Vec<u8>> {
    let mut out = Vec::with_capacity(object.len() + 64);
    let mut is_there = vec![false; wanted.len()];
    let mut is_empty = true;
    let mut copied = 0;
    // Behind the last member.
    let mut last = 1;
    members(object, 0, |key, start| {
        let (_, end) = value(object, start)?;
        if let Some(place) = wanted.iter().position(|(name, _)| name.as_bytes() == key.of(object)) {
            out.extend_from_slice(&object[copied..start]);
            out.extend_from_slice(&wanted[place].1);
            is_there[place] = true;
            copied = end;
        }
        is_empty = false;
        last = end;
        Ok(end)
    })?;
    out.extend_from_slice(&object[copied..last]);
    for ((key, text), _) in wanted.iter().zip(is_there).filter(|(_, is_there)| !is_there) {
        let comma = if is_empty { "" } else { "," };
        out.extend_from_slice(format!("{comma}\"{key}\":").as_bytes());
        out.extend_from_slice(text);
        is_empty = false;
    }
    out.extend_from_slice(&object[last..]);
    Ok(out)
}
