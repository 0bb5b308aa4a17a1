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
    """Returns True for C++ that is part of a program or library, by its name."""
    return path.endswith((".h", ".cc")) and not NO_PRODUCT.search(path.rsplit("/", 1)[-1])


def product_files(src):
    return sorted(file for file in src.rglob("*") if is_product(str(file)))


# A raw string may contain something like a comment, and a comment may contain a quote: the first to begin wins.
TOKENS = re.compile(r'R"(?P<end>[^()\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/',
                    re.DOTALL)


def without_comments(text, keep_strings=True):
    """Returns the text without comments, and with empty strings unless they are kept; line numbers stay the same."""
    def blank(match):
        word = match[0]
        if not word.startswith("/"):
            return word if keep_strings else '""' + "\n" * word.count("\n")
        return "\n" * word.count("\n")
    return TOKENS.sub(blank, text)


def code_lines(text):
    return sum(1 for line in without_comments(text).split("\n") if line.strip())


class Class(NamedTuple):
    name: str
    functions: int  # declared member functions, without defaulted and deleted ones
    data: int       # data members


ACCESS = re.compile(r"^(?:(?:public|private|protected)\s*:\s*)+")
HEAD = re.compile(r"^(?:template\s*<.*>\s*)?(?:static\s+|inline\s+|const\s+)*(?:class|struct|union)\b\s*(?:alignas\s*\([^)]*\)\s*)?"
                  r"(?:\[\[\w+\]\]\s*)?(?:HARPE_\w+(?:\([^)]*\))?\s+)?(\w+(?:::\w+)*)?\s*(?:final\s*)?(?::(?!:).*)?$", re.DOTALL)
NO_MEMBER = re.compile(r"^(using|friend|static_assert|typedef|enum|public|private|protected)\b")


class Statement(NamedTuple):
    head: str
    body: str | None  # None if it ends with `;`
    begin: int        # of the head, in the text
    end: int          # after the body


def statements(text):
    """Yields the statements at the top level of a text without comments and strings."""
    head, depth, brackets, head_begin, begin = "", 0, 0, 0, 0
    for at, sign in enumerate(text):
        if depth == 0 and sign in "()":
            brackets += 1 if sign == "(" else -1
        if depth == 0 and not head.strip():
            head_begin = at
        if brackets > 0:
            head += sign  # braces in an argument do not begin a body
        elif sign == "{":
            depth += 1
            if depth == 1:
                begin = at + 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                yield Statement(head.strip(), text[begin:at], head_begin, at + 1)
                # After the body of a function a new statement begins; after an initializer or a class, a `;` follows.
                head = ""
        elif depth == 0:
            if sign == ";":
                if head.strip():
                    yield Statement(head.strip(), None, head_begin, at + 1)
                head = ""
            else:
                head += sign


def without(pattern, text):
    while (shorter := re.sub(pattern, "", text)) != text:
        text = shorter
    return text


def members(head):
    """Returns (functions, data members) that a statement in the body of a class declares."""
    head = ACCESS.sub("", head).strip()
    if not head or NO_MEMBER.match(head) or head.startswith("#"):
        return 0, 0
    head = re.sub(r"\bHARPE_\w+\s*\([^)]*\)", "", head)
    head = re.sub(r"\boperator\s*[^\s(]+", "operator_", head)
    head = without(r"<[^<>]*>", head)
    before_value = head.split("=", 1)
    if "(" in before_value[0]:
        wrote = before_value[1].strip() if len(before_value) > 1 else ""
        return (0, 0) if wrote in ("default", "delete") else (1, 0)
    # "int a = 0, b" declares two; of "int a{0}, b{0}" the second arrives as the statement ", b".
    return 0, 1 + without(r"\([^()]*\)|\[[^\[\]]*\]", head).strip(", ").count(",")


def blanked(text):
    """Returns the text without comments, strings and directives; line numbers stay the same."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda found: "\n" * found[0].count("\n"),
                  without_comments(text, keep_strings=False), flags=re.MULTILINE)


def classes(text):
    """Returns every class, struct and union of a file, including nested ones and those in functions."""
    found = []

    def read(body):
        for statement in statements(body):
            if statement.body is None:
                continue
            if named := HEAD.match(ACCESS.sub("", statement.head).strip()):
                counts = [members(one.head) for one in statements(statement.body)
                          if one.body is None or not HEAD.match(ACCESS.sub("", one.head).strip())]
                found.append(Class(named[1] or "(unnamed)", sum(one[0] for one in counts), sum(one[1] for one in counts)))
            read(statement.body)

    read(blanked(text))
    return found


NO_FUNCTION = re.compile(r"(?:enum|namespace|extern)\b")


def long_functions(text):
    """Returns (name, lines) of functions above the limit, from the first line of the head to the last brace."""
    found = []

    def read(body):
        begin = 0  # of a function, which braces among its initializers split into several statements
        for statement in statements(body):
            head = ACCESS.sub("", statement.head).strip()
            if not head.startswith(","):
                begin = statement.begin
            if statement.body is None:
                continue
            if HEAD.match(head) or NO_FUNCTION.match(head) or re.match(r"inline namespace\b", head):
                read(statement.body)
            elif "(" in re.sub(r"\boperator\s*[^\s(]+", "operator_", head).split("=", 1)[0]:
                lines = body[begin:statement.end].count("\n") + 1
                if lines > MOST_LINES_OF_A_FUNCTION:
                    name = re.search(r"(~?\w+)\s*\(", body[begin:])
                    found.append((name[1], lines))

    read(blanked(text))
    return found


def over_the_bars(src):
    """Returns everything above a limit, one line each: files, functions, classes."""
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
    options.add_argument("--at", metavar="COMMIT", help="commit to measure instead of the working tree")
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
