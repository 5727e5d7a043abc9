"""Draws a result: how much better or worse than Apache Kafka, one bar per measure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.model import Kind, Row

_MET, _MISSED, _TARGET = "#2a7f9e", "#c8553d", "#333333"


def draw(path: Path, rows: Sequence[Row]) -> None:
    """A PNG of ratios on a logarithmic axis: 1 is Apache Kafka, the tick on a bar its target."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    compared = [row for row in rows if row.criterion.kind is not Kind.BARE]
    shown = [row for row in compared if row.apache and row.penstock][::-1]
    figure, axes = pyplot.subplots(figsize=(11, 1.2 + 0.32 * len(shown)))
    for at, row in enumerate(shown):
        judged = row.medians[1] if row.criterion.kind in (Kind.OWN_MAX, Kind.OWN_MIN) else row.ratio
        axes.barh(at, judged - 1, left=1, color=_MET if row.ok else _MISSED, height=0.62)
        axes.plot([row.criterion.bound] * 2, [at - 0.4, at + 0.4], color=_TARGET, linewidth=2)
        axes.annotate(
            f"{judged:.2f}", (judged, at), xytext=(-4 if judged < 1 else 4, 0),
            textcoords="offset points", va="center", ha="right" if judged < 1 else "left",
            fontsize=8,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.axvline(1, color=_TARGET, linewidth=0.8)
    axes.set_yticks(range(len(shown)), [_label(row) for row in shown], fontsize=8)
    axes.set_xlabel("Penstock / Apache Kafka (throughput: more is better; all else: less is)")
    axes.margins(x=0.12, y=0.01)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _label(row: Row) -> str:
    return f"{row.case.title}: {row.criterion.title}"
