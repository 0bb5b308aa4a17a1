#!/usr/bin/env python3
"""Checks what is in a wheel of Harpe before it is given to others.

    check_wheel.py out/wheel/harpe-0.1.0-cp310-abi3-manylinux_2_28_x86_64.whl

It has the package, the programs and the simulated NVML; these need no library that a system with that
glibc could lack; programs may be executed; licenses and metadata are there. Needs readelf (binutils)."""

import email.parser
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Some of the libraries that manylinux assumes on every system.
SYSTEMS = {"libc.so.6", "libgcc_s.so.1", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2",
           "ld-linux-aarch64.so.1"}
PROGRAMS = ("harpe/bin/harpe", "harpe/bin/harpe-agent", "harpe/bin/harpe-lab", "harpe/libexec/harpe/trainer")
LIBRARIES = ("harpe/_client.abi3.so", "harpe/simulated_nvml/libnvidia-ml.so.1")
OTHERS = ("harpe/__init__.py", "harpe/py.typed", "harpe/_client.pyi", "harpe/_command.py", "harpe/planning.py",
          "harpe/measuring.py", "harpe/simulations/a100x4.toml", "harpe/docs/tutorial.md", "harpe/demo/run_demo.py",
          "harpe/demo/run_carbon_demo.py", "harpe/demo/page_frame.py", "harpe/demo/page/page.css", "harpe/licenses/curl.txt",
          "harpe/licenses/openssl.txt")
LARGEST = 23 << 20


def needed(file):
    said = subprocess.run(["readelf", "--dynamic", "--wide", file], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", said))


def faults_of_binary(name, data, folder):
    file = folder / Path(name).name
    file.write_bytes(data)
    foreign = needed(file) - SYSTEMS
    if foreign:
        yield f"{name} needs {', '.join(sorted(foreign))}"


def faults_of_metadata(archive, dist_info):
    metadata = email.parser.Parser().parsestr(archive.read(f"{dist_info}/METADATA").decode())
    for field in ("Name", "Version", "Summary", "License-Expression", "License-File", "Classifier", "Requires-Python"):
        if not metadata.get_all(field):
            yield f"METADATA has no {field}"
    if not metadata.get_payload().strip():
        yield "METADATA has no description"
    for license_file in metadata.get_all("License-File") or []:
        if f"{dist_info}/licenses/{license_file}" not in archive.namelist():
            yield f"{license_file} is named as a license and is not there"
    points = archive.read(f"{dist_info}/entry_points.txt").decode()
    if "harpe = harpe._command:main" not in points.replace("=", " = ").replace("  ", " "):
        yield "the command harpe is no entry point"


def faults_of(path):
    if not re.fullmatch(r"harpe-[0-9.]+-cp310-abi3-manylinux_2_(?:[0-9]|1[0-9]|2[0-8])_(x86_64|aarch64)\.whl", path.name):
        yield "its tag is not that of CPython 3.10 and later on systems with glibc 2.28"
    if path.stat().st_size > LARGEST:
        yield f"it has {path.stat().st_size / 2**20:.1f} MiB, more than {LARGEST >> 20}"
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
        names = set(archive.namelist())
        for name in (*PROGRAMS, *LIBRARIES, *OTHERS):
            if name not in names:
                yield f"{name} is missing"
        for name in sorted(names):
            if "__pycache__" in name or name.endswith((".a", ".h", ".cc")):
                yield f"{name} does not belong there"
        for name in (*PROGRAMS, *LIBRARIES):
            if name in names:
                yield from faults_of_binary(name, archive.read(name), Path(folder))
        for name in PROGRAMS:
            if name in names and not archive.getinfo(name).external_attr >> 16 & 0o111:
                yield f"{name} may not be executed"
        dist_info = next(name for name in names if name.endswith(".dist-info/METADATA")).rpartition("/")[0]
        yield from faults_of_metadata(archive, dist_info)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_wheel.py WHEEL")
    path = Path(sys.argv[1])
    faults = list(faults_of(path))
    for fault in faults:
        print(f"{path.name}: {fault}", file=sys.stderr)
    if faults:
        sys.exit(1)
    with zipfile.ZipFile(path) as archive:
        for name in (*PROGRAMS, *LIBRARIES):
            entry = archive.getinfo(name)
            print(f"{entry.file_size / 2**20:6.1f} MiB, {entry.compress_size / 2**20:4.1f} packed  {name}")
    print(f"{path.stat().st_size / 2**20:6.1f} MiB  {path}")


if __name__ == "__main__":
    main()
