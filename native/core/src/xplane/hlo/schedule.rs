//! The order in which the instructions of a compiled program run.

use std::collections::HashMap;

use crate::xplane::hlo::messages::messages;
use crate::xplane::protobuf::{Fields, Malformed, packed};
use crate::xplane::schema::hlo_schedule;

/// The place of each instruction, by its id, among those of its computation.
pub fn places(schedule: &[u8], origin: u64) -> Result<HashMap<i64, i64>, Malformed> {
    let mut found = HashMap::new();
    for (number, entry, origin) in messages(schedule, origin)? {
        if number != hlo_schedule::SEQUENCES {
            continue;
        }
        for (number, sequence, origin) in messages(entry, origin)? {
            if number == hlo_schedule::SEQUENCE {
                let mut ids = Vec::new();
                for field in Fields::new(sequence, origin) {
                    if let (hlo_schedule::INSTRUCTION_IDS, value) = field? {
                        packed(value, &mut ids);
                    }
                }
                found.extend(ids.into_iter().zip(0..));
            }
        }
    }
    Ok(found)
}
