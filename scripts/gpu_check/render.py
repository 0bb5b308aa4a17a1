"""The table, the page and the pictures of a gpu_check.json; on the machine itself, and again anywhere:

    python3 -m gpu_check.render gpu_check.json [FOLDER]         prints the table; with FOLDER, writes page and pictures into it
    python3 -m gpu_check.render --validation docs/validation.md gpu_check.json...    its section on real GPUs
"""

import html
import importlib.util
import json
import os
import pathlib
import sys

from . import pictures

SIMULATED = "Simulated GPU: no figure here is a measurement."
TITLES = {"driver": "The driver", "counter": "Counter and power readings", "joules": "Joules", "hooks": "Hooks", "model": "The model"}
OTHERS = "Other processes used the GPU ({}): figures with a star include what they did."
MEASURED = ("counter", "joules", "hooks", "model")  # sections whose figures are affected
BEGIN, END = "<!-- gpu_check: begin -->", "<!-- gpu_check: end -->"
# Text cells, unlike the figures in tables of other pages.
CELLS = ".said td, .said th[scope=row], .said thead th { white-space: normal; text-align: left; vertical-align: top; max-width: 60ch; }"
# Harpe's assumptions until it has measured; docs/measuring.md and docs/client.md.
COUNTER_STEP, SENSOR_STEP, AVERAGE_WINDOW, HELD = 0.1, 0.1, 1.0, 0.95
CALL_P99 = 0.5e-6


def number(value, digits=3):
    """Returns a figure with that many significant digits."""
    if value is None:
        return "?"
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text else text


def seconds(value):
    if value is None:
        return "?"
    for unit, factor in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if abs(value) >= factor:
            return f"{number(value / factor)} {unit}"
    return f"{number(value * 1e9)} ns" if value else "0 s"


def percent(value, digits=3):
    return "?" if value is None else f"{number(100 * value, digits)} %"


def watts(value):
    return "?" if value is None else f"{value:.1f} W"


def joules(value, error=None):
    text = "?" if value is None else f"{value:.1f}" if abs(value) >= 10 else number(value)
    return f"{text} J" if error is None else f"{text} ± {number(error, 2)} J"


# --- Rows: (quantity, measured, Harpe's model or bar) ---------------------------------------------


def driver_rows(result, document):
    gpu = next((one for one in (result.get("harpe_devices") or {}).get("gpus", []) if one["uuid"] == (document["gpu"] or {}).get("uuid")),
               None)
    yield "driver", str(result.get("driver_version", "?")), ""
    if result.get("harpe_devices_error"):
        yield "harpe devices", result["harpe_devices_error"], ""
    if gpu:
        limit, graphics = gpu["power_limit"], gpu["graphics_clock"]["supported_mhz"] or []
        yield "state", gpu["state"] + (", MIG" if gpu["mig"] else ""), ""
        yield "power limit", " .. ".join(number(limit.get(key), 4) for key in ("lowest_w", "highest_w")) + \
            f" W, from the factory {number(limit.get('factory_w'), 4)} W, in force {number(limit.get('enforced_w'), 4)} W", ""
        yield "graphics clocks", f"{graphics[0]} .. {graphics[-1]} MHz, {len(graphics)} of them" if graphics else "not told", \
            model_clocks(document)
        yield "memory clocks", ", ".join(map(str, gpu["memory_clock"]["supported_mhz"] or [])) + " MHz", ""
        yield "metered scope", gpu["power"]["scope"], ""
        refused = sorted(name for name, one in gpu["may_set"].items() if not one["allowed"])
        yield "may set", "nothing" if len(refused) == len(gpu["may_set"]) else "all but " + ", ".join(refused) if refused else "all", \
            "set nothing"
    steps = sorted({step for one in (result.get("clocks") or {}).values() if isinstance(one, dict) for step in one.get("steps_mhz", [])})
    if steps:
        yield "clock steps", ", ".join(map(str, steps)) + " MHz", "15 MHz"
    known = {name: one for name, one in result.get("calls", {}).items() if one["median_us"] is not None and not one["error"]}
    if known:
        slowest = max(known, key=lambda name: known[name]["median_us"])
        yield "calls of the driver", f"median {known[slowest]['median_us']:.0f} us at most ({slowest}), longest " \
            f"{max(one['longest_us'] for one in known.values()):.0f} us", "below 1 ms"
    yield "not supported", ", ".join(name for name, one in result.get("calls", {}).items() if one["error"]) or "nothing", ""
    if document["gpu"] and document.get("settings_after") is None:
        yield "settings after the check", "not read again", "as before"
    if document.get("settings_after") is not None:
        same = document["settings_after"] == result.get("settings")
        yield "settings after the check", "as before" if same else f"{document['settings_after']}, before: {result.get('settings')}", \
            "as before"


