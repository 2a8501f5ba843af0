//! Signatures of events: what some thousand groups among millions of events share, metadata, instruction and program.

use std::collections::HashMap;

use crate::columns::arg_column::ArgValues;
use crate::columns::arrow::NONE;
use crate::error::{Error, Result};
use crate::xplane::space::Space;

/// The stats that tell instructions apart; they must have been asked for, these as text and number.
const INSTRUCTION: (&str, &str) = ("hlo_op", "program_id");
/// Having these makes an event of a GPU a copy or a fill, whatever its name.
const COPY: &str = "memcpy_details";
const FILL: &str = "memset_details";

/// What the events of one group share. What all events of one metadata have need not be compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Signature {
    metadata: u32,
    instruction: u32,
    program: Option<i64>,
    is_copy: bool,
    is_fill: bool,
}

/// The signature of each of `rows` (ascending), numbered in the order in which they come.
pub fn signatures(space: &Space, rows: &[u32]) -> Result<Vec<u32>> {
    let (names, programs) = (space.stat(INSTRUCTION.0)?, space.stat(INSTRUCTION.1)?);
    let (ArgValues::Text(names_of, _), ArgValues::Int(programs_of)) = (names.values, programs.values) else {
        return Err(Error::NotRequested(format!("{INSTRUCTION:?} as text and number")));
    };
    let instructions = names.positions(rows).map(|at| names_of.get(at as usize).copied().unwrap_or(NONE));
    let programs = programs.positions(rows).map(|at| programs_of.get(at as usize).copied());
    let has = |column: &'static str| space.stat(column).map(|column| column.positions(rows));
    let marks = has(COPY)?.zip(has(FILL)?).map(|(copy, fill)| (copy != NONE, fill != NONE));
    let mut numbers: HashMap<Signature, u32> = HashMap::new();
    // Events of one metadata nearly always have the signature of the one before.
    let mut latest: Vec<Option<(Signature, u32)>> = vec![None; space.metadata_names.len()];
    let all = rows.iter().zip(instructions).zip(programs).zip(marks);
    Ok(all
        .map(|(((&row, instruction), program), (is_copy, is_fill))| {
            let signature = Signature { metadata: space.metadata_of(row), instruction, program, is_copy, is_fill };
            let latest = latest.get_mut(signature.metadata as usize);
            if let Some(&mut Some((known, number))) = latest
                && known == signature
            {
                return number;
            }
            let next = numbers.len() as u32;
            let number = *numbers.entry(signature).or_insert(next);
            if let Some(latest) = latest {
                *latest = Some((signature, number));
            }
            number
        })
        .collect())
}
