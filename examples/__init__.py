"""Small real training scripts, for the docs and for ``stepscope demo``."""
