"""``python -m stepscope``."""

from .cli import main

main()
