"""What runs inside the training process: the step timer, loader timing and torch.profiler windows.

It never raises into the loop and never changes what the loop computes. Of the rest of Stepscope it knows
only the layout of a run (``ingest.schema``, ``ingest.writer``).
"""

from .loop import profile, watch
from .windows import Window, every

__all__ = ["Window", "every", "profile", "watch"]
