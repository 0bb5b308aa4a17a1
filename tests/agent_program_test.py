#!/usr/bin/env python3
"""What harpe-agent holds and needs: it runs with privileges, so it has nothing of how jobs are planned,
hosted or stored, needs no library of a database or an HTTP client, and is small.

    agent_program_test.py BUILD      a release build
"""

import pathlib
import sys
import unittest

import linked_parts

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import house  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop())
PROGRAM = BUILD / "src" / "harpe" / "command" / "cli" / "harpe-agent"
MAY_HOLD = {"base", "gpu_model", "hw", "service", "http", "node_client", "agent", "command", "agent_cli"}
# OpenSSL: for TLS, signatures of tokens, and digests.
MAY_NEED = linked_parts.COMPILERS | {"libssl.so.3", "libcrypto.so.3"}
MOST_BYTES = 5 * 512 * 1024


class AgentProgram(unittest.TestCase):
    def test_it_holds_nothing_of_other_rooms(self):
        rooms = linked_parts.functions_of_rooms(BUILD)
        for other in ("flow", "frontier", "job", "server", "store"):  # otherwise the comparison would be empty
            self.assertGreater(len(rooms[other]), 5, other)
        self.assertGreater(len(linked_parts.functions(PROGRAM) & rooms["agent"]), 5)
        self.assertEqual(linked_parts.functions_of_others(PROGRAM, BUILD, MAY_HOLD), {})

    def test_the_big_program_has_no_daemon(self):
        rooms = linked_parts.functions_of_rooms(BUILD)
        held = linked_parts.functions(PROGRAM.parent / "harpe")
        self.assertGreater(len(held & rooms["frontier"]), 5)
        self.assertEqual(sorted(held & (rooms["agent"] | rooms["agent_cli"]))[:5], [])

    def test_the_big_program_has_no_experiments(self):
        rooms = linked_parts.functions_of_rooms(BUILD)
        experiments = {"lab_cli", *(room.name for room in house.read_house()[1] if room.wing == "lab")}
        held = linked_parts.functions(PROGRAM.parent / "harpe-lab")
        self.assertEqual([room for room in experiments if not held & rooms[room]], [])
        others = linked_parts.functions_of_others(PROGRAM.parent / "harpe", BUILD, set(rooms) - experiments)
        self.assertEqual(others, {})

    def test_it_needs_openssl_and_the_compilers_libraries_alone(self):
        self.assertEqual(linked_parts.needed_libraries(PROGRAM) - MAY_NEED, set())

    def test_it_is_small(self):
        self.assertLess(linked_parts.stripped_size(PROGRAM, BUILD / "harpe-agent.stripped"), MOST_BYTES)


if __name__ == "__main__":
    unittest.main()
