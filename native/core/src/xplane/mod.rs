//! XSpace, the profile format of XLA: planes of lines of events, to columns.
//!
//! The names of a plane's events and stats stand behind its lines, so that a file is walked twice: first past the lines,
//! reading all else, then through the lines, several at once.

mod ancestry;
mod damage;
mod decode;
mod flows;
mod hlo;
mod in_parts;
mod index;
mod model;
mod protobuf;
mod schema;
mod signatures;
mod space;
mod stats;
mod tables;
mod web;
mod workers;

use crate::error::{Error, Result};
use crate::xplane::damage::explained;
use crate::xplane::decode::decode;
use crate::xplane::index::index;
use crate::xplane::model::{FIRST_UNIX_NS, MAX_NS, Part};

pub use self::model::Options;
pub use self::protobuf::Source;
pub use self::space::Space;
pub use self::tables::Selection;

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

/// The time from which on the profile's times count, in UNIX ns; 0 where it does not say.
fn origin(space: &Space, parts: &[Part]) -> i64 {
    let begun = space.plane_stats.iter().find(|stat| stat.key == "profile_start_time").and_then(|stat| stat.whole);
    let begun = begun.filter(|begun| (FIRST_UNIX_NS..i64::MAX - MAX_NS).contains(begun));
    let earliest = || parts.iter().map(|part| &part.head).filter(|head| head.is_unix()).map(|head| head.timestamp_ns);
    begun.or_else(|| earliest().min()).filter(|origin| *origin < i64::MAX - 2 * MAX_NS).unwrap_or(0)
}
