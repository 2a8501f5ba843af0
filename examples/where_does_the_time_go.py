"""Print where the time of a job goes and what the rules find: python where_does_the_time_go.py FOLDER."""

from __future__ import annotations

import sys

import holotrace

job = holotrace.open(sys.argv[1])
print(job.time_breakdown())
for finding in job.findings():
    print(f"{finding.severity}: {finding.message}")
