//! Which calls of ranks are the same, for Python.

use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{ArrayRef, Float64Array, UInt32Array};
use holotrace_core::algorithms::call_shifts::{Calls, Fit, Limits, Tried, fits};
use holotrace_core::columns::batch;
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, Batches};
use crate::intervals::detached;

#[pyfunction]
#[pyo3(signature = (calls, tried, *, most, slack_ns, one_clock_ns, by_far))]
pub fn call_shifts(
    py: Python<'_>,
    calls: &Bound<'_, PyAny>,
    tried: &Bound<'_, PyAny>,
    most: usize,
    slack_ns: i64,
    one_clock_ns: i64,
    by_far: f64,
) -> PyResult<ArrowTable> {
    let (calls, tried) = (Batches::of(calls)?, Batches::of(tried)?);
    let (series, end) = (calls.values::<UInt32Type>("series")?, calls.values::<Int64Type>("end_ns")?);
    let step: Vec<_> = calls.optional::<Int64Type>("step")?.collect();
    let (own, reference) = (tried.values::<UInt32Type>("series")?, tried.values::<UInt32Type>("reference_series")?);
    let (shift, is_received) = (tried.values::<Int64Type>("shift")?, tried.flags("is_received")?);
    let limits = Limits { most, slack: slack_ns, one_clock: one_clock_ns, by_far };
    let table = detached(py, || {
        let pairs = own.iter().zip(&*reference).zip(shift.iter().zip(is_received));
        let tried: Vec<Tried> = pairs
            .map(|((&series, &reference), (&shift, is_received))| Tried { series, reference, shift, is_received })
            .collect();
        let found = fits(&Calls { series: &series, end: &end, step: &step }, &tried, &limits);
        let counts = |of: fn(&Fit) -> u32| Arc::new(UInt32Array::from_iter_values(found.iter().map(of))) as ArrayRef;
        let values = |of: fn(&Fit) -> f64| Arc::new(Float64Array::from_iter_values(found.iter().map(of))) as ArrayRef;
        batch(
            [
                ("count", counts(|fit| fit.pairs)),
                ("far_count", counts(|fit| fit.far)),
                ("apart_ns", values(|fit| fit.median)),
                ("spread_ns", values(|fit| fit.spread)),
                ("unfit_ratio", values(|fit| fit.unfit)),
                ("other_step_ratio", values(|fit| fit.other_step)),
                ("early_ratio", values(|fit| fit.early)),
            ]
            .map(|(name, values)| (name.to_string(), values))
            .into(),
        )
    });
    table.map(ArrowTable)
}
