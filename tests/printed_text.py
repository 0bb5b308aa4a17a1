"""The summary of `harpe plan` as text and the sentences of its page, whose every figure is that of the run's files, rounded
as it is printed."""

import json
import re

from planned_page import EXACT, require

SMALLEST_SHOWN = 0.0051  # %
NUMBER = r"(-?\d{1,3}(?: \d{3})*(?:\.\d+)?|-?\d+\.\d+)"
ROWS = {"all-max": "all_max", "fastest": "fastest", "chosen": "chosen", "least energy": "least_energy"}


def is_rounded(text, value):
    """Returns whether a number equals the value when rounded to its number of decimals."""
    decimals = len(text.partition(".")[2])
    return abs(float(text.replace(" ", "")) - value) <= 0.5 * 10**-decimals + 1e-9 * abs(value)


def compare(page, name, texts, values):
    for text, value in zip(texts, values, strict=True):
        require(page, is_rounded(text, value), f"{name.strip()}: printed {text}, not {value}")


def check_table(page):
    for label, key in ROWS.items():
        line = next(line for line in page.text.splitlines() if re.match(rf"{label}( \(|  )", line))
        cells = [cell.removesuffix(" %") for cell in re.split(r"  +", line)[1:]]
        row = page.rows[key]
        compare(page, line, cells, [row[figure] for figure in ("iteration_time_s", "slowdown_percent", "iteration_energy_j",
                                                               "saving_percent", "average_power_w", "gap_percent")])


def check_rivals(page):
    rivals = page.summary["rivals"]["one_clock"]
    line = next((line for line in page.text.splitlines() if line.startswith("One clock for all GPUs:")), "")
    said = re.findall(r"(\d+) MHz saves (?:([\d.]+) %|as much as this plan) at (-?[\d.]+) % slowdown", line)
    expected = [(name, rival) for name, rival in rivals.items() if isinstance(rival, dict)]
    require(page, len(said) == len(expected), f"{line}: {expected}")
    for (clock, saving, slowdown), (name, rival) in zip(said, expected, strict=True):
        compare(page, line, [clock, slowdown], [rival["frequency_mhz"], rival["slowdown_percent"]])
        require(page, (name == "as_cheap") == (saving == ""), line)
        if saving:
            compare(page, line, [saving], [max(0.0, rival["saving_percent"])])


def search(page, pattern):
    found = re.search(pattern.replace("#", NUMBER), page.text)
    require(page, found, f"the summary lacks {pattern}:\n{page.text}")
    return found


def signed(text, word):
    """Returns a figure with its sign from the word "more" or "less"."""
    return text if word == "more" else f"-{text}"


def check_switching(page):
    """Checks late clocks: the changes, their costs, and the least energy of any plan."""
    chosen, free = page.rows["chosen"], page.summary["plans"]["free_switching"]
    energy, time = (100 * (chosen[figure] / free[figure] - 1) for figure in ("iteration_energy_j", "iteration_time_s"))
    found = search(page, r"Clock changes: (\d+) instead of (\d+) with free switching, for # % (more|less) energy than"
                         r" its # J(?: and # % (more|less) time)?\n")  # fmt: skip
    changes, of_free, more, way, needed, longer, time_way = found.groups()
    compare(page, found[0], [changes, of_free, signed(more, way), needed],
            [chosen["clock_changes"], free["clock_changes"], energy, free["iteration_energy_j"]])  # fmt: skip
    require(page, longer is not None or abs(time) < SMALLEST_SHOWN, f"{found[0]}: not in the same time")
    if longer is not None:
        compare(page, found[0], [signed(longer, time_way)], [time])
    found = search(page, r"No plan that is as fast, with clocks as late, needs less than # J[,;] "
                         r"(?:# % above the plan with free switching; )?this one needs # % more")  # fmt: skip
    bound, above, gap = found.groups()
    tight = chosen["tight_bound_j"]
    compare(page, found[0], [bound, gap], [tight, 100 * (chosen["iteration_energy_j"] / tight - 1)])
    if above is not None:
        compare(page, found[0], [above], [100 * (tight / free["iteration_energy_j"] - 1)])


def check_free(page):
    """Checks free clocks: the saving if clocks were late, and the part of the gap that is due to the bound."""
    chosen, replay = page.rows["chosen"], page.summary["plans"].get("late_replay")
    if replay is not None:
        found = search(page, r"(\d+) clock changes? assumed to be free; with 10 ms each this plan(?: still)? saves # %"
                             r"(?:, not # %)?(?:, and takes # % longer)?")  # fmt: skip
        changes, late, free, longer = found.groups()
        compare(page, found[0], [changes, late, free or late],
                [chosen["clock_changes"], replay["saving_percent"], chosen["saving_percent"]])  # fmt: skip
        time = 100 * (replay["iteration_time_s"] / chosen["iteration_time_s"] - 1)
        require(page, longer is not None or time < SMALLEST_SHOWN, found[0])
        if longer is not None:
            compare(page, found[0], [longer], [time])
    gap = 100 * (chosen["iteration_energy_j"] / chosen["tight_bound_j"] - 1)
    if chosen["gap_percent"] - gap >= 0.002:
        found = search(page, r"Of the chosen plan's gap, # % is due to the bound, which mixes clocks as no plan can: no plan that"
                             r" is as fast needs less than # J; this one needs # % more")  # fmt: skip
        compare(page, found[0], found.groups(), [chosen["gap_percent"] - gap, chosen["tight_bound_j"], gap])


def check_report(page):
    """Checks that the page compares each plan with an all-max that waits for the straggler if the plan does."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.html, re.DOTALL)[1])
    require(page, len(data["points"]) == len(page.points), "the page has the plans of frontier.json")
    for point, written in zip(data["points"], page.points, strict=True):
        time, energy = written["iteration_time_s"], written["iteration_energy_j"]
        require(page, (point["time"], point["energy"]) == (time, energy), f"{point['headline']}: not {written}")
        waits = time >= page.rows["all_max"]["iteration_time_s"]
        base = page.rows["all_max"] if waits or not page.is_straggler else page.written["all_max"]
        if data["allMaxAlone"] is not None:
            same = abs(data["allMaxAlone"]["energy"] / page.written["all_max"]["iteration_energy_j"] - 1) < EXACT
            require(page, same, "all-max without the wait is that of frontier.json")
        saving, slowdown = 100 * (1 - energy / base["iteration_energy_j"]), 100 * (time / base["iteration_time_s"] - 1)
        words = point["headline"].replace("\u00a0", " ")
        if found := re.search(rf"{NUMBER} % (less|more) energy", words):
            compare(page, words, [found[1]], [saving if found[2] == "less" else -saving])
        if found := re.search(rf", {NUMBER} % (slower|faster)", words):
            compare(page, words, [found[1]], [abs(slowdown)])
            require(page, (found[2] == "slower") == (slowdown > 0), words)


def check(page):
    check_table(page)
    check_rivals(page)
    (check_switching if page.is_switching else check_free)(page)
