"""The analyses behind TraceAnalysis, one class per subject."""
