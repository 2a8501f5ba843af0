//! Where in the sources instructions were made.

use crate::xplane::protobuf::{Fields, Malformed, Value};
use crate::xplane::schema::{file_location, stack_frame, stack_frame_index};

/// Where instructions were made, by number of a stack frame.
#[derive(Default)]
pub struct Frames {
    files: Vec<String>,
    /// Numbers of file and line.
    locations: Vec<(u64, i32)>,
    /// Numbers of locations.
    frames: Vec<u64>,
}

impl Frames {
    pub fn read(bytes: &[u8], origin: u64) -> Result<Self, Malformed> {
        let mut found = Self::default();
        for field in Fields::new(bytes, origin) {
            match field? {
                (stack_frame_index::FILE_NAMES, Value::Bytes(text)) => {
                    found.files.push(String::from_utf8_lossy(text).into_owned())
                }
                (stack_frame_index::FILE_LOCATIONS, Value::Bytes(location)) => {
                    let (file, line) = (
                        number(location, origin, file_location::FILE_NAME_ID)?,
                        number(location, origin, file_location::LINE)?,
                    );
                    found.locations.push((file, line as i32));
                }
                (stack_frame_index::STACK_FRAMES, Value::Bytes(frame)) => {
                    found.frames.push(number(frame, origin, stack_frame::FILE_LOCATION_ID)?)
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// `file:line` of a frame; they are numbered from 1, 0 is none.
    pub fn source(&self, frame: u64) -> Option<String> {
        fn numbered<T>(items: &[T], number: u64) -> Option<&T> {
            items.get(usize::try_from(number.checked_sub(1)?).ok()?)
        }
        let &(file, line) = numbered(&self.locations, *numbered(&self.frames, frame)?)?;
        Some(format!("{}:{line}", numbered(&self.files, file)?))
    }
}

fn number(bytes: &[u8], origin: u64, wanted: u32) -> Result<u64, Malformed> {
    let mut found = 0;
    for field in Fields::new(bytes, origin) {
        if let (field, Value::Varint(value)) = field?
            && field == wanted
        {
            found = value;
        }
    }
    Ok(found)
}
