//! Which events are alike in all that says what they are: some thousand kinds among some million events.

use std::collections::HashMap;

use crate::columns::table::{ArgColumn, ArgValues, NONE};
use crate::error::{Error, Result};
use crate::xplane::space::Space;

/// The stats that tell instructions apart; they must have been asked for, these as text and number.
const INSTRUCTION: (&str, &str) = ("hlo_op", "program_id");
/// Having these makes an event of a GPU a copy or a fill, whatever its name.
const COPY: &str = "memcpy_details";
const FILL: &str = "memset_details";

/// What events of one kind share. What all events of one metadata have need not be compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    metadata: u32,
    instruction: u32,
    program: Option<i64>,
    is_copy: bool,
    is_fill: bool,
}

impl Space {
    /// The kind of each of `rows` (ascending), numbered in the order in which they come.
    pub fn kinds(&self, rows: &[u32]) -> Result<Vec<u32>> {
        let (names, programs) = (self.stat(INSTRUCTION.0)?, self.stat(INSTRUCTION.1)?);
        let (ArgValues::Text(names_of, _), ArgValues::Int(programs_of)) = (&names.values, &programs.values) else {
            return Err(Error::Unknown(format!("{INSTRUCTION:?}: not asked for as text and number")));
        };
        let instructions = names.positions(rows).map(|at| names_of.get(at as usize).copied().unwrap_or(NONE));
        let programs = programs.positions(rows).map(|at| programs_of.get(at as usize).copied());
        let has = |column: &'static str| self.stat(column).map(|column: &ArgColumn| column.positions(rows));
        let marks = has(COPY)?.zip(has(FILL)?).map(|(copy, fill)| (copy != NONE, fill != NONE));
        let mut numbers: HashMap<Kind, u32> = HashMap::new();
        // Events of one metadata nearly always are of the kind of the one before.
        let mut latest: Vec<Option<(Kind, u32)>> = vec![None; self.metadata_names.len()];
        let kinds = rows.iter().zip(instructions).zip(programs).zip(marks);
        Ok(kinds
            .map(|(((&row, instruction), program), (is_copy, is_fill))| {
                let kind = Kind { metadata: self.metadata_of(row), instruction, program, is_copy, is_fill };
                let latest = latest.get_mut(kind.metadata as usize);
                if let Some(&mut Some((known, number))) = latest
                    && known == kind
                {
                    return number;
                }
                let next = numbers.len() as u32;
                let number = *numbers.entry(kind).or_insert(next);
                if let Some(latest) = latest {
                    *latest = Some((kind, number));
                }
                number
            })
            .collect())
    }
}
