"""``harpe.plan``: what it gives is what the command gives, and what is wrong says where."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

import harpe

COMMAND = os.environ.get("HARPE_COMMAND", "")
pytestmark = pytest.mark.skipif(not Path(COMMAND).is_file(), reason="HARPE_COMMAND is not built")

ROWS = [
    # stage, instruction, MHz, s, J: the second stage has less work
    (stage, kind, clock, round(base * weight * (1400 / clock) ** 0.8, 6), round(joules, 6))
    for stage, weight in ((0, 1.0), (1, 0.7))
    for kind, base in (("forward", 0.05), ("backward", 0.1))
    for clock, joules in (
        (1400, 380 * base * weight),
        (1200, 300 * base * weight),
        (1000, 250 * base * weight),
        (800, 235 * base * weight),
    )
]


def csv() -> str:
    lines = [",".join(map(str, row)) for row in ROWS]
    return "\n".join(["stage,instruction,frequency,time,energy", *lines, ""])


class Table:
    """A table with the method of pandas' DataFrame."""

    def to_csv(self, *, index: bool) -> str:
        assert not index
        return csv()


@pytest.fixture(autouse=True)
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARPE_COMMAND", COMMAND)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv"
    path.write_text(csv())
    return path


def plan(profile: Any, **options: Any) -> harpe.Plan:
    return harpe.plan(profile, **{"micro_batches": 6, "blocking_power": 70.0, **options})


