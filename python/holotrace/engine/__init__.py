"""Questions to all ranks of a job, and what answers them."""
