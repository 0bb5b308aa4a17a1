"""The page that run_carbon_demo.py writes: a day of a training that follows its grid, drawn. Plain HTML and SVG."""

import html

from demo_report import (
    COLORS,
    HALF_WIDTH,
    HEIGHT,
    LEFT,
    ONE,
    PREDICTED,
    SIMULATED,
    TOP,
    TWO,
    WIDTH,
    Chart,
    figure,
    legend,
    padded,
    table,
)
from page_frame import framed_page

INVENTED = "Invented grid: no real one has these hours, which take seconds here."


def hours(result, at):
    return (at - result["begin"]) / result["hour_s"]


def stepped(points):
    """Returns the points of a line that keeps each value until the next point."""
    line = []
    for (x, y), following in zip(points, points[1:] + [(points[-1][0] + 1, None)]):
        line += [(x, y), (following[0], y)]
    return line


def chart(result, lines, label, title, low=None, width=WIDTH):
    """lines: (points, colour), the first one below the others."""
    begin, end = -1, max(hours(result, result["end"]), hours(result, result["deadline"])) + 0.5
    shown = [([(x, y) for x, y in points if begin <= x <= end], color) for points, color in lines]
    values = [y for points, _ in shown for _, y in points]
    drawn = Chart((begin, end), padded(values + ([low] if low is not None else []), above=0.16), "hours since the training began to follow",
                  label, title, width)
    for first, last in result["pauses"]:
        drawn.shade(hours(result, first), hours(result, last), "pause")
    for points, color in shown:
        drawn.line(points, color)
    deadline = hours(result, result["deadline"])
    top, bottom = drawn.y[1], drawn.y[0]
    drawn.line([(deadline, bottom), (deadline, top)], PREDICTED, dashed=True)
    return drawn.svg()


def ways_table(result):
    rows = [(html.escape(one["name"]), f"{one['grams']:.2f}", f"{one['joules'] / 1000:.1f}", f"{one['hours']:.1f}")
            for one in result["ways"]]
    return table([("", "gCO2eq", "kJ", "hours"), *rows]).replace('class="scroll"', 'class="scroll narrow"')


def intensity_chart(result, width=WIDTH):
    return chart(result, [(stepped([(hours(result, at), grams) for at, grams in result["grid"]]), ONE)], "g/kWh",
                 "Carbon intensity over the day", 0, width)


def power_chart(result, width=WIDTH):
    return chart(result, [([(hours(result, at), watts) for at, watts in result["power"]], ONE)], "power of all GPUs, W",
                 "Power over the day", 0, width)


def grams_chart(result):
    """Grams in each hour, of Harpe above those of the best steady pace."""
    start = hours(result, result["first_hour"])
    lines = []
    for way, color in (("steady", TWO), ("harpe", ONE)):
        grams = result["hourly"][way]
        # Both lines begin and end at zero.
        steps = [(start, 0.0), *stepped([(start + hour, one) for hour, one in enumerate(grams)]), (start + len(grams), 0.0)]
        lines.append((steps, color))
    return chart(result, lines, "grams in an hour", "Grams in each hour, of Harpe and of the best steady pace", 0, HALF_WIDTH)


def saved(result):
    percent = result["saved_percent"]
    return f'<b class="{"certain" if percent > 0 else "doubt"}">{abs(percent):.1f} %</b> {"less" if percent >= 0 else "more"}'


def why(result):
    """Text on the energy used, and why the option with fewer grams may need more energy."""
    harpe, steady = result["ways"][:2]
    more = harpe["joules"] / steady["joules"] - 1
    if more > 0 and harpe["grams"] < steady["grams"]:
        return (f"with {100 * more:.1f} % more energy. More energy can be right: it was drawn in clean hours, in which the training ran fast, "
                "and not in the dirtiest ones, and what counts here is grams.")
    return (f"with {abs(100 * more):.1f} % {'more' if more > 0 else 'less'} energy. More energy can be right, too, if it is drawn in clean hours: "
            "what counts here is grams.")


def picture(result):
    """Returns the chart of intensity above the chart of power, as one SVG file."""
    charts = "".join(f'<svg y="{20 + HEIGHT * row}" width="{WIDTH}" height="{HEIGHT}"{drawn.removeprefix("<svg")}'
                     for row, drawn in enumerate((intensity_chart(result), power_chart(result))))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {20 + 2 * HEIGHT}"><style>{COLORS}</style>'
            f'<rect width="100%" height="100%" fill="var(--ground)"/><text x="{LEFT}" y="{TOP}" '
            f'style="fill:var(--warn);font-weight:600">Simulated GPUs. {INVENTED}</text>{charts}</svg>\n')


def page(result, events, source):
    """events: [{at, text}], at in s since 1970; source: how the page was made, the last arguments of framed_page."""
    shown = [one for one in events if hours(result, one["at"]) >= -1]
    rows = [("hour", "what happened"), *[(f"{hours(result, one['at']):.1f}", html.escape(one["text"])) for one in shown[-40:]]]
    log = table(rows).replace('class="scroll"', 'class="scroll events"')
    times = chart(result, [([(hours(result, at), s) for at, s in result["iteration_times"]], ONE)], "time of an iteration, s",
                  "Iteration time over the day", width=HALF_WIDTH)
    body = f"""<div class="prose wide">
<section>
<p class="lead">{result['iterations']} iterations of a training were to be done by a deadline. The server knew what the hours to
come would emit, and moved the job along its frontier; where it asked for a pause, training wrote a checkpoint and waited.
It emitted {saved(result)} CO2 than the best steady pace that meets the deadline, {why(result)}</p>
</section>
<div class="columns">
<section><h2>Grams an hour</h2>
{figure(grams_chart(result) + legend([(0, "Harpe"), (1, "the best steady pace")]),
        "What each hour emitted. In all charts the deadline is dashed and pauses are shaded.")}</section>
<section><h2>What it emitted</h2>
{ways_table(result)}
<p class="note">The first line by the devices' own counters. The others are what one pace all along would have used, by the job's
frontier, scaled by what its iterations took before the day began; the best steady pace is the one of least emissions among
those that meet the deadline. An hour takes {result['hour_s']} s here, so that stopping and starting cost more of one than in earnest.</p></section>
<section><h2>The grid</h2>
{figure(intensity_chart(result, HALF_WIDTH), "Carbon intensity of an invented grid.")}</section>
<section><h2>Power</h2>
{figure(power_chart(result, HALF_WIDTH), "Of all GPUs, by their counters.")}</section>
<section><h2>Time of an iteration</h2>
{figure(times, "Pauses left out.")}</section>
<section><h2>What happened, and when</h2>
{log}
<p class="note">What the job's log says, in hours since the training began to follow.</p></section>
</div></div>"""
    return framed_page("A day that follows the grid", "A training slows down and pauses where hours emit much",
                       f"{SIMULATED} {INVENTED}", body, **source)
