"""A sample job with known flaws: traces as PyTorch writes them, and the truth about what is in them."""

from holotrace.sample.faults import KINDS, Fault
from holotrace.sample.job import Truth, simulated_ns, write

__all__ = ["KINDS", "Fault", "Truth", "simulated_ns", "write"]
