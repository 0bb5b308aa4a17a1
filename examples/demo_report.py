"""The page that run_demo.py writes: what the demonstration measured, drawn. Plain HTML and SVG without scripts."""

import html

from page_frame import PALETTE, framed_page

WIDTH, HEIGHT = 760, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 46
NAMES = {"planned": "with its plan", "straggling": "while pipeline 1 straggles", "recovered": "recovered"}
SHORT = {"planned": "plan", "straggling": "straggler", "recovered": "recovered"}

SIMULATED = "Simulated GPUs: times and energies come from a model of a GPU, not from a real one."

COLORS = PALETTE + "svg { font: 12px system-ui, sans-serif; } svg text { fill: var(--soft); }\n"
ONE, TWO, PREDICTED = "var(--c0)", "var(--c1)", "var(--ink)"
DOUBT = '<strong class="doubt">Simulated GPUs, not real ones.</strong>'


def figure(drawn, caption):
    """A chart with what it shows, and what it does not. Captions are markup."""
    return f"<figure>{drawn}<figcaption>{caption} {DOUBT}</figcaption></figure>"


def legend(entries):
    """Of (number of a colour, name)."""
    return '<ul class="legend">' + "".join(f'<li><i class="c{number}"></i>{name}</li>' for number, name in entries) + "</ul>"


