"""``python -m holotrace.cli``: the command where no script is installed."""

from holotrace.cli import main

main(prog_name="holotrace")
