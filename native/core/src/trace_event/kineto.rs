//! What PyTorch puts into a trace: which class of thing a category is, and which table holds it.

/// What an event with a duration is, by its category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Ran or waited on an accelerator's queue.
    Device,
    /// Host call into the accelerator's runtime or driver.
    Runtime,
    CpuOp,
    /// Range named by a user or library, on the host.
    Annotation,
    /// The same, over device work.
    DeviceAnnotation,
    Python,
    /// Device work that hardware counters were read around.
    Profiled,
    Other,
}

/// All classes, in the order of their numbers.
pub const CLASS: [Class; CLASSES] = [
    Class::Device,
    Class::Runtime,
    Class::CpuOp,
    Class::Annotation,
    Class::DeviceAnnotation,
    Class::Python,
    Class::Profiled,
    Class::Other,
];

pub const CLASSES: usize = Class::Other as usize + 1;

/// The class of `category`, in the spellings of all releases: today's, and those of PyTorch up to 1.11.
pub fn class_of(category: &[u8]) -> Class {
    let category = category.to_ascii_lowercase();
    match category.as_slice() {
        b"kernel" | b"gpu_memcpy" | b"gpu_memset" | b"memcpy" | b"memset" | b"cuda_sync" | b"xpu_sync"
        | b"mtia_ccp_events" | b"hpu_op" | b"collective_comm" | b"gpu_op" => Class::Device,
        b"cpu_op" | b"operator" => Class::CpuOp,
        b"user_annotation" => Class::Annotation,
        b"gpu_user_annotation" => Class::DeviceAnnotation,
        b"python_function" => Class::Python,
        b"cuda_profiler_range" => Class::Profiled,
        b"runtime" | b"driver" => Class::Runtime,
        name if name.ends_with(b"_runtime") || name.ends_with(b"_driver") => Class::Runtime,
        _ => Class::Other,
    }
}

/// How the name of a training step begins.
pub const STEP: &[u8] = b"ProfilerStep";

/// Number of a training step, from the name its annotation carries.
pub fn step_number(name: &[u8]) -> Option<i64> {
    let digits = name.strip_prefix(STEP)?.trim_ascii().strip_prefix(b"#")?.trim_ascii();
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The tables that can be asked for, and what must be kept for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    Events,
    DeviceEvents,
    CpuOps,
    Launches,
    Collectives,
    Steps,
    Annotations,
    PythonCalls,
    RuntimeCalls,
    Instants,
    Counters,
    HardwareCounters,
    Memory,
    Flows,
    TrackLabels,
    Problems,
}

impl Table {
    pub const ALL: [(&'static str, Table); 16] = [
        ("events", Table::Events),
        ("device_events", Table::DeviceEvents),
        ("cpu_ops", Table::CpuOps),
        ("launches", Table::Launches),
        ("collectives", Table::Collectives),
        ("steps", Table::Steps),
        ("annotations", Table::Annotations),
        ("python_calls", Table::PythonCalls),
        ("runtime_calls", Table::RuntimeCalls),
        ("instants", Table::Instants),
        ("counters", Table::Counters),
        ("hardware_counters", Table::HardwareCounters),
        ("memory", Table::Memory),
        ("flows", Table::Flows),
        ("track_labels", Table::TrackLabels),
        ("problems", Table::Problems),
    ];

    pub fn named(name: &str) -> Option<Table> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, table)| *table)
    }

    /// Whether events of `class` belong to this table, or are needed to make it.
    pub fn holds(self, class: Class) -> bool {
        match self {
            // Arrows end at events of any class.
            Table::Events | Table::Flows => true,
            Table::DeviceEvents | Table::Launches => matches!(class, Class::Device | Class::Runtime),
            Table::CpuOps => class == Class::CpuOp,
            // Backends of hosts have ranges for them.
            Table::Collectives => matches!(class, Class::Device | Class::CpuOp | Class::Annotation),
            // Old releases wrote steps as operators.
            Table::Steps => matches!(class, Class::Annotation | Class::CpuOp),
            Table::Annotations => matches!(class, Class::Annotation | Class::DeviceAnnotation),
            Table::PythonCalls => class == Class::Python,
            Table::RuntimeCalls => class == Class::Runtime,
            Table::HardwareCounters => class == Class::Profiled,
            Table::Instants | Table::Counters | Table::Memory | Table::TrackLabels | Table::Problems => false,
        }
    }

    /// Whether args of the events it holds may be among its columns.
    pub fn has_args(self) -> bool {
        !matches!(self, Table::Steps | Table::Annotations | Table::Flows | Table::HardwareCounters)
    }
}

/// Longer than any recording; a duration beyond it comes from a counter that ran over (a week).
pub const MAX_DURATION_NS: i64 = 7 * 24 * 3_600 * 1_000_000_000;
/// 146 years, so that what lies between any start and any end fits in 64 bits.
pub const MAX_TIME_NS: i64 = (1 << 62) - 1 - MAX_DURATION_NS;
pub const MIN_TIME_NS: i64 = -MAX_TIME_NS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_of_all_releases_have_their_class() {
        for (category, class) in [
            ("kernel", Class::Device),
            ("Kernel", Class::Device),
            ("gpu_memcpy", Class::Device),
            // Of Intel's unitrace.
            ("gpu_op", Class::Device),
            ("cuda_runtime", Class::Runtime),
            ("Runtime", Class::Runtime),
            ("xpu_runtime", Class::Runtime),
            ("privateuse1_driver", Class::Runtime),
            ("Operator", Class::CpuOp),
            ("gpu_user_annotation", Class::DeviceAnnotation),
            ("cuda_profiler_range", Class::Profiled),
            ("Trace", Class::Other),
        ] {
            assert_eq!(class_of(category.as_bytes()), class, "{category}");
        }
    }

    #[test]
    fn a_step_has_a_number() {
        assert_eq!(step_number(b"ProfilerStep#12"), Some(12));
        assert_eq!(step_number(b"ProfilerStep # 3"), Some(3));
        assert_eq!(step_number(b"ProfilerStep*"), None);
        assert_eq!(step_number(b"step#1"), None);
    }
}
