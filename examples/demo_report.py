"""The page that run_demo.py writes: what the demonstration measured, drawn. Plain HTML and SVG without scripts."""

import html

from page_frame import PALETTE, framed_page

WIDTH, HEIGHT = 760, 260
HALF_WIDTH = 580  # of a chart next to another one
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 46
NAMES = {"planned": "with its plan", "straggling": "while pipeline 1 straggles", "recovered": "recovered"}
SHORT = {"planned": "plan", "straggling": "straggler", "recovered": "recovered"}
NEAREST_NUMBERS = 26  # px between the numbers of two events in a chart, at least

SIMULATED = "Simulated GPUs: times and energies come from a model of a GPU, not from a real one."

COLORS = PALETTE + "svg { font: 12px system-ui, sans-serif; } svg text { fill: var(--soft); }\n"
ONE, TWO, PREDICTED = "var(--c0)", "var(--c1)", "var(--ink)"
DOUBT = '<strong class="doubt">Simulated GPUs, not real ones.</strong>'


def figure(drawn, caption):
    """A chart and its caption, with the reservation that applies to all charts. Captions are markup."""
    return f"<figure>{drawn}<figcaption>{caption} {DOUBT}</figcaption></figure>"


def legend(entries):
    """entries: (colour number, name)."""
    return '<ul class="legend">' + "".join(f'<li><i class="c{number}"></i>{name}</li>' for number, name in entries) + "</ul>"


def table(rows):
    """Returns a table. The first row holds headings, the first cell of each row its name; cells are markup."""
    head, *body = rows
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = "".join(f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>\n"
                    for first, *cells in body)
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>\n<thead><tr>{heads}</tr></thead>'
            f"<tbody>\n{lines}</tbody></table></div>")


def ticks(low, high, about=5):
    """Returns round numbers that cover low to high."""
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
    def __init__(self, x, y, x_label, y_label, title, width=WIDTH):
        self.x, self.y, self.width = x, y, width
        self.names = []  # (from, to) of the names of spans
        self.parts = [f'<svg viewBox="0 0 {width} {HEIGHT}" role="img"><title>{html.escape(title)}</title>']
        for value in ticks(*y):
            self.parts.append(f'<line x1="{LEFT}" x2="{width - RIGHT}" y1="{self.at_y(value):.1f}" y2="{self.at_y(value):.1f}"'
                              f' stroke="var(--rule)"/><text x="{LEFT - 6}" y="{self.at_y(value) + 4:.1f}"'
                              f' text-anchor="end">{value:g}</text>')
        for value in ticks(*x, 8):
            self.parts.append(f'<text x="{self.at_x(value):.1f}" y="{HEIGHT - BOTTOM + 18}"'
                              f' text-anchor="middle">{value:g}</text>')
        self.parts.append(f'<text x="{(LEFT + width - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{x_label}</text>'
                          f'<text x="14" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle"'
                          f' transform="rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2})">{y_label}</text>')

    def at_x(self, value):
        return LEFT + (value - self.x[0]) / (self.x[1] - self.x[0]) * (self.width - LEFT - RIGHT)

    def at_y(self, value):
        return HEIGHT - BOTTOM - (value - self.y[0]) / (self.y[1] - self.y[0]) * (HEIGHT - TOP - BOTTOM)

    def shade(self, begin, end, text):
        left, right = self.at_x(begin), self.at_x(end)
        self.parts.insert(1, f'<rect x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{HEIGHT - TOP - BOTTOM}"'
                             ' fill="var(--shade)"/>')
        # Names of short spans would overlap, so they are placed one below the other.
        room = 12 + 7 * len(text)
        begin = min(left + 4, self.width - RIGHT - room)
        below = sum(begin < other_end and other < begin + room for other, other_end in self.names)
        self.names.append((begin, begin + room))
        self.parts.append(f'<text x="{begin:.1f}" y="{TOP + 14 + 15 * below}">{html.escape(text)}</text>')

    def line(self, points, color, dashed=False, width=2):
        text = " ".join(f"{self.at_x(x):.1f},{self.at_y(y):.1f}" for x, y in points)
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(f'<polyline points="{text}" fill="none" stroke="{color}" stroke-width="{width}"{dash}/>')

    def number(self, moments):
        """Draws a vertical line at each moment, with its number in the list of events above it; close ones share one
        label."""
        groups = []  # [px of the first, number of the first, number of the last]
        for number, moment in enumerate(moments, 1):
            if not self.x[0] <= moment <= self.x[1]:
                continue
            at = self.at_x(moment)
            self.parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="var(--axis)"'
                              ' stroke-dasharray="1 3"/>')
            if groups and at - groups[-1][0] < NEAREST_NUMBERS:
                groups[-1][2] = number
            else:
                groups.append([at, number, number])
        for at, first, last in groups:
            text = f"{first}" if first == last else f"{first}–{last}"
            self.parts.append(f'<text x="{at:.1f}" y="{TOP - 3}" text-anchor="middle">{text}</text>')

    def mark(self, x, y, color, text, dy=-10):
        # Half of the text's width, so that the text is not cut off at an edge.
        room = 3.5 * len(text)
        middle = min(max(self.at_x(x), room), self.width - room)
        self.parts.append(f'<circle cx="{self.at_x(x):.1f}" cy="{self.at_y(y):.1f}" r="5" fill="{color}"/>'
                          f'<text x="{middle:.1f}" y="{self.at_y(y) + dy:.1f}"'
                          f' text-anchor="middle">{html.escape(text)}</text>')

    def svg(self):
        return "\n".join([*self.parts, "</svg>"])


