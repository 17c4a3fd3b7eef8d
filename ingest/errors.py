"""The one exception type that reaches a user: a sentence with the way out, and an exit code."""

from __future__ import annotations


class StepscopeError(Exception):
    """An expected failure, told in one sentence that names the file and the way out.

    Args:
        sentence: What happened and what to do about it.
        exit_code: The command line's exit status, 1 (nothing usable) unless it is a usage error (2).
    """

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
