#!/usr/bin/env python3
"""Every relative link and picture in the repository's pages leads to a file that is there."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


class Documentation(unittest.TestCase):
    def test_links_lead_somewhere(self):
        pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        self.assertGreater(len(pages), 5)
        lost = [f"{page.relative_to(ROOT)}: {link}"
                for page in pages
                for link in LINK.findall(page.read_text(encoding="utf-8"))
                if "://" not in link and not (page.parent / link).exists()]
        self.assertEqual(lost, [])


if __name__ == "__main__":
    unittest.main()