def model_clocks(document):
    constants = ((document["sections"].get("model") or {}).get("result") or {}).get("constants")
    return f"{constants['min_clock_mhz']} .. {constants['max_clock_mhz']} MHz" if constants else "no model of this card"


def counter_rows(result, document):
    expected = {"counter": f"step {seconds(COUNTER_STEP)}", "instant_power": f"new value each {seconds(SENSOR_STEP)}",
                "average_power": f"over {seconds(AVERAGE_WINDOW)}"}
    for name, says in expected.items():
        one = result.get(name, {})
        label = name.replace("_", " ")
        if one.get("error"):
            yield label, one["error"], says
            continue
        spread = f" ± {seconds(one['step_deviation_s'])}" if one.get("step_deviation_s") is not None else ""
        yield f"{label}, changes each", (seconds(one["step_s"]) + spread) if one["step_s"] else "no change in that time", says
        unit = "J" if name == "counter" else "W"
        yield f"{label}, resolution", f"{number(one['resolution'])} {unit}" if one["resolution"] else "?", "0.001 " + unit
        if one.get("deviation_share") is not None:
            yield f"{label}, noise without load", f"{one['deviation']:.2f} W, {percent(one['deviation_share'], 2)} of {watts(one['mean'])}", ""
        yield f"{label}, readings", f"{one['rate_hz']:.0f} a second, {one['call_median_us']:.0f} us each, 95 % below " \
            f"{one['call_95_us']:.0f} us", "50 a second"
    sensor = ((document["sections"].get("joules") or {}).get("result") or {}).get("sensor") or {}
    for edge in ("rise", "fall"):
        lag = (sensor.get("counter_lag") or {}).get(edge)
        if lag:
            yield f"counter, lag after a {edge}", f"{seconds(lag['s'])} (median of {lag['edges']}, with the time that power takes)", "none"
    for name, one in (sensor.get("averaging") or {}).items():
        if one:
            low, high = one["window_range_s"]
            yield f"{name} power, averages over", f"{seconds(one['window_s'])} ({seconds(low)} to {seconds(high)}), {seconds(one['delay_s'])} late", \
                f"{seconds(AVERAGE_WINDOW)}" if name == "average" else "25 of 100 ms (A100, H100)"
            yield f"{name} power over the counter", number(one["watts_per_counter_watt"], 4), "1"
    for one in sensor.get("squares") or []:
        shown = one.get("instant")
        if shown:
            yield f"instant power, square wave of {one['hertz']} Hz", f"{shown['low_w']:.0f} to {shown['high_w']:.0f} W, mean " \
                f"{shown['mean_w']:.0f} W", f"counter {watts(one['counter_w'])}"


