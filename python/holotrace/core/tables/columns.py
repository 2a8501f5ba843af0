"""Columns that several tables share."""

from __future__ import annotations

from holotrace.core.schema import Column, Unit

RANK = Column("rank", Unit.RANK, "Rank the row belongs to")
EVENT_ID = Column("event_id", Unit.EVENT, "Position of the event in its file, from 0")
CATEGORY = Column("category", Unit.LABEL, "Category as the profiler wrote it, e.g. kernel, cpu_op")
NAME = Column("name", Unit.LABEL, "Name as the profiler wrote it; null if it wrote none")
PID = Column("pid", Unit.LABEL, "Process (host events) or device, as written")
TID = Column("tid", Unit.LABEL, "Thread (host events) or stream, as written")
START = Column("start_ns", Unit.NS, "Start; exact, on the clock of the file")
END = Column("end_ns", Unit.NS, "End, exclusive; equal to start_ns where no duration was recorded")
TIME = Column("time_ns", Unit.NS, "When; exact, on the clock of the file")
STEP = Column("step", Unit.STEP, "Training step; null outside of all steps")
DEVICE = Column("device", Unit.NUMBER, "Ordinal of the accelerator")
PLANE = Column("plane", Unit.LABEL, "Plane of the profile it is in, e.g. /device:TPU:0; /host:CPU for CPU devices")
MODULE_ID = Column("module_id", Unit.EVENT, "Number of the execution of the program, from 0 in each rank")
MODULE = Column("module", Unit.LABEL, "Name of the compiled program, e.g. jit_train_step")
PROGRAM = Column("program", Unit.UNSIGNED, "Id of the compiled program (program_id)")
RUN = Column("run", Unit.NUMBER, "Id that the runtime gave the execution (run_id); the same on all its devices")
LAUNCH_ID = Column("launch_id", Unit.EVENT, "event_id of the host call that started it; null if unknown")
LAUNCH_NS = Column("launch_ns", Unit.NS, "Start of that host call")
SPAN = (EVENT_ID, CATEGORY, NAME, PID, TID, START, END)
