"""The page that run_demo.py writes: what the demonstration measured, drawn. Plain HTML and SVG without scripts."""

import html

WIDTH, HEIGHT = 760, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 40
NAMES = {"planned": "with its plan", "straggling": "while pipeline 1 straggles", "recovered": "recovered"}
SHORT = {"planned": "plan", "straggling": "straggler", "recovered": "recovered"}

SIMULATED = "Simulated GPUs: times and energies come from a model of a GPU, not from a real one."

COLORS = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #667079; --line: #d5dae0; --page: #fff; --shade: #eef2f6;
        --one: #2563a8; --two: #c2571a; --good: #2f7d4f; --warn: #8c1d18; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ed; --soft: #9aa4ae; --line: #3a424b; --page: #14171b;
        --shade: #20262d; --one: #77aef0; --two: #f0a06a; --good: #7cc99a; --warn: #ff9a8f; } }
svg { font: 12px system-ui, sans-serif; } svg text { fill: var(--soft); }
"""
STYLE = COLORS + """
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 800px; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 500; }
svg { width: 100%; height: auto; }
.key { color: var(--soft); } .saved { font-weight: 600; } .certain { color: var(--good); }
p.note { color: var(--soft); font-size: .9rem; }
p.simulated { border-left: 3px solid var(--warn); padding-left: .7rem; color: var(--warn); font-weight: 600; }
"""


def ticks(low, high, about=5):
    """Round numbers that cover low to high."""
    size = (high - low) / about or 1
    power = 10.0
    while power > size:
        power /= 10
    while power * 10 <= size:
        power *= 10
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= size)
    at = step * int(low / step)
    while at < low - 1e-9:
        at += step
    found = []
    while at <= high + 1e-9:
        found.append(at)
        at += step
    return found


class Chart:
    def __init__(self, x, y, x_label, y_label, title):
        self.x, self.y = x, y
        self.parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">']
        for value in ticks(*y):
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.at_y(value):.1f}" y2="{self.at_y(value):.1f}"'
                              f' stroke="var(--line)"/><text x="{LEFT - 6}" y="{self.at_y(value) + 4:.1f}"'
                              f' text-anchor="end">{value:g}</text>')
        for value in ticks(*x, 8):
            self.parts.append(f'<text x="{self.at_x(value):.1f}" y="{HEIGHT - BOTTOM + 16}"'
                              f' text-anchor="middle">{value:g}</text>')
        self.parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{x_label}</text>'
                          f'<text x="14" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle"'
                          f' transform="rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2})">{y_label}</text>')

    def at_x(self, value):
        return LEFT + (value - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - RIGHT)

    def at_y(self, value):
        return HEIGHT - BOTTOM - (value - self.y[0]) / (self.y[1] - self.y[0]) * (HEIGHT - TOP - BOTTOM)

    def shade(self, begin, end, text):
        left, right = self.at_x(begin), self.at_x(end)
        self.parts.insert(1, f'<rect x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{HEIGHT - TOP - BOTTOM}"'
                             ' fill="var(--shade)"/>')
        self.parts.append(f'<text x="{left + 4:.1f}" y="{TOP + 14}">{html.escape(text)}</text>')

    def line(self, points, color, dashed=False):
        text = " ".join(f"{self.at_x(x):.1f},{self.at_y(y):.1f}" for x, y in points)
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(f'<polyline points="{text}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')

    def mark(self, x, y, color, text, dy=-10):
        self.parts.append(f'<circle cx="{self.at_x(x):.1f}" cy="{self.at_y(y):.1f}" r="5" fill="{color}"/>'
                          f'<text x="{self.at_x(x):.1f}" y="{self.at_y(y) + dy:.1f}"'
                          f' text-anchor="middle">{html.escape(text)}</text>')

    def svg(self):
        return "\n".join([*self.parts, "</svg>"])


def signed(percent):
    text = f"{percent:+.1f}"
    return "0.0" if text in ("-0.0", "+0.0") else text


def doubt(one, before=", "):
    """Why the savings of a phase are not to be believed; empty where they are."""
    why = []
    if abs(one["saved_percent"]) <= one["saved_error_percent"]:
        why.append("not distinguishable from zero")
    if not one["as_predicted"]:
        why.append("measured and predicted disagree")
    return before + ", ".join(why) if why else ""


def saved(one):
    """Green only where it is certain."""
    certain = " certain" if one["saved_percent"] > 0 and not doubt(one) else ""
    return (f"<b class=\"saved{certain}\">{one['saved_percent']:.1f} ± {one['saved_error_percent']:.1f} %</b>"
            f"{html.escape(doubt(one))}")


def padded(values, share=0.08):
    low, high = min(values), max(values)
    room = (high - low or abs(high) or 1) * share
    return low - room, high + room


def over_time(history, result, spans, key, label, title):
    """One line a pipeline, and what was predicted."""
    values = [row[key] for rows in history.values() for row in rows]
    values += [result[phase][f"predicted_{key}"] for phase in spans]
    end = max(row["at_s"] for rows in history.values() for row in rows)
    chart = Chart((0, end), padded(values), "seconds since the first iteration", label, title)
    for phase, (begin, until) in spans.items():
        chart.shade(begin, until, SHORT[phase])
    for (_, rows), color in zip(sorted(history.items()), ("var(--one)", "var(--two)")):
        chart.line([(row["at_s"], row[key]) for row in rows], color)
    for phase, (begin, until) in spans.items():
        predicted = result[phase][f"predicted_{key}"]
        chart.line([(begin, predicted), (until, predicted)], "var(--text)", dashed=True)
    return chart.svg()


def picture(result, history, spans):
    """The energy of an iteration over time, as a file of its own."""
    chart = over_time(history, result, spans, "energy_j", "energy of an iteration, J", "Energy of an iteration over time")
    key = "".join(f'<text x="{LEFT + 120 + 110 * i}" y="{HEIGHT - BOTTOM - 8}" style="fill:{color}">{text}</text>' for i, (color, text)
                  in enumerate([("var(--one)", "pipeline 0"), ("var(--two)", "pipeline 1"), ("var(--text)", "dashed: predicted")]))
    begin, rest = chart.split(">", 1)
    return (f'{begin} xmlns="http://www.w3.org/2000/svg"><style>{COLORS}</style><rect width="100%" height="100%" fill="var(--page)"/>'
            f"{rest.removesuffix('</svg>')}{key}"
            f'<text x="{LEFT}" y="{TOP - 4}" style="fill:var(--warn);font-weight:600">{SIMULATED}</text></svg>\n')


def frontier_chart(frontier, result):
    points = [(one["time_s"], one["energy_j"]) for one in frontier["plans"]]
    marks = [(result[phase]["predicted_plan_time_s"], result[phase]["predicted_plan_energy_j"], phase)
             for phase in ("planned", "straggling")]
    full = (frontier["all_max"]["time_s"], frontier["all_max"]["energy_j"])
    shown = [point for point in points if point[0] <= max(time for time, *_ in marks) * 1.15]
    chart = Chart(padded([time for time, _ in shown] + [full[0]]), padded([energy for _, energy in shown] + [full[1]]),
                  "iteration time of a pipeline, s", "iteration energy, J", "The frontier of this job")
    chart.line(shown, "var(--one)")
    chart.mark(*full, "var(--two)", "all at all-max", 20)
    for time, energy, phase in marks:
        chart.mark(time, energy, "var(--one)", "the plan" if phase == "planned" else "while the other straggles")
    return chart.svg()


def page(result, history, spans, frontier, events):
    """history: {pipeline: [{at_s, time_s, energy_j}]}; spans: {phase: (begin, end)}, both in s since the first iteration."""
    planned, straggling = result["planned"], result["straggling"]
    rows = "".join(
        f"<tr><td>{NAMES[phase]}</td><td>{one['time_s']:.3f}</td><td>{one['predicted_time_s']:.3f}</td>"
        f"<td>{one['energy_j']:.1f}</td><td>{one['predicted_energy_j']:.1f}</td>"
        f"<td>{saved(one)}</td><td>{signed(one['slowdown_percent'])} %</td></tr>"
        for phase in ("planned", "straggling", "recovered") for one in [result[phase]])
    log = "".join(f"<li>{html.escape(text)}</li>" for text in events)
    full = result["all_max"]
    slower = planned["slowdown_percent"]
    same = abs(slower) < max(0.25, planned["slowdown_error_percent"])
    pace = "in the same time" if same else f"{abs(slower):.1f} % {'slower' if slower > 0 else 'faster'}"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Harpe at work</title>
<style>{STYLE}</style></head><body>
<h1>Harpe at work: from the first iteration to a straggler and back</h1>
<p class=simulated>{SIMULATED}</p>
<p>Two pipelines of four stages trained together. Pipeline 0 saved {saved(planned)} of its
energy with its plan, {pace}, and {saved(straggling)}
while the other pipeline straggled and it did not need to hurry.</p>
<p class=note>The GPUs are modelled on A100 SXM whose clocks take 10 ms to change; agent, server, ranks, sockets and plans are real.
To be quick, profiling here may make training up to twice as long for a while; by default it is 10 % at most.</p>
<h2>An iteration of pipeline 0, by its GPUs' own counters</h2>
<table><tr><th></th><th>time, s</th><th>predicted</th><th>energy, J</th><th>predicted</th><th>saved</th><th>slower</th></tr>
<tr><td>at all-max</td><td>{full['time_s']:.3f}</td><td></td><td>{full['energy_j']:.1f}</td><td></td><td></td><td></td></tr>
{rows}</table>
<p class=note>Saved against all-max, where it would have waited for the straggler, too; ± is the half-width of the 95 %
interval, of the measurement at all-max and of this one.</p>
<h2>Energy of an iteration</h2>
<p class=key><span style="color:var(--one)">&#9632;</span> pipeline 0 &nbsp; <span style="color:var(--two)">&#9632;</span> pipeline 1
&nbsp; dashed: predicted for pipeline 0. Means of five iterations. Before the plan, the job measures what each clock costs.</p>
{over_time(history, result, spans, "energy_j", "J", "Energy of an iteration over time")}
<h2>Time of an iteration</h2>
<p class=key>Both pipelines end each iteration together. Dashed: predicted.</p>
{over_time(history, result, spans, "time_s", "s", "Time of an iteration over time")}
<h2>The plans that the job found</h2>
{frontier_chart(frontier, result)}
<h2>What the job said</h2>
<ul>{log}</ul>
</body></html>
"""