def signed(percent):
    text = f"{percent:+.1f}"
    return "0.0" if text in ("-0.0", "+0.0") else text


def doubt(one, before="", after=""):
    """Returns why the savings of a phase are not reliable; empty if they are."""
    why = []
    if abs(one["saved_percent"]) <= one["saved_error_percent"]:
        why.append("not distinguishable from zero")
    if not one["as_predicted"]:
        why.append("not as predicted")
    return before + ", ".join(why) + after if why else ""


UNQUIET = ("Measured and predicted disagree, so that these figures are no result: where a machine does much else, ranks wait for a "
           "processor, while they are measured or while the job learns what to predict. Run it again where it is quiet.")


def saved(one):
    """Green only if the saving is certain."""
    certain = " certain" if one["saved_percent"] > 0 and not doubt(one) else ""
    return f"<b class=\"saved{certain}\">{one['saved_percent']:.1f} ± {one['saved_error_percent']:.1f} %</b>"


def saved_in_text(one):
    return saved(one) + html.escape(doubt(one, " (", ")"))


def objective_text(objective):
    """Returns the objective that the user has set for the job; None if it is the default."""
    (kind, value), = objective.items()
    if objective == {"slowdown": 0}:
        return None
    texts = {"slowdown": f"slowdown {100 * value:g} %", "deadline_s": f"deadline {value:g} s", "straggler_s": f"straggler {value:g} s",
             "straggler_factor": f"straggler {value:g} x all-max", "power_cap_w": f"power cap {value:g} W",
             "least_energy": "least energy"}
    return texts[kind]


def name_of(phase, one):
    """Returns the name of a phase for its row. If a user has set an objective in the meantime, the phase shows that
    one."""
    if not one["objective"]:
        return NAMES[phase]
    return f"{NAMES[phase]}, {one['objective']}" if phase == "straggling" else f"objective {one['objective']}"


def short_name(phase, one):
    return one["objective"] if one["objective"] and phase != "straggling" else SHORT[phase]


def padded(values, share=0.08, above=0.08):
    """above: the share above the highest value, where names of spans may be placed."""
    low, high = min(values), max(values)
    room = high - low or abs(high) or 1
    return low - room * share, high + room * above


def over_time(history, result, spans, key, label, title, width=WIDTH, moments=()):
    """Draws one line per pipeline, and the prediction for pipeline 0. The line of pipeline 0 is wider, so that both are
    visible where they are equal."""
    values = [row[key] for rows in history.values() for row in rows]
    values += [predicted(result[phase], key) for phase in spans]
    end = max(row["at_s"] for rows in history.values() for row in rows)
    chart = Chart((0, end), padded(values, above=0.16), "seconds since the first iteration", label, title, width)
    for phase, (begin, until) in spans.items():
        chart.shade(begin, until, short_name(phase, result[phase]))
    for (_, rows), color, wide in zip(sorted(history.items()), (ONE, TWO), (5, 1.5)):
        chart.line([(row["at_s"], row[key]) for row in rows], color, width=wide)
    for phase, (begin, until) in spans.items():
        value = predicted(result[phase], key)
        chart.line([(begin, value), (until, value)], PREDICTED, dashed=True)
    chart.number(moments)
    return chart.svg()


def predicted(one, key):
    if key == "power_w":
        return one["predicted_energy_j"] / one["predicted_time_s"]
    return one[f"predicted_{key}"]


def picture(result, history, spans):
    """Returns the chart of energy per iteration over time, as an SVG file."""
    chart = over_time(history, result, spans, "energy_j", "energy of an iteration, J", "Energy of an iteration over time")
    # On both sides of the axis label.
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
    # Plans beyond the least energy wait for a straggler; they are not part of the frontier.
    least = min(energy for _, energy in points)
    shown = []
    for point in points:
        if point[0] <= max(time for time, *_ in marks) * 1.15:
            shown.append(point)
        if point[1] == least:
            break
    chart = Chart(padded([time for time, _ in shown] + [full[0]]), padded([energy for _, energy in shown] + [full[1]]),
                  "iteration time of a pipeline, s", "iteration energy, J", "The frontier of this job", HALF_WIDTH)
    chart.line(shown, ONE)
    chart.mark(*full, TWO, "all at all-max", 20)
    for time, energy, phase in marks:
        chart.mark(time, energy, ONE, "the plan" if phase == "planned" else "while the other straggles")
    return chart.svg()


