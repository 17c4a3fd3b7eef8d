"""``python -m stepscope.cli``."""

from . import main

main()
