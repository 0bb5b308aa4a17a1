#!/usr/bin/env python3
"""The wings and rooms of src/harpe, as src/harpe/floors.txt lists them.

    house.py    prints a line for each room, from the ground up: its height, its name, its folder in src/harpe
"""

import pathlib
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLOORS = ROOT / "src" / "harpe" / "floors.txt"


class Wing(NamedTuple):
    name: str
    knows: str


class Room(NamedTuple):
    name: str
    wing: str
    floor: int  # within the wing
    knows: str
    height: int  # a room includes only lower rooms
    folder: str  # relative to that of floors.txt


def read_house(floors=FLOORS):
    """Returns the wings from the ground up, and the rooms in the order of the file."""
    wings, rooms = [], []
    for line in floors.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        first, name, knows = line.split(maxsplit=2)
        if first == "wing":
            wings.append(Wing(name, knows))
            continue
        wing = wings[-1].name
        folder = f"{wing}/{name}"
        if name == wing and not (floors.parent / folder).is_dir():
            folder = wing  # the only room of its wing
        rooms.append(Room(name, wing, int(first), knows, 10 * (len(wings) - 1) + int(first), folder))
    return wings, rooms


def room_of(path, rooms):
    """Returns the room of a file, by its path relative to the folder of floors.txt; None if there is none."""
    inside = [room for room in rooms if path.startswith(room.folder + "/")]
    return max(inside, key=lambda room: len(room.folder), default=None)


if __name__ == "__main__":
    for one in read_house()[1]:
        print(one.height, one.name, one.folder)
