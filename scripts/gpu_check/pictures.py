"""The two pictures of a gpu_check.json, as SVG in the palette of Harpe's pages."""

import html

WIDTH, LEFT, RIGHT, TOP = 1100, 60, 12, 14
MOST_BARS = 3.0  # of the vertical axis of windows.svg
STYLE = """svg { background: var(--ground); font-family: system-ui, 'Liberation Sans', Arial, sans-serif; }
svg text { font-size: 12px; fill: var(--soft); }
.rule { fill: none; stroke: var(--rule); stroke-width: 1; }
.load { fill: var(--shade); }
.counter { fill: none; stroke: var(--c0); stroke-width: 1.5; }
.instant { fill: none; stroke: var(--c1); stroke-width: 1; opacity: .8; }
.average { fill: none; stroke: var(--c3); stroke-width: 1; opacity: .8; }
.held { fill: var(--c0); opacity: .55; } .missed { fill: var(--warn); }
.band { fill: var(--shade); }
"""


def inline(drawing):
    """Returns an SVG for a page that has the palette."""
    return drawing.replace("<style></style>", f"<style>{STYLE}</style>", 1)


def standalone(drawing, palette):
    """Returns an SVG for a separate file, with colours."""
    return drawing.replace("<style></style>", f"<style>{palette}\n{STYLE}</style>", 1)


def svg(height, label, parts, is_simulated):
    if is_simulated:
        parts = [*parts, text(WIDTH - RIGHT, height - 4, "simulated GPU: no measurement", "end")]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
            f'aria-label="{html.escape(label)}"><style></style>\n' + "\n".join(parts) + "\n</svg>")


def text(x, y, words, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def ticks(highest, about=6):
    """Returns round numbers from 0 to `highest`."""
    step = 10 ** len(str(int(max(highest, 1) / about)))
    step = next(step / part for part in (1, 2, 4, 5, 10) if highest / (step / part) >= about - 2 or part == 10)
    found, value = [], 0.0
    while value <= highest:
        found.append(value)
        value += step
    return found


def power(result, is_simulated):
    """Draws power over time by counter and power readings, with the loads."""
    trace, height, bottom = result.get("trace") or {}, 380, 44
    points = [point for series in trace.values() for point in series]
    if not points:
        return None
    last, highest = max(x for x, _ in points), max(y for _, y in points) * 1.05
    x = lambda time: LEFT + (WIDTH - LEFT - RIGHT) * time / last  # noqa: E731
    y = lambda value: height - bottom - (height - bottom - TOP - 30) * min(max(value, 0), highest) / highest  # noqa: E731
    parts, row = [], 0
    for load in result.get("loads", []):
        if load.get("error"):
            continue
        left, right = x(load["begin_s"]), x(load["end_s"])
        parts.append(f'<rect class="load" x="{left:.1f}" y="{TOP + 30}" width="{max(1, right - left):.1f}" '
                     f'height="{height - bottom - TOP - 30}"/>')
        # Names alternate between two lines, since short loads are close together.
        parts.append(text((left + right) / 2, TOP + 10 + 14 * (row % 2), load["name"].replace("square ", "")))
        row += 1
    for value in ticks(highest):
        parts += [f'<path class="rule" d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}"/>', text(LEFT - 6, y(value) + 4, f"{value:.0f} W", "end")]
    for value in ticks(last):
        parts.append(text(x(value), height - bottom + 18, f"{value:.0f} s"))
    for name in ("average", "instant", "counter"):
        series = trace.get(name) or []
        if series:
            parts.append(f'<path class="{name}" d="M' + "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in series) + '"/>')
    for i, name in enumerate(name for name in ("counter", "instant", "average") if trace.get(name)):
        parts += [f'<path class="{name}" d="M{LEFT + 130 * i} {height - 8}h24"/>', text(LEFT + 30 + 130 * i, height - 4, name, "start")]
    return svg(height, "Power over time by counter and power readings", parts, is_simulated)


def windows(result, is_simulated):
    """Draws the difference between each window's estimate and the counter, in units of its error bar."""
    points, height, bottom = result.get("points") or [], 350, 60
    if not points:
        return None
    lengths, kinds = sorted({point[1] for point in points}), list(dict.fromkeys(point[0] for point in points))
    column = (WIDTH - LEFT - RIGHT) / len(lengths)
    middle = (TOP + height - bottom) / 2
    scale = (height - bottom - TOP) / 2 / MOST_BARS
    y = lambda bars: middle - scale * min(max(bars, -MOST_BARS), MOST_BARS)  # noqa: E731
    parts = [f'<rect class="band" x="{LEFT}" y="{y(1):.1f}" width="{WIDTH - LEFT - RIGHT}" height="{y(-1) - y(1):.1f}"/>']
    for value in (-2, -1, 0, 1, 2):
        parts += [f'<path class="rule" d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}"/>', text(LEFT - 6, y(value) + 4, f"{value:+d} bars" if value else "0", "end")]
    for i, length in enumerate(lengths):
        of_length = [point for point in points if point[1] == length and point[3] > 0]
        held = sum(1 for point in of_length if abs(point[2]) <= point[3])
        parts.append(text(LEFT + column * (i + 0.5), height - bottom + 16, f"{length:g} s"))
        parts.append(text(LEFT + column * (i + 0.5), height - bottom + 32, f"{held} of {len(of_length)} held"))
        for j, point in enumerate(of_length):
            # Kinds are next to each other within a column.
            place = (kinds.index(point[0]) + (j % 24) / 24) / len(kinds)
            name = "held" if abs(point[2]) <= point[3] else "missed"
            parts.append(f'<circle class="{name}" cx="{LEFT + column * (i + 0.08 + 0.84 * place):.1f}" cy="{y(point[2] / point[3]):.1f}" r="2.6"/>')
    return svg(height, "Errors of windows in their own bars", parts, is_simulated)


def draw(document):
    """Returns {file: (section, SVG, caption)}."""
    result = (document["sections"].get("joules") or {}).get("result") or {}
    found = {}
    if drawing := power(result, document["simulated"]):
        found["power.svg"] = ("joules", drawing, "Power over time: the counter from step to step, and the driver's power readings. Shaded: a "
                              "load runs, by name; numbers are square waves of matrix products.")
    if drawing := windows(result, document["simulated"]):
        found["windows.svg"] = ("joules", drawing, "Each point is a window drawn from the recording: how far Harpe's energy is from the counter's, in "
                                "Harpe's own bars. Within the shaded band the bar holds, which 95 % should. In each column, from left to right, "
                                "windows that begin with a load, end with one, lie inside one, lie in square waves, lie anywhere.")
    return found
