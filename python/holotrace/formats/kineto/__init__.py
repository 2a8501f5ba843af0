"""PyTorch Profiler (Kineto) traces: trace-event JSON."""