def joules_rows(result, _):
    if result.get("recorded_s"):
        rates = result.get("rates_hz", {})
        yield "recorded", f"{result['recorded_s']:.0f} s, " + ", ".join(
            f"{name[:-3]} at {rates[name]:.0f} Hz" for name in ("counter_mj", "instant_mw", "average_mw") if name in rates), ""
        gaps = result.get("gaps", {})
        if gaps.get("count"):
            yield "gaps in the recording", f"{gaps['count']} above 40 ms, the longest {seconds(gaps['longest_s'])}", "windows near them are left out"
    for name, error in (result.get("sensor_errors") or {}).items():
        yield f"recorder, {name.removesuffix('_mj').removesuffix('_mw').replace('_', ' ')}", error, ""
    if result.get("loads_by") != "cuda":
        yield "loads", "of a simulation" if result.get("loads_by") else "none: idle", str(result.get("loads_error") or "")
    for load in result.get("loads", []):
        if load.get("error"):
            yield f"load {load['name']}", load["error"], ""
    run = result.get("harpe_run") or {}
    if run.get("counter_j"):
        measured = run["device"]["measured"]
        yield "harpe run, all loads", joules(measured["energy_j"], measured["error_j"]), \
            f"counter {joules(run['counter_j'], run['counter_doubt_j'])}"
    for one in result.get("long_windows", []):
        readings = "; ".join(f"{key} power {joules(one[key + '_j'])}" for key in ("instant", "average") if one.get(key + "_j") is not None)
        yield f"{one['name']}, {number(one['seconds'])} s", f"counter {joules(one['counter_j'], one['counter_doubt_j'])}; {readings}", \
            joules(one["harpe_j"], one["harpe_error_j"])
    if result.get("windows_error"):
        yield "windows", result["windows_error"], ""
    yield from window_rows(result.get("windows", []))


def window_rows(rows):
    """Yields rows for each length, over all kinds of windows and by kind."""
    for length in sorted({row["length_s"] for row in rows}):
        found = [row for row in rows if row["length_s"] == length and row.get("settled")]
        count = sum(row["settled"]["windows"] for row in found)
        if not count:
            continue
        mean = lambda key: sum(row["settled"][key] * row["settled"]["windows"] for row in found) / count  # noqa: E731, B023
        once = [row["at_once"]["coverage"] for row in found if row.get("at_once")]
        yield f"{count} windows of {number(length)} s", f"{percent(mean('coverage'))} held ({percent(mean('coverage_with_doubt'))} with the " \
            f"counter's doubt of {percent(mean('doubt'), 2)}), bias {percent(mean('bias'), 2)}", \
            f"{percent(HELD)} held, bar {percent(mean('bar'), 2)}"
        yield "", "; ".join(f"{KINDS[row['kind']]} {percent(row['settled']['coverage'], 2)}" for row in found), \
            f"answered at once: {percent(sum(once) / len(once), 2) if once else '?'} held"


KINDS = {"begins": "at a load's begin", "ends": "at its end", "inside": "inside", "square": "in square waves", "anywhere": "anywhere"}


def hooks_rows(result, _):
    if result.get("error"):
        yield "pipeline", result["error"], ""
    for number_of, stage in enumerate(result.get("stages", [])):
        label = f"stage {number_of}"
        yield f"{label}, registered", "yes" if stage["registered"] else "no", ""
        for kind, one in stage["times"].items():
            yield f"{label}, {kind} against events", f"{seconds(one['harpe_minus_events_s'])} of {seconds(one['instruction_s'])} (worst " \
                f"{seconds(one['worst_s'])})", "0"
        cost = stage["overhead"]
        if not cost:
            continue
        yield f"{label}, overhead of an instruction", f"{seconds(cost['per_instruction_s'])}, {percent(cost['share'], 2)} of an iteration", ""
        yield f"{label}, calls", ", ".join(f"{name} {seconds(one['median_s'])} (p99 {seconds(one['p99_s'])})"
                                          for name, one in cost["calls"].items()), f"p99 below {seconds(CALL_P99)}, and an event"
    for number_of, stage in enumerate(result.get("stages", [])):
        label, energy = f"stage {number_of}", stage["energy"]
        if energy.get("iterations_j") is not None:
            yield f"{label}, energy of iterations", joules(energy["iterations_j"], energy["iterations_error_j"]) + \
                f" in {number(energy['iterations_s'])} s", f"window {joules(energy['window_j'], energy['window_error_j'])} in " \
                f"{number(energy['window_s'])} s"
            for kind, one in energy["instructions"].items():
                yield f"{label}, {kind}", f"{joules(one['mean_j'])} in {seconds(one['mean_s'])}, {one['count']} of them", ""
    measured = result.get("profile_measure")
    if measured:
        rows = len(measured.get("profile") or [None]) - 1
        head, *values = [line.split(",") for line in measured.get("profile") or [""]]
        for row in (dict(zip(head, value)) for value in values):
            by_reports = result["stages"][int(row["stage"])]["energy"].get("instructions", {}).get(row["instruction"])
            yield f"profile, stage {row['stage']} {row['instruction']}", \
                f"{joules(float(row['energy']))} in {seconds(float(row['time']))} at {row['frequency']} MHz", \
                f"the pipeline before: {joules(by_reports['mean_j'])} in {seconds(by_reports['mean_s'])}" if by_reports else ""
        last = (measured["text"] or "").strip().splitlines()
        yield "harpe profile measure", f"{'ended by this check' if measured['status'] is None else 'status %d' % measured['status']}, " \
            f"{rows} rows of a profile", ""
        for line in last[-4:]:
            yield "", line, ""


