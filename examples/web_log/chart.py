"""A picture of counts over time: stacked columns, one colour per section, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 900, 320
LEFT, RIGHT, TOP, BOTTOM = 60, 150, 40, 40
COLOURS = ("#2f6690", "#81c3d7", "#d9b44a", "#4f9d69", "#a23b72", "#6b8f71")


def draw(title: str, times: Sequence[str], counts: Mapping[str, Sequence[float]]) -> str:
    """The picture. `counts` holds, for each section, one number per time."""
    totals = [sum(column[at] for column in counts.values()) for at in range(len(times))]
    top = max(totals, default=0) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        '  font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
    ]
    parts += _scale(top)
    step = (WIDTH - LEFT - RIGHT) / max(len(times), 1)
    floor = [0.0] * len(times)
    for colour, (name, column) in enumerate(counts.items()):
        fill = COLOURS[colour % len(COLOURS)]
        for at, value in enumerate(column):
            parts.append(_box(LEFT + at * step, step * 0.85, floor[at], value, top, fill))
            floor[at] += value
        y = TOP + 16 * colour
        parts.append(
            f'<rect x="{WIDTH - RIGHT + 15}" y="{y}" width="11" height="11" fill="{fill}"/>'
        )
        parts.append(f'<text x="{WIDTH - RIGHT + 32}" y="{y + 10}">{escape(name)}</text>')
    every = max(1, len(times) // 8)
    for at in range(0, len(times), every):
        parts.append(
            f'<text x="{LEFT + at * step:.0f}" y="{HEIGHT - 18}">{escape(times[at])}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _scale(top: float) -> list[str]:
    lines = []
    for quarter in range(5):
        y = _height(top * quarter / 4, top)
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        )
        lines.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{top * quarter / 4:,.0f}</text>"
        )
    return lines


def _box(x: float, width: float, floor: float, value: float, top: float, fill: str) -> str:
    upper, lower = _height(floor + value, top), _height(floor, top)
    return (
        f'<rect x="{x:.1f}" y="{upper:.1f}" width="{width:.1f}" '
        f'height="{lower - upper:.1f}" fill="{fill}"/>'
    )


def _height(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top
