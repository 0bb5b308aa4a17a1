#!/usr/bin/env python3
"""Checks C++ files with clang-format-19 and clang-tidy, and the Python package with ruff and mypy.

    lint.py format                  every .h and .cc of the repository is formatted
    lint.py tidy [--build DIR]      every file in DIR/compile_commands.json is clang-tidy clean
    lint.py tidy --changed          those that differ from origin/main, or from HEAD where there is none; of a header, its
                                    own .cc or else the first file that includes it
Files of rooms and tests are read some at a time; with --changed, those of rooms alone.
    lint.py python                  the package and its tests are formatted, and ruff and mypy clean

Files that were clean before are not looked at again: a file's key is a hash of itself, of every
project header it includes, of its compile command, of .clang-tidy and of clang-tidy's version; the keys of
clean files are kept in the user's cache (~/.cache/harpe/clang-tidy-clean), where other clones find them.
"""

import argparse
import collections
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / "build" / "venv" / "bin"
CLEAN = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "harpe" / "clang-tidy-clean"
# The version of tests/requirements.txt: older versions also check the system's headers, and then discard these
# findings, which takes three times as long.
CLANG_TIDY = TOOLS / "clang-tidy"
CLANG_TIDY_ARGUMENTS = (
    "--quiet",
    # clang-tidy need not know GCC's warning flags.
    "--extra-arg=-Wno-unknown-warning-option",
    # For Boost on the standard library of GCC 12; compilers check our own code for these.
    "--extra-arg=-Wno-deprecated-declarations",
    # False positives on elements of a std::span that a function returns.
    "--extra-arg=-Wno-dangling-gsl",
)
# The checks for tests, whose long matcher and macro expansions make every check slow.
TEST_CHECKS = ",".join(("-*", "bugprone-use-after-move", "google-explicit-constructor", "modernize-use-nullptr", "modernize-use-override",
                        "readability-identifier-naming"))
TEST_FILE = re.compile(r"_(test|bench|fuzz)(_[0-9]+)?\.cc$")
# Tests are checked in groups (harpe_unity_sources), as files that the build generates.
TEST_UNITY = re.compile(r"_test_[0-9]+\.cc$")
GROUP = 8  # files of a room per group
FOLDERS = ("src", "sim", "tests", "examples", "bench", "python")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def sources():
    """Yields every C++ file of the repository."""
    for folder in FOLDERS:
        for suffix in ("*.h", "*.cc"):
            yield from sorted((ROOT / folder).rglob(suffix))


