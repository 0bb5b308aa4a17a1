#!/usr/bin/env python3
"""scripts/gpu_check.sh where it will run: a root with Python and Debian's PyTorch, without a compiler, build tools or a network,
on simulated GPUs behind NVML's interface; with faults.
Usage: gpu_check_test.py REPOSITORY FOLDER [--packed ROOT]
FOLDER: of archive and wheel, which scripts/gpu_check.sh --pack makes there. --packed: they are there, and ROOT is made already."""

import concurrent.futures
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

REPOSITORY, PARTS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
IS_PACKED = sys.argv[3:4] == ["--packed"]
MOST_CARRIED, MOST_SAMPLES, MOST_FILES, MOST_SECONDS = 24 << 20, 10 << 20, 6, 240
SCALE = "0.35"
GPU = """state_file = "/tmp/gpu_check_test/{name}-gpus"
[[gpu]]
model = "h100-sxm"
gain = 1
"""
# Faults, in addition to a fault-free case. One call that section 1 times hangs; from 22 s on, in section 3, all calls
# hang.
CASES = {
    "sound": "",
    "hangs": '[[fault]]\nkind = "slow_call"\nseconds = 3600\nafter_calls = 250\nfor_calls = 1\ncalls = "reads"\n',
    "hangs_for_good": '[[fault]]\nkind = "slow_call"\nseconds = 3600\nat_s = 22\ncalls = "reads"\n',
    "no_counter": "energy_counter = false\n",
    "mig": "mig = true\n",
    "no_permission": '[[fault]]\nkind = "no_permission"\n',
    "shared": "",
}
WITHOUT_GPU = "none"
# Another program that uses the GPU, and keeps running.
OTHER_USER = """
import harpe_sim, os, time
reads, writes = os.pipe()
if os.fork():
    os.close(writes)
    os.read(reads, 1)
else:
    harpe_sim.run(0, seconds=0.1)
    os.write(writes, b".")
    os.close(writes)
    time.sleep(900)
"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def make_root(folder):
    if os.geteuid() != 0:
        skip("making a root takes root")
    for tool in ("mmdebstrap", "setpriv", "unshare", "ip"):
        if shutil.which(tool) is None:
            skip(f"{tool} is missing")
    if subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "true"], capture_output=True).returncode != 0:
        skip("name spaces cannot be made here")
    if IS_PACKED:
        return pathlib.Path(sys.argv[4])
    root = folder / "root"
    suite = next(line.partition("=")[2].strip() for line in open("/etc/os-release") if line.startswith("VERSION_CODENAME="))
    made = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,python3-torch",
                           "--aptopt=APT::Install-Recommends \"false\"", "--dpkgopt=force-unsafe-io", suite, root],
                          capture_output=True, text=True)
    if made.returncode != 0:
        print(made.stderr)
        skip("no Debian could be made of a mirror")
    return root


class GpuCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not IS_PACKED:
            packed = subprocess.run([REPOSITORY / "scripts" / "gpu_check.sh", "--pack", PARTS], capture_output=True, text=True)
            if packed.returncode != 0:
                raise AssertionError(packed.stdout + packed.stderr)
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.root = make_root(pathlib.Path(holder.name))
        cls.tmp = cls.root / "tmp" / "gpu_check_test"
        shutil.rmtree(cls.tmp, ignore_errors=True)
        cls.addClassCleanup(shutil.rmtree, cls.tmp, True)
        shutil.copytree(PARTS, cls.tmp / "carried")
        for name, fault in CASES.items():
            # Keys of a GPU come before tables of faults.
            (cls.tmp / f"{name}.toml").write_text(GPU.format(name=name) + fault)
        os.chmod(cls.tmp, 0o777)
        # The checks mostly wait.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            runs = {name: pool.submit(cls.run_check, name) for name in [*CASES, WITHOUT_GPU]}
            cls.runs = {name: run.result() for name, run in runs.items()}

    @classmethod
    def run_check(cls, name):
        """Returns (exit status, seconds, standard output, standard error)."""
        inside = "/tmp/gpu_check_test"
        variables = [] if name == WITHOUT_GPU else [f"HARPE_SIMULATION={inside}/{name}.toml"]
        # A user without rights, like a guest of a machine.
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if name == "no_permission" else []
        script = (f"ip link set lo up; mount -t proc proc {cls.root}/proc; mount -t tmpfs -o mode=1777 tmpfs {cls.root}/dev/shm; "
                  f"mount -t tmpfs -o mode=1777 tmpfs {cls.root}/run; exec chroot {cls.root} \"$@\"")
        command = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", script, "sh", *user, "env", "-i",
                   "PATH=/usr/bin:/bin", "LANG=C.UTF-8", f"GPU_CHECK_SCALE={SCALE}", *variables]
        if name == "shared":
            beside = f"{inside}/other/harpe/simulated_nvml"
            command += ["sh", "-c", f'python3 -m zipfile -e {inside}/carried/*.whl {inside}/other && PYTHONPATH={beside} python3 -c "$0" '
                        '&& exec "$@"', OTHER_USER]
        command += [f"{inside}/carried/gpu_check.sh", f"{inside}/out-{name}"]
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        return done.returncode, time.monotonic() - begin, done.stdout, done.stderr

    def document(self, name):
        path = self.tmp / f"out-{name}" / "gpu_check.json"
        self.assertTrue(path.exists(), self.runs[name][2] + self.runs[name][3])
        return json.loads(path.read_text())

    def section(self, name, section):
        found = self.document(name)["sections"][section]
        return found, found["result"]

    def test_what_is_carried_is_small(self):
        self.assertLess(sum(file.stat().st_size for file in PARTS.iterdir()), MOST_CARRIED)
        self.assertEqual(len(list(PARTS.iterdir())), 3)

    def test_the_root_has_no_tools(self):
        for tool in ("cc", "gcc", "make", "cmake", "pip", "pip3"):
            self.assertFalse((self.root / "usr/bin" / tool).exists(), tool)

    def test_each_ends_in_time_with_its_few_files(self):
        for name in CASES:
            with self.subTest(name):
                status, seconds, out, err = self.runs[name]
                self.assertEqual(status, 0, out + err)
                self.assertLess(seconds, MOST_SECONDS)
                files = sorted(file.name for file in (self.tmp / f"out-{name}").iterdir())
                self.assertLessEqual(len(files), MOST_FILES, files)
                self.assertLess((self.tmp / f"out-{name}" / "samples.csv.xz").stat().st_size, MOST_SAMPLES)

    def test_documents_are_as_the_schema_says(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("jsonschema is not installed")
        schema = json.loads((REPOSITORY / "scripts" / "gpu_check" / "schema.json").read_text())
        for name in [*CASES, WITHOUT_GPU]:
            with self.subTest(name):
                jsonschema.validate(self.document(name), schema)

    def test_every_output_says_that_the_gpu_is_simulated(self):
        out = self.tmp / "out-sound"
        self.assertTrue(self.document("sound")["simulated"])
        self.assertIn("SIMULATED GPU", self.runs["sound"][2])
        for file in ("gpu_check.html", "power.svg", "windows.svg"):
            self.assertIn("imulated GPU: no", (out / file).read_text(), file)
        with lzma.open(out / "samples.csv.xz", "rt") as samples:
            self.assertIn('"simulated": true', samples.readline())

    def test_nothing_is_set(self):
        for name in CASES:
            with self.subTest(name):
                document = self.document(name)
                if name == "hangs_for_good":
                    self.assertIsNone(document["settings_after"])
                    continue
                self.assertIsNotNone(document["settings_after"])
                if name != "hangs":
                    self.assertEqual(document["settings_after"], document["sections"]["driver"]["result"]["settings"])

    def test_what_needs_cuda_is_skipped_and_says_so(self):
        document = self.document("sound")
        self.assertEqual(document["software"]["torch"]["available"], False)
        self.assertEqual(document["sections"]["hooks"]["error"], "skipped: no CUDA device in PyTorch")
        loads = {load["name"]: load for load in document["sections"]["joules"]["result"]["loads"]}
        for name in ("training", "forward", "backward"):
            self.assertEqual(loads[name]["error"], "skipped: no CUDA device in PyTorch")
        self.assertIn("skipped: no CUDA device in PyTorch", self.runs["sound"][2])

    def test_the_sensors_are_found_as_they_are_simulated(self):
        _, counter = self.section("sound", "counter")
        self.assertAlmostEqual(counter["counter"]["step_s"], 0.1, delta=0.01)
        self.assertAlmostEqual(counter["counter"]["resolution"], 0.001)
        _, joules = self.section("sound", "joules")
        self.assertEqual(joules["loads_by"], "simulated")
        average = joules["sensor"]["averaging"]["average"]
        self.assertLessEqual(average["window_range_s"][0], 1)
        self.assertGreaterEqual(average["window_range_s"][1], 1)
        self.assertAlmostEqual(average["watts_per_counter_watt"], 1, delta=0.03)
        # The simulated counter has no lag; edges are known to a few ms on a busy machine.
        for edge in ("rise", "fall"):
            self.assertLess(abs(joules["sensor"]["counter_lag"][edge]["s"]), 0.03)

    def test_bars_hold_the_truth_that_the_simulation_knows(self):
        _, joules = self.section("sound", "joules")
        held = windows = 0
        for row in joules["windows"]:
            # Estimates of shorter windows are ranges, and 11 Hz is known to be covered less often: docs/measuring.md.
            if row["length_s"] >= 0.5 and row["kind"] != "square":
                truth = row["settled_truth"]
                held += truth["coverage"] * truth["windows"]
                windows += truth["windows"]
        if windows < 20:
            # The recorder did not get enough CPU time; it reports that, and excludes windows near gaps.
            self.assertGreater(joules["gaps"]["count"], 0)
        else:
            self.assertGreaterEqual(held / windows, 0.8)
        for row in joules["long_windows"]:
            self.assertLess(abs(row["counter_j"] / row["truth_j"] - 1), 0.01, row)
            self.assertLess(abs(row["harpe_j"] / row["truth_j"] - 1), 0.01, row)
        run = joules["harpe_run"]
        self.assertLess(abs(run["device"]["measured"]["energy_j"] / run["counter_j"] - 1), 0.01)

    def test_the_model_of_the_card_is_beside_its_loads(self):
        _, model = self.section("sound", "model")
        self.assertEqual(model["model"], "h100-sxm")
        loads = {load["name"]: load for load in model["loads"]}
        # The simulation uses the same model.
        self.assertLess(abs(loads["matmul"]["model_off"]), 0.1)

    def test_a_call_that_hangs_loses_its_section_alone(self):
        section, result = self.section("hangs", "driver")
        self.assertEqual(section["status"], "timed out")
        self.assertTrue(any(one["error"] == "it did not return" for one in result["calls"].values()))
        for other in ("counter", "joules", "model"):
            self.assertEqual(self.section("hangs", other)[0]["status"], "ok", other)
        self.assertIn("it did not end within", self.runs["hangs"][2])

    def test_what_was_recorded_before_all_calls_hang_is_kept(self):
        section, joules = self.section("hangs_for_good", "joules")
        self.assertEqual(section["status"], "ok", section["log"])
        self.assertIn("did not return", joules["sensor_errors"]["driver"])
        self.assertIn("did not return", self.runs["hangs_for_good"][2])

    def test_without_a_counter_power_is_recorded_all_the_same(self):
        _, counter = self.section("no_counter", "counter")
        self.assertEqual(counter["counter"]["error"], "Not Supported")
        _, joules = self.section("no_counter", "joules")
        self.assertIn("no energy counter", joules["windows_error"])
        self.assertIn("instant_mw", joules["rates_hz"])
        self.assertIn("no energy counter", self.runs["no_counter"][2])

    def test_a_gpu_in_instances_is_named_so(self):
        self.assertTrue(self.document("mig")["gpu"]["mig"])
        self.assertIn("MIG", self.runs["mig"][2])

    def test_another_program_on_the_gpu_is_named_and_figures_are_marked(self):
        _, _, out, err = self.runs["shared"]
        self.assertRegex(self.document("shared")["used_by_others"], r"^python3[^ ]* \(process \d+\)$")
        self.assertIn("warning: the GPU is used by python3", err)
        self.assertRegex(out, r"(?m)^\* counter, changes each")
        self.assertIsNone(self.document("sound")["used_by_others"])
        self.assertNotIn("\n* ", self.runs["sound"][2])

    def test_without_rights_all_is_read(self):
        section, driver = self.section("no_permission", "driver")
        self.assertEqual(section["status"], "ok")
        self.assertFalse(driver["permissions"]["root"])
        self.assertEqual(self.section("no_permission", "joules")[0]["status"], "ok")

    def test_without_a_driver_it_says_so(self):
        status, _, out, _ = self.runs[WITHOUT_GPU]
        self.assertEqual(status, 1)
        self.assertIn("no NVIDIA GPU", out)
        self.assertFalse(self.document(WITHOUT_GPU)["simulated"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