def model_rows(result, _):
    yield "model", str(result.get("model") or result.get("note")), ""
    for load in result.get("loads", []):
        if load.get("error"):
            continue
        took = f", {seconds(load['operation_s'])} and {joules(load['operation_j'])} each" if load.get("operation_s") else ""
        clock = f" at {load['clock_mhz']:.0f} MHz" if load.get("clock_mhz") else ""
        says = f"{watts(load['model_w'])} ({load['model_off']:+.0%})" if load.get("model_off") is not None else "no model"
        yield load["name"], f"{watts(load['counter_w'] or load['instant_w'])}{clock}{took}", says


ROWS = {"driver": driver_rows, "counter": counter_rows, "joules": joules_rows, "hooks": hooks_rows, "model": model_rows}


def rows_of(document):
    """Returns (section, quantity, measured, model or bar) of all sections, or the reason if a section failed."""
    shared = bool(document.get("used_by_others"))
    for name, section in document["sections"].items():
        star = "* " if shared and name in MEASURED else ""
        if section["error"]:
            yield name, section["status"], section["error"], ""
        if section["result"] is None:
            continue
        try:
            for what, measured, says in ROWS[name](section["result"], document):
                yield name, star + what if what else what, measured, says
        except (KeyError, TypeError, ValueError) as error:
            yield name, "not rendered", f"{type(error).__name__}: {error}", ""


def heading(document):
    gpu = document["gpu"]
    name = gpu["name"] if gpu else "no NVIDIA GPU"
    torch = document["software"]["torch"]
    return f"{name}, {document['made_at']}, {document['software']['harpe']}, Python {document['software']['python']}, PyTorch " \
        f"{torch.get('version') or torch.get('error')}"


def table(document):
    rows = [("", "what", "measured", "Harpe's model or bar"), *rows_of(document)]
    width = min(48, max(len(row[1]) for row in rows))
    middle = min(76, max(len(row[2]) for row in rows))
    lines, last = [heading(document)], None
    if document["simulated"]:
        lines.append(SIMULATED.upper())
    if document.get("used_by_others"):
        lines.append(OTHERS.format(document["used_by_others"]))
    for name, what, measured, says in rows:
        if name and name != last:
            lines.append(f"-- {TITLES[name]} ({document['sections'][name]['seconds']:.0f} s)")
        last = name or last
        lines.append(f"{what:<{width}}  {measured:<{middle}}  {says}".rstrip())
    return "\n".join(lines)


# --- Page -----------------------------------------------------------------------------------------


