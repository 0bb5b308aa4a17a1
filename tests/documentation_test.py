#!/usr/bin/env python3
"""Links, pictures and names of source files, in the repository's pages and in comments, lead to files that are there."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
SOURCE = re.compile(r"(?<![\w<])[a-z]\w*\.(?:h|cc)\b(?!>)")
COMMENT = re.compile(r"//(.*)")
OF_OTHERS = {"sysexits.h"}  # named as a standard


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
        names = {file.name for file in sources} | OF_OTHERS
        texts = {page: page.read_text(encoding="utf-8")
                 for page in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("README.md"), ROOT / "CONTRIBUTING.md"]}
        texts |= {file: "\n".join(COMMENT.findall(file.read_text(encoding="utf-8"))) for file in sources}
        lost = [f"{file.relative_to(ROOT)}: {name}" for file, text in texts.items()
                for name in SOURCE.findall(text) if name not in names]
        self.assertEqual(lost, [])


if __name__ == "__main__":
    unittest.main()
