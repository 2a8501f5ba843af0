"""From symptoms to causes: what a rank did while its device stood still, and what the job would gain without it."""