def page_frame():
    """Returns examples/page_frame.py, which is next to this file in the archive."""
    here = pathlib.Path(__file__).resolve().parent
    for path in (here / "page_frame.py", here.parent.parent / "examples" / "page_frame.py"):
        if path.exists():
            spec = importlib.util.spec_from_file_location("page_frame", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise FileNotFoundError("page_frame.py")


def html_table(rows):
    cells = "".join(f'<tr><th scope="row">{html.escape(what)}</th><td>{html.escape(measured)}</td><td>{html.escape(says)}</td></tr>\n'
                    for what, measured, says in rows)
    return ('<div class="scroll said"><table><thead><tr><th scope="col">what</th><th scope="col">measured</th>'
            f'<th scope="col">Harpe\'s model or bar</th></tr></thead><tbody>\n{cells}</tbody></table></div>\n')


def write_page(document, out):
    frame = page_frame()
    warning = f" {SIMULATED}" if document["simulated"] else ""
    drawn = pictures.draw(document)
    body = f"<style>{CELLS}</style>\n"
    if document.get("used_by_others"):
        body += f"<p><strong>{html.escape(OTHERS.format(document['used_by_others']))}</strong></p>\n"
    for name, section in document["sections"].items():
        rows = [row[1:] for row in rows_of(document) if row[0] == name]
        body += f"<section>\n<h2>{html.escape(TITLES[name])}</h2>\n"
        for place, drawing, caption in drawn.values():
            if place == name:
                body += f'<figure>{pictures.inline(drawing)}<figcaption>{html.escape(caption + warning)}</figcaption></figure>\n'
        body += f'<p class="note">{html.escape(section["status"])}, {section["seconds"]:.0f} s</p>\n' + html_table(rows) + "</section>\n"
    page = frame.framed_page(
        "Harpe on " + (document["gpu"]["name"] if document["gpu"] else "a machine without an NVIDIA GPU"), heading(document),
        SIMULATED if document["simulated"] else "Measured on one machine, once. Nothing was set on the GPU.", body, "gpu_check.sh",
        ["scripts/gpu_check.sh", "OUT"], [("gpu_check.json", "")], "docs/devices.md")
    files = {"gpu_check.html": page, "gpu_check.txt": table(document) + "\n",
             **{file: pictures.standalone(drawing, frame.PALETTE) for file, (_, drawing, _) in drawn.items()}}
    for file, text in files.items():
        with open(os.path.join(out, file), "w", encoding="utf-8") as stream:
            stream.write(text)


def markdown(document):
    """Returns tables for docs/validation.md: coverage, loads, hooks."""
    lines = [f"### {document['gpu']['name'] if document['gpu'] else 'No GPU'}", "",
             f"{heading(document)}; {document['seconds']:.0f} s. Nothing was set." + (f" **{SIMULATED}**" if document["simulated"] else ""), ""]
    if document.get("used_by_others"):
        lines += [f"**{OTHERS.format(document['used_by_others'])}**", ""]
    for name in document["sections"]:
        lines += [f"{TITLES[name]}:", "", "| what | measured | Harpe's model or bar |", "| --- | --- | --- |"]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row[1:]) + " |" for row in rows_of(document) if row[0] == name]
        lines.append("")
    return "\n".join(lines)


def read(path):
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    if document.get("format") != "harpe.gpu_check/1":
        sys.exit(f"{path}: its format is {document.get('format')}, not harpe.gpu_check/1")
    return document


def fill_validation(page, files):
    """Puts the contents of these files between the marks of the page. Simulated GPUs are rejected."""
    documents = [read(path) for path in files]
    for path, document in zip(files, documents):
        if document["simulated"] or document["gpu"] is None:
            sys.exit(f"{path}: it is of no real GPU")
    text = pathlib.Path(page).read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        sys.exit(f"{page}: it has no {BEGIN} and {END}")
    head, _, rest = text.partition(BEGIN)
    pathlib.Path(page).write_text(head + BEGIN + "\n" + "\n".join(map(markdown, documents)) + END + rest.partition(END)[2], encoding="utf-8")


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--validation"] and len(arguments) > 2:
        fill_validation(arguments[1], arguments[2:])
    elif len(arguments) in (1, 2) and not arguments[0].startswith("-"):
        document = read(arguments[0])
        print(table(document))
        if len(arguments) == 2:
            os.makedirs(arguments[1], exist_ok=True)
            write_page(document, arguments[1])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
