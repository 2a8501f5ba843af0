//! A module of HLO while its instructions are read.

use crate::xplane::hlo::buffers::Definitions;
use crate::xplane::hlo::frames::Frames;
use crate::xplane::hlo::work::Program;

/// A program that is being read.
pub struct Module<'a> {
    pub name: &'a [u8],
    pub program: i64,
    pub frames: Frames,
    pub known: Definitions<'a>,
    pub whole: Program<'a>,
    /// The ids of its instructions.
    pub ids: Vec<Option<i64>>,
}

impl<'a> Module<'a> {
    pub fn new(name: &'a [u8], program: i64, frames: Frames) -> Self {
        Module { name, program, frames, known: Definitions::default(), whole: Program::default(), ids: Vec::new() }
    }
}
