//! Numbers of the fields that are read, by the names that the messages' declarations give them.
//!
//! Those of XSpace are of `xplane.proto` (OpenXLA's profiler), those of programs of `hlo.proto` and `xla_data.proto`.

/// A map's entry, of any message.
pub mod map_entry {
    pub const KEY: u32 = 1;
    pub const VALUE: u32 = 2;
}

pub mod x_space {
    pub const PLANES: u32 = 1;
    pub const ERRORS: u32 = 2;
    pub const WARNINGS: u32 = 3;
    pub const HOSTNAMES: u32 = 4;
}

pub mod x_plane {
    pub const ID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const LINES: u32 = 3;
    pub const EVENT_METADATA: u32 = 4;
    pub const STAT_METADATA: u32 = 5;
    pub const STATS: u32 = 6;
}

pub mod x_line {
    pub const ID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const TIMESTAMP_NS: u32 = 3;
    pub const EVENTS: u32 = 4;
    pub const DISPLAY_NAME: u32 = 11;
}

pub mod x_event {
    pub const METADATA_ID: u32 = 1;
    pub const OFFSET_PS: u32 = 2;
    pub const DURATION_PS: u32 = 3;
    pub const STATS: u32 = 4;
}

pub mod x_stat {
    pub const METADATA_ID: u32 = 1;
    pub const DOUBLE_VALUE: u32 = 2;
    pub const UINT64_VALUE: u32 = 3;
    pub const INT64_VALUE: u32 = 4;
    pub const STR_VALUE: u32 = 5;
    pub const BYTES_VALUE: u32 = 6;
    pub const REF_VALUE: u32 = 7;
}

pub mod x_event_metadata {
    pub const NAME: u32 = 2;
    pub const DISPLAY_NAME: u32 = 4;
    pub const STATS: u32 = 5;
}

pub mod x_stat_metadata {
    pub const NAME: u32 = 2;
}

pub mod hlo_proto {
    pub const HLO_MODULE: u32 = 1;
    pub const BUFFER_ASSIGNMENT: u32 = 3;
}

pub mod buffer_assignment {
    pub const LOGICAL_BUFFERS: u32 = 1;
    pub const BUFFER_ALLOCATIONS: u32 = 3;
    pub const HEAP_SIMULATOR_TRACES: u32 = 4;
}

pub mod logical_buffer {
    pub const ID: u32 = 1;
    pub const SIZE: u32 = 2;
    pub const DEFINED_AT: u32 = 3;
}

pub mod buffer_location {
    pub const INSTRUCTION_NAME: u32 = 2;
    pub const SHAPE_INDEX: u32 = 3;
    pub const INSTRUCTION_ID: u32 = 4;
}

pub mod buffer_allocation {
    pub const INDEX: u32 = 1;
    pub const SIZE: u32 = 2;
    pub const IS_THREAD_LOCAL: u32 = 3;
    pub const IS_ENTRY_COMPUTATION_PARAMETER: u32 = 5;
    pub const MAYBE_LIVE_OUT: u32 = 7;
    pub const COLOR: u32 = 8;
    pub const ASSIGNED: u32 = 9;
    pub const IS_CONSTANT: u32 = 12;
}

pub mod assigned {
    pub const LOGICAL_BUFFER_ID: u32 = 1;
    pub const OFFSET: u32 = 2;
    pub const SIZE: u32 = 3;
}

pub mod heap_simulator_trace {
    pub const EVENTS: u32 = 1;
}

pub mod heap_event {
    pub const KIND: u32 = 1;
    pub const BUFFER_ID: u32 = 2;
    pub const SHARE_WITH_CANONICAL_ID: u32 = 5;
}

pub mod hlo_module {
    pub const ENTRY_COMPUTATION_NAME: u32 = 2;
    pub const COMPUTATIONS: u32 = 3;
    pub const SCHEDULE: u32 = 7;
    pub const STACK_FRAME_INDEX: u32 = 17;
}

/// Maps from a computation's id to the ids of its instructions, in the order in which they run.
pub mod hlo_schedule {
    pub const SEQUENCES: u32 = 1;
    pub const SEQUENCE: u32 = 2;
    pub const INSTRUCTION_IDS: u32 = 1;
}

pub mod hlo_computation {
    pub const NAME: u32 = 1;
    pub const INSTRUCTIONS: u32 = 2;
    pub const ID: u32 = 5;
    pub const ROOT_ID: u32 = 6;
    pub const IS_FUSION_COMPUTATION: u32 = 7;
}

