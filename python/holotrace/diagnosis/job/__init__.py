"""What the ranks of a job have, or lack, beside each other: candidates, and what the job would gain without each."""
