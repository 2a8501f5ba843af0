"""Defaults of HTA's interface."""

from __future__ import annotations

DEFAULT_TRACE_DIR = "/tmp/trace"
