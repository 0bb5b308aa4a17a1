"""A plan for one training iteration, computed here: what ``harpe plan`` computes, as an object.

The command does the work, in a process of its own: Ctrl-C ends it, and its memory goes with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from ._keywords import guesses_keywords
from ._plan_options import arguments_of, in_python, percentage
from ._run_command import run_command
from ._temporary_folder import temporary_folder
from .drawing import frontier_picture, html_paragraph, html_table
from .errors import Error, InvalidInputError, error_of

__all__ = ["FrontierPoint", "Plan", "PlanFigures", "plan"]

_SYNTHETIC = (
    "Synthetic profile: times and energies come from a model of a GPU, not from measurements."
)

Quantity = float | str
"""A number, or a text with its unit: ``"250ms"``, ``"2.4kW"``."""
Quantities = Quantity | Sequence[float]
"""One for all, or one each."""


class Table(Protocol):
    """A profile in memory, such as a pandas DataFrame."""

    def to_csv(self, *, index: bool) -> str: ...


@dataclass(frozen=True)
class PlanFigures:
    """Figures of one iteration under one plan. Fractions: 0.05 is 5 %."""

    iteration_time_s: float
    iteration_energy_j: float
    slowdown: float
    """Relative to the fastest possible iteration."""
    saving: float
    """Saving of energy relative to all-max: every instruction at its highest clock."""
    average_power_w: float
    lower_bound_j: float
    """No choice of measured clocks needs less energy in this time."""
    gap: float
    """Excess of the energy over the lower bound."""
    clock_changes: int


@dataclass(frozen=True)
class FrontierPoint:
    """A point of the frontier: no plan needs less energy in this time."""

    iteration_time_s: float
    lower_bound_j: float


@dataclass(frozen=True)
class Plan:
    """A plan, its savings, and its frontier. ``print`` shows the figures; a notebook draws the
    frontier."""

    schedule: str
    stages: int
    micro_batches: int
    objective: str
    synthetic: bool
    """True if the profile was computed by a model of a GPU, not measured."""
    chosen: PlanFigures
    all_max: PlanFigures
    fastest: PlanFigures
    least_energy: PlanFigures
    tight_bound_j: float
    """No plan needs less energy in the time of ``chosen``. ``chosen.lower_bound_j``, for which an
    instruction may mix clocks, is at most this."""
    frontier: tuple[FrontierPoint, ...] = field(repr=False)
    """Fastest point first."""
    document: dict[str, Any] = field(repr=False)
    """``plan.json``: a setting for every instruction (docs/formats.md)."""
    notes: tuple[str, ...] = ()
    _inputs: _Inputs | None = field(default=None, repr=False, compare=False)

    @property
    def iteration_time_s(self) -> float:
        return self.chosen.iteration_time_s

    @property
    def iteration_energy_j(self) -> float:
        return self.chosen.iteration_energy_j

    @property
    def saving(self) -> float:
        return self.chosen.saving

    @property
    def slowdown(self) -> float:
        return self.chosen.slowdown

    @property
    def gap(self) -> float:
        return self.chosen.gap

    def save(
        self,
        directory: str | os.PathLike[str],
        *,
        points: int = 50,
        certificate: bool = False,
        whole_trace: bool = False,
    ) -> list[Path]:
        """Writes the files of ``harpe plan --out``: plan.json, frontier.json, report.html and
        others, from the inputs as they were at the time of planning.

        :param points: number of plans along the frontier, which the report offers for selection
        :param certificate: also writes the proof of the lower bound, for ``harpe verify``
        :param whole_trace: writes every instruction to trace.json, even above 16,384; by default
            only the first, a middle and the last part of the iteration are written then
        """
        if self._inputs is None:
            raise InvalidInputError("this plan was not made by harpe.plan, and has no inputs")
        with temporary_folder("plan") as folder:
            # Runs in the folder of the inputs: the report contains its command, and the name of a
            # temporary folder would make each report different.
            arguments = [
                *self._inputs.arguments_in(folder, named="."),
                *("--out", os.path.abspath(directory), "--points", str(points)),
                *(["--certificate"] if certificate else []),
                *(["--whole-trace"] if whole_trace else []),
            ]
            files = _run(arguments, within=os.fspath(folder))["files"]
            return [Path(directory) / Path(file).name for file in files]

    def __str__(self) -> str:
        chosen = self.chosen
        synthetic = "synthetic profile, " if self.synthetic else ""
        return (
            f"{synthetic}{self.schedule}, {self.stages} stages, {self.micro_batches} micro-"
            f"batches, {self.objective}: {chosen.iteration_time_s:.4g} s,"
            f" {chosen.iteration_energy_j:.6g} J an iteration; {_percent(chosen.saving)} less"
            f" energy than all-max, {_percent(chosen.slowdown)} slower than the fastest,"
            f" at most {_percent(self.iteration_energy_j / self.tight_bound_j - 1)} above the least"
            " possible"
        )

    def _repr_html_(self) -> str:
        rows = [
            (name, *_cells(figures))
            for name, figures in (
                ("all-max", self.all_max),
                ("fastest", self.fastest),
                (f"chosen ({self.objective})", self.chosen),
                ("least energy", self.least_energy),
            )
        ]
        title = f"{self.schedule}, {self.stages} stages, {self.micro_batches} micro-batches"
        heads = ("", "time", "slowdown", "energy", "saving", "power", "gap")
        said = html_paragraph(title)
        if self.synthetic:
            said += html_paragraph(_SYNTHETIC, warns=True)
        picture = frontier_picture(
            [(point.iteration_time_s, point.lower_bound_j) for point in self.frontier],
            [
                ("all-max", self.all_max.iteration_time_s, self.all_max.iteration_energy_j),
                ("chosen", self.chosen.iteration_time_s, self.chosen.iteration_energy_j),
            ],
            title,
        )
        notes = "".join(html_paragraph(note) for note in self.notes)
        return said + picture + html_table(heads, rows, marked=2) + notes


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %" if abs(fraction) >= 5e-6 else "0 %"


def _cells(figures: PlanFigures) -> tuple[str, ...]:
    return (
        f"{figures.iteration_time_s:.4f} s",
        f"{100 * figures.slowdown:.2f} %",
        f"{figures.iteration_energy_j:,.1f} J".replace(",", " "),
        f"{100 * figures.saving:.2f} %",
        f"{figures.average_power_w:,.1f} W".replace(",", " "),
        f"{100 * figures.gap:.3f} %",
    )


@guesses_keywords
def plan(
    profile: str | os.PathLike[str] | Table,
    *,
    micro_batches: int,
    schedule: str | os.PathLike[str] = "1f1b",
    blocking_power: Quantities | None = None,
    stages: int | None = None,
    chunks: int | None = None,
    gpus_per_stage: int | None = None,
    slowdown: float | str | None = None,
    deadline_s: Quantity | None = None,
    straggler_s: Quantity | None = None,
    power_cap_w: Quantity | None = None,
    least_energy: bool = False,
    switch_latency_s: Quantity | None = None,
    client: str | None = None,
    min_dwell_s: Quantity | None = None,
    transfer_forward_s: Quantities | None = None,
    transfer_backward_s: Quantities | None = None,
    transfer_mode: str | None = None,
    load_s: Quantities | None = None,
    reduce_s: Quantities | None = None,
    optimizer_s: Quantities | None = None,
    fit: bool = False,
    quick: bool = False,
    search_time_s: Quantity | None = None,
    job: str | None = None,
) -> Plan:
    """Plans the clocks of one training iteration, with the whole frontier of time and energy::

        plan = harpe.plan("gpt3.csv", schedule="1f1b", micro_batches=96, blocking_power=83.64)
        print(plan)
        plan.save("plan")

    At most one objective is given (``slowdown`` to ``least_energy``); the default is
    ``slowdown=0``. Seconds and watts may be texts with another unit, as for the command:
    ``"250ms"``, ``"2.4kW"``.

    :param profile: a file with the columns of docs/formats.md, or a table with ``to_csv``
    :param micro_batches: of one iteration
    :param schedule: a name that ``harpe schedule`` accepts, or a file
    :param blocking_power: W of a waiting GPU; or one value per stage. The default is 0, which
        ``notes`` mentions
    :param stages: by default the stages of the profile
    :param chunks: of the model per stage, for interleaved schedules (default 2)
    :param slowdown: relative to the fastest iteration: 0.05 or ``"5%"``
    :param straggler_s: the iteration time of a pipeline that this one waits for, or ``"1.2x"`` that
        at all-max
    :param power_cap_w: average of the whole pipeline
    :param switch_latency_s: until a new clock is in force; by default read from
        ``PROFILE.latency.csv`` next to the profile, else 0
    :param client: that will request the clocks: ``"any"``, or ``"harpe"``, which requests them
        ahead
    :param min_dwell_s: shortest time between two changes of a stage's clock
    :param fit: replaces noisy measurements by a smooth fit over the clocks
    :param quick: plans in milliseconds, with a slightly larger gap
    :param search_time_s: continues to search for a better plan for this long
    :raises InvalidInputError: inputs are wrong; ``diagnostics`` has their positions
    :raises InfeasibleError: no plan meets the objective
    """
    options = {
        "microbatches": micro_batches,
        "stages": stages,
        "chunks": chunks,
        "gpus-per-stage": gpus_per_stage,
        "blocking-power": blocking_power,
        "slowdown": None if slowdown is None else percentage(slowdown),
        "deadline": deadline_s,
        "straggler": straggler_s,
        "power-cap": power_cap_w,
        "least-energy": least_energy,
        "switch-latency": switch_latency_s,
        "client": client,
        "min-dwell": min_dwell_s,
        "transfer-forward": transfer_forward_s,
        "transfer-backward": transfer_backward_s,
        "transfer-mode": transfer_mode,
        "load": load_s,
        "reduce": reduce_s,
        "optimizer": optimizer_s,
        "fit": fit,
        "quick": quick,
        "job": job,
    }
    searched = {**options, "search-time": search_time_s}
    inputs = _Inputs.of(profile, schedule, searched)
    with temporary_folder("plan") as folder:
        out = folder / "out"
        arguments = inputs.arguments_in(folder, only_tables=True)
        summary = _run([*arguments, "--out", os.fspath(out), "--points", "0"])
        document = json.loads((out / "plan.json").read_text(encoding="utf-8"))
        frontier = json.loads((out / "frontier.json").read_text(encoding="utf-8"))
    if "search" in summary:  # reproduces the same plan, regardless of the time it takes
        windows = {**options, "search-windows": summary["search"]["windows"]}
        inputs = replace(inputs, options=tuple(arguments_of(windows)))
    return _plan_of(summary, document, frontier, inputs)


def _plan_of(
    summary: Mapping[str, Any],
    document: dict[str, Any],
    frontier: Mapping[str, Any],
    inputs: _Inputs,
) -> Plan:
    plans = summary["plans"]
    return Plan(
        schedule=summary["schedule"],
        stages=summary["stages"],
        micro_batches=summary["microbatches"],
        objective=summary["objective"],
        synthetic=summary["synthetic"],
        chosen=_figures(plans["chosen"]),
        all_max=_figures(plans["all_max"]),
        fastest=_figures(plans["fastest"]),
        least_energy=_figures(plans["least_energy"]),
        tight_bound_j=plans["chosen"]["tight_bound_j"],
        frontier=tuple(
            FrontierPoint(float(time), float(bound)) for time, bound in frontier["bound"]
        ),
        document=document,
        notes=tuple(summary["notes"]),
        _inputs=inputs,
    )


def _figures(of: Mapping[str, Any]) -> PlanFigures:
    return PlanFigures(
        iteration_time_s=of["iteration_time_s"],
        iteration_energy_j=of["iteration_energy_j"],
        slowdown=of["slowdown_percent"] / 100,
        saving=of["saving_percent"] / 100,
        average_power_w=of["average_power_w"],
        lower_bound_j=of["lower_bound_j"],
        gap=of["gap_percent"] / 100,
        clock_changes=of["clock_changes"],
    )


@dataclass(frozen=True)
class _Input:
    """An input file, or a table to be written as one, as first read."""

    name: str
    content: bytes
    path: str | None

    def place(self, folder: Path, named: str | None) -> str:
        path = folder / self.name
        path.write_bytes(self.content)
        return os.fspath(path) if named is None else os.path.join(named, self.name)


@dataclass(frozen=True)
class _Inputs:
    """Inputs of a plan, so that it can be made again even if the files have changed."""

    profile: _Input
    latency: _Input | None
    """The latency table beside the profile, where the command looks for it."""
    schedule: _Input | str
    options: tuple[str, ...]

    @staticmethod
    def of(
        profile: str | os.PathLike[str] | Table,
        schedule: str | os.PathLike[str],
        options: Mapping[str, Any],
    ) -> _Inputs:
        if isinstance(profile, (str, os.PathLike)):
            table = _file(profile)
            latency = _latency_beside(Path(profile))
        elif hasattr(profile, "to_csv"):
            table = _Input("profile.csv", profile.to_csv(index=False).encode(), None)
            latency = None
        else:
            raise InvalidInputError(
                f"a profile is a file or a table such as pandas', not {type(profile).__name__}"
            )
        is_file = isinstance(schedule, os.PathLike) or os.path.isfile(schedule)
        order = _file(schedule) if is_file else str(schedule)
        return _Inputs(table, latency, order, tuple(arguments_of(options)))

    def arguments_in(
        self, folder: Path, *, only_tables: bool = False, named: str | None = None
    ) -> list[str]:
        """Returns the command's arguments. With ``only_tables`` files keep the user's paths, for
        diagnostics. Otherwise they are written into the folder, which the arguments call
        ``named``."""

        def path(of: _Input | str) -> str:
            if isinstance(of, str):
                return of
            return of.path if only_tables and of.path is not None else of.place(folder, named)

        if not only_tables and self.latency is not None:
            self.latency.place(folder, named)
        return ["--profile", path(self.profile), "--schedule", path(self.schedule), *self.options]


def _latency_beside(profile: Path) -> _Input | None:
    """Returns the file that the command looks for: ``gpt3.latency.csv`` next to ``gpt3.csv``,
    either of them plain or compressed by gzip."""
    if not profile.name:
        return None
    plain = profile.with_suffix("") if profile.suffix == ".gz" else profile
    for ending in (".latency.csv", ".latency.csv.gz"):
        table = plain.with_suffix(ending)
        if table.is_file():
            return _file(table)
    return None


def _file(path: str | os.PathLike[str]) -> _Input:
    """Reads a file. The command reports files that are missing or unreadable, as for all its
    files."""
    named = Path(path)
    try:
        content = named.read_bytes()
    except OSError:
        content = b""
    return _Input(named.name or "profile.csv", content, os.fspath(path))


def _run(arguments: Sequence[str], within: str | None = None) -> dict[str, Any]:
    """Runs ``harpe plan`` and returns its summary."""
    try:
        summary = run_command(["plan", "--json", *arguments], within)
    except Error as error:
        said = [replace(one, message=in_python(one.message)) for one in error.diagnostics]
        text = "\n".join(map(str, said)) or str(error)
        raise error_of(error.code, text, diagnostics=said) from None
    doubts = dict.fromkeys([*summary.get("warnings", []), *summary["notes"]])  # some are in both
    return {**summary, "notes": [in_python(note) for note in doubts]}
