//! How values are stored.

use arrow_schema::DataType;

use crate::error::{Error, Result};

/// How the values of a column are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    /// Without a sign.
    U32,
    I64,
    F64,
    Text,
}

impl Kind {
    pub fn of(kind: &DataType) -> Result<Self> {
        Ok(match kind {
            DataType::Boolean => Self::Bool,
            DataType::UInt32 => Self::U32,
            DataType::Int64 => Self::I64,
            DataType::Float64 => Self::F64,
            DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Dictionary(key, value) if **key == DataType::UInt32 => match Self::of(value)? {
                Self::Text => Self::Text,
                _ => return Err(Error::Unsupported(format!("type {kind}"))),
            },
            _ => return Err(Error::Unsupported(format!("type {kind}"))),
        })
    }
}

/// As Parquet numbers them.
#[derive(Clone, Copy)]
pub enum Encoding {
    Plain = 0,
    Rle = 3,
    Delta = 5,
    Dictionary = 8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_no_table_has_is_an_error() {
        assert!(Kind::of(&DataType::Int8).is_err());
        assert!(Kind::of(&DataType::Dictionary(DataType::UInt32.into(), DataType::Int64.into())).is_err());
    }
}
