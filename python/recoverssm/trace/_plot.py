"""One trace as a figure."""

from __future__ import annotations

from os import PathLike

import numpy as np

from ..errors import InvalidArgument
from ._buffer import view
from ._file import Trace
from ._summary import rows_of, views

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError(f"recoverssm.trace plot needs matplotlib: {error}") from error


def plot(trace: Trace, path: str | PathLike[str], call: int = 0) -> None:
    """Draws one call, the first by default, into a file, SVG or PNG by its name: tokens of each row, kept ones where the call names them;
    and how large the values of every floating argument are before the call, by its first dimension (tokens or blocks).

    Raises InvalidArgument for another kind of file or a call that is not there.
    """
    if not str(path).endswith((".svg", ".png")):
        raise InvalidArgument(f"plot: {path}, expected a name that ends in .svg or .png")
    calls = trace.document["calls"]
    if not 0 <= call < len(calls):
        raise InvalidArgument(f"plot: call {call}, expected one of {len(calls)}")
    buffers, chosen = trace.buffers(), calls[call]
    drawn = [(name, values) for name, where in views(chosen["args"]) if _drawable(values := view(buffers, where))]
    figure = Figure(figsize=(9, 3 + 0.45 * len(drawn)), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[2.2, 0.8 + 0.45 * len(drawn)])
    figure.suptitle(f"{trace.name}: {chosen['op']}")
    _rows(above, list(rows_of(chosen, buffers)))
    _values(below, drawn)
    figure.savefig(path)


def _drawable(values: np.ndarray) -> bool:
    return values.size > 0 and values.ndim > 0 and values.dtype.kind not in "iub"


def _rows(axes, parts) -> None:
    first = 0
    named = False
    for rows in parts:
        places = first + np.arange(len(rows.lengths))
        axes.bar(places, rows.lengths, color="tab:blue" if rows.kind == "plain" else "tab:orange", label=f"{rows.kind} rows")
        if rows.accepted is not None:
            axes.plot(places, rows.accepted, "k_", markersize=14, label=None if named else "num_accepted")
            named = True
        first += len(places)
    axes.set(xlabel="row", ylabel="tokens")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.xaxis.get_major_locator().set_params(integer=True)
    if first:
        axes.legend(fontsize="small")
    else:
        axes.text(0.5, 0.5, "no rows", transform=axes.transAxes, ha="center")


def _values(axes, drawn) -> None:
    """Largest finite |value| of each entry of the first dimension, one line of pixels an argument."""
    cells = 256
    image = np.full((max(len(drawn), 1), cells), np.nan)
    for line, (_, values) in enumerate(drawn):
        with np.errstate(invalid="ignore"):
            size = np.abs(values.astype(np.float64)).reshape(len(values), -1)
        largest = np.where(np.isfinite(size), size, 0).max(1)
        image[line] = largest[np.arange(cells) * len(largest) // cells]
    with np.errstate(divide="ignore"):
        shown = axes.imshow(np.log10(image), aspect="auto", interpolation="nearest", extent=(0, 1, len(image), 0))
    axes.set_yticks(np.arange(len(drawn)) + 0.5, [f"{name} [{len(values)}]" for name, values in drawn], fontsize="small")
    axes.set(xlabel="place in the first dimension (tokens, blocks)", xticks=[0, 1], xticklabels=["first", "last"])
    axes.figure.colorbar(shown, ax=axes, label="log10 of largest |value|")
