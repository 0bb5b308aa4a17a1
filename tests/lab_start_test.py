#!/usr/bin/env python3
"""Commands of `harpe` that are in the program harpe-lab: `harpe` finds it and becomes it.
Usage: lab_start_test.py HARPE"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HARPE = pathlib.Path(sys.argv.pop())
COMMANDS = (("replay",), ("carbon", "backtest"), ("carbon", "simulate"))


class Start(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.alone = pathlib.Path(folder.name) / "harpe"  # without harpe-lab
        shutil.copy(HARPE, cls.alone)

    def said(self, harpe, *words):
        return subprocess.run([harpe, *words], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": "/usr/bin:/bin"})

    def test_the_name_is_that_which_users_type(self):
        zeus = self.said(HARPE, "replay", "zeus", "--help").stdout
        self.assertTrue(zeus.startswith("harpe replay zeus: "), zeus)
        self.assertEqual(self.said(HARPE, "help", "replay", "zeus").stdout, zeus)
        self.assertEqual(self.said(HARPE, "lab", "replay", "zeus", "--help").stdout.replace("harpe-lab", "harpe"), zeus)
        self.assertTrue(self.said(HARPE, "man", "replay", "zeus").stdout.startswith(r'.TH "HARPE\-REPLAY\-ZEUS"'))
        wrong = self.said(HARPE, "carbon", "simulate", "--bogus")
        self.assertEqual((wrong.returncode, wrong.stdout), (2, ""))
        self.assertIn("harpe carbon simulate has no option '--bogus' (see harpe carbon simulate --help)", wrong.stderr)
        self.assertIn("did you mean 'simulate'?", self.said(HARPE, "carbon", "simulat").stderr)

    def test_both_programs_describe_a_command_by_the_same_sentence(self):
        for words in [("lab",), *COMMANDS]:
            name = r"\-".join(("harpe", *words))
            brief = re.search(r"\n\.SH NAME\n\S+ \\- (.+)\n", self.said(HARPE, "man", *words).stdout)[1]
            listed = self.said(self.alone, *words[:-1], "--help").stdout
            self.assertIn(f"  {words[-1]:<11} {brief}"[:78], re.sub(r"\n {14}", " ", listed), name)

    def test_without_harpe_lab_the_package_is_named(self):
        for words in [("lab", "emulate"), ("replay",), ("replay", "zeus", "traces", "--gpu", "v100"), ("carbon", "backtest", "x.csv"),
                      ("carbon", "simulate", "--help"), ("help", "replay"), ("man", "carbon", "simulate")]:
            said = self.said(self.alone, *words)
            self.assertEqual((said.returncode, said.stdout), (69, ""), words)
            self.assertIn("install the package harpe-lab", said.stderr)
        error = json.loads(self.said(self.alone, "replay", "zeus", "traces", "--json").stdout)["error"]
        self.assertEqual(error["code"], "unavailable")

    def test_completion_offers_the_options_of_harpe_lab(self):
        for shell in ("bash", "zsh", "fish"):
            script, alone = (self.said(harpe, "completion", shell) for harpe in (HARPE, self.alone))
            self.assertEqual((script.stderr, alone.stderr, alone.returncode), ("", "", 0))
            for option in ("chase-eta", "window-steps", "through-job"):
                self.assertIn(option, script.stdout)
                self.assertNotIn(option, alone.stdout)
            self.assertIn("replay", alone.stdout)
        words = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _harpe; printf "%s\\n" "${COMPREPLY[@]}"'
        for command, offered in ((("carbon", "simulate", "--ser"), "--series"), (("replay", "ze"), "zeus"),
                                 (("lab", "repr"), "reproduce")):
            said = subprocess.run(["bash", "-c", f'source <("$0" completion bash); {words}', HARPE, "harpe", *command],
                                  capture_output=True, text=True, check=True, timeout=60)
            self.assertEqual((said.stdout.split(), said.stderr), ([offered], ""))


if __name__ == "__main__":
    unittest.main()
