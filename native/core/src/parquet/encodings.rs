//! Values as the bytes of a page.

use crate::parquet::thrift::{varint, zigzag};

/// Values of a block, and of each of its miniblocks, of numbers written as deltas: what other writers use.
const DELTA_BLOCK: usize = 128;
const DELTA_MINIBLOCK: usize = 32;

/// A bit for each row, the first the lowest.
pub fn bits(rows: &[u32], of: impl Fn(u32) -> bool, body: &mut Vec<u8>) {
    body.extend(rows.chunks(8).map(|rows| {
        let bits = rows.iter().enumerate().map(|(at, &row)| u8::from(of(row)) << at);
        bits.sum::<u8>()
    }));
}

/// Numbers below `count`: in whole bytes, in which zstd finds more than in bits.
pub fn indices(codes: &[u32], count: usize, body: &mut Vec<u8>) {
    match count {
        0..=1 => {
            body.push(8);
            varint((codes.len() as u64) << 1, body);
            body.push(0);
        }
        2..=0x100 => lowest_bytes::<1>(codes, body),
        0x101..=0x1_0000 => lowest_bytes::<2>(codes, body),
        _ => lowest_bytes::<4>(codes, body),
    }
}

/// As many of each number, behind what says so; in groups of eight, the last one filled with zeros.
fn lowest_bytes<const N: usize>(codes: &[u32], body: &mut Vec<u8>) {
    let groups = codes.len().div_ceil(8);
    body.push(8 * N as u8);
    varint((groups as u64) << 1 | 1, body);
    let begin = body.len();
    body.resize(begin + groups * 8 * N, 0);
    for (bytes, code) in body[begin..].chunks_exact_mut(N).zip(codes) {
        bytes.copy_from_slice(&code.to_le_bytes()[..N]);
    }
}

/// Numbers as what each is more than the one before it; `wrapped` makes a difference one of the numbers' width.
pub fn deltas(numbers: &[i64], wrapped: impl Fn(i64) -> i64, body: &mut Vec<u8>) {
    varint(DELTA_BLOCK as u64, body);
    varint((DELTA_BLOCK / DELTA_MINIBLOCK) as u64, body);
    varint(numbers.len() as u64, body);
    varint(zigzag(wrapped(numbers.first().copied().unwrap_or(0))), body);
    let mut block = [0; DELTA_BLOCK];
    for start in (1..numbers.len()).step_by(DELTA_BLOCK) {
        let end = numbers.len().min(start + DELTA_BLOCK);
        let pairs = numbers[start - 1..end - 1].iter().zip(&numbers[start..end]);
        let mut least = i64::MAX;
        for (delta, (before, number)) in block.iter_mut().zip(pairs) {
            *delta = wrapped(number.wrapping_sub(*before));
            least = least.min(*delta);
        }
        // What is missing of the last block costs no bits.
        block[end - start..].fill(least);
        varint(zigzag(least), body);
        let widths = body.len();
        body.extend([0; DELTA_BLOCK / DELTA_MINIBLOCK]);
        for (at, miniblock) in block.chunks_exact(DELTA_MINIBLOCK).enumerate() {
            if at * DELTA_MINIBLOCK >= end - start {
                break;
            }
            let mut all = 0;
            let mut over = [0; DELTA_MINIBLOCK];
            for (over, delta) in over.iter_mut().zip(miniblock) {
                *over = delta.wrapping_sub(least) as u64;
                all |= *over;
            }
            let width = u64::BITS - all.leading_zeros();
            body[widths + at] = width as u8;
            pack(&over, width, body);
        }
    }
}

/// Numbers of some bits, one behind another, the lowest bits first.
fn pack(numbers: &[u64; DELTA_MINIBLOCK], width: u32, body: &mut Vec<u8>) {
    let (mut word, mut filled) = (0, 0);
    let mut bytes = [0; DELTA_MINIBLOCK * 8];
    let mut words = bytes.chunks_exact_mut(8);
    for &number in numbers {
        word |= number << filled;
        filled += width;
        if filled >= u64::BITS {
            words.next().into_iter().for_each(|bytes| bytes.copy_from_slice(&u64::to_le_bytes(word)));
            filled -= u64::BITS;
            word = if filled == 0 { 0 } else { number >> (width - filled) };
        }
    }
    // 32 numbers of any width fill whole words, or half of one more.
    words.next().into_iter().for_each(|bytes| bytes.copy_from_slice(&u64::to_le_bytes(word)));
    body.extend_from_slice(&bytes[..width as usize * DELTA_MINIBLOCK / 8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_take_as_many_bits_as_the_largest_of_a_miniblock() {
        let mut body = Vec::new();
        deltas(&[7, 5, 3, 1, 2, 3, 4, 5], |delta| delta, &mut body);
        // 128 in blocks, four miniblocks, 8 values, the first 7; the least delta -2, widths; 0 0 0 3 3 3 3, then zeros.
        assert_eq!(body, [0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn numbers_of_any_width_are_packed_in_four_bytes_a_bit() {
        for width in 0..=64 {
            let numbers: [u64; DELTA_MINIBLOCK] = std::array::from_fn(|at| {
                let number = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(at as u64 + 1);
                if width == 0 { 0 } else { number >> (64 - width) }
            });
            let mut body = Vec::new();
            pack(&numbers, width, &mut body);
            assert_eq!(body.len(), 4 * width as usize);
            let bit = |at: usize| u64::from(body[at / 8] >> (at % 8) & 1);
            let unpacked =
                std::array::from_fn(|at| (0..width as usize).map(|i| bit(at * width as usize + i) << i).sum());
            assert_eq!(numbers, unpacked, "{width} bits");
        }
    }
}
