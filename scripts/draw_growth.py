#!/usr/bin/env python3
"""Draws docs/pictures/growth.svg: seconds of the sweep over instructions, both logarithmic.

usage: solver_bench --growth | scripts/draw_growth.py
"""

import math
import pathlib
import sys

OUT = pathlib.Path(__file__).resolve().parent.parent / "docs/pictures/growth.svg"
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 380, 70, 24, 30, 52


def read(lines):
    """Returns (instructions, steps, seconds) of every row of the benchmark."""
    rows = []
    for line in lines:
        words = line.split()
        if len(words) > 8 and words[0].isdigit() and words[1] == "x":
            rows.append((int(words[3]), int(words[5]), float(words[7])))
    return rows


def draw(rows):
    low_x, high_x = math.log2(rows[0][0]), math.log2(rows[-1][0])
    low_y, high_y = -2, 2  # powers of ten of a second

    def x(instructions):
        share = (math.log2(instructions) - low_x) / (high_x - low_x)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(seconds):
        share = (math.log10(seconds) - low_y) / (high_y - low_y)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="13" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for power in range(low_y, high_y + 1):
        at = y(10.0**power)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        label = f"{10**power:g} s" if power >= 0 else f"{10**(power + 3):g} ms"
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for power in range(round(low_x), round(high_x) + 1):
        at = x(2.0**power)
        parts.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eee"/>')
        parts.append(
            f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{2**power:,}</text>'
        )
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
        "instructions of one iteration</text>"
    )
    line = " ".join(f"{x(n):.1f},{y(s):.1f}" for n, _, s in rows)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f6feb" stroke-width="2"/>')
    for n, steps, seconds in rows:
        parts.append(f'<circle cx="{x(n):.1f}" cy="{y(seconds):.1f}" r="4" fill="#1f6feb"/>')
        last = n == rows[-1][0]
        anchor = "end" if last else "start"
        # Below the point or next to it, but not on an axis.
        low = y(seconds) + 16 > HEIGHT - BOTTOM
        right, down = (0, -12) if last else (24, 2) if low else (8, 16)
        parts.append(
            f'<text x="{x(n) + right:.1f}" y="{y(seconds) + down:.1f}" '
            f'text-anchor="{anchor}" '
            f'font-size="11" fill="#666">{steps:,} steps</text>'
        )
    parts.append("</svg>\n")
    return "\n".join(parts)


def main():
    rows = read(sys.stdin)
    if len(rows) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    OUT.write_text(draw(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
