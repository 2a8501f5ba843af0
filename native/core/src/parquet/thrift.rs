//! Thrift's compact protocol, as far as writing the metadata of Parquet files needs it.

/// The type of a field's value.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    True = 1,
    False = 2,
    Byte = 3,
    I32 = 5,
    I64 = 6,
    Binary = 8,
    List = 9,
    Struct = 12,
}

/// A struct being written; its fields must come in the order of their numbers.
#[derive(Default)]
pub struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

impl Struct {
    pub fn bool(self, field: u8, value: bool) -> Self {
        self.field(field, if value { Kind::True } else { Kind::False })
    }

    pub fn byte(self, field: u8, value: u8) -> Self {
        let mut this = self.field(field, Kind::Byte);
        this.bytes.push(value);
        this
    }

    pub fn i32(self, field: u8, value: i32) -> Self {
        let mut this = self.field(field, Kind::I32);
        varint(zigzag(value.into()), &mut this.bytes);
        this
    }

    pub fn i64(self, field: u8, value: i64) -> Self {
        let mut this = self.field(field, Kind::I64);
        varint(zigzag(value), &mut this.bytes);
        this
    }

    pub fn binary(self, field: u8, value: &[u8]) -> Self {
        let mut this = self.field(field, Kind::Binary);
        binary(value, &mut this.bytes);
        this
    }

    pub fn inner(self, field: u8, value: Struct) -> Self {
        let mut this = self.field(field, Kind::Struct);
        this.bytes.extend(value.finish());
        this
    }

    pub fn i32s(self, field: u8, values: &[i32]) -> Self {
        let mut this = self.list(field, Kind::I32, values.len());
        values.iter().for_each(|&value| varint(zigzag(value.into()), &mut this.bytes));
        this
    }

    pub fn binaries(self, field: u8, values: &[&[u8]]) -> Self {
        let mut this = self.list(field, Kind::Binary, values.len());
        values.iter().for_each(|value| binary(value, &mut this.bytes));
        this
    }

    pub fn structs(self, field: u8, values: impl ExactSizeIterator<Item = Struct>) -> Self {
        let mut this = self.list(field, Kind::Struct, values.len());
        values.for_each(|value| this.bytes.extend(value.finish()));
        this
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    fn field(mut self, field: u8, kind: Kind) -> Self {
        // How much higher than the last one it is numbered.
        debug_assert!(field > self.last && field - self.last < 16, "fields come in order, none far from the last");
        self.bytes.push((field - self.last) << 4 | kind as u8);
        self.last = field;
        self
    }

    fn list(self, field: u8, kind: Kind, len: usize) -> Self {
        let mut this = self.field(field, Kind::List);
        if len < 15 {
            this.bytes.push((len as u8) << 4 | kind as u8);
        } else {
            this.bytes.push(15 << 4 | kind as u8);
            varint(len as u64, &mut this.bytes);
        }
        this
    }
}

fn binary(value: &[u8], bytes: &mut Vec<u8>) {
    varint(value.len() as u64, bytes);
    bytes.extend_from_slice(value);
}

/// Seven bits a byte, the lowest first.
pub fn varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Numbers near zero, of either sign, as small ones.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_is_its_fields_and_an_end() {
        let inner = Struct::default().bool(1, true).i64(4, -1);
        let bytes = Struct::default().i32(1, 150).binary(3, b"ab").inner(4, inner).i32s(5, &[1, 2]).finish();
        assert_eq!(bytes, [0x15, 0xac, 0x02, 0x28, 2, b'a', b'b', 0x1c, 0x11, 0x36, 1, 0, 0x19, 0x25, 2, 4, 0]);
    }

    #[test]
    fn long_lists_say_their_length() {
        let bytes = Struct::default().i32s(1, &[0; 20]).finish();
        assert_eq!(bytes[..3], [0x19, 0xf5, 20]);
        assert_eq!(bytes.len(), 3 + 20 + 1);
    }
}