def table(rows):
    """The first row are headings, the first cell of each the row's name; cells are markup."""
    head, *body = rows
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = "".join(f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>\n"
                    for first, *cells in body)
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>\n<thead><tr>{heads}</tr></thead>'
            f"<tbody>\n{lines}</tbody></table></div>")


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
        self.names = []  # of spans: from where to where
        self.parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{html.escape(title)}</title>']
        for value in ticks(*y):
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.at_y(value):.1f}" y2="{self.at_y(value):.1f}"'
                              f' stroke="var(--rule)"/><text x="{LEFT - 6}" y="{self.at_y(value) + 4:.1f}"'
                              f' text-anchor="end">{value:g}</text>')
        for value in ticks(*x, 8):
            self.parts.append(f'<text x="{self.at_x(value):.1f}" y="{HEIGHT - BOTTOM + 18}"'
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
        # Where names of short spans would meet, they stand below each other.
        room = 12 + 7 * len(text)
        begin = min(left + 4, WIDTH - RIGHT - room)
        below = sum(begin < other_end and other < begin + room for other, other_end in self.names)
        self.names.append((begin, begin + room))
        self.parts.append(f'<text x="{begin:.1f}" y="{TOP + 14 + 15 * below}">{html.escape(text)}</text>')

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


def doubt(one, before="", after=""):
    """Why the savings of a phase are not to be believed; empty where they are."""
    why = []
    if abs(one["saved_percent"]) <= one["saved_error_percent"]:
        why.append("not distinguishable from zero")
    if not one["as_predicted"]:
        why.append("not as predicted")
    return before + ", ".join(why) + after if why else ""


UNQUIET = ("Measured and predicted disagree, so that these figures are no result: where a machine does much else, ranks wait for a "
           "processor, while they are measured or while the job learns what to predict. Run it again where it is quiet.")


def saved(one):
    """Green only where it is certain."""
    certain = " certain" if one["saved_percent"] > 0 and not doubt(one) else ""
    return (f"<b class=\"saved{certain}\">{one['saved_percent']:.1f} ± {one['saved_error_percent']:.1f} %</b>"
            f"{html.escape(doubt(one, ' (', ')'))}")


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
    for (_, rows), color in zip(sorted(history.items()), (ONE, TWO)):
        chart.line([(row["at_s"], row[key]) for row in rows], color)
    for phase, (begin, until) in spans.items():
        predicted = result[phase][f"predicted_{key}"]
        chart.line([(begin, predicted), (until, predicted)], PREDICTED, dashed=True)
    return chart.svg()


def picture(result, history, spans):
    """The energy of an iteration over time, as a file of its own."""
    chart = over_time(history, result, spans, "energy_j", "energy of an iteration, J", "Energy of an iteration over time")
    # At both sides of the axis' label.
    entries = [(LEFT, ONE, "pipeline 0"), (LEFT + 100, TWO, "pipeline 1"), (LEFT + 510, PREDICTED, "dashed: predicted")]
    key = "".join(f'<rect x="{x}" y="{HEIGHT - 15}" width="10" height="10" fill="{color}"/><text x="{x + 16}" y="{HEIGHT - 6}">{text}</text>'
                  for x, color, text in entries)
    begin, rest = chart.split(">", 1)
    return (f'{begin} xmlns="http://www.w3.org/2000/svg"><style>{COLORS}</style><rect width="100%" height="100%" fill="var(--ground)"/>'
            f"{rest.removesuffix('</svg>')}{key}"
            f'<text x="{LEFT}" y="{TOP - 4}" style="fill:var(--warn);font-weight:600">{SIMULATED}</text></svg>\n')


def frontier_chart(frontier, result):
    points = [(one["time_s"], one["energy_j"]) for one in frontier["plans"]]
    marks = [(result[phase]["predicted_plan_time_s"], result[phase]["predicted_plan_energy_j"], phase)
             for phase in ("planned", "straggling")]
    full = (frontier["all_max"]["time_s"], frontier["all_max"]["energy_j"])
    # Beyond the least energy are plans that wait for a straggler, which is no frontier.
    least = min(energy for _, energy in points)
    shown = []
    for point in points:
        if point[0] <= max(time for time, *_ in marks) * 1.15:
            shown.append(point)
        if point[1] == least:
            break
    chart = Chart(padded([time for time, _ in shown] + [full[0]]), padded([energy for _, energy in shown] + [full[1]]),
                  "iteration time of a pipeline, s", "iteration energy, J", "The frontier of this job")
    chart.line(shown, ONE)
    chart.mark(*full, TWO, "all at all-max", 20)
    for time, energy, phase in marks:
        chart.mark(time, energy, ONE, "the plan" if phase == "planned" else "while the other straggles")
    return chart.svg()


def page(result, history, spans, frontier, events, source):
    """history: {pipeline: [{at_s, time_s, energy_j}]}; spans: {phase: (begin, end)}, both in s since the first iteration;
    source: what made it, the last arguments of framed_page."""
    planned, straggling, full = result["planned"], result["straggling"], result["all_max"]
    rows = [("", "time, s", "predicted", "energy, J", "predicted", "saved", "slower"),
            ("at all-max", f"{full['time_s']:.3f}", "", f"{full['energy_j']:.1f}", "", "", "")]
    rows += [(NAMES[phase], f"{one['time_s']:.3f}", f"{one['predicted_time_s']:.3f}", f"{one['energy_j']:.1f}",
              f"{one['predicted_energy_j']:.1f}", saved(one), f"{signed(one['slowdown_percent'])} %")
             for phase in ("planned", "straggling", "recovered") for one in [result[phase]]]
    log = "".join(f"<li>{html.escape(text)}</li>" for text in events)
    slower = planned["slowdown_percent"]
    same = abs(slower) < max(0.25, planned["slowdown_error_percent"])
    pace = "in the same time" if same else f"{abs(slower):.1f} % {'slower' if slower > 0 else 'faster'}"
    unquiet = "" if all(result[phase]["as_predicted"] for phase in spans) else (
        f'<p class="note">{UNQUIET}</p>')
    pipelines = legend([(0, "pipeline 0"), (1, "pipeline 1")])
    body = f"""<div class="prose">
<section>
<p class="lead">Two pipelines of four stages trained together. Pipeline 0 saved {saved(planned)} of its
energy with its plan, {pace}, and {saved(straggling)}
while the other pipeline straggled and it did not need to hurry.</p>
{unquiet}
<p class="note">The GPUs are modelled on A100 SXM whose clocks take 10 ms to change; agent, server, ranks, sockets and plans are real.
To be quick, profiling here may make training up to twice as long for a while; by default it is 10 % at most.</p>
</section>
<section><h2>An iteration of pipeline 0, by its GPUs' own counters</h2>
{table(rows)}
<p class="note">Predicted: the plan, and what iterations were measured to take outside of any plan. Saved against all-max,
where it would have waited for the straggler, too; ± is the half-width of the 95 %
interval, of the measurement at all-max and of this one. {DOUBT}</p></section>
<section><h2>Energy of an iteration</h2>
{figure(over_time(history, result, spans, "energy_j", "J", "Energy of an iteration over time") + pipelines,
        "Means of five iterations; dashed: predicted for pipeline 0. Before the plan, the job measures what each clock costs.")}</section>
<section><h2>Time of an iteration</h2>
{figure(over_time(history, result, spans, "time_s", "s", "Time of an iteration over time") + pipelines,
        "Both pipelines end each iteration together. Dashed: predicted.")}</section>
<section><h2>The plans that the job found</h2>
{figure(frontier_chart(frontier, result), "Iteration energy over iteration time, of the plans of pipeline 0.")}</section>
<section><h2>What the job said</h2>
<ul class="method">{log}</ul></section>
</div>"""
    return framed_page("Harpe at work", "From the first iteration to a straggler and back", SIMULATED, body, **source)
