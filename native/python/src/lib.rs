//! The core for Python: GIL released while it works, Arrow out by PyCapsule.

mod abort;
mod allocator;
mod arrow;
mod call_shifts;
mod call_tree;
mod critical_path;
mod device_graph;
mod error;
mod groups;
mod host_graph;
mod interrupt;
mod intervals;
mod meetings;
mod open_calls;
mod parquet;
mod replay;
mod rewrite;
mod source;
mod timeline;
mod trace_event;
mod xplane;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(allocator::give_back, module)?)?;
    module.add_class::<arrow::ArrowTable>()?;
    module.add_function(wrap_pyfunction!(abort::say_on_abort, module)?)?;
    module.add_class::<trace_event::Trace>()?;
    module.add_function(wrap_pyfunction!(call_shifts::call_shifts, module)?)?;
    module.add_function(wrap_pyfunction!(call_tree::call_tree, module)?)?;
    module.add_function(wrap_pyfunction!(call_tree::outermost_calls, module)?)?;
    module.add_function(wrap_pyfunction!(call_tree::sums_at, module)?)?;
    module.add_function(wrap_pyfunction!(call_tree::covered_at, module)?)?;
    module.add_class::<critical_path::StepGraph>()?;
    module.add_function(wrap_pyfunction!(critical_path::step_graph, module)?)?;
    module.add_function(wrap_pyfunction!(groups::levels, module)?)?;
    module.add_function(wrap_pyfunction!(groups::first_rows, module)?)?;
    module.add_function(wrap_pyfunction!(groups::gaps, module)?)?;
    module.add_function(wrap_pyfunction!(groups::held_up, module)?)?;
    module.add_function(wrap_pyfunction!(groups::order, module)?)?;
    module.add_function(wrap_pyfunction!(groups::runs, module)?)?;
    module.add_function(wrap_pyfunction!(groups::rows_of, module)?)?;
    module.add_function(wrap_pyfunction!(groups::spans_at, module)?)?;
    module.add_function(wrap_pyfunction!(device_graph::device_graph, module)?)?;
    module.add_function(wrap_pyfunction!(host_graph::host_graph, module)?)?;
    module.add_function(wrap_pyfunction!(intervals::covered_before, module)?)?;
    module.add_function(wrap_pyfunction!(intervals::uncovered, module)?)?;
    module.add_function(wrap_pyfunction!(intervals::union, module)?)?;
    module.add_function(wrap_pyfunction!(intervals::unions, module)?)?;
    module.add_function(wrap_pyfunction!(intervals::subtract, module)?)?;
    module.add_function(wrap_pyfunction!(intervals::intersect, module)?)?;
    module.add_function(wrap_pyfunction!(intervals::total, module)?)?;
    module.add_function(wrap_pyfunction!(intervals::first_covered, module)?)?;
    module.add_class::<meetings::Meetings>()?;
    module.add_function(wrap_pyfunction!(open_calls::open_calls, module)?)?;
    module.add_function(wrap_pyfunction!(trace_event::read_trace_event, module)?)?;
    module.add_function(wrap_pyfunction!(parquet::write_parquet, module)?)?;
    module.add_function(wrap_pyfunction!(rewrite::rewrite_trace_event, module)?)?;
    module.add_function(wrap_pyfunction!(timeline::write_timeline, module)?)?;
    module.add_function(wrap_pyfunction!(trace_event::checksum, module)?)?;
    module.add_function(wrap_pyfunction!(trace_event::read_ends, module)?)?;
    module.add_class::<replay::Replay>()?;
    module.add_function(wrap_pyfunction!(replay::replay, module)?)?;
    module.add_function(wrap_pyfunction!(replay::same_activities, module)?)?;
    module.add_function(wrap_pyfunction!(replay::usual_times, module)?)?;
    module.add_function(wrap_pyfunction!(replay::wait_causes, module)?)?;
    module.add_class::<xplane::Space>()?;
    module.add_function(wrap_pyfunction!(xplane::read_xplane, module)?)?;
    module.add_function(wrap_pyfunction!(xplane::read_xplane_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(xplane::profile_times, module)?)?;
    Ok(())
}
