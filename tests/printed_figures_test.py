#!/usr/bin/env python3
"""No figure that `harpe plan` prints or writes is above or below what its name says, for every objective and way in
which clocks change. Each is compared with the plans and bounds of the other files, and of the other objectives.

    printed_figures_test.py build/quick/src/harpe/command/cli/harpe
"""

import itertools
import pathlib
import sys
import tempfile

import printed_text
from planned_page import BLOCKING_W, EXACT, Page, Profile, require, run

# Largest excess of a plan's energy over that of a plan found for another objective. Small pipelines are planned
# exactly; a search is less exact for larger ones, and least exact with a dwell.
SMALL, SEARCHED, SEARCHED_DWELL = 1e-6, 2e-3, 1.5e-2
DWELL_S = 0.08
LONGEST_S = {"late": 0.01, "table": 0.14}
LATENCY_TABLE = """frequency,latency,least_latency
855,0.012,0.009
1095,0.010,0.008
1110,0.140,0.020
1125,0.010,0.008
1410,0.005,0.004
"""
CLOCKS = {
    "free": (),
    "late": ("--switch-latency", "10ms"),
    "table": ("--switch-latency", "latency.csv"),
    "dwell": ("--min-dwell", DWELL_S),
    "ahead": ("--switch-latency", "10ms", "--client", "harpe"),
}


def objectives(first):
    """Returns options of every objective except no slowdown, within reach of the plans of the first page."""
    fastest, least = first.rows["fastest"], first.rows["least_energy"]
    cap = (fastest["average_power_w"] + least["average_power_w"]) / 2
    return (
        ("--slowdown", "5%"),
        ("--deadline", repr(1.08 * fastest["iteration_time_s"])),
        ("--power-cap", repr(cap)),
        ("--least-energy",),
        ("--straggler", repr(1.2 * least["iteration_time_s"])),
        ("--straggler", "1.1x"),
    )


def ends_by(page, reference):
    """Returns the time by which the objective requires the chosen plan to end, s; None if there is no limit. Slowdowns
    are relative to `reference`."""
    kind, _, value = page.objective.partition(" ")
    if kind in ("", "--slowdown"):
        fastest = reference.rows["fastest"]["iteration_time_s"] if page.is_switching else page.frontier["min_time_s"]
        return fastest * (1 + (float(value[:-1]) / 100 if value else 0))
    if kind == "--deadline":
        return float(value)
    if kind == "--straggler":
        return float(value[:-1]) * page.rows["all_max"]["makespan_s"] if value.endswith("x") else float(value)
    return None


def check_objective(page, reference):
    chosen = page.rows["chosen"]
    last = ends_by(page, reference)
    if page.is_straggler:
        require(page, chosen["iteration_time_s"] >= last * (1 - EXACT), f"the chosen plan waits for {last} s")
        require(page, page.makespan <= last * (1 + EXACT) or page.makespan <= page.frontier["min_time_s"] * (1 + EXACT),
                f"the chosen plan ends by {last} s")
        for name in ("all_max", "fastest", "least_energy"):
            require(page, page.rows[name]["iteration_time_s"] >= last * (1 - EXACT), f"{name} waits for {last} s")
    elif last is not None:
        require(page, chosen["iteration_time_s"] <= last * (1 + EXACT), f"the chosen plan ends by {last} s")
    if page.objective.startswith("--power-cap"):
        cap = float(page.objective.split()[1])
        require(page, chosen["average_power_w"] <= cap * (1 + EXACT), f"the chosen plan keeps {cap} W")
    if page.objective == "--least-energy":
        for figure in ("iteration_time_s", "iteration_energy_j"):
            require(page, chosen[figure] == page.rows["least_energy"][figure], f"{figure} of the least energy")


def check_bounds(page):
    chosen = page.rows["chosen"]
    for name, row in page.rows.items():
        require(page, row["lower_bound_j"] <= row["iteration_energy_j"] * (1 + EXACT), f"{name} is above its bound")
        require(page, abs(row["lower_bound_j"] / page.bound_at(row["iteration_time_s"]) - 1) < 3e-7 or
                row["lower_bound_j"] == row["iteration_energy_j"], f"the bound of {name} is that of frontier.json")
    require(page, chosen["lower_bound_j"] <= chosen["tight_bound_j"] * (1 + EXACT), "the bound is tightened, not loosened")
    require(page, chosen["tight_bound_j"] <= chosen["iteration_energy_j"] * (1 + EXACT), "no plan is below the tight bound")
    proven = page.verified["proven_bound_j"]
    require(page, page.verified["accepted"], "harpe verify accepts")
    require(page, proven <= chosen["iteration_energy_j"] * (1 + EXACT), "no plan is below the proven bound")
    require(page, abs(proven / chosen["tight_bound_j"] - 1) < 1e-8, f"the certificate proves the tight bound: {proven}")
    proven_gap = 100 * (chosen["iteration_energy_j"] / proven - 1)
    require(page, abs(page.verified["gap_percent"] - proven_gap) < 1e-6, "the gap is against the proven bound")


