#!/usr/bin/env python3
"""What scripts/gpu_check makes of recordings whose truth is known: lag, averaging windows, reference, judgement, page."""

import copy
import json
import os
import pathlib
import platform
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from gpu_check import counter, driver, hooks, joules, model, nvml, recorder, reference, render, sensors  # noqa: E402
from gpu_check.__main__ import said_within  # noqa: E402

SEED = 20261128
IDLE, BUSY = 80.0, 600.0
STEP, SENSOR_STEP, WINDOW = 0.1, 0.02, 0.25  # s


def loads():
    """Returns loads of 2 s, with 2 s between them."""
    found = [{"name": "idle", "begin_ns": 0, "end_ns": int(2e9)}]
    for i in range(5):
        begin = 4 * i + 3.037 + 0.013 * i
        found.append({"name": "matmul", "begin_ns": round(begin * 1e9), "end_ns": round((begin + 2) * 1e9)})
    return found


def truth():
    pieces = [(load["begin_ns"] / 1e9, load["end_ns"] / 1e9, BUSY) for load in loads()[1:]]
    return reference.Profile(pieces, IDLE)


def record(lag=0.0, delay=0.0, length=25.0):
    """Returns readings at 1 kHz of a counter with a lag, and of a power sensor that averages over WINDOW, late by
    `delay`."""
    power, generator = truth(), random.Random(SEED)
    rows = {name: [] for name in recorder.SENSORS}
    for i in range(int(length * 1000)):
        time = i / 1000 + generator.uniform(0, 2e-4)
        stepped = (time // STEP) * STEP
        measured = (time // SENSOR_STEP) * SENSOR_STEP - delay
        begin, end = round(time * 1e9), round((time + 1e-4) * 1e9)
        rows[recorder.COUNTER].append((begin, end, round(1e3 * power.integral(stepped - lag)) + 10**9))
        watts = (power.integral(measured) - power.integral(measured - WINDOW)) / WINDOW
        # Measurements differ slightly, like those of a sensor.
        rows[recorder.INSTANT].append((begin, end, round(1e3 * watts) + int(measured / SENSOR_STEP) % 2))
    return rows


class Reference(unittest.TestCase):
    def test_a_counter_is_right_between_its_steps_where_the_loads_are_known(self):
        rows, power = record(), truth()
        known = reference.Counter(rows[recorder.COUNTER])
        profile, quiet, levels = reference.profile_of(known, loads())
        self.assertAlmostEqual(quiet, IDLE, delta=1)
        self.assertAlmostEqual(levels["matmul"], BUSY, delta=3)
        generator = random.Random(SEED)
        for _ in range(200):
            begin = generator.uniform(1, 15)
            end = begin + generator.uniform(0.05, 5)
            joules_between, doubt, least, most = known.between(begin, end, profile)
            true = power.integral(end) - power.integral(begin)
            self.assertLess(abs(joules_between - true), 4 * doubt + 0.2)
            # Bounds from the steps, whose times are known to a millisecond.
            self.assertLessEqual(least, true + 1.5)
            self.assertGreaterEqual(most, true - 1.5)

    def test_a_lag_of_the_counter_is_found(self):
        for lag in (0.0, 0.04):
            known = reference.Counter(record(lag=lag)[recorder.COUNTER])
            found = sensors.counter_lag(known, sensors.edges(loads()))
            for edge in ("rise", "fall"):
                self.assertEqual(found[edge]["edges"], 5)
                self.assertAlmostEqual(found[edge]["s"], lag, delta=0.003)

    def test_the_time_that_power_averages_over_is_found(self):
        for delay in (0.0, 0.05):
            rows = record(delay=delay)
            known = reference.Counter(rows[recorder.COUNTER])
            profile, quiet, _ = reference.profile_of(known, loads())
            found = sensors.averaging(rows[recorder.INSTANT], profile, sensors.edges(loads()), quiet)
            # 0.25 s is between two of the windows that are tried.
            self.assertIn(found["window_s"], (0.2, 0.3))
            self.assertAlmostEqual(found["delay_s"], delay, delta=0.04)
            self.assertAlmostEqual(found["watts_per_counter_watt"], 1, delta=0.02)
            self.assertLess(found["unexplained"], 0.02)

    def test_a_counter_that_starts_anew_is_not_used(self):
        rows = record()[recorder.COUNTER]
        middle = len(rows) // 2
        anew = rows[:middle] + [(begin, end, value - rows[middle][2]) for begin, end, value in rows[middle:]]
        self.assertFalse(reference.Counter(anew).usable())
        self.assertTrue(reference.Counter(rows).usable())

    def test_steps_resolution_and_rate_of_a_sensor(self):
        found = counter.describe(record()[recorder.COUNTER][:1900], 1e-3)
        self.assertAlmostEqual(found["step_s"], STEP, delta=0.002)
        self.assertAlmostEqual(found["rate_hz"], 1000, delta=1)
        self.assertAlmostEqual(found["resolution"], 8)  # 80 W over 0.1 s, all steps are equal


class Judgement(unittest.TestCase):
    def test_bars_that_hold_and_bars_that_cannot(self):
        true = (100.0, 0.5, 95.0, 105.0)
        judged = joules.judged([(100.5, 1.0, ""), (101.5, 1.0, ""), (120.0, 2.0, ""), (None, None, "")], [true] * 4)
        self.assertEqual(judged["windows"], 3)
        self.assertAlmostEqual(judged["coverage"], 1 / 3)
        self.assertAlmostEqual(judged["coverage_with_doubt"], 2 / 3)
        self.assertAlmostEqual(judged["certainly_wrong"], 1 / 3)
        self.assertAlmostEqual(judged["bias"], 0.22 / 3)

    def test_windows_lie_where_their_kind_says(self):
        known = reference.Counter(record()[recorder.COUNTER])
        generator = random.Random(SEED)
        begins = {load["begin_ns"] / 1e9 for load in loads()[1:]}
        ends = {load["end_ns"] / 1e9 for load in loads()[1:]}
        for begin, end in joules.candidates("begins", 1, loads(), known, generator):
            self.assertIn(begin, begins)
        for begin, end in joules.candidates("ends", 1, loads(), known, generator):
            self.assertIn(end, ends)
        inside = joules.candidates("inside", 1, loads(), known, generator)
        self.assertEqual(len(inside), joules.PER_CELL)
        for begin, end in inside:
            self.assertTrue(any(load["begin_ns"] / 1e9 <= begin and end <= load["end_ns"] / 1e9 for load in loads()[1:]))
        self.assertEqual(joules.candidates("inside", 10, loads(), known, generator), [])


class Recordings(unittest.TestCase):
    def test_what_is_written_is_read_again(self):
        recording = recorder.Recording()
        for begin, end, value in record(length=1)[recorder.COUNTER]:
            recording.add(recorder.COUNTER, begin + 10**14, end + 10**14, value)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "samples.csv.xz"
            recording.write(path)
            again = recorder.Recording.read(path)
        for one, other in zip(recording.rows(recorder.COUNTER), again.rows(recorder.COUNTER)):
            self.assertEqual(one[2], other[2])
            self.assertLess(abs(one[0] - other[0]), 100)

    def test_functions_that_set_are_refused(self):
        library = nvml.Nvml.__new__(nvml.Nvml)
        for name in ("nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks", "nvmlDeviceClearEccErrorCounts"):
            with self.assertRaises(ValueError):
                library.call(name)


class Hooks(unittest.TestCase):
    def test_reports_are_found_in_what_a_rank_sent(self):
        tee = hooks.Tee.__new__(hooks.Tee)
        import threading
        tee._lock = threading.Lock()
        body = json.dumps({"iteration": 3}).encode()
        request = b"POST /v1/jobs/x/reports HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        tee._taken = [b"GET /v1/jobs/x/events HTTP/1.1\r\nHost: a\r\n\r\n" + request + request, b"PUT /"]
        self.assertEqual(tee.bodies("/reports"), [{"iteration": 3}, {"iteration": 3}])


class Figures(unittest.TestCase):
    def test_figures_are_short_and_have_their_units(self):
        self.assertEqual(render.joules(0.0371, None), "0.0371 J")
        self.assertEqual(render.joules(18826.14, 6.72), "18826.1 ± 6.7 J")
        self.assertEqual([render.seconds(value) for value in (None, 0, 0.1, 4.2e-6, 8e-8)], ["?", "0 s", "100 ms", "4.2 us", "80 ns"])
        self.assertEqual(render.percent(0.9412), "94.1 %")


class Models(unittest.TestCase):
    def test_cards_have_their_models(self):
        for name, expected in (("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA H200", "h200-sxm"), ("NVIDIA GB200", "gb200"),
                               ("NVIDIA B200", "b200-sxm"), ("NVIDIA A100-SXM4-80GB", "a100-sxm"), ("NVIDIA A100 80GB PCIe", "a100-pcie"),
                               ("NVIDIA H100 NVL", None), ("Tesla T4", None)):
            self.assertEqual(model.model_of(name), expected, name)

    def test_power_between_two_clocks(self):
        self.assertAlmostEqual(model.at_clock({1000: 300.0, 1200: 400.0}, 1050), 325)
        self.assertIsNone(model.at_clock({1000: 300.0}, 900))


DOCUMENT = {
    "format": "harpe.gpu_check/1", "made_at": "2026-11-28T12:00:00+00:00", "scale": 1, "simulated": False,
    "software": {"harpe": "harpe 0.1.0", "python": "3.11.2", "torch": {"version": "2.15"}, "kernel": "6.1", "cpus": 4},
    "gpu": {"name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-1", "pci": "0000:01:00.0", "mig": False, "backend": "nvml"},
    "used_by_others": None, "settings_after": None, "seconds": 200,
    "sections": {name: {"status": "failed", "seconds": 1, "error": "RuntimeError: <broken>", "log": "", "result": None}
                 for name in ("driver", "counter", "joules", "hooks", "model")},
}


class NvmlOfATest:
    """Has the methods of nvml.NvmlGpu."""

    def __init__(self, processes=(), utilisation=0):
        self._processes, self._utilisation = processes, utilisation

    def __getattr__(self, name):
        return lambda *_, **__: 0

    def processes(self):
        if isinstance(self._processes, Exception):
            raise self._processes
        return list(self._processes)

    def numbers(self, *_, **__):
        return [[self._utilisation, 0]]


class Others(unittest.TestCase):
    def test_other_processes_are_named_and_figures_are_marked(self):
        found = driver.others(NvmlOfATest([(os.getpid(), 1 << 20), (2**22 + 1, 0)]), 1)
        self.assertEqual([one["pid"] for one in found["processes"]], [os.getpid(), 2**22 + 1])
        words = driver.used_by_others(found)
        self.assertIn(f"(process {os.getpid()})", words)
        self.assertIn("not visible here", words)
        document = copy.deepcopy(DOCUMENT)
        document["used_by_others"] = words
        document["sections"]["model"]["result"] = document["sections"]["driver"]["result"] = {}
        table = render.table(document)
        self.assertIn("Other processes used the GPU", table)
        self.assertRegex(table, r"(?m)^\* model")
        self.assertRegex(table, r"(?m)^driver ")
        self.assertIn(words, render.markdown(document))
        with tempfile.TemporaryDirectory() as folder:
            render.write_page(document, folder)
            self.assertIn("Other processes used the GPU", (pathlib.Path(folder) / "gpu_check.html").read_text())

    def test_processes_of_the_check_itself_are_no_others(self):
        with unittest.mock.patch.dict(os.environ, {driver.RUN: "this one"}), \
                subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE) as own:
            own.stdout.readline()  # a starting process has no environment yet
            self.assertEqual(driver.others(NvmlOfATest([(own.pid, 0)]), 1)["processes"], [])
            os.environ[driver.RUN] = "another"
            self.assertEqual(len(driver.others(NvmlOfATest([(own.pid, 0)]), 1)["processes"]), 1)
            own.communicate(b"\n")

    def test_a_busy_gpu_whose_processes_are_not_shown_is_used(self):
        self.assertIn("busy 40 %", driver.used_by_others(driver.others(NvmlOfATest(utilisation=40), 2)))

    def test_nobody_else(self):
        for gpu in (NvmlOfATest(), NvmlOfATest(nvml.NvmlError(3, "Not Supported"))):
            self.assertIsNone(driver.used_by_others(driver.others(gpu, 1)))
        self.assertNotIn("Other processes", render.table(DOCUMENT))

    def test_the_processes_of_a_simulated_driver_are_read(self):
        # A plain Python cannot load a build with a sanitizer.
        built = [ROOT / "build" / preset / "sim/nvml/libnvidia-ml.so.1" for preset in ("quick", "release")]
        library = next((path for path in built if path.exists()), None)
        if library is None:
            self.skipTest("the simulated NVML is not built")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "gpu.toml"
            file.write_text(f'state_file = "{folder}/gpus"\n[[gpu]]\nmodel = "h100-sxm"\n')
            code = ("import sys, harpe_sim; from gpu_check import driver, nvml; gpu = nvml.Nvml(sys.argv[1]).first_gpu(); "
                    "before = driver.others(gpu, 1); harpe_sim.run(0, seconds=0.01); after = driver.others(gpu, 1); "
                    "print(before['processes'], [one['name'] for one in after['processes']], before['error'], after['error'])")
            said = subprocess.run([sys.executable, "-c", code, library], capture_output=True, text=True, timeout=60, check=True,
                                  env={**os.environ, "HARPE_SIMULATION": str(file), "PYTHONPATH": f"{ROOT}/scripts:{library.parent}"})
        self.assertRegex(said.stdout, r"^\[\] \['python3[^']*'\] None None$")


class Driver(unittest.TestCase):
    def test_the_restriction_that_nvml_tells_is_that_of_application_clocks(self):
        names = [name for name, _ in driver.calls(NvmlOfATest())]
        self.assertIn("nvmlDeviceGetAPIRestriction application clocks", names)
        self.assertFalse([name for name in names if "locked" in name])


class Rendering(unittest.TestCase):
    def test_a_document_of_failures_alone_has_a_table_and_a_page(self):
        self.assertIn("RuntimeError: <broken>", render.table(DOCUMENT))
        with tempfile.TemporaryDirectory() as folder:
            render.write_page(DOCUMENT, folder)
            page = (pathlib.Path(folder) / "gpu_check.html").read_text()
        self.assertIn("RuntimeError: &lt;broken&gt;", page)
        self.assertNotIn("imulated GPU", page)

    def test_the_section_of_the_validation_page_is_filled_and_filled_again(self):
        with tempfile.TemporaryDirectory() as folder:
            page, file = pathlib.Path(folder) / "validation.md", pathlib.Path(folder) / "gpu_check.json"
            page.write_text((ROOT / "docs" / "validation.md").read_text())
            file.write_text(json.dumps(DOCUMENT))
            render.fill_validation(page, [file])
            first = page.read_text()
            self.assertIn("### NVIDIA H100 80GB HBM3", first)
            self.assertNotIn("None yet", first)
            self.assertIn("## Predictions against real GPUs", first)
            render.fill_validation(page, [file])
            self.assertEqual(page.read_text(), first)

    def test_simulated_gpus_do_not_come_into_the_validation_page(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "gpu_check.json"
            file.write_text(json.dumps({**copy.deepcopy(DOCUMENT), "simulated": True}))
            with self.assertRaises(SystemExit):
                render.fill_validation(ROOT / "docs" / "validation.md", [file])


class Script(unittest.TestCase):
    """Tests scripts/gpu_check.sh with files that a user may have copied to a machine."""

    WHEEL, ARCHIVE = "harpe-0.1.0-cp310-abi3-manylinux_2_28_%s.whl", "harpe-0.1.0-linux-%s.tar.xz"

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        shutil.copy(ROOT / "scripts" / "gpu_check.sh", self.folder)
        self.machine = platform.machine()

    def message(self):
        """Returns the message if it cannot begin."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPU_CHECK_", "PYTHON"))}
        done = subprocess.run([self.folder / "gpu_check.sh", self.folder / "out"], env={**environment, "PYTHON": sys.executable},
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr

    def add(self, name, members=()):
        """Adds an archive or a wheel with these members."""
        path = self.folder / name
        if name.endswith(".whl"):
            with zipfile.ZipFile(path, "w") as file:
                file.writestr("harpe/__init__.py", "")
            return
        with tarfile.open(path, "w:xz") as file:
            for member in members:
                file.addfile(member)

    def test_the_script_alone(self):
        said = self.message()
        self.assertIn("--pack", said)
        self.assertIn("copy that whole folder to this machine", said)

    def test_one_of_both_alone(self):
        self.add(self.WHEEL % self.machine)
        self.assertIn("there is no archive beside", self.message())
        (self.folder / (self.WHEEL % self.machine)).unlink()
        self.add(self.ARCHIVE % self.machine)
        self.assertIn("there is no wheel beside", self.message())

    def test_parts_for_another_machine_or_python(self):
        for wheel, archive, says in (
                (self.WHEEL % "riscv64", self.ARCHIVE % self.machine, "for another machine: this one is Linux on " + self.machine),
                (self.WHEEL % self.machine, self.ARCHIVE % "riscv64", "for another machine"),
                ("harpe-0.1.0-cp399-abi3-linux_%s.whl" % self.machine, self.ARCHIVE % self.machine, "for Python 3.99 or later, and "),
                ("harpe-0.1.0-cp39-cp39-linux_%s.whl" % self.machine, self.ARCHIVE % self.machine, "for Python 3.9, and "),
                ((self.WHEEL % self.machine).replace("0.1.0", "0.2.0"), self.ARCHIVE % self.machine, "of different versions")):
            with self.subTest(wheel):
                self.add(wheel)
                self.add(archive)
                self.assertIn(says, self.message())
                for file in (wheel, archive):
                    (self.folder / file).unlink()

    def test_a_damaged_archive(self):
        self.add(self.WHEEL % self.machine)
        (self.folder / (self.ARCHIVE % self.machine)).write_bytes(b"cut off")
        self.assertIn("copy", self.message())

    def test_an_archive_that_leads_out_of_its_folder_is_not_unpacked(self):
        self.add(self.WHEEL % self.machine)
        for name, kind, target in (("../outside", tarfile.REGTYPE, ""), ("/tmp/gpu_check_outside", tarfile.REGTYPE, ""),
                                   ("harpe/link", tarfile.SYMTYPE, "../../outside"), ("harpe/hard", tarfile.LNKTYPE, "../outside"),
                                   ("harpe/pipe", tarfile.FIFOTYPE, "")):
            with self.subTest(name):
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, target
                self.add(self.ARCHIVE % self.machine, [member])
                self.assertIn("would lie outside", self.message())


class Processes(unittest.TestCase):
    def test_a_gpu_that_the_user_hides_is_not_used(self):
        devices = {"gpus": [{"index": 0, "backend": "nvml", "uuid": "GPU-a"}, {"index": 1, "backend": "nvml", "uuid": "GPU-b"}]}
        with unittest.mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "1"}):
            self.assertEqual(driver.chosen_gpu({**devices, "visible_gpus": [1]})["uuid"], "GPU-b")
        for hidden in ([], None):
            with unittest.mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": ""}):
                self.assertIsNone(driver.chosen_gpu({**devices, "visible_gpus": hidden}))
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        self.assertEqual(driver.chosen_gpu({**devices, "visible_gpus": None})["uuid"], "GPU-a")

    def test_a_command_that_hangs_or_fails_is_given_up(self):
        self.assertEqual(said_within([sys.executable, "-c", "print(1)"], 20)[0], "1\n")
        with self.assertRaisesRegex(TimeoutError, "did not end"):
            said_within([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)
        with self.assertRaisesRegex(OSError, "broken"):
            said_within([sys.executable, "-c", "import sys; sys.exit('broken')"], 20)


if __name__ == "__main__":
    unittest.main()
