"""Line charts as SVG, without a library: axes, a line and a name for each series, readable on light and dark pages. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 48, 130, 30, 36
COLOURS: Final = (
    "#2563eb",
    "#d97706",
    "#6b7280",
    "#059669",
    "#dc2626",
)  # told apart by the colour-blind too, first to third
GREY: Final = "#8a8f98"


def lines(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    across: str,
    up: str,
    top: float,
    mark: float | None = None,
) -> str:
    """`series`: points (x, y) by name. `mark`: a vertical line at this x. `top`: the largest y that is drawn."""
    right = max(x for points in series.values() for x, _ in points)
    parts = [_head(title), *_axes(right, top, across, up)]
    if mark is not None:
        parts.append(_line([(mark, 0), (mark, top)], right, top, GREY, dashes="3 3"))
    for index, (name, points) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        parts.append(_line(points, right, top, colour))
        parts.append(_text(WIDTH - RIGHT + 10, TOP + 14 + 18 * index, name, colour))
    return "\n".join([*parts, "</svg>\n"])


def _place(x: float, y: float, right: float, top: float) -> tuple[float, float]:
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    return LEFT + x / right * wide, TOP + (1 - min(y, top) / top) * high


def _head(title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" role="img">\n'
        f"<title>{escape(title)}</title>\n" + _text(LEFT, 16, title, GREY)
    )


def _axes(right: float, top: float, across: str, up: str) -> list[str]:
    parts = []
    for step in range(5):
        y = top * step / 4
        (x0, at), (x1, _) = _place(0, y, right, top), _place(right, y, right, top)
        parts.append(
            f'<line x1="{x0:.1f}" y1="{at:.1f}" x2="{x1:.1f}" y2="{at:.1f}" stroke="{GREY}" stroke-opacity="0.35"/>'
        )
        parts.append(_text(x0 - 6, at + 4, f"{y:g}", GREY, anchor="end"))
        x, bottom = _place(right * step / 4, 0, right, top)
        parts.append(_text(x, bottom + 16, f"{right * step / 4:g}", GREY, anchor="middle"))
    middle, bottom = _place(right / 2, 0, right, top)
    parts.append(_text(middle, bottom + 31, across, GREY, anchor="middle"))
    parts.append(_text(6, TOP - 2, up, GREY))
    return parts


def _line(points: Sequence[tuple[float, float]], right: float, top: float, colour: str, *, dashes: str = "") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (_place(*point, right, top) for point in points))
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>'


def _text(x: float, y: float, text: str, colour: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