def check_points(page):
    for point in page.points:
        energy = point["iteration_energy_j"]
        require(page, point["lower_bound_j"] <= energy * (1 + EXACT), "points are above their bounds")
        require(page, point.get("tight_bound_j", 0) <= energy * (1 + EXACT), "points are above their tight bounds")
        require(page, point["lower_bound_j"] <= point.get("tight_bound_j", energy) * (1 + EXACT), "tight bounds are tighter")
        time, least = page.replay(page.clocks_of(point), point["iteration_time_s"])
        if page.is_late:
            require(page, time <= point["iteration_time_s"] * (1 + EXACT), "late clocks end no sooner than free ones")
            require(page, least <= energy * (1 + EXACT), "late clocks need no less than free ones")
        else:
            end = max(time, page.waits_until if point["iteration_time_s"] == page.waits_until else 0)
            require(page, abs(end / point["iteration_time_s"] - 1) < EXACT, f"the clocks end at {time} s: {point}")
            require(page, abs(least / energy - 1) < EXACT, f"the clocks need {least} J: {point}")
    chosen = page.rows["chosen"]
    for before, after in itertools.pairwise(page.points):
        require(page, before["iteration_time_s"] < after["iteration_time_s"], "points rise in time")
        # The chosen plan may wait, or satisfy a power cap that a faster plan with less energy violates.
        is_bound = page.objective.startswith(("--straggler", "--power-cap"))
        if not is_bound or after["iteration_time_s"] != chosen["iteration_time_s"]:
            require(page, before["iteration_energy_j"] > after["iteration_energy_j"], "points fall in energy")
    for row in (*page.rows.values(), *page.points):
        require(page, page.waiting(page.rows["fastest"])[0] <= page.waiting(row)[0] * (1 + EXACT), f"fastest: {row}")
        require(page, page.waiting(page.rows["least_energy"])[1] <= page.waiting(row)[1] * (1 + EXACT),
                f"least energy: {row}")


def check_late(page):
    """Checks the costs of late clocks, actual or hypothetical."""
    chosen, all_max = page.rows["chosen"], page.rows["all_max"]
    free, replay = page.summary["plans"].get("free_switching"), page.summary["plans"].get("late_replay")
    require(page, (free is not None) == page.is_switching, "what free switching needs is there if switching is not free")
    if free is not None and not page.objective.startswith("--power-cap"):
        require(page, free["iteration_energy_j"] <= chosen["iteration_energy_j"] * (1 + page.searched), "free is cheaper")
        require(page, free["iteration_energy_j"] >= page.bound_at(free["iteration_time_s"]) * (1 - EXACT), "above its bound")
    if replay is not None:
        require(page, replay["iteration_energy_j"] >= chosen["iteration_energy_j"] * (1 - EXACT), "late is not cheaper")
        require(page, replay["iteration_time_s"] >= chosen["iteration_time_s"] * (1 - EXACT), "late is not faster")
        saving = 100 * (1 - replay["iteration_energy_j"] / all_max["iteration_energy_j"])
        require(page, abs(replay["saving_percent"] - saving) < 1e-6, "saving of the late replay")
    page.check_counted_latency(LONGEST_S["table" if page.clocks == "table" else "late"])


def check_rivals(page):
    """Checks one clock for all GPUs by the definition of each comparison, from the times of all clocks."""
    alike = 1e-3  # documented: within 0.1 % of the time, or of the energy of all-max, counts as equal
    chosen, all_max = page.rows["chosen"], page.rows["all_max"]
    clocks = [{"frequency_mhz": p["frequency_mhz"], **dict(zip(("iteration_time_s", "iteration_energy_j"), page.waiting(p)))}
              for p in page.written["one_setting"]]  # fmt: skip
    quickest = sorted(clocks, key=lambda p: (p["iteration_time_s"], p["iteration_energy_j"]))

    def first_within(joules):
        return next((p for p in quickest if p["iteration_energy_j"] <= joules), None)

    by_then = [p for p in clocks if p["iteration_time_s"] <= chosen["iteration_time_s"] * (1 + alike)]
    no_slower = min(by_then, key=lambda p: p["iteration_energy_j"], default=None)
    saves = all_max["iteration_energy_j"] * (1 - alike)
    is_cheaper = no_slower is not None and no_slower["iteration_energy_j"] <= saves
    expected = {"no_slower": no_slower,
                "next_cheaper": None if is_cheaper else first_within(saves),
                "as_cheap": first_within(chosen["iteration_energy_j"])}  # fmt: skip
    is_as_cheap = no_slower is not None and no_slower["iteration_energy_j"] <= chosen["iteration_energy_j"]
    if is_as_cheap or expected["as_cheap"] == expected["next_cheaper"]:
        expected["as_cheap"] = None
    for name, point in expected.items():
        said = page.summary["rivals"]["one_clock"][name]
        require(page, (said is None) == (point is None) and (point is None or all(
            abs(said[key] / value - 1) < EXACT for key, value in point.items())), f"{name}: {said}, not {point}")
        if said is not None:
            page.check_percentages(said, name)


