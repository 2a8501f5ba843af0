//! The inflaters compared: each inflates a gzip file of one member, block over block.

use std::hint::black_box;
use std::io::Read;

use crc32fast::Hasher;
use flate2::bufread::MultiGzDecoder;
use miniz_oxide::inflate::stream::{InflateState, inflate as miniz_inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};
use zlib_rs::{Inflate, InflateFlush, Status};

#[cfg(any(feature = "isal", feature = "libdeflate", feature = "zlib-ng"))]
use crate::native;

pub struct Inflater {
    pub name: &'static str,
    pub run: Run,
}

/// Both give the number of bytes that came out.
pub enum Run {
    Blocks(fn(&[u8], &mut [u8]) -> u64),
    /// Holds all of the text: memory without a bound.
    Whole(fn(&[u8]) -> u64),
}

/// "no CRC": the text is not compared with its checksum.
pub const ALL: &[Inflater] = &[
    #[cfg(feature = "isal")]
    Inflater { name: "isal", run: Run::Blocks(|gzip, block| native::isal(gzip, block, true)) },
    #[cfg(feature = "isal")]
    Inflater { name: "isal, no CRC", run: Run::Blocks(|gzip, block| native::isal(gzip, block, false)) },
    #[cfg(feature = "zlib-ng")]
    Inflater { name: "zlib-ng", run: Run::Blocks(|gzip, block| native::zlib_ng(gzip, block, true)) },
    #[cfg(feature = "zlib-ng")]
    Inflater { name: "zlib-ng, no CRC", run: Run::Blocks(|gzip, block| native::zlib_ng(gzip, block, false)) },
    Inflater { name: "zlib-rs", run: Run::Blocks(|gzip, block| zlib_rs(gzip, block, true)) },
    Inflater { name: "zlib-rs, no CRC", run: Run::Blocks(|gzip, block| zlib_rs(gzip, block, false)) },
    Inflater { name: "flate2 over zlib-rs", run: Run::Blocks(flate2) },
    Inflater { name: "miniz_oxide", run: Run::Blocks(|gzip, block| miniz(gzip, block, true)) },
    Inflater { name: "miniz_oxide, no CRC", run: Run::Blocks(|gzip, block| miniz(gzip, block, false)) },
    #[cfg(feature = "libdeflate")]
    Inflater { name: "libdeflate", run: Run::Whole(native::libdeflate) },
    Inflater { name: "zune-inflate", run: Run::Whole(zune) },
];

/// Size of the text, modulo 2^32, as the last bytes of a gzip file give it.
pub fn text_bytes(gzip: &[u8]) -> u32 {
    u32::from_le_bytes(gzip[gzip.len() - 4..].try_into().expect("four bytes"))
}

/// What follows the gzip header, of which only the file's name may be long.
pub fn deflated(gzip: &[u8]) -> &[u8] {
    const NAME: u8 = 8;
    assert!(gzip[3] & !NAME == 0, "a gzip header with more than a name");
    let fixed = &gzip[10..];
    match gzip[3] {
        NAME => &fixed[1 + fixed.iter().position(|byte| *byte == 0).expect("an end of the name")..],
        _ => fixed,
    }
}

fn zlib_rs(gzip: &[u8], block: &mut [u8], check: bool) -> u64 {
    let (mut inflate, mut input) =
        if check { (Inflate::new(true, 15 + 16), gzip) } else { (Inflate::new(false, 15), deflated(gzip)) };
    loop {
        let (taken, given) = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress(input, block, InflateFlush::NoFlush).expect("a sound file");
        input = &input[(inflate.total_in() - taken) as usize..];
        black_box(&block[..(inflate.total_out() - given) as usize]);
        if status == Status::StreamEnd {
            return inflate.total_out();
        }
    }
}

fn flate2(gzip: &[u8], block: &mut [u8]) -> u64 {
    let mut decoder = MultiGzDecoder::new(gzip);
    let mut total = 0;
    loop {
        let mut filled = 0;
        while filled < block.len() {
            match decoder.read(&mut block[filled..]).expect("a sound file") {
                0 => return total,
                got => (filled, total) = (filled + got, total + got as u64),
            }
        }
        black_box(&block);
    }
}

fn miniz(gzip: &[u8], block: &mut [u8], check: bool) -> u64 {
    let mut state = InflateState::new_boxed(DataFormat::Raw);
    let mut crc = Hasher::new();
    let mut input = deflated(gzip);
    let mut total = 0;
    loop {
        let result = miniz_inflate(&mut state, input, block, MZFlush::None);
        input = &input[result.bytes_consumed..];
        total += result.bytes_written as u64;
        let text = black_box(&block[..result.bytes_written]);
        if check {
            crc.update(text);
        }
        if result.status.expect("a sound file") == MZStatus::StreamEnd {
            black_box(crc.finalize());
            return total;
        }
    }
}

fn zune(gzip: &[u8]) -> u64 {
    let text = zune_inflate::DeflateDecoder::new(gzip).decode_gzip().expect("a sound file");
    black_box(text).len() as u64
}
