"""Runs Harpe's programs while everything goes wrong, and checks what happened; scripts/chaos.sh starts it."""

import argparse
import asyncio
import pathlib
import shutil
import subprocess
import sys
import tempfile
from itertools import groupby

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from chaos import checker  # noqa: E402
from chaos.figures import figures  # noqa: E402
from chaos.world import World  # noqa: E402


def prepare():
    """Prepares /run, where `ip netns` keeps name spaces. This run has its own name spaces (scripts/chaos.sh) and its
    own /run."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/run"], check=True)
    pathlib.Path("/run/netns").mkdir()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--harpe", required=True, type=pathlib.Path)
    parser.add_argument("--trainer", required=True, type=pathlib.Path)
    parser.add_argument("--keep", action="store_true", help="keep logs and history, whatever came out")
    parser.add_argument("seconds", type=float)
    parser.add_argument("seed")
    arguments = parser.parse_args()
    prepare()
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"harpe-chaos-{arguments.seed}-"))
    folder.chmod(0o755)
    world = World(arguments.harpe.resolve(), arguments.trainer.resolve(), arguments.seed, folder)
    # If a run fails, its history so far is checked.
    trouble = None
    try:
        asyncio.run(world.run(arguments.seconds))
    except Exception as error:
        trouble = repr(error)
    found = checker.check(world.history.records)
    troubles = [*([trouble] if trouble else []), *world.troubles]
    print(f"seed {arguments.seed}: {figures(world.history.records, found)}", flush=True)
    for _, breaches in groupby(found, key=lambda one: one.invariant):
        first, *others = breaches
        print(f"  {first}" + (f"\n      and {len(others)} more" if others else ""))
    for one in troubles:
        print(f"  the run itself: {one}")
    if found or troubles or arguments.keep:
        print(f"  logs and history: {folder}; again: scripts/chaos.sh {arguments.seconds:g} {arguments.seed}")
    else:
        subprocess.run(["umount", "--lazy", *(str(path) for path in mounts(folder))], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if found or troubles else 0


def mounts(folder):
    lines = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if line.split()[1].startswith(str(folder))]


if __name__ == "__main__":
    sys.exit(main())
