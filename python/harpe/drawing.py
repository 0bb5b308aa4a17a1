"""Pictures and tables of notebooks. They take the text's colour of where they are shown, so that
they read on dark and on light pages alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["frontier_picture", "html_paragraph", "html_table"]

_WIDTH, _HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 620, 34, 274
_MOST_POINTS = 400
# From Okabe and Ito: distinguishable with colour blindness, and on black and on white.
_ACCENTS = {"all-max": "#d55e00", "chosen": "#0096c7"}


def frontier_picture(
    bound: Sequence[tuple[float, float]],
    marks: Sequence[tuple[str, float, float]],
    title: str,
) -> str:
    """Returns the frontier of time (s) and energy (J) as SVG, with some plans marked."""
    if not bound:
        return ""
    # Beyond the least energy a plan only wastes time.
    least = min(range(len(bound)), key=lambda i: bound[i][1])
    curve = list(bound[: least + 1])
    step = max(1, len(curve) // _MOST_POINTS)
    curve = [point for i, point in enumerate(curve) if i % step == 0 or i == len(curve) - 1]
    across = _Axis([x for x, _ in curve] + [x for _, x, _ in marks], _LEFT, _RIGHT)
    up = _Axis([y for _, y in curve] + [y for _, _, y in marks], _BOTTOM, _TOP)
    unit, scale = ("kJ", 1e-3) if up.high >= 1e4 else ("J", 1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'style="max-width:{_WIDTH}px;width:100%;color:inherit" font-family="system-ui,sans-serif" '
        f'font-size="12" fill="currentColor"><title>{escape(title)}</title>',
        f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="currentColor" '
        'stroke-opacity=".4"/>',
    ]
    for value in across.ticks():
        parts.append(
            f'<text x="{across.at(value):.1f}" y="{_BOTTOM + 18}" text-anchor="middle">'
            f"{_number(value, across.step)}</text>"
        )
    for value in up.ticks():
        parts.append(
            f'<path d="M{_LEFT} {up.at(value):.1f}H{_RIGHT}" stroke="currentColor" '
            'stroke-opacity=".12"/>'
            f'<text x="{_LEFT - 8}" y="{up.at(value) + 4:.1f}" text-anchor="end">'
            f"{_number(value * scale, up.step * scale)}</text>"
        )
    line = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in curve)
    parts += [
        f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="1.6"/>',
        f'<text x="{_LEFT}" y="{_TOP - 14}">iteration energy, {unit}: no plan needs less than the '
        "line</text>",
        f'<text x="{_RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">iteration time, s</text>',
        *(_mark(across.at(x), up.at(y), name) for name, x, y in marks),
        "</svg>",
    ]
    return "".join(parts)


def html_paragraph(text: str, warns: bool = False) -> str:
    """Returns a line of text; a warning is highlighted, in the text's own colour."""
    warning = f"border-left:4px solid {_ACCENTS['all-max']};padding-left:8px;font-weight:600;"
    style = warning if warns else ""
    return f'<p style="{style}margin:4px 0">{escape(text)}</p>'


def html_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], marked: int | None = None
) -> str:
    """Returns a table; the first column is text, the others are numbers."""

    def cell(tag: str, text: str, position: int, bold: bool) -> str:
        side = "left" if position == 0 else "right"
        style = f"text-align:{side};padding:2px 10px;white-space:nowrap"
        weight = ";font-weight:600" if bold else ""
        return f'<{tag} style="{style}{weight}">{escape(text)}</{tag}>'

    head = "".join(cell("th", text, i, True) for i, text in enumerate(heads))
    body = "".join(
        "<tr>"
        + "".join(cell("td", text, i, row == marked) for i, text in enumerate(cells))
        + "</tr>"
        for row, cells in enumerate(rows)
    )
    return (
        '<table style="border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _mark(x: float, y: float, name: str) -> str:
    colour = _ACCENTS.get(name, "currentColor")
    anchor, shift = ("end", -9) if x > (_LEFT + _RIGHT) / 2 else ("start", 9)
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>'
        f'<text x="{x + shift:.1f}" y="{y - 6:.1f}" text-anchor="{anchor}" '
        f'font-weight="600">{escape(name)}</text>'
    )


class _Axis:
    """Maps values to positions in a picture."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self.low, self.high = min(values), max(values)
        if self.high <= self.low:
            self.low, self.high = self.low - 1, self.high + 1
        margin = 0.06 * (self.high - self.low)
        self.low, self.high = self.low - margin, self.high + margin
        self.begin, self.end = begin, end
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        self.step = next(power * step for step in (1, 2, 5, 10) if power * step >= rough * 0.999)

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> list[float]:
        first = math.ceil(self.low / self.step)
        last = math.floor(self.high / self.step)
        return [i * self.step for i in range(first, last + 1)]


def _number(value: float, step: float) -> str:
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:.{decimals}f}"
