"""What a program or library is made of: its functions, the rooms they come from, the libraries it needs."""

import functools
import re
import subprocess

# Libraries of the compiler.
COMPILERS = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def functions(file):
    """Returns Harpe's functions that a file defines, except those in headers and anonymous namespaces."""
    names = set()
    for line in output("nm", "--defined-only", file).splitlines():
        kind_and_name = re.fullmatch(r"[0-9a-f]+ [Tt] (\S+)", line)
        # Only functions whose names may exist in several files.
        if (
            kind_and_name
            and "_GLOBAL__N_1" not in kind_and_name[1]
            and re.match(r"_ZNK?5harpe", kind_and_name[1])
        ):
            names.add(re.sub(r"\.(cold|part|constprop|isra).*", "", kind_and_name[1]))
    return names


@functools.cache
def functions_of_rooms(build):
    """Returns {room: its functions} of a build directory; a second target of a room is listed under its own name."""
    archives = (build / "src" / "harpe").rglob("libharpe_*.a")
    return {
        archive.stem.removeprefix("libharpe_"): functions(archive)
        for archive in archives
        if not archive.stem.endswith("_testing")
    }


def functions_of_others(file, build, rooms):
    """Returns {room: functions} that `file` contains but should not: those of all rooms but these."""
    of_room, held = functions_of_rooms(build), functions(file)
    own = set().union(*(of_room.get(room, set()) for room in rooms))
    found = {room: sorted(held & (names - own)) for room, names in of_room.items() if room not in rooms}
    return {room: names for room, names in found.items() if names}


def needed_libraries(file):
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "--dynamic", "--wide", file))
    return {name for name in needed if not name.startswith("ld-linux")}


def stripped_size(file, copy):
    """Returns the bytes without symbols and debug information; `copy` is the path of the stripped file."""
    subprocess.run(["strip", "-o", copy, file], check=True)
    size = copy.stat().st_size
    print(f"{file.name}: {size} bytes without symbols")
    return size
