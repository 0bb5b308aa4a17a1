#!/usr/bin/env python3
"""What libharpe_client.so holds and needs: it is loaded into training, so it has nothing of how a job is
planned or hosted, needs no library but curl and those of the compiler, and is small.

    client_library_test.py BUILD      a release build
"""

import pathlib
import re
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv.pop())
ROOMS = BUILD / "src" / "harpe"
LIBRARY = ROOMS / "client" / "libharpe_client.so.1"
MAY_HOLD = {
    "base",
    "instruction",
    "objective",
    "gpu_model",
    "profile",
    "schedule",
    "hw",
    "pipeline",
    "measure",
    "wire",
    "node_client",
    "client",
}
MAY_NEED = {"libcurl.so.4", "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6"}
MOST_BYTES = 3 * 512 * 1024  # without symbols and debug information


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def functions(file):
    """Harpe's functions that a file defines outside of headers and anonymous namespaces."""
    names = set()
    for line in output("nm", "--defined-only", file).splitlines():
        kind_and_name = re.fullmatch(r"[0-9a-f]+ [Tt] (\S+)", line)
        # Those whose names do not say that only one file has them.
        if (
            kind_and_name
            and "_GLOBAL__N_1" not in kind_and_name[1]
            and re.match(r"_ZNK?5harpe", kind_and_name[1])
        ):
            names.add(re.sub(r"\.(cold|part|constprop|isra).*", "", kind_and_name[1]))
    return names


class ClientLibrary(unittest.TestCase):
    def test_it_holds_nothing_of_other_rooms(self):
        of_room = {
            archive.parent.name: functions(archive)
            for archive in ROOMS.glob("*/libharpe_*.a")
            if archive.name == f"libharpe_{archive.parent.name}.a"
        }
        own = set().union(*(of_room.get(room, set()) for room in MAY_HOLD))
        held = functions(LIBRARY)
        self.assertGreater(len(held & of_room["wire"]), 5)
        for room in sorted(set(of_room) - MAY_HOLD):
            self.assertEqual(sorted(held & (of_room[room] - own))[:5], [], room)

    def test_it_needs_curl_and_the_compilers_libraries_alone(self):
        needed = set(
            re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "--dynamic", "--wide", LIBRARY))
        )
        self.assertEqual(
            {name for name in needed if not name.startswith("ld-linux")} - MAY_NEED, set()
        )

    def test_it_is_small(self):
        copy = BUILD / "libharpe_client.stripped"
        subprocess.run(["strip", "-o", copy, LIBRARY], check=True)
        size = copy.stat().st_size
        print(f"libharpe_client.so: {size} bytes without symbols")
        self.assertLess(size, MOST_BYTES)


if __name__ == "__main__":
    unittest.main()