def check_format():
    files = [str(file.relative_to(ROOT)) for file in sources()]
    command = ["clang-format-19", "--dry-run", "-Werror", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    unformatted = sorted(set(re.findall(r"^([^:\n]+):\d+:\d+: error", done.stderr, re.MULTILINE)))
    for file in unformatted:
        print(f"not formatted: {file} (clang-format-19 -i {file})")
    if done.returncode and not unformatted:
        print(done.stderr)
    return done.returncode


@functools.lru_cache(maxsize=None)
def included(path):
    """Returns the project headers that a file includes, directly or indirectly."""
    found = set()
    for name in INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
        for header in (ROOT / "src" / name, ROOT / name, path.parent / name):
            if header.is_file() and header != path:
                found |= {header} | included(header)
                break
    return frozenset(found)


@functools.lru_cache(maxsize=None)
def version():
    return subprocess.run([CLANG_TIDY, "--version"], capture_output=True, text=True, check=True).stdout


def key(entry):
    path = pathlib.Path(entry["file"])
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    digest.update("".join((version(), *CLANG_TIDY_ARGUMENTS, TEST_CHECKS)).encode())
    command = entry["command"].replace(entry["directory"], "").replace(str(ROOT), "")
    digest.update(command.encode())
    for file in (path, *sorted(included(path))):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def tidy(build, path):
    command = [CLANG_TIDY, "-p", str(build), *CLANG_TIDY_ARGUMENTS]
    if TEST_FILE.search(path):
        command.append("--checks=" + TEST_CHECKS)
    elif pathlib.Path(path).parent.name == "groups":
        command.append("--checks=-bugprone-suspicious-include")
    done = subprocess.run([*command, path], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout.strip()


def require(tool):
    if not (TOOLS / tool).is_file():
        sys.exit(f"{TOOLS / tool} is missing: run scripts/install-dependencies.sh")


def changed_files():
    """Returns the C++ files that are new or differ from origin/main, or else from HEAD."""
    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)

    base = "origin/main" if git("rev-parse", "--verify", "--quiet", "origin/main").returncode == 0 else "HEAD"
    differing = git("diff", "--name-only", "--diff-filter=d", base)
    if differing.returncode != 0:
        sys.exit(f"git diff {base}: {differing.stderr}")
    new = git("ls-files", "--others", "--exclude-standard")
    names = {ROOT / name for name in (differing.stdout + new.stdout).splitlines()}
    return names.intersection(sources())


def files_to_read(changed, compiled):
    """Returns the compiled files that have changed, and one for each changed header or test."""
    chosen = changed.intersection(compiled)
    for file in sorted(changed - chosen):
        own = file.with_suffix(".cc")
        chosen.update([own] if own in compiled else [one for one in sorted(compiled) if file in included(one)][:1])
    return chosen


def grouped(entries, folder):
    """Returns the entries with rooms grouped by eight files, as files in `folder` that include them, so that headers
    are read once for eight files."""
    alone = {file: entry for file, entry in entries.items()
             if TEST_FILE.search(file) or ROOT / "src" not in pathlib.Path(file).parents}
    alike = collections.defaultdict(list)  # files of one folder with the same flags
    for file, entry in sorted(entries.items()):
        if file not in alone:
            flags = re.sub(r"\S+\.cc(\.o)?(?= |$)", "", entry["command"])
            alike[pathlib.Path(file).parent, flags].append(file)
    folder.mkdir(parents=True, exist_ok=True)
    for (parent, _), files in sorted(alike.items()):
        for first in range(0, len(files), GROUP):
            group = folder / f"{parent.name}_{pathlib.Path(files[first]).stem}.cc"
            names = [pathlib.Path(file).relative_to(ROOT) for file in files[first:first + GROUP]]
            group.write_text("".join(f'#include "{name}"\n' for name in names))
            entry = entries[files[first]]
            command = entry["command"].replace(files[first], f"-I{ROOT} {group}")
            alone[str(group)] = {"directory": entry["directory"], "file": str(group), "command": command}
    (folder / "compile_commands.json").write_text(json.dumps(list(alone.values())))
    return alone


def check_tidy(build, jobs, changed_only):
    changed = changed_files() if changed_only else None
    if changed_only and not changed:
        print("clang-tidy: no file differs")
        return 0
    require("clang-tidy")
    database = build / "compile_commands.json"
    if changed_only and not database.is_file():
        subprocess.run(["cmake", "--preset", "lint"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    if not database.is_file():
        sys.exit(f"{database} is missing: run cmake --preset lint")
    mine = {str(file) for file in sources()}  # excludes generated files
    entries = {entry["file"]: entry for entry in json.loads(database.read_text())
               if entry["file"] in mine or TEST_UNITY.search(entry["file"])}
    if changed_only:
        chosen = files_to_read(changed, {pathlib.Path(file) for file in entries})
        entries = {file: entry for file, entry in entries.items() if pathlib.Path(file) in chosen}
    else:
        # With --changed, files are checked one by one, which also checks that each includes what it uses.
        build = build / "groups"
        entries = grouped(entries, build)
    CLEAN.parent.mkdir(parents=True, exist_ok=True)
    clean = set(CLEAN.read_text().split()) if CLEAN.is_file() else set()
    keys = {file: key(entry) for file, entry in sorted(entries.items())}
    dirty = [file for file in keys if keys[file] not in clean]
    print(f"clang-tidy: {len(dirty)} of {len(keys)} files changed", flush=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = {pool.submit(tidy, build, file): file for file in dirty}
        for done in concurrent.futures.as_completed(results):
            file = results[done]
            status, output = done.result()
            if status == 0:
                # Saved one by one, so that an interrupted run keeps its results.
                with CLEAN.open("a") as kept:
                    kept.write(keys[file] + "\n")
            else:
                failed += 1
                print(output, flush=True)
    print(f"clang-tidy: {failed} files with findings" if failed else "clang-tidy: clean")
    return 1 if failed else 0


def check_python():
    require("ruff")
    # Runs all of them, so that one run shows all findings.
    return max(subprocess.run([TOOLS / command[0], *command[1:]], cwd=ROOT).returncode
               for command in (["ruff", "check", "--quiet"], ["ruff", "format", "--check", "--quiet"],
                               ["mypy", "--no-error-summary", "--cache-dir", ROOT / "build" / "mypy"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=("format", "tidy", "python"))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "lint")
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.check == "format":
        return check_format()
    if options.check == "python":
        return check_python()
    return check_tidy(options.build.resolve(), options.jobs, options.changed)


if __name__ == "__main__":
    sys.exit(main())
