"""The page that run_carbon_demo.py writes: a day of a training that follows its grid, drawn. Plain HTML and SVG."""

import html

from demo_report import COLORS, HEIGHT, LEFT, ONE, SIMULATED, TOP, TWO, WIDTH, Chart, figure, padded, table
from page_frame import framed_page

INVENTED = "Invented grid: no real one has these hours, which take seconds here."


def hours(result, at):
    return (at - result["begin"]) / result["hour_s"]


def stepped(points):
    """A line that stays at each value until the next."""
    line = []
    for (x, y), following in zip(points, points[1:] + [(points[-1][0] + 1, None)]):
        line += [(x, y), (following[0], y)]
    return line


def chart(result, points, label, title, low=None):
    begin, end = -1, max(hours(result, result["end"]), hours(result, result["deadline"])) + 0.5
    shown = [(x, y) for x, y in points if begin <= x <= end]
    values = [y for _, y in shown]
    drawn = Chart((begin, end), padded(values + ([low] if low is not None else [])), "hours since the training began to follow",
                  label, title)
    for first, last in result["pauses"]:
        drawn.shade(hours(result, first), hours(result, last), "pause")
    drawn.line(shown, ONE)
    deadline = hours(result, result["deadline"])
    top, bottom = drawn.y[1], drawn.y[0]
    drawn.line([(deadline, bottom), (deadline, top)], TWO, dashed=True)
    return drawn.svg()


def ways_table(result):
    rows = [(html.escape(one["name"]), f"{one['grams']:.2f}", f"{one['joules'] / 1000:.1f}", f"{one['hours']:.1f}")
            for one in result["ways"]]
    return table([("", "gCO2eq", "kJ", "hours taken"), *rows])


def intensity_chart(result):
    return chart(result, stepped([(hours(result, at), grams) for at, grams in result["grid"]]), "g/kWh",
                 "Carbon intensity over the day", 0)


def power_chart(result):
    return chart(result, [(hours(result, at), watts) for at, watts in result["power"]], "power of all GPUs, W",
                 "Power over the day", 0)


def picture(result):
    """Intensity above power, as a file of its own."""
    charts = "".join(f'<svg y="{20 + HEIGHT * row}" width="{WIDTH}" height="{HEIGHT}"{drawn.removeprefix("<svg")}'
                     for row, drawn in enumerate((intensity_chart(result), power_chart(result))))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {20 + 2 * HEIGHT}"><style>{COLORS}</style>'
            f'<rect width="100%" height="100%" fill="var(--ground)"/><text x="{LEFT}" y="{TOP}" '
            f'style="fill:var(--warn);font-weight:600">Simulated GPUs. {INVENTED}</text>{charts}</svg>\n')


def page(result, events, source):
    """source: what made it, the last arguments of framed_page."""
    log = "".join(f"<li>{html.escape(text)}</li>" for text in events[-40:])
    times = chart(result, [(hours(result, at), s) for at, s in result["iteration_times"]], "s", "Iteration time over the day")
    body = f"""<div class="prose">
<section>
<p class="lead">{result['iterations']} iterations of a training were to be done by a deadline (dashed). The server knew what the hours to
come would emit, and moved the job along its frontier; where it asked for a pause, training wrote a checkpoint and waited.
<b class="certain">{result['saved_percent']:.1f} %</b> less CO2 than the best steady pace that meets the deadline.</p>
</section>
<section><h2>What it emitted</h2>
{ways_table(result)}
<p class="note">The first line by the devices' own counters. The others are what one pace all along would have used, by the job's
frontier, scaled by what its iterations took before the day began; the best steady pace is the one of least emissions among
those that meet the deadline. An hour takes {result['hour_s']} s here, so that stopping and starting cost more of one than in earnest.</p></section>
<section><h2>The grid</h2>
{figure(intensity_chart(result), "Carbon intensity of an invented grid; pauses are shaded, the deadline is dashed.")}</section>
<section><h2>Power</h2>
{figure(power_chart(result), "Of all GPUs, by their counters.")}</section>
<section><h2>Time of an iteration, s</h2>
{figure(times, "Pauses left out.")}</section>
<section><h2>What the job said</h2>
<ul class="method">{log}</ul></section>
</div>"""
    return framed_page("A day that follows the grid", "A training slows down and pauses where hours emit much",
                       f"{SIMULATED} {INVENTED}", body, **source)
