"""Traces: recorded operation calls over named buffers, with what each call must give (docs/traces.md). No PyTorch needed.

`read` a file, make `Trace.buffers()`, look at them as numpy arrays or through DLPack, `write` a file. `recoverssm.trace.replay` runs one
through recoverssm.ops, `recoverssm.record` makes them of a live run, `python -m recoverssm.trace` looks at them.
"""

from ._buffer import Buffer, view
from ._file import DTYPES, Malformed, Trace, read

__all__ = ["DTYPES", "Buffer", "Malformed", "Trace", "read", "view"]
