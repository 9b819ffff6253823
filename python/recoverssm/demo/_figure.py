"""The demo's figure: what was accepted, and what a request takes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from .. import Sizes
from ._measure import Run


def draw(path: Path, runs: list[Run], sizes: list[Sizes], layers: int) -> None:
    """Writes an SVG or PNG, by the path's suffix. runs: those with drafts. sizes: of a layer, for 0, 1, 2, ... drafts."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    width = 0.8 / len(runs)
    for place, run in enumerate(runs):
        counts = Counter(run.accepted)
        most = max(run.drafts)
        share = [100 * counts[kept] / run.forwards for kept in range(most + 1)]
        left.bar([kept + (place - (len(runs) - 1) / 2) * width for kept in range(most + 1)], share, width, label=run.name)
    left.set(title="Accepted drafts", xlabel="drafts accepted in a forward", ylabel="forwards [%]")
    left.legend()

    drafts = range(len(sizes))
    mebibytes = layers / 2**20
    right.plot(drafts, [size.snapshots * mebibytes for size in sizes], "o-", label="a state a token")
    right.plot(drafts, [size.page_anchored * mebibytes for size in sizes], "s-", label="one state and records (recoverssm)")
    right.set(title="Memory per request, recurrent layers", xlabel="drafts", ylabel="MiB", ylim=(0, None))
    right.legend()
    for axes in (left, right):
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.savefig(path)
    pyplot.close(figure)
