//! Record batches, taken and handed over by the Arrow PyCapsule interface.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{ArrowPrimitiveType, UInt32Type};
use arrow_array::{Array, PrimitiveArray, RecordBatch, RecordBatchIterator};
use arrow_buffer::ScalarBuffer;
use arrow_schema::Schema;
use holotrace_core::columns::NONE;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const STREAM: &std::ffi::CStr = c"arrow_array_stream";

#[pyclass(frozen, module = "holotrace._native")]
pub struct ArrowTable(pub RecordBatch);

#[pymethods]
impl ArrowTable {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The schema a consumer asks for is a wish; the interface allows to ignore it.
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), STREAM)
    }

    #[getter]
    fn height(&self) -> usize {
        self.0.num_rows()
    }

    /// Each column as a table of its own.
    fn columns(&self) -> PyResult<Vec<Self>> {
        let of_column = |at| self.0.project(&[at]).map(Self);
        let columns = (0..self.0.num_columns()).map(of_column).collect::<Result<_, _>>();
        columns.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn renamed(&self, names: Vec<String>) -> PyResult<Self> {
        let schema = self.0.schema();
        let fields = schema.fields().iter().zip(&names).map(|(field, name)| field.as_ref().clone().with_name(name));
        RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), self.0.columns().to_vec())
            .map(Self)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// The batches of a table of Python's, e.g. of a Polars frame, without a copy.
pub struct Batches(Vec<RecordBatch>);

impl Batches {
    pub fn of(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = table.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
        let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
        // SAFETY: a capsule of this name holds such a stream, which is moved out of it and released by us alone.
        let reader = unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr()) };
        let batches = reader.and_then(Iterator::collect);
        batches.map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// All rows, of a table that is in one piece.
    pub fn whole(self) -> PyResult<RecordBatch> {
        let count = self.0.len();
        <[RecordBatch; 1]>::try_from(self.0)
            .map(|[batch]| batch)
            .map_err(|_| PyValueError::new_err(format!("the table must be in one piece and is in {count}")))
    }

    /// Whether there is such a column.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().all(|batch| batch.column_by_name(name).is_some()) && !self.0.is_empty()
    }

    /// The values of a column of numbers, which has no nulls; without a copy where there is one batch.
    pub fn values<T: ArrowPrimitiveType>(&self, name: &str) -> PyResult<ScalarBuffer<T::Native>> {
        let column = |batch: &RecordBatch| {
            let column = batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<T>());
            column.filter(|column| column.null_count() == 0).map(PrimitiveArray::values).cloned().ok_or_else(|| {
                let message = format!("column {name:?} must be there, be {} and have no nulls", T::DATA_TYPE);
                PyValueError::new_err(message)
            })
        };
        match self.0.as_slice() {
            [batch] => column(batch),
            batches => {
                let mut values = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
                for batch in batches {
                    values.extend_from_slice(&column(batch)?);
                }
                Ok(values.into())
            }
        }
    }

    /// The values of a column of numbers, some of which may be null.
    pub fn optional<T: ArrowPrimitiveType>(
        &self,
        name: &str,
    ) -> PyResult<impl Iterator<Item = Option<T::Native>> + use<'_, T>> {
        let column = |batch: &RecordBatch| {
            let column = batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<T>());
            column
                .cloned()
                .ok_or_else(|| PyValueError::new_err(format!("column {name:?} must be there and be {}", T::DATA_TYPE)))
        };
        let columns = self.0.iter().map(column).collect::<PyResult<Vec<_>>>()?;
        Ok(columns.into_iter().flat_map(|column: PrimitiveArray<T>| {
            (0..column.len()).map(move |at| column.is_valid(at).then(|| column.value(at)))
        }))
    }

    /// The numbers of labels, rows or calls in a column, `NONE` where it is null; without a copy where there is one batch
    /// and nothing is null.
    pub fn codes(&self, name: &str) -> PyResult<ScalarBuffer<u32>> {
        let has_nulls = |batch: &RecordBatch| batch.column_by_name(name).is_some_and(|column| column.null_count() > 0);
        if !self.0.iter().any(has_nulls) {
            return self.values::<UInt32Type>(name);
        }
        let codes: Vec<u32> = self.optional::<UInt32Type>(name)?.map(|code| code.unwrap_or(NONE)).collect();
        Ok(codes.into())
    }

    /// The values of a column of truths, which has no nulls.
    pub fn flags(&self, name: &str) -> PyResult<Vec<bool>> {
        let mut flags = Vec::with_capacity(self.0.iter().map(RecordBatch::num_rows).sum());
        for batch in &self.0 {
            let column = batch.column_by_name(name).and_then(|column| column.as_boolean_opt());
            let Some(column) = column.filter(|column| column.null_count() == 0) else {
                let message = format!("column {name:?} must be there, be Boolean and have no nulls");
                return Err(PyValueError::new_err(message));
            };
            flags.extend(column.values().iter());
        }
        Ok(flags)
    }
}
