#!/usr/bin/env python3
"""What libharpe_client.so holds and needs: it is loaded into training, so it has nothing of how a job is
planned or hosted, needs no library but curl and those of the compiler, and is small.

    client_library_test.py BUILD      a release build
"""

import pathlib
import sys
import unittest

import linked_parts

BUILD = pathlib.Path(sys.argv.pop())
LIBRARY = BUILD / "src" / "harpe" / "training" / "client" / "libharpe_client.so.1"
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
    "http_client",
    "node_client",
    "client",
}
# Functions of `carbon` that read the terms of a job: a time, the price and carbon of energy, and the carbon of
# manufacturing a GPU.
MAY_HOLD_OF_CARBON = (
    "known_zones",
    "parse_embodied",
    "parse_energy_price",
    "parse_intensity",
    "parse_intensity_unit",
    "parse_utc",
    "utc_text",
)
MAY_NEED = linked_parts.COMPILERS | {"libcurl.so.4"}
MOST_BYTES = 3 * 512 * 1024


class ClientLibrary(unittest.TestCase):
    def test_it_holds_nothing_of_other_rooms(self):
        wire = linked_parts.functions_of_rooms(BUILD)["wire"]
        self.assertGreater(len(linked_parts.functions(LIBRARY) & wire), 5)
        others = linked_parts.functions_of_others(LIBRARY, BUILD, MAY_HOLD)
        carbon = others.pop("carbon", [])
        # A mangled name has the length of a function's name before the name: 15parse_intensity.
        allowed = tuple(f"{len(name)}{name}" for name in MAY_HOLD_OF_CARBON)
        self.assertEqual([one for one in carbon if not any(name in one for name in allowed)], [])
        self.assertEqual(others, {})

    def test_it_needs_curl_and_the_compilers_libraries_alone(self):
        self.assertEqual(linked_parts.needed_libraries(LIBRARY) - MAY_NEED, set())

    def test_it_is_small(self):
        self.assertLess(linked_parts.stripped_size(LIBRARY, BUILD / "libharpe_client.stripped"), MOST_BYTES)


if __name__ == "__main__":
    unittest.main()