def check_page(page, reference):
    page.check_plan()
    page.check_dwell(DWELL_S)
    page.check_all_max()
    for name, row in page.rows.items():
        page.check_percentages(row, name)
        power = row["iteration_energy_j"] / row["iteration_time_s"]
        require(page, abs(row["average_power_w"] / power - 1) < EXACT, f"power of {name}")
        gap = 100 * (row["iteration_energy_j"] / row["lower_bound_j"] - 1)
        require(page, abs(row["gap_percent"] - gap) < 1e-6, f"gap of {name}")
    check_objective(page, reference)
    check_bounds(page)
    check_points(page)
    check_late(page)
    check_rivals(page)
    printed_text.check_report(page)


def check_together(pages, reference):
    """Compares plans of one page with bounds, and approximately with plans, of the other objectives' pages."""
    for page in pages:
        chosen, searched = page.rows["chosen"], page.searched
        cap = float(page.objective.split()[1]) if page.objective.startswith("--power-cap") else None
        limit = ends_by(page, reference)
        for other in pages:
            for plan in other.known_plans():
                time, energy = plan["iteration_time_s"], plan["iteration_energy_j"]
                seen = f"{plan} of {other.command}"
                if page.is_straggler and time <= chosen["iteration_time_s"]:
                    time, energy = page.waiting(plan)
                if time <= chosen["iteration_time_s"] * (1 - EXACT):
                    require(page, energy >= chosen["tight_bound_j"] * (1 - EXACT), f"a plan below the tight bound: {seen}")
                if limit is not None and time <= limit:
                    require(page, energy >= chosen["iteration_energy_j"] * (1 - searched), f"a cheaper plan: {seen}")
                if cap is not None and energy / time <= cap:
                    require(page, time >= chosen["iteration_time_s"] * (1 - searched), f"a faster one keeps the cap: {seen}")
                if not page.is_straggler:
                    require(page, time >= page.rows["fastest"]["iteration_time_s"] * (1 - searched), f"faster: {seen}")
                    require(page, energy >= page.rows["least_energy"]["iteration_energy_j"] * (1 - searched),
                            f"less energy: {seen}")


def some_clocks(text, step):
    """Returns a profile with every `step`-th clock, from the highest down; the clock with the long latency is among
    them."""
    lines = text.splitlines(keepends=True)
    clocks = sorted({int(line.split(",")[2]) for line in lines if line[0].isdigit()}, reverse=True)[::step]
    assert 1110 in clocks, clocks
    return "".join(line for line in lines if not line[0].isdigit() or int(line.split(",")[2]) in clocks)


def caps_below(points):
    """Yields options of power caps that the plans of a frontier just miss."""
    for point in points[1:-1]:
        for share in (1 - 1e-5, 1 - 3e-4):
            yield "--power-cap", repr(share * point["iteration_energy_j"] / point["iteration_time_s"])


def check_pipeline(harpe, folder, stages, micro_batches, clock_step):
    profile = folder / f"{stages}.csv"
    profile.write_text(some_clocks(run([harpe, "synth", "--stages", stages]), clock_step))
    rows = Profile(profile)
    is_small = stages * micro_batches * 2 <= 18  # planned exactly
    start = ["--profile", profile, "--micro-batches", micro_batches, "--blocking-power", BLOCKING_W, "--points", 5,
             *([] if is_small else ["--quick"])]  # fmt: skip
    checked = 0
    for kind, clocks in CLOCKS.items():
        searched = SMALL if is_small else SEARCHED_DWELL if kind == "dwell" else SEARCHED
        pages = []

        def add_page(*objective):
            options = [*start, *clocks, *objective]
            pages.append(Page(harpe, folder, rows, options, " ".join(objective), kind, searched))

        add_page()
        for options in objectives(pages[0]):
            add_page(*options)
        for options in caps_below(pages[0].points) if kind == "dwell" else ():  # the fastest of those that search
            add_page(*options)
        for each in pages:
            check_page(each, pages[0])
        # Checks the same figures in the text. With late clocks it takes as long as a search, so only a few are checked.
        for each in pages if kind in ("free", "dwell") else pages[1:6:2]:
            printed_text.check(each)
        check_together(pages, pages[0])
        checked += len(pages)
    return checked


def main():
    harpe = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "latency.csv").write_text(LATENCY_TABLE)
        checked = sum(check_pipeline(harpe, folder, *sizes) for sizes in ((2, 2, 5), (4, 8, 2)))
        print(f"{checked} pages")


if __name__ == "__main__":
    main()