def command_says(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([COMMAND, "plan", "--json", *arguments], capture_output=True, check=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_it_is_the_plan_of_the_command(profile: Path, tmp_path: Path) -> None:
    said = command_says(
        *("--profile", str(profile), "--micro-batches", "6", "--blocking-power", "70,60"),
        *("--slowdown", "5", "--schedule", "gpipe", "--out", str(tmp_path / "out")),
    )
    made = plan(profile, schedule="gpipe", blocking_power=[70, 60.0], slowdown=0.05)
    for name in ("chosen", "all_max", "fastest", "least_energy"):
        figures, expected = getattr(made, name), said["plans"][name]
        assert figures.iteration_time_s == expected["iteration_time_s"]
        assert figures.iteration_energy_j == expected["iteration_energy_j"]
        assert figures.saving == pytest.approx(expected["saving_percent"] / 100)
        assert figures.gap == pytest.approx(expected["gap_percent"] / 100)
    assert made.document == json.loads((tmp_path / "out" / "plan.json").read_text())
    assert (made.schedule, made.stages, made.micro_batches) == ("gpipe", 2, 6)
    assert made.iteration_time_s <= 1.05 * made.fastest.iteration_time_s * (1 + 1e-9)
    assert made.saving == made.chosen.saving > 0
    assert not made.synthetic


def test_the_frontier_falls_and_no_plan_is_below_it(profile: Path) -> None:
    made = plan(profile)
    times = [point.iteration_time_s for point in made.frontier]
    bounds = [point.lower_bound_j for point in made.frontier]
    assert times == sorted(times)
    assert times[0] == pytest.approx(made.fastest.iteration_time_s)
    assert min(bounds) <= made.least_energy.iteration_energy_j
    assert made.chosen.lower_bound_j <= made.iteration_energy_j
    assert made.gap == pytest.approx(made.iteration_energy_j / made.chosen.lower_bound_j - 1)
    assert made.chosen.lower_bound_j <= made.tight_bound_j <= made.iteration_energy_j


def test_a_table_is_as_good_as_a_file(profile: Path) -> None:
    assert plan(Table()).document == plan(profile).document


def test_what_is_saved_is_what_was_planned_whatever_becomes_of_the_profile(
    profile: Path, tmp_path: Path
) -> None:
    made = plan(profile, least_energy=True)
    profile.write_text("something else")
    files = made.save(tmp_path / "saved", points=3, certificate=True)
    names = {file.name for file in files}
    assert {"plan.json", "frontier.json", "report.html", "certificate.json"} <= names
    assert json.loads((tmp_path / "saved" / "plan.json").read_text()) == made.document
    assert plan(Table()).save(tmp_path / "table", points=0)


def test_the_latency_table_beside_a_profile_is_used_also_to_save(
    profile: Path, tmp_path: Path
) -> None:
    table = profile.with_suffix(".latency.csv")
    table.write_text("frequency,latency\n800,0.02\n1400,0.01\n")
    made = plan(profile, slowdown=0.05, quick=True)
    assert made.notes == (
        "Clock changes are late as in small.latency.csv (10 to 20 ms); "
        "switch_latency_s 0 assumes free changes",
    )
    assert made.document != plan(profile, slowdown=0.05, quick=True, switch_latency_s=0).document
    table.unlink()
    made.save(tmp_path / "saved", points=0)
    assert json.loads((tmp_path / "saved" / "plan.json").read_text()) == made.document
    table.write_text("frequency,latency\n800,soon\n")
    with pytest.raises(harpe.InvalidInputError, match="switch_latency_s 0") as refused:
        plan(profile)
    assert refused.value.diagnostics[0].line == 2


def test_files_compressed_by_gzip_give_the_same_plan(profile: Path, tmp_path: Path) -> None:
    table = profile.with_suffix(".latency.csv")
    table.write_text("frequency,latency\n800,0.02\n1400,0.01\n")
    from_plain = plan(profile, slowdown=0.05, quick=True)
    for file in (profile, table):
        Path(f"{file}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    made = plan(f"{profile}.gz", slowdown=0.05, quick=True)
    assert made.document == from_plain.document
    made.save(tmp_path / "saved", points=0)
    assert json.loads((tmp_path / "saved" / "plan.json").read_text()) == made.document


def test_a_trace_is_whole_where_that_is_asked(profile: Path, tmp_path: Path) -> None:
    micro_batches = 4100  # 16,400 instructions: more than a trace has by default
    made = plan(profile, schedule="gpipe", micro_batches=micro_batches, quick=True)

    def instructions(folder: str, *, whole_trace: bool) -> int:
        made.save(tmp_path / folder, points=0, whole_trace=whole_trace)
        text = (tmp_path / folder / "trace.json").read_text()
        return sum(event["ph"] == "X" for event in json.loads(text)["traceEvents"])

    assert 0 < instructions("part", whole_trace=False) < 4 * micro_batches
    assert instructions("whole", whole_trace=True) >= 4 * micro_batches


def test_saving_again_gives_the_same_bytes(profile: Path, tmp_path: Path) -> None:
    made = plan(profile)
    first = made.save(tmp_path / "first", points=0)
    again = made.save(tmp_path / "again", points=0)
    assert [file.parent for file in first] == [tmp_path / "first"] * len(first)
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in again]


def test_wrong_rows_are_named_by_file_line_and_column(profile: Path) -> None:
    profile.write_text(
        csv().replace("0.05,19.0", "fast,19.0", 1).replace("1,backward", "1,sideways", 1)
    )
    with pytest.raises(harpe.InvalidInputError) as raised:
        plan(profile)
    places = [(each.file, each.line, each.column) for each in raised.value.diagnostics]
    assert (str(profile), 2, 16) in places
    assert len(places) > 1
    assert f"{profile}:2:16: time 'fast' is not a number" in str(raised.value)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"micro_batches": 0}, harpe.InvalidInputError, "micro_batches: expected a whole number"),
        ({"micro_batches": "many"}, harpe.InvalidInputError, "micro_batches"),
        ({"schedule": "3f2b"}, harpe.Error, "3f2b"),
        ({"slowdown": -0.1}, harpe.InvalidInputError, "slowdown is a fraction of 0 or more"),
        ({"slowdown": "5"}, harpe.InvalidInputError, "or a text such as '5%', not '5'"),
        ({"slowdown": [0.1]}, harpe.InvalidInputError, "slowdown is a fraction such as 0.05"),
        ({"blocking_power": [70, None]}, harpe.InvalidInputError, "blocking_power is a number"),
        ({"load_s": [None]}, harpe.InvalidInputError, "load_s is a number"),
        ({"slowdown": 0.0, "deadline_s": 3.0}, harpe.InvalidInputError, "deadline_s and slowdown"),
        ({"deadline_s": 1e-3}, harpe.InfeasibleError, "0.001 s"),
        ({"straggler_s": 0.2}, harpe.InfeasibleError, "straggler_s 0.2 s is an iteration of"),
        ({"profile": 7}, harpe.InvalidInputError, "a profile is a file or a table"),
    ],
)
def test_what_cannot_be_planned_is_said(
    profile: Path, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        plan(options.pop("profile", profile), **options)


@pytest.mark.parametrize("percent", [1, 5, 250.0])
def test_a_slowdown_in_percent_is_refused_in_words_of_fractions(
    profile: Path, percent: float
) -> None:
    said = f"slowdown is a fraction: {percent:g} is {100 * percent:g} %; is {percent / 100:g} meant"
    with pytest.raises(harpe.InvalidInputError, match=re.escape(said)):
        plan(profile, slowdown=percent)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("microbatches", "micro_batches"),
        ("num_microbatches", "micro_batches"),
        ("deadline", "deadline_s"),
        ("power_cap", "power_cap_w"),
        ("gpu_per_stage", "gpus_per_stage"),
    ],
)
def test_a_keyword_that_is_nearly_one_is_named(written: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"'{written}'; did you mean '{meant}'[?]"):
        harpe.plan("profile.csv", **{written: 4})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"keyword argument 'colour'$"):
        harpe.plan("profile.csv", colour=4)  # type: ignore[call-arg]


