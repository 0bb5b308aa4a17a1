#!/usr/bin/env python3
"""The walls of the house: a room includes only lower rooms (src/harpe/floors.txt), its
CMakeLists.txt names every room it includes, the rooms of the core keep to what they may know, and what is
installed is what src/harpe/public_headers.txt lists."""

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import draw_architecture  # noqa: E402
import house  # noqa: E402
import sizes  # noqa: E402

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"harpe/([^"]+)"|"([^"]+)"|<([^>]+)>)', re.MULTILINE)
ROOMS = re.compile(r"\bharpe_room\s*\(([^)]*)\)", re.DOTALL)
# With threads, clocks and streams the core would depend on more than its input.
CORE_MAY_NOT = {"thread", "future", "mutex", "chrono", "iostream", "ctime", "random"}
# The only file that may use the standard library's locks. All others use its locks, which clang checks.
LOCKS, STANDARD_LOCKS = "base/mutex.h", {"mutex", "shared_mutex", "condition_variable"}
CORE = {"base", "gpu_model", "instruction", "objective", "flow", "profile", "schedule", "frontier", "policy", "baseline",
        "carbon", "pacing", "power_limit", "batch_size", "wire", "emulation"}


def named_targets(cmake_text, keyword="ROOMS"):
    """Returns the targets after a keyword (NAME, ROOMS, TEST_ROOMS) of the harpe_room() calls of a CMakeLists.txt."""
    targets = set()
    for call in ROOMS.findall(re.sub(r"#.*", "", cmake_text)):
        reading = False
        for word in call.split():
            if word.isupper() or "_" in word and word.replace("_", "").isupper():
                reading = word == keyword
            elif reading:
                targets.add(word)
    return targets


def violations(src):
    """Returns all violations of walls under `src` (the folder of floors.txt), one sentence each."""
    _, rooms = house.read_house(src / "floors.txt")
    room_at = {room.name: room for room in rooms}
    room_of_target = {target: room.name for room in rooms if (cmake := src / room.folder / "CMakeLists.txt").is_file()
                      for target in named_targets(cmake.read_text(), "NAME")}
    wings = {room.wing for room in rooms}
    found = [f"{path.name}: is no wing of floors.txt" for path in sorted(src.iterdir()) if path.is_dir() and path.name not in wings]
    for wing in sorted(wings):
        found += [f"{wing}/{path.name}: is no room of floors.txt" for path in sorted((src / wing).glob("*/"))
                  if (path / "CMakeLists.txt").is_file() and f"{wing}/{path.name}" not in {room.folder for room in rooms}]

    def is_lower(other, room):
        return other in room_at and room_at[other].height < room.height

    for room in sorted(rooms, key=lambda one: one.folder):
        folder = src / room.folder
        cmake = folder / "CMakeLists.txt"
        text = cmake.read_text() if cmake.is_file() else ""
        named, in_tests = ({room_of_target.get(target, target) for target in named_targets(text, keyword)}
                           for keyword in ("ROOMS", "TEST_ROOMS"))
        if len(named_targets(text, "NAME")) > 1:
            named.discard(room.name)  # a target of the room may link another one of it
        found += [f"{room.folder}/CMakeLists.txt: {other} is not lower" for other in sorted(named) if not is_lower(other, room)]
        found += [f"{room.folder}/CMakeLists.txt: {other} is higher" for other in sorted(in_tests)
                  if other not in room_at or room_at[other].height > room.height]
        for file in sorted([*folder.rglob("*.h"), *folder.rglob("*.cc")]):
            where = file.relative_to(src)
            is_product = not re.search(r"_(test|bench|fuzz)\.cc$|(^test_|_testing\.)", file.name)
            may_include = named if is_product else named | in_tests
            text = file.read_text(encoding="utf-8")
            is_core = is_product and room.name in CORE
            if is_core and f'"harpe/{LOCKS}"' in text:
                found.append(f"{where}: {LOCKS} has no place in the core")
            for path, relative, system in INCLUDE.findall(text):
                if relative:
                    found.append(f'{where}: "{relative}" is not included by its full path')
                elif str(where) == LOCKS:
                    continue
                elif system in STANDARD_LOCKS:
                    found.append(f"{where}: <{system}> is not checked by clang as {LOCKS} is")
                elif system:
                    if is_core and system in CORE_MAY_NOT:
                        found.append(f"{where}: <{system}> has no place in the core")
                else:
                    at = house.room_of(path, rooms)
                    other = at.name if at else path
                    if other == room.name:
                        continue
                    if not is_lower(other, room) and (is_product or other not in in_tests):
                        found.append(f"{where}: includes {other}, which is not lower")
                    elif cmake.is_file() and other not in may_include:
                        lists = "ROOMS" if is_product else "ROOMS or TEST_ROOMS"
                        found.append(f"{where}: includes {other}, which {lists} in {room.folder}/CMakeLists.txt lacks")
    return found


def linked_rooms(src, name):
    """Returns the room and all rooms that it links, directly or indirectly."""
    _, rooms = house.read_house(src / "floors.txt")
    cmake = {room.name: (src / room.folder / "CMakeLists.txt").read_text() for room in rooms}
    room_of_target = {target: room for room, text in cmake.items() for target in named_targets(text, "NAME")}
    found, to_read = set(), [name]
    while to_read:
        room = to_read.pop()
        if room not in found:
            found.add(room)
            to_read += [room_of_target[target] for target in named_targets(cmake[room])]
    return found


# A namespace block at the start of a line. clang-format adds the name after its end.
NAMESPACE = re.compile(r"^namespace (harpe[\w:]*) \{\n(.*?)^\}  // namespace \1$", re.DOTALL | re.MULTILINE)
FORWARD_DECLARATIONS = re.compile(r"\s*(?:(?:class|struct|enum class) \w+(?: : [\w:]+)?;\s*)+")
PART_OF_A_CLASS = re.compile(r"^(?:class|struct) \w+::\w+", re.MULTILINE)


def namespaces_of_other_wings(src, public):
    """Returns files with a namespace other than that of their wing: `harpe` for `base` and public names,
    `harpe::<wing>` for the rest."""
    wings, _ = house.read_house(src / "floors.txt")
    found = []
    for wing in wings:
        own = "harpe" if wing.name == "base" else f"harpe::{wing.name}"
        for file in sorted([*(src / wing.name).rglob("*.h"), *(src / wing.name).rglob("*.cc")]):
            where = str(file.relative_to(src))
            for name, body in NAMESPACE.findall(file.read_text(encoding="utf-8")):
                is_own = name == own or name.startswith(own + "::")
                # A source file defines names of a public header; a header may define the inner class of a public class.
                is_root = name == "harpe" and (file.suffix == ".cc" or where in public or PART_OF_A_CLASS.search(body))
                if not is_own and not is_root and not FORWARD_DECLARATIONS.fullmatch(body):
                    found.append(f"{where}: namespace {name} is not {own}")
                elif where in public and name != "harpe":
                    found.append(f"{where}: namespace {name} is not harpe, as of a public header")
    return found


MOST_PUBLIC_HEADERS = 40
# Public headers in include directives, from both source folders.
PUBLIC = re.compile(r'^\s*#\s*include\s+"(harpe/[^"]+|harpe_sim\.h)"', re.MULTILINE)
# Code in the leading comment of a header: indented further than its text.
USAGE = re.compile(r"^(?:///| \*) {3,}\S", re.MULTILINE)


def public_headers(root):
    lines = (root / "src" / "harpe" / "public_headers.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def flaws_of_public_headers(root):
    """Returns all errors in the list or in a header on it, one sentence each."""
    public, found = public_headers(root), []
    if public != sorted(set(public)):
        found.append("public_headers.txt: not sorted, or a header twice")
    included = {}
    for example in [*(root / "examples").glob("*.cc"), *(root / "examples").glob("*.c")]:
        for name in PUBLIC.findall(example.read_text(encoding="utf-8")):
            included.setdefault(name, example.name)
    found += [f"{included[name]}: includes {name}, which is not public" for name in sorted(set(included) - set(public))]
    for name in public:
        file = root / "src" / name if name.startswith("harpe/") else root / "sim" / "nvml" / name
        if not file.is_file():
            found.append(f"{name}: is not there")
            continue
        text = file.read_text(encoding="utf-8")
        found += [f"{name}: includes {other}, which is not public" for other in PUBLIC.findall(text) if other not in public]
        if not USAGE.search(re.split(r"^#\s*(?:include|ifndef)", text, maxsplit=1, flags=re.MULTILINE)[0]):
            found.append(f"{name}: does not begin with how it is used")
        if name not in included:
            found.append(f"{name}: has no example")
    return found


CHECKER = ("exact", "verify", "verify_certificate", "verify_late", "verify_loops", "planned_schedule", "profile_misfit",
           "rules_graph")


def included_from(src, files):
    """Returns every project header that `files` include, directly or indirectly, as paths under `src`."""
    found, to_read = set(), [src / file for file in files]
    while to_read:
        for name in re.findall(r'^\s*#\s*include\s+"harpe/([^"]+)"', to_read.pop().read_text(), re.MULTILINE):
            if name not in found:
                found.add(name)
                to_read.append(src / name)
    return found


# Classes over the limits of scripts/sizes.py, with reasons.
LARGE_CLASSES = {
    "training/job/job.h: Job": "a debt: the face of a training job, whose state is to be taken apart into the parts that own its data",
    "training/job/job_state.h: Job::State": "the same debt",
    "device/hw/nvml/nvml_api.h: NvmlApi": "a table of the library's functions",
    "command/plan_cli/plan_job.h: PlanJob": "a record of the options of a plan",
    "device/hw/sim/gpu_spec.h: SimulatedGpuSpec": "a record of what a simulated GPU is made of",
    "device/hw/sim/gpu_state.h: SimulatedGpuState": "a record of what a simulated GPU does at a moment",
}


class Size(unittest.TestCase):
    """Tests that classes, functions and files are small enough to understand."""

    def test_classes_functions_and_files_keep_to_their_bars(self):
        large, others = set(), []
        for line in sizes.over_the_bars(ROOT / "src" / "harpe"):
            of_class = re.match(r"(\S+: [\w:]+) has ", line)
            if of_class:
                large.add(of_class[1])
            else:
                others.append(line)
        self.assertEqual(others, [])
        self.assertEqual(large, set(LARGE_CLASSES))
        self.assertLessEqual(len(LARGE_CLASSES), 8)

    def test_a_long_function_is_found(self):
        body = "".join(f"  step({i});\n" for i in range(60))
        self.assertEqual(sizes.long_functions(f"int run(int a) {{\n{body}}}\n\nvoid f() {{\n  g();\n}}\n"), [("run", 62)])
        self.assertEqual(sizes.long_functions(f"int run(int a,\n        int b) {{\n{body}}}\n"), [("run", 63)])
        self.assertEqual(sizes.long_functions(f"double forward(int a) {{\n{body}}}\n"), [("forward", 62)])
        self.assertEqual(sizes.long_functions(f"struct A {{\n  struct B {{\n    void run() {{\n{body}    }}\n  }};\n}};\n"), [("run", 62)])
        self.assertEqual(sizes.long_functions(f'void help() {{\n  say(R"(\n}}\n)");\n{body}}}\n'), [("help", 65)])
        self.assertEqual(sizes.long_functions(f"A::A(int b) : b_{{b}}, c_(b) {{\n{body}}}\n"), [("A", 62)])
        self.assertEqual(sizes.long_functions(f"constexpr std::array kRows = {{{{\n{body}}}}};\n"), [])

    def test_the_members_of_a_class_are_counted(self):
        text = """namespace harpe {
        class Lease final : public Right {  // not { this
         public:
          explicit Lease(int id) : id_(id) { hold(); }
          Lease(const Lease&) = delete;
          ~Lease() override = default;
          bool operator==(const Lease& other) const;
          std::map<int, int> rights(std::vector<int> of = {}) const { return {}; }
          struct Part {
            int first = 1, second{2};
            std::function<void(int)> told;
          };
          using Parts = std::vector<Part>;
          enum class Kind { A, B };
         private:
          friend class Book;
          int id_ HARPE_GUARDED_BY(mutex_) = one();
          std::string text_ = "; { (";
          Parts parts_{};
        };
        class Named;
        }"""
        self.assertEqual(sizes.classes(text), [("Lease", 3, 3), ("Part", 0, 3)])
        self.assertEqual(sizes.classes("struct A { int a, b{1}, c = f(1, 2), d[2]; std::map<int, int> e = {{1, 2}}, f; };"), [("A", 0, 6)])
        self.assertEqual(sizes.classes("void f() { struct Local { int a; }; }"), [("Local", 0, 1)])
        self.assertEqual(sizes.classes("static struct X { int a; } x; struct { int b; } y;"), [("X", 0, 1), ("(unnamed)", 0, 1)])
        self.assertEqual(sizes.classes("class A : public B<decltype(f())> { int a_; };"), [("A", 0, 1)])
        self.assertEqual(sizes.classes("struct X f() { return {}; }"), [])


class Architecture(unittest.TestCase):
    def test_what_checks_plans_shares_no_code_with_what_makes_them(self):
        headers = included_from(ROOT / "src" / "harpe", [f"plan/frontier/{name}.cc" for name in CHECKER])
        own = {f"plan/frontier/{name}.h" for name in (*CHECKER, "verify_parts", "plan", "certificate")}
        shared = {name for name in headers
                  if name.startswith(("base/", "plan/instruction/", "plan/profile/", "plan/schedule/"))}
        self.assertIn("plan/schedule/rules.h", shared)
        self.assertEqual(headers - own - shared, set())

    def test_every_room_keeps_to_its_walls(self):
        self.assertEqual(violations(ROOT / "src" / "harpe"), [])

    def test_the_program_of_operators_links_no_experiment(self):
        experiments = {"lab_cli", *(room.name for room in house.read_house()[1] if room.wing == "lab")}
        self.assertGreater(len(experiments & linked_rooms(ROOT / "src" / "harpe", "lab_cli")), 4)
        linked = linked_rooms(ROOT / "src" / "harpe", "cli")
        self.assertIn("frontier", linked)
        self.assertEqual(linked & experiments, set())

    def test_types_are_named_by_using(self):
        # Replaces clang-tidy's modernize-use-using, which took a third of its time. Headers for C need typedef.
        found = [str(file.relative_to(ROOT)) for suffix in ("*.h", "*.cc") for file in sorted((ROOT / "src").rglob(suffix))
                 if re.search(r"^\s*typedef\b", text := file.read_text(encoding="utf-8"), re.MULTILINE)
                 and 'extern "C"' not in text]
        self.assertEqual(found, [])

    def test_expectations_under_a_condition_stand_in_braces(self):
        # GoogleTest's macros end in an `else`: after a bare `if` GCC warns; clang, which builds the fast tests, does
        # not.
        found = [f"{file.relative_to(ROOT)}: {line.strip()}"
                 for folder in ("src", "tests", "bench") for file in sorted((ROOT / folder).rglob("*.cc"))
                 for line in re.findall(r"^\s*if \(.*\)\s+(?:EXPECT|ASSERT)_.*", file.read_text(encoding="utf-8"), re.MULTILINE)]
        self.assertEqual(found, [])

    def test_namespaces_follow_wings(self):
        public = {name.removeprefix("harpe/") for name in public_headers(ROOT)}
        self.assertEqual(namespaces_of_other_wings(ROOT / "src" / "harpe", public), [])

    def test_each_wing_has_a_page_that_names_its_rooms_and_files_that_are_there(self):
        wings, rooms = house.read_house()
        for wing in wings:
            folder = ROOT / "src" / "harpe" / wing.name
            page = (folder / "README.md").read_text()
            self.assertLessEqual(len(page.splitlines()), 40, wing.name)
            if not (folder / "CMakeLists.txt").is_file():
                self.assertEqual([room.name for room in rooms if room.wing == wing.name and f"`{room.name}`" not in page], [])
            for name in re.findall(r"`([\w/]+\.(?:h|cc|css|md|yaml|py))`", page):
                places = [folder, ROOT / "src" / "harpe", ROOT, *(path for path in folder.iterdir() if path.is_dir())]
                self.assertTrue(any((place / name).is_file() for place in places), f"{wing.name}: {name} is not there")

    def test_the_picture_shows_the_house_as_it_is(self):
        self.assertEqual(draw_architecture.PICTURE.read_text(), draw_architecture.draw())

    def test_the_page_names_every_room(self):
        page = (ROOT / "docs" / "architecture.md").read_text()
        self.assertEqual([room.name for room in house.read_house()[1] if f"`{room.name}`" not in page], [])


class PublicHeaders(unittest.TestCase):
    """Tests that public headers are few, complete, documented and used in examples."""

    def test_they_are_few(self):
        self.assertLessEqual(len(public_headers(ROOT)), MOST_PUBLIC_HEADERS)

    def test_each_is_closed_explained_and_shown(self):
        self.assertEqual(flaws_of_public_headers(ROOT), [])

    def test_flaws_are_found(self):
        good = "#pragma once\n/// \\file\n/// What it is.\n///\n///   use(it);\n"
        files = {"src/harpe/public_headers.txt": "# The list.\nharpe/base/a.h\nharpe/base/b.h\nharpe/base/c.h\n",
                 "src/harpe/base/a.h": good + '#include "harpe/base/b.h"\n',
                 "src/harpe/base/b.h": "#pragma once\n/// What it is.\n#include <set>\n///   no usage\n" + '#include "harpe/base/d.h"\n',
                 "examples/a.cc": '#include "harpe/base/a.h"\n#include "harpe/base/d.h"\n'}
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                file = pathlib.Path(folder, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            self.assertEqual(flaws_of_public_headers(pathlib.Path(folder)),
                             ["a.cc: includes harpe/base/d.h, which is not public",
                              "harpe/base/b.h: includes harpe/base/d.h, which is not public",
                              "harpe/base/b.h: does not begin with how it is used",
                              "harpe/base/b.h: has no example",
                              "harpe/base/c.h: is not there"])


def early_readers(text):
    """Returns lines of a script with pipefail where a reader may end before its writer, which then sometimes fails."""
    if "pipefail" not in text:
        return []
    return [line.strip() for line in text.splitlines()
            if re.search(r"\|\s*(grep\s+-\w*[qm]|head\b)", line) and "|| true" not in line and "sh -c" not in line]


class Scripts(unittest.TestCase):
    def test_no_pipe_fails_because_its_reader_is_content(self):
        scripts = [*ROOT.glob("*/*.sh"), ROOT / ".ci/run"]
        self.assertGreater(len(scripts), 10)
        self.assertEqual({str(file): lines for file in scripts if (lines := early_readers(file.read_text()))}, {})

    def test_such_pipes_are_found(self):
        self.assertEqual(early_readers("set -o pipefail\nldconfig -p | grep -q libc\ngrep -q a <<<$b\na | head -n 1\n"),
                         ["ldconfig -p | grep -q libc", "a | head -n 1"])


class Checker(unittest.TestCase):
    """Tests that the checker finds violations."""

    def house(self, files, find=violations):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        src = pathlib.Path(folder.name)
        files = {"floors.txt": "wing base  ground\n0 base  ground\nwing plan  plans\n0 flow  graphs\n0 profile  points\n1 pipeline  DAG\n",
                 **files}
        for name in ("base", "plan/flow", "plan/profile", "plan/pipeline"):
            (src / name).mkdir(parents=True)
        for name, text in files.items():
            (src / name).parent.mkdir(parents=True, exist_ok=True)
            (src / name).write_text(text)
        return find(src)

    def test_a_namespace_of_another_wing_is_found(self):
        def block(name, body):
            return f"namespace {name} {{\n{body}\n}}  // namespace {name}\n"

        files = {"base/a.h": block("harpe", "int a;"), "plan/flow/a.h": block("harpe", "int a;"),
                 "plan/flow/b.h": block("harpe", "class A;\nenum class B : char;") + block("harpe::plan::flow", "int b;"),
                 "plan/flow/c.h": block("harpe", "struct A::Data {\n};"), "plan/flow/c.cc": block("harpe", "int c;"),
                 "plan/flow/d.cc": block("harpe::base", "int d;"), "plan/profile/public.h": block("harpe", "int a;"),
                 "plan/profile/other.h": block("harpe::plan", "int a;")}
        self.assertEqual(self.house(files, lambda src: namespaces_of_other_wings(src, {"plan/profile/public.h", "plan/profile/other.h"})),
                         ["plan/flow/a.h: namespace harpe is not harpe::plan", "plan/flow/d.cc: namespace harpe::base is not harpe::plan",
                          "plan/profile/other.h: namespace harpe::plan is not harpe, as of a public header"])

    def test_a_lower_room_may_be_included(self):
        files = {"plan/flow/CMakeLists.txt": "harpe_room(NAME flow ROOMS base TESTS a_test.cc)",
                 "plan/flow/a.cc": '#include <vector>\n#include "harpe/base/x.h"\n#include "harpe/plan/flow/a.h"\n'}
        self.assertEqual(self.house(files), [])

    def test_a_higher_room_is_found(self):
        files = {"base/CMakeLists.txt": "harpe_room(NAME base)", "base/a.h": '#include "harpe/plan/flow/b.h"\n'}
        self.assertEqual(self.house(files), ["base/a.h: includes flow, which is not lower"])

    def test_a_room_on_the_same_floor_is_found_in_source_and_in_cmake(self):
        files = {"plan/flow/CMakeLists.txt": "harpe_room(NAME flow\n  ROOMS base profile # why\n  LIBRARIES x::y)",
                 "plan/flow/a_test.cc": '#include "harpe/plan/profile/p.h"\n'}
        self.assertEqual(self.house(files),
                         ["plan/flow/CMakeLists.txt: profile is not lower",
                          "plan/flow/a_test.cc: includes profile, which is not lower"])

    def test_a_room_that_cmake_does_not_name_is_found(self):
        files = {"plan/pipeline/CMakeLists.txt": "harpe_room(NAME pipeline SOURCES a.cc ROOMS flow)",
                 "plan/pipeline/a.cc": '#include "harpe/base/x.h"\n'}
        self.assertEqual(self.house(files),
                         ["plan/pipeline/a.cc: includes base, which ROOMS in plan/pipeline/CMakeLists.txt lacks"])

    def test_each_target_of_a_room_stands_for_the_room(self):
        two = "harpe_room(NAME flow ROOMS base)\nharpe_room(NAME flow_files ROOMS flow {})"
        above = {"plan/pipeline/CMakeLists.txt": "harpe_room(NAME pipeline ROOMS flow_files)",
                 "plan/pipeline/a.cc": '#include "harpe/plan/flow/x.h"\n'}
        self.assertEqual(self.house({"plan/flow/CMakeLists.txt": two.format("base"), **above}), [])
        self.assertEqual(self.house({"plan/flow/CMakeLists.txt": two.format("profile"), **above}),
                         ["plan/flow/CMakeLists.txt: profile is not lower"])

    def test_tests_may_include_more_but_nothing_above(self):
        cmake = "harpe_room(NAME flow ROOMS base TEST_ROOMS profile)"
        include = '#include "harpe/plan/profile/p.h"\n'
        self.assertEqual(self.house({"plan/flow/CMakeLists.txt": cmake, "plan/flow/a_test.cc": include}), [])
        self.assertEqual(self.house({"plan/flow/CMakeLists.txt": cmake, "plan/flow/a.cc": include}),
                         ["plan/flow/a.cc: includes profile, which is not lower"])
        self.assertEqual(self.house({"plan/flow/CMakeLists.txt": "harpe_room(NAME flow TEST_ROOMS pipeline)"}),
                         ["plan/flow/CMakeLists.txt: pipeline is higher"])
        self.assertEqual(self.house({"plan/flow/CMakeLists.txt": "harpe_room(NAME flow)",
                                     "plan/flow/a_test.cc": '#include "harpe/base/x.h"\n'}),
                         ["plan/flow/a_test.cc: includes base, which ROOMS or TEST_ROOMS in plan/flow/CMakeLists.txt lacks"])

    def test_an_unknown_room_is_found(self):
        self.assertEqual(self.house({"cellar/a.cc": "", "plan/attic/CMakeLists.txt": ""}),
                         ["cellar: is no wing of floors.txt", "plan/attic: is no room of floors.txt"])

    def test_threads_in_the_core_are_found(self):
        self.assertEqual(self.house({"base/a.cc": "#include <thread>\n", "base/a_test.cc": "#include <thread>\n"}),
                         ["base/a.cc: <thread> has no place in the core"])

    def test_locks_that_clang_does_not_check_are_found(self):
        self.assertEqual(self.house({"base/mutex.h": "#include <mutex>\n", "base/a_test.cc": "#include <mutex>\n",
                                     "base/b.cc": '#include "harpe/base/mutex.h"\n'}),
                         ["base/a_test.cc: <mutex> is not checked by clang as base/mutex.h is",
                          "base/b.cc: base/mutex.h has no place in the core"])

    def test_an_include_without_full_path_is_found(self):
        self.assertEqual(self.house({"base/a.cc": '#include "b.h"\n'}),
                         ['base/a.cc: "b.h" is not included by its full path'])


if __name__ == "__main__":
    unittest.main()
