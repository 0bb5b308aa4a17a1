#!/usr/bin/env python3
"""How big the code of src/harpe is, and whether its classes, functions and files keep to the bars of docs/architecture.md.

    sizes.py               lines of code, and what is over a bar
    sizes.py --at COMMIT   lines of code of a commit

Code is a line of C++ of the product that is neither blank nor a comment: no tests, benchmarks or fuzz targets."""

import argparse
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
NO_PRODUCT = re.compile(r"_(test|bench|fuzz)\.cc$|^test_|^scripted_|_testing\.|_fixture\.")
MOST_MEMBER_FUNCTIONS, MOST_DATA_MEMBERS, MOST_LINES_OF_A_FUNCTION, MOST_LINES_OF_A_FILE = 30, 25, 60, 700


def is_product(path):
    """True for C++ that is part of a program or library, by its name."""
    return path.endswith((".h", ".cc")) and not NO_PRODUCT.search(path.rsplit("/", 1)[-1])


def product_files(src):
    return sorted(file for file in src.rglob("*") if is_product(str(file)))


# A raw string may hold what looks like a comment, and a comment may hold a quote: the first that begins wins.
TOKENS = re.compile(r'R"(?P<end>[^()\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/',
                    re.DOTALL)


def without_comments(text, keep_strings=True):
    """The text with its comments gone, and with its strings emptied unless kept; lines stay where they are."""
    def blank(match):
        word = match[0]
        if not word.startswith("/"):
            return word if keep_strings else '""'
        return "\n" * word.count("\n")
    return TOKENS.sub(blank, text)


def code_lines(text):
    return sum(1 for line in without_comments(text).split("\n") if line.strip())


class Class(NamedTuple):
    name: str
    functions: int  # member functions that are declared; not those that are defaulted or deleted
    data: int       # data members


HEAD = re.compile(r"^(?:template\s*<.*>\s*)?(?:class|struct|union)\s+(?:alignas\s*\([^)]*\)\s*)?(?:\[\[\w+\]\]\s*)?"
                  r"(?:HARPE_\w+(?:\([^)]*\))?\s+)?(\w+(?:::\w+)*)\b(?![^{]*\()", re.DOTALL)
NO_MEMBER = re.compile(r"^(using|friend|static_assert|typedef|enum|public|private|protected)\b")


def statements(text):
    """(head, body) of each statement at the top of a text without comments and strings; body is None after a `;`."""
    head, depth, brackets, begin = "", 0, 0, 0
    for at, sign in enumerate(text):
        if depth == 0 and sign in "()":
            brackets += 1 if sign == "(" else -1
        if brackets > 0:
            head += sign  # braces in an argument are no body
        elif sign == "{":
            depth += 1
            if depth == 1:
                begin = at + 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                yield head.strip(), text[begin:at]
                # What follows the body of a function is a new statement; after an initializer or a class, a `;` comes.
                head = ""
        elif depth == 0:
            if sign == ";":
                if head.strip():
                    yield head.strip(), None
                head = ""
            else:
                head += sign


def member_kind(head, body):
    """'function', 'data' or None, of a statement in the body of a class."""
    head = re.sub(r"^(?:(?:public|private|protected)\s*:\s*)+", "", head).strip()
    if not head or NO_MEMBER.match(head) or head.startswith("#"):
        return None
    head = re.sub(r"\bHARPE_\w+\s*\([^)]*\)", "", head)
    head = re.sub(r"\boperator\s*[^\s(]+", "operator_", head)
    while (shorter := re.sub(r"<[^<>]*>", "", head)) != head:
        head = shorter
    before_value = head.split("=", 1)
    if "(" in before_value[0]:
        wrote = before_value[1].strip() if len(before_value) > 1 else ""
        return None if wrote in ("default", "delete") else "function"
    return "data"


def classes(text):
    """Every class, struct and union of a file, those inside of others too."""
    found = []

    def read(body):
        for head, inner in statements(body):
            head = re.sub(r"^(?:(?:public|private|protected)\s*:\s*)+", "", head).strip()
            named = HEAD.match(head)
            if inner is None:
                continue
            if named:
                members = list(statements(inner))
                kinds = [member_kind(*member) for member in members
                         if not (member[1] is not None and HEAD.match(
                             re.sub(r"^(?:(?:public|private|protected)\s*:\s*)+", "", member[0]).strip()))]
                found.append(Class(named[1], kinds.count("function"), kinds.count("data")))
                read(inner)
            elif re.match(r"(inline\s+)?namespace\b", head) or head.startswith("extern"):
                read(inner)

    directives = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", without_comments(text, keep_strings=False), flags=re.MULTILINE)
    read(directives)
    return found


NO_FUNCTION = re.compile(r"\s*(struct|class|enum|union|namespace|extern|if|for|while|switch|do|else|try|catch|//|#|\})")


def long_functions(text):
    """(name, lines) of functions that are longer than the bar. As clang-format leaves them: each ends with a brace below
    the first line of its head."""
    found, lines = [], text.split("\n")
    for end, line in enumerate(lines):
        indent = {"}": "", "  }": "  "}.get(line)
        if indent is None:
            continue
        begin = end - 1
        while begin > 0 and not re.match(indent + r"[^\s#]", lines[begin]):
            begin -= 1
        if end - begin + 1 > MOST_LINES_OF_A_FUNCTION and not NO_FUNCTION.match(lines[begin]):
            name = re.search(r"(~?\w+)\(", lines[begin])
            found.append((name[1] if name else lines[begin].strip(), end - begin + 1))
    return found


def over_the_bars(src):
    """What is over a bar, a line each: files, functions, classes."""
    found = []
    for file in product_files(src):
        text, name = file.read_text(), file.relative_to(src)
        lines = len(text.splitlines())
        if lines > MOST_LINES_OF_A_FILE:
            found.append(f"{name}: {lines} lines")
        found += [f"{name}: {function}() has {lines} lines" for function, lines in long_functions(text)]
        for one in classes(text):
            if one.functions > MOST_MEMBER_FUNCTIONS or one.data > MOST_DATA_MEMBERS:
                found.append(f"{name}: {one.name} has {one.functions} member functions and {one.data} data members")
    return found


def code_lines_at(commit):
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout

    files = [file for file in git("ls-tree", "-r", "--name-only", commit, "src/harpe").splitlines() if is_product(file)]
    return sum(code_lines(git("show", f"{commit}:{file}")) for file in files), len(files)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--at", metavar="COMMIT", help="a commit in place of the working tree")
    commit = options.parse_args().at
    src = ROOT / "src" / "harpe"
    if commit:
        lines, files = code_lines_at(commit)
    else:
        files = product_files(src)
        lines, files = sum(code_lines(file.read_text()) for file in files), len(files)
    print(f"{lines} lines of code in {files} files of src/harpe" + (f" at {commit}" if commit else ""))
    if not commit:
        print(*over_the_bars(src), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
