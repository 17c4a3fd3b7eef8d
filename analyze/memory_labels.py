"""What a block was, told by the stack that allocated it: category, phase, place.

Rules stand in the order in which they are tried, the first that any frame fits wins. They tell what PyTorch's own
frames tell and nothing more: what no rule fits is ``unknown``.
"""

from __future__ import annotations

import re
from functools import cache

from ..ingest.snapshot import Stack
from .memory_tables import Label

# (pattern over a frame, category, phase)
_RULES = (
    (r"^_init_group \(.*torch/optim/", "optimizer", "optimizer"),
    (r" \(.*torch/optim/\w+\.py:", "temporary", "optimizer"),
    (r"AccumulateGrad", "gradient", "backward"),
    (r"^_engine_run_backward |torch::autograd::Engine|^backward \(.*torch/autograd/", "unknown", "backward"),
    (r" \(.*torch/utils/data/|^pin_memory |^_pin_memory_loop ", "input", "input"),
    (r"^(reset_parameters|_apply|to_empty) \(.*torch/nn/modules/", "parameter", "setup"),
    (r"^__init__ \(.*torch/nn/modules/", "parameter", "setup"),
    (r"^(_call_impl|_wrapped_call_impl) \(.*torch/nn/modules/module\.py", "activation", "forward"),
    (r" \(.*torch/nn/functional\.py:", "activation", "forward"),
)
_COMPILED = [(re.compile(pattern), category, phase) for pattern, category, phase in _RULES]
_NONE = (None, "unknown", "")
_LIBRARY = re.compile(r"\(.*(/torch/|site-packages/|\.cpp:|\.cu:|\.h:|\?\?)|^(torch|c10|at|__libc|Py|_Py)(::|_)?")
SHOWN = 40  # frames of a stack that are kept


@cache
def _rule(frame: str) -> int:
    """Return the number of the first rule that a frame fits, that of ``_NONE`` when it fits none."""
    return next((i for i, (pattern, _, _) in enumerate(_COMPILED) if pattern.search(frame)), len(_COMPILED))


@cache
def _of_library(frame: str) -> bool:
    return _LIBRARY.search(frame) is not None


def label_of(stack: Stack) -> Label:
    """Return what a stack tells of the blocks it allocated; ``place`` is its innermost frame outside of libraries."""
    first = min(map(_rule, stack), default=len(_COMPILED))
    _, category, phase = (*_COMPILED, _NONE)[first]
    place = next((frame for frame in stack if not _of_library(frame)), stack[0] if stack else "")
    return Label(category, phase, place, "\n".join(stack[:SHOWN]))
