//! Inflaters written in C or assembler.

use std::hint::black_box;

#[cfg(any(feature = "isal", feature = "zlib-ng"))]
use crate::inflaters::deflated;

#[cfg(feature = "isal")]
pub fn isal(gzip: &[u8], block: &mut [u8], check: bool) -> u64 {
    use isal::isal_sys::igzip_lib::{
        ISAL_DEFLATE, ISAL_GZIP, inflate_state, isal_block_state_ISAL_BLOCK_FINISH, isal_inflate, isal_inflate_init,
    };

    let (input, flag) = if check { (gzip, ISAL_GZIP) } else { (deflated(gzip), ISAL_DEFLATE) };
    // SAFETY: all-zero is a valid state, and the library sets it up itself; see below for its pointers.
    let mut state: Box<inflate_state> = unsafe {
        let mut state = Box::new(std::mem::zeroed());
        isal_inflate_init(&mut *state);
        state
    };
    state.crc_flag = flag;
    state.next_in = input.as_ptr().cast_mut();
    state.avail_in = input.len().try_into().expect("less than 4 GiB");
    let mut total = 0;
    loop {
        state.next_out = block.as_mut_ptr();
        state.avail_out = block.len() as u32;
        // SAFETY: the pointers and sizes are those of slices that outlive the call.
        let code = unsafe { isal_inflate(&mut *state) };
        assert_eq!(code, 0, "a sound file");
        let given = block.len() - state.avail_out as usize;
        black_box(&block[..given]);
        total += given as u64;
        if state.block_state == isal_block_state_ISAL_BLOCK_FINISH {
            return total;
        }
    }
}

#[cfg(feature = "zlib-ng")]
pub fn zlib_ng(gzip: &[u8], block: &mut [u8], check: bool) -> u64 {
    use libz_ng_sys::{Z_NO_FLUSH, Z_OK, Z_STREAM_END, inflate, inflateEnd, inflateInit2_, z_stream, zlibVersion};

    let (input, window_bits) = if check { (gzip, 15 + 16) } else { (deflated(gzip), -15) };
    // Null allocators, which ask for the library's own, are no valid `z_stream` in Rust: only its address is used.
    let mut memory = Box::new(std::mem::MaybeUninit::<z_stream>::zeroed());
    let stream = memory.as_mut_ptr();
    // SAFETY: the library is given a zeroed stream to set up, and pointers and sizes of slices that outlive its calls.
    unsafe {
        let code = inflateInit2_(stream, window_bits, zlibVersion(), size_of::<z_stream>() as i32);
        assert_eq!(code, Z_OK);
        (*stream).next_in = input.as_ptr().cast_mut();
        (*stream).avail_in = input.len().try_into().expect("less than 4 GiB");
        loop {
            (*stream).next_out = block.as_mut_ptr();
            (*stream).avail_out = block.len() as u32;
            let code = inflate(stream, Z_NO_FLUSH);
            black_box(&block[..block.len() - (*stream).avail_out as usize]);
            if code == Z_STREAM_END {
                let total = (*stream).total_out as u64;
                inflateEnd(stream);
                return total;
            }
            assert_eq!(code, Z_OK, "a sound file");
        }
    }
}

#[cfg(feature = "libdeflate")]
pub fn libdeflate(gzip: &[u8]) -> u64 {
    let mut text = vec![0; crate::inflaters::text_bytes(gzip) as usize];
    let bytes = libdeflater::Decompressor::new().gzip_decompress(gzip, &mut text).expect("a sound file");
    black_box(text);
    bytes as u64
}
