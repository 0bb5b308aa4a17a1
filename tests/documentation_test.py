#!/usr/bin/env python3
"""Links, pictures, names of source files and qualified names, in the repository's pages and in comments, lead to what is there."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
SOURCE = re.compile(r"(?<![\w<./-])(?:\w+/)*[a-z]\w*\.(?:h|cc)\b(?!>)")
COMMENT = re.compile(r"//(.*)")
OF_OTHERS = {"sysexits.h"}  # named as an example
QUALIFIED = re.compile(r"harpe::(\w+)")
DECLARED = re.compile(r"^(?:class|struct|enum class|enum|using|namespace|concept)\s+(?:\[\[nodiscard\]\]\s+)?(\w+)"  # a type
                      r"|^[\w:<>,*& \[\]]*?[\w>*&\]]\s+[*&]?(\w+)\("  # a function
                      r"|^inline constexpr [\w:<>, ]+ (\w+)", re.M)  # a constant


class Documentation(unittest.TestCase):
    def test_links_lead_somewhere(self):
        pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        self.assertGreater(len(pages), 5)
        lost = [f"{page.relative_to(ROOT)}: {link}"
                for page in pages
                for link in LINK.findall(page.read_text(encoding="utf-8"))
                if "://" not in link and not (page.parent / link).exists()]
        self.assertEqual(lost, [])

    def test_named_source_files_are_there(self):
        sources = [file for folder in ("src", "sim", "tests", "bench", "examples", "python") for suffix in ("h", "cc")
                   for file in (ROOT / folder).rglob(f"*.{suffix}")]
        parts = [file.relative_to(ROOT).parts for file in sources]
        names = {"/".join(path[first:]) for path in parts for first in range(len(path))} | OF_OTHERS
        texts = {page: page.read_text(encoding="utf-8")
                 for page in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("README.md"), ROOT / "CONTRIBUTING.md"]}
        texts |= {file: "\n".join(COMMENT.findall(file.read_text(encoding="utf-8"))) for file in sources}
        lost = [f"{file.relative_to(ROOT)}: {name}" for file, text in texts.items()
                for name in SOURCE.findall(text) if name not in names]
        self.assertEqual(lost, [])

    def test_names_of_the_outer_namespace_are_declared_in_it(self):
        headers = [file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.h")]
        parts = [part for text in headers for part in re.split(r"^(?=namespace )", text, flags=re.M)]
        declared = {next(filter(None, names)) for part in parts if part.startswith("namespace harpe {") for names in DECLARED.findall(part)}
        wings = {folder.name for folder in (ROOT / "src/harpe").iterdir() if folder.is_dir()}
        # CMake targets, such as harpe::frontier.
        targets = {"harpe"} | {room.parent.name for room in (ROOT / "src/harpe").rglob("CMakeLists.txt")}
        pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("README.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
        texts = {page: page.read_text(encoding="utf-8") for page in pages}
        texts |= {file: "\n".join(COMMENT.findall(file.read_text(encoding="utf-8"))) for file in (ROOT / "src").rglob("*.h")}
        lost = [f"{file.relative_to(ROOT)}: harpe::{name}" for file, text in texts.items()
                for name in QUALIFIED.findall(text) if name not in declared | wings | targets | {"literals"}]
        self.assertEqual(lost, [])


if __name__ == "__main__":
    unittest.main()
