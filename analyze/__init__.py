"""Questions asked of a run: SQL, and the few algorithms SQL is slow at."""

from .run import Run

__all__ = ["Run"]