def measured_table(result):
    """Cells with a prediction show it below the measured value."""
    full = result["all_max"]
    rows = [("", "saved", "slower", "time, s", "energy, J"),
            ("at all-max", "", "", f"{full['time_s']:.3f}", f"{full['energy_j']:.1f}")]
    for phase in NAMES:
        one = result[phase]
        rows.append((html.escape(name_of(phase, one)), saved(one) + doubt(one, "<small>", "</small>"), f"{signed(one['slowdown_percent'])} %",
                     f"{one['time_s']:.3f}<small>{one['predicted_time_s']:.3f}</small>",
                     f"{one['energy_j']:.1f}<small>{one['predicted_energy_j']:.1f}</small>"))
    return table(rows).replace('class="scroll"', 'class="scroll narrow"')


def event_table(events):
    rows = [("", "time, s", "iteration", "what happened")]
    for number, one in enumerate(events, 1):
        iteration = "" if one["iteration"] is None else str(one["iteration"])
        what = html.escape(one["text"])
        if one["by"]:
            what = f"<b>{html.escape(one['by'])}</b> {what}"
        rows.append((str(number), f"{max(0, one['at_s']):.0f}", iteration, what))
    return table(rows).replace('class="scroll"', 'class="scroll events"')


def lead(result):
    parts = []
    for phase in ("planned", "recovered"):
        one = result[phase]
        slower = one["slowdown_percent"]
        same = abs(slower) < max(0.25, one["slowdown_error_percent"])
        pace = "in the same time" if same else f"{abs(slower):.1f} % {'slower' if slower > 0 else 'faster'}"
        if one["objective"]:
            parts.append(f"After a user had set the objective <b>{html.escape(one['objective'])}</b>, it saved {saved_in_text(one)}, {pace}.")
        elif phase == "planned":
            parts.append(f"Pipeline 0 saved {saved_in_text(one)} of its energy with its plan, {pace}.")
    parts.insert(1, f"It saved {saved_in_text(result['straggling'])} while the other pipeline straggled and it did not need to hurry.")
    return " ".join(["Two pipelines of four stages trained together.", *parts])


def page(result, history, spans, frontier, events, source):
    """history: {pipeline: [{at_s, time_s, energy_j, power_w}]}; spans: {phase: (begin, end)}; events: [{at_s,
    iteration, by, text}], where iteration is None before the first one, and by names the cause, or is empty. All times
    in s since the first iteration. source: how the page was made, the last arguments of framed_page."""
    unquiet = "" if all(result[phase]["as_predicted"] for phase in spans) else (
        f'<p class="note">{UNQUIET}</p>')
    pipelines = legend([(0, "pipeline 0 (the wider line)"), (1, "pipeline 1")])
    moments = [max(0, one["at_s"]) for one in events]

    def chart(key, label, title):
        return over_time(history, result, spans, key, label, title, HALF_WIDTH, moments)

    body = f"""<div class="prose wide">
<section>
<p class="lead">{lead(result)}</p>
{unquiet}
<p class="note">The GPUs are modelled on A100 SXM whose clocks take 10 ms to change; agent, server, ranks, sockets and plans are real.
To be quick, profiling here may make training up to twice as long for a while; by default it is 10 % at most.</p>
</section>
<div class="columns">
<div>
<section><h2>An iteration of pipeline 0, by its GPUs' own counters</h2>
{measured_table(result)}
<p class="note">Below each figure is what was predicted: by the plan, and by what iterations were measured to take outside of any plan.
Saved against all-max, where it would have waited for the straggler, too; ± is the half-width of the 95 %
interval, of the measurement at all-max and of this one. {DOUBT}</p></section>
<section><h2>Energy of an iteration</h2>
{figure(chart("energy_j", "energy of an iteration, J", "Energy of an iteration over time") + pipelines,
        "Means of five iterations; dashed: predicted for pipeline 0. Before the plan, the job measures what each clock costs.")}</section>
</div>
<section><h2>What happened, and when</h2>
{event_table(events)}
<p class="note">What the job's log says, and who caused it. The numbers are those in the charts.</p></section>
<section><h2>Power</h2>
{figure(chart("power_w", "power of four GPUs, W", "Power of each pipeline over time") + pipelines,
        "Of each pipeline's four GPUs, by their counters. Dashed: predicted for pipeline 0.")}</section>
<section><h2>Time of an iteration</h2>
{figure(chart("time_s", "time of an iteration, s", "Time of an iteration over time") + pipelines,
        "Both pipelines end each iteration together, so that their lines are one. Dashed: predicted.")}</section>
<section><h2>The plans that the job found</h2>
{figure(frontier_chart(frontier, result), "Iteration energy over iteration time, of the plans of pipeline 0.")}</section>
</div></div>"""
    return framed_page("Harpe at work", "From the first iteration to a straggler and back", SIMULATED, body, **source)