pub mod hlo_instruction {
    pub const NAME: u32 = 1;
    pub const OPCODE: u32 = 2;
    pub const SHAPE: u32 = 3;
    pub const METADATA: u32 = 7;
    pub const PARAMETER_NUMBER: u32 = 9;
    pub const WINDOW: u32 = 15;
    pub const CONVOLUTION_DIMENSION_NUMBERS: u32 = 16;
    pub const CHANNEL_ID: u32 = 26;
    pub const DOT_DIMENSION_NUMBERS: u32 = 30;
    pub const ID: u32 = 35;
    pub const OPERAND_IDS: u32 = 36;
    pub const CALLED_COMPUTATION_IDS: u32 = 38;
    pub const BACKEND_CONFIG: u32 = 43;
    pub const PRECISION_CONFIG: u32 = 51;
    pub const REPLICA_GROUPS: u32 = 49;
    pub const COLLECTIVE_DEVICE_LIST: u32 = 87;
    pub const IOTA_COLLECTIVE_DEVICE_LIST: u32 = 92;
    pub const MESH_AXES_REPLICA_GROUP_LIST: u32 = 93;
    pub const CUSTOM_CALL_TARGET: u32 = 28;
}

pub mod dot_dimension_numbers {
    pub const LHS_CONTRACTING_DIMENSIONS: u32 = 1;
}

pub mod precision_config {
    pub const OPERAND_PRECISION: u32 = 1;
}

pub mod window {
    pub const DIMENSIONS: u32 = 1;
}

pub mod window_dimension {
    pub const SIZE: u32 = 1;
    pub const STRIDE: u32 = 2;
    pub const PADDING_LOW: u32 = 3;
    pub const WINDOW_DILATION: u32 = 5;
    pub const BASE_DILATION: u32 = 6;
}

pub mod convolution_dimension_numbers {
    pub const KERNEL_INPUT_FEATURE_DIMENSION: u32 = 3;
    pub const KERNEL_SPATIAL_DIMENSIONS: u32 = 6;
    pub const INPUT_SPATIAL_DIMENSIONS: u32 = 11;
    pub const OUTPUT_SPATIAL_DIMENSIONS: u32 = 12;
}

pub mod op_metadata {
    pub const OP_NAME: u32 = 2;
    pub const SOURCE_FILE: u32 = 3;
    pub const SOURCE_LINE: u32 = 4;
    pub const STACK_FRAME_ID: u32 = 15;
}

pub mod replica_group {
    pub const REPLICA_IDS: u32 = 1;
}

pub mod collective_device_list {
    pub const REPLICA_GROUPS: u32 = 1;
    pub const IOTA_REPLICA_GROUP_LIST: u32 = 2;
}

pub mod iota_replica_group_list {
    pub const NUM_REPLICA_GROUPS: u32 = 1;
    pub const NUM_DEVICES_PER_GROUP: u32 = 2;
    pub const IOTA_RESHAPE_DIMS: u32 = 3;
    pub const IOTA_TRANSPOSE_PERM: u32 = 4;
}

pub mod mesh_axes_replica_group_list {
    pub const MESH: u32 = 1;
    pub const AXES: u32 = 2;
}

pub mod mesh {
    pub const AXES: u32 = 1;
    pub const DEVICE_IDS: u32 = 2;
    pub const IOTA_TRANSFORM: u32 = 3;
}

pub mod mesh_axis {
    pub const SIZE: u32 = 2;
}

pub mod iota_transform {
    pub const RESHAPE_DIMS: u32 = 1;
    pub const TRANSPOSE_PERM: u32 = 2;
}

pub mod axis_ref {
    pub const MESH_AXIS_INDEX: u32 = 1;
    pub const SUB_AXIS_INFO: u32 = 2;
}

pub mod sub_axis {
    pub const PRE_SIZE: u32 = 1;
    pub const SIZE: u32 = 2;
}

pub mod shape {
    pub const ELEMENT_TYPE: u32 = 2;
    pub const DIMENSIONS: u32 = 3;
    pub const TUPLE_SHAPES: u32 = 4;
    pub const LAYOUT: u32 = 5;
}

pub mod layout {
    pub const MINOR_TO_MAJOR: u32 = 1;
    pub const TILES: u32 = 6;
    pub const MEMORY_SPACE: u32 = 8;
}

pub mod tile {
    pub const DIMENSIONS: u32 = 1;
}

pub mod stack_frame_index {
    pub const FILE_NAMES: u32 = 1;
    pub const FILE_LOCATIONS: u32 = 3;
    pub const STACK_FRAMES: u32 = 4;
}

pub mod file_location {
    pub const FILE_NAME_ID: u32 = 1;
    pub const LINE: u32 = 3;
}

pub mod stack_frame {
    pub const FILE_LOCATION_ID: u32 = 1;
}
