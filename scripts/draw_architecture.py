#!/usr/bin/env python3
"""Draws docs/architecture.svg, the floors and rooms of the house, from src/harpe/floors.txt.

    draw_architecture.py           writes docs/architecture.svg
    draw_architecture.py --check   exits 1 when the file is not what would be written
"""

import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "architecture.svg"

WIDTH, MARGIN, GAP = 1120, 24, 12
LABEL, FLOOR_HEIGHT, HEADER = 48, 76, 50

def read_floors(path=ROOT / "src" / "harpe" / "floors.txt"):
    """[(floor, room, what it knows)], as in the file."""
    rooms = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            floor, room, knows = line.split(maxsplit=2)
            rooms.append((int(floor), room, knows))
    return rooms


def wrap(text, width):
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def draw():
    rooms = read_floors()
    floors = sorted({floor for floor, _, _ in rooms}, reverse=True)
    height = HEADER + len(floors) * (FLOOR_HEIGHT + GAP) - GAP + MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' role="img" aria-label="The floors and rooms of Harpe"'
        ' font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">',
        # Its own light background keeps the picture legible on a dark page.
        f'<rect width="{WIDTH}" height="{height}" rx="12" fill="#f6f8fa"/>',
        f'<text x="{MARGIN}" y="30" font-size="17" font-weight="600" fill="#1f2328">'
        "A room includes only rooms on lower floors</text>",
    ]
    for row, floor in enumerate(floors):
        top = HEADER + row * (FLOOR_HEIGHT + GAP)
        here = [(room, knows) for number, room, knows in rooms if number == floor]
        out.append(f'<rect x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" height="{FLOOR_HEIGHT}" rx="8"'
                   ' fill="#ffffff" stroke="#d0d7de"/>')
        out.append(f'<text x="{MARGIN + 14}" y="{top + 45}" font-size="20" font-weight="600" fill="#57606a">{floor}</text>')
        left = MARGIN + LABEL
        width = (WIDTH - MARGIN - left - GAP - (len(here) - 1) * GAP) / len(here)
        for column, (room, knows) in enumerate(here):
            x = left + column * (width + GAP)
            out.append(f'<rect x="{x:.0f}" y="{top + 8}" width="{width:.0f}" height="{FLOOR_HEIGHT - 16}" rx="6"'
                       ' fill="#dbe9ff" stroke="#2f6fde"/>')
            out.append(f'<text x="{x + 12:.0f}" y="{top + 27}" font-size="14" font-weight="600" fill="#1f2328">{room}</text>')
            for number, line in enumerate(wrap(knows, int((width - 20) / 6.0))[:2]):
                out.append(f'<text x="{x + 12:.0f}" y="{top + 43 + 14 * number}" font-size="11.5" fill="#424a53">'
                           f"{escape(line)}</text>")
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    picture = draw()
    if "--check" in sys.argv[1:]:
        if not PICTURE.is_file() or PICTURE.read_text() != picture:
            print("docs/architecture.svg is not current: run scripts/draw_architecture.py")
            return 1
        return 0
    PICTURE.write_text(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