def test_quantities_may_have_their_units(profile: Path) -> None:
    assert plan(profile, slowdown="5%").document == plan(profile, slowdown=0.05).document
    assert plan(profile, deadline_s="1500ms").document == plan(profile, deadline_s=1.5).document
    assert plan(profile, straggler_s="1.2x").objective == "straggler 1.2 x all-max"


def test_what_the_command_notes_and_warns_of_is_in_the_notes_in_words_of_python(
    profile: Path,
) -> None:
    assert plan(profile).notes == ()
    (left_out,) = plan(profile, stages=1).notes
    assert left_out.startswith("the profile has 2 stages, of which the schedule uses 1")
    (note,) = harpe.plan(profile, micro_batches=6).notes
    assert note.startswith("no blocking_power given: waiting GPUs are counted with 0 W")
    (note,) = plan(profile, deadline_s=3.0).notes
    assert note.startswith("deadline_s 3 s is beyond the least energy")


def test_a_profile_that_is_missing_is_an_error_of_files_too(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"nowhere\.csv"):
        plan(tmp_path / "nowhere.csv")


def test_without_the_command_it_is_said_what_to_do(
    profile: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HARPE_COMMAND", str(tmp_path / "none"))
    with pytest.raises(harpe.UnavailableError, match="No such file"):
        plan(profile)
    monkeypatch.delenv("HARPE_COMMAND")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("harpe._command.__file__", str(tmp_path / "_command.py"))
    with pytest.raises(harpe.UnavailableError, match="install the package with pip"):
        plan(profile)


def test_in_a_notebook_the_frontier_is_drawn_in_the_colours_of_its_page(profile: Path) -> None:
    made = plan(profile, job="<b>")
    page = made._repr_html_()
    picture = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    line = next(element for element in picture.iter() if element.tag.endswith("polyline"))
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert points == sorted(points), "energy falls to the right, and so does the line"
    assert all(0 < x < 640 and 0 < y < 320 for x, y in points)
    assert "currentColor" in page
    assert "#fff" not in page
    assert "chosen (no slowdown)" in page


def test_as_text_it_is_one_line_with_the_figures(profile: Path) -> None:
    made = plan(profile)
    assert re.fullmatch(
        r"1f1b, 2 stages, 6 micro-batches, no slowdown: [\d.]+ s, [\d.]+ J an iteration; [\d.]+ % "
        r"less energy than all-max, 0 % slower than the fastest, at most [\d.e-]+ % above the least"
        r" possible",
        str(made),
    )


def test_a_search_that_goes_on_saves_the_plan_it_found(profile: Path, tmp_path: Path) -> None:
    searched = plan(profile, search_time_s=0.2)
    assert searched.chosen.iteration_energy_j <= plan(profile).chosen.iteration_energy_j
    searched.save(tmp_path / "saved", points=0)
    saved = json.loads((tmp_path / "saved/plan.json").read_text())
    assert saved == searched.document


def test_files_that_the_command_had_to_write_elsewhere_are_an_error(
    profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(profile)
    command = tmp_path / "harpe"
    command.write_text(
        '#!/bin/sh\necho \'{"files": [], "warnings": ["full; kept as /x"]}\'; exit 2\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("HARPE_COMMAND", str(command))
    with pytest.raises(harpe.Error, match="full; kept as /x") as raised:
        made.save(tmp_path / "out")
    assert raised.value.code == "io"
