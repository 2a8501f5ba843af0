"""``python -m holotrace``: the command where no script is installed."""

from holotrace.cli import start

start()
