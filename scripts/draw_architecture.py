#!/usr/bin/env python3
"""Draws docs/architecture.svg, the wings and rooms of the house, from src/harpe/floors.txt.

    draw_architecture.py           writes docs/architecture.svg
    draw_architecture.py --check   exits 1 when the file is not what would be written
"""

import pathlib
import sys
from xml.sax.saxutils import escape

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from house import ROOT, read_house  # noqa: E402

PICTURE = ROOT / "docs" / "architecture.svg"

WIDTH, MARGIN, GAP, HEADER = 1120, 24, 10, 50
LABEL, COLUMNS, ROOM_HEIGHT = 200, 4, 70


def wrap(text, width):
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def rows_of(rooms):
    """Returns the rooms of a wing in rows from the top, higher floors first."""
    ordered = sorted(rooms, key=lambda room: -room.floor)
    return [ordered[i:i + COLUMNS] for i in range(0, len(ordered), COLUMNS)]


def text(x, y, size, fill, content, weight=400):
    return f'<text x="{x:.0f}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{fill}">{escape(content)}</text>'


def draw_wing(wing, rows, top, height):
    out = [f'<rect x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" height="{height}" rx="8" fill="#ffffff"'
           ' stroke="#d0d7de"/>',
           text(MARGIN + 14, top + 27, 17, "#1f2328", wing.name, 600)]
    lines = wrap(wing.knows, 27)[:(height - 32) // 14]
    out += [text(MARGIN + 14, top + 44 + 14 * number, 11.5, "#57606a", line) for number, line in enumerate(lines)]
    left = MARGIN + LABEL
    width = (WIDTH - MARGIN - left - COLUMNS * GAP) / COLUMNS
    for row, rooms in enumerate(rows):
        y = top + GAP + row * (ROOM_HEIGHT + GAP)
        for column, room in enumerate(rooms):
            x = left + column * (width + GAP)
            out.append(f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{ROOM_HEIGHT}" rx="6" fill="#dbe9ff"'
                       ' stroke="#2f6fde"/>')
            out.append(text(x + 10, y + 18, 13, "#1f2328", room.name, 600))
            out.append(text(x + width - 18, y + 18, 12, "#57606a", str(room.floor)))
            out += [text(x + 10, y + 33 + 14 * number, 11, "#424a53", line)
                    for number, line in enumerate(wrap(room.knows, int((width - 16) / 6.0))[:3])]
    return out


def draw():
    wings, rooms = read_house()
    drawn, top = [], HEADER
    for wing in reversed(wings):
        rows = rows_of([room for room in rooms if room.wing == wing.name])
        height = max(GAP + len(rows) * (ROOM_HEIGHT + GAP), 78)
        drawn += draw_wing(wing, rows, top, height)
        top += height + GAP
    height = top - GAP + MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' role="img" aria-label="The wings and rooms of Harpe"'
        ' font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">',
        # A light background keeps the picture readable on a dark page.
        f'<rect width="{WIDTH}" height="{height}" rx="12" fill="#f6f8fa"/>',
        text(MARGIN, 30, 17, "#1f2328", "A room includes only rooms of lower wings, and rooms on lower floors (the numbers) of its own", 600),
        *drawn, "</svg>"]
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
