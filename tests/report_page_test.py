#!/usr/bin/env python3
"""Opens every page that Harpe makes in a real browser and looks at what becomes of it: on a desk and on a phone, light, dark
and on paper.

usage: report_page_test.py HARPE

Skipped (77) without chromium. The page of Zeus's traces is looked at where HARPE_SHARED has them.
"""

import html.parser
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import page_samples
from browser import Browser

GOALS = (["--slowdown", "0"], ["--straggler", "1.2x"], ["--power-cap", "2kW"],
         ["--switch-latency", "10ms"])  # fmt: skip
PHONE, DESK = 360, 1280
HARPE = sys.argv.pop(1) if len(sys.argv) > 1 else "harpe"
TRACES = pathlib.Path(os.environ.get("HARPE_SHARED", "/nowhere")) / "data" / "zeus" / "traces"

# Text of a page with too little contrast to its background, by WCAG 2.2. Text on blocks of a canvas is excluded.
PALE_TEXT = """
(() => {
  const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const luminance = colour => numbers(colour).slice(0, 3)
    .map(value => value / 255).map(share => (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4))
    .reduce((sum, share, i) => sum + share * [0.2126, 0.7152, 0.0722][i], 0);
  const groundOf = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || element.closest('script, style, noscript, title') || element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element);
    const [a, b] = [element instanceof SVGElement ? style.fill : style.color, groundOf(element)].map(luminance);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${text.slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return found;
})()"""


# Labels of the frontier's chart that leave it, or overlap by more than the space between lines.
HIDDEN_LABELS = """
(() => {
  const svg = document.querySelector('#chart svg');
  const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent);
  const chart = svg.getBoundingClientRect();
  const found = [];
  texts.forEach((text, i) => {
    const a = text.getBoundingClientRect();
    if (a.left < chart.left - 1 || a.right > chart.right + 1) found.push(`${text.textContent} leaves the chart`);
    for (const other of texts.slice(i + 1)) {
      const b = other.getBoundingClientRect();
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      if (across > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
        found.push(`${text.textContent} over ${other.textContent}`);
    }
  });
  return found;
})()"""
MOVE_SLIDER = """
(share => {
  const slider = document.getElementById('slider');
  slider.value = Math.round(share * slider.max);
  slider.dispatchEvent(new Event('input'));
})(%s)"""


class Markup(html.parser.HTMLParser):
    """Finds elements that are not closed, or closed without having been opened."""

    VOID = ("meta", "input", "br")

    def __init__(self, page):
        super().__init__()
        self.open, self.faults = [], []
        self.feed(page)
        self.faults += [f"{tag} is not closed" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"unexpected </{tag}>")


def run(*arguments):
    subprocess.run([HARPE, *arguments], check=True, capture_output=True)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        program = shutil.which("chromium")
        cls.browser = cls.enterClassContext(Browser(program, cls.directory))
        cls.profile = cls.directory / "profile.csv"
        run("synth", "--out", cls.profile)
        cls.measured = cls.directory / "measured.csv"
        text = cls.profile.read_text()
        cls.measured.write_text(text[text.index("stage,"):])

    def plan(self, profile, *goal):
        out = self.directory / "plan"
        run("plan", "--profile", profile, "--blocking-power", "83.64", "--out", out, *goal,
            *([] if "--micro-batches" in goal else ["--micro-batches", "12"]))
        return out / "report.html"

    def written(self, name, page):
        file = self.directory / name
        file.write_text(page, encoding="utf-8")
        return file

    def look_at(self, page, doubtful, figures, doubts=None):
        """Checks the properties that all pages share. `doubts`: captions that repeat the banner, by default all."""
        doubts = figures if doubts is None else doubts
        markup = page.read_text(encoding="utf-8")
        self.assertEqual(Markup(markup).faults, [])
        for width, dark in ((DESK, False), (DESK, True), (PHONE, True), (PHONE, False)):
            with self.subTest(width=width, dark=dark):
                self.assertEqual(self.browser.open(page, width=width, dark=dark), [])
                self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
                self.assertEqual(self.browser.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)",
                                 dark)
                self.assertEqual(self.browser.evaluate(PALE_TEXT), [])
                shown = "[...document.querySelectorAll('%s')].filter(one => one.offsetHeight > 0).length"
                self.assertEqual(self.browser.evaluate(shown % ".banner"), 1 if doubtful else 0)
                self.assertEqual(self.browser.evaluate(shown % "figcaption"), figures)
                self.assertEqual(self.browser.evaluate(shown % "figcaption .doubt"), doubts if doubtful else 0)
                self.assertEqual(self.browser.evaluate(
                    "[...document.querySelectorAll('svg[role=img]')].filter(one => !one.querySelector('title') && "
                    "!one.getAttribute('aria-label')).length"), 0)
        # On paper, even if the reader's screen is dark.
        self.browser.open(page, dark=True)
        with self.browser.on_paper():
            self.assertEqual(self.browser.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
            self.assertEqual(self.browser.evaluate(PALE_TEXT), [])
            self.assertEqual(self.browser.evaluate("document.querySelectorAll('.banner').length"), 1 if doubtful else 0)

    def test_the_report_of_a_synthetic_profile_says_so_however_far_one_scrolls(self):
        page = self.plan(self.profile, "--certificate")
        self.look_at(page, doubtful=True, figures=4, doubts=0)
        for width in (DESK, PHONE):
            self.browser.open(page, width=width)
            self.browser.evaluate("window.scrollTo(0, document.body.scrollHeight)")
            self.assertGreater(self.browser.evaluate("window.scrollY"), 500)
            self.assertEqual(self.browser.evaluate("document.querySelector('.banner').getBoundingClientRect().top"), 0)

    def test_the_report_of_a_measured_profile_does_not(self):
        self.look_at(self.plan(self.measured), doubtful=False, figures=4)

    def test_a_report_shows_the_clocks_of_each_stage_for_the_plan_under_the_slider(self):
        self.browser.open(self.plan(self.profile))
        means = "[...document.querySelectorAll('#clocks .strong')].map(text => Number(text.textContent))"
        fastest = self.browser.evaluate(means)
        self.browser.evaluate(MOVE_SLIDER % 1)
        slowest = self.browser.evaluate(means)
        self.assertEqual([len(fastest), len(slowest)], [8, 8])
        self.assertTrue(all(slow < fast for fast, slow in zip(fastest, slowest, strict=True)))
        self.assertTrue(all(900 < mean <= 1410 for mean in fastest), fastest)

    def test_a_report_says_one_gap_and_one_number_of_clock_changes(self):
        for goal in ([], ["--switch-latency", "10ms"]):
            self.browser.open(self.plan(self.profile, *goal))
            names = self.browser.evaluate("[...document.querySelectorAll('#figures th, dt')].map(name => name.textContent)")
            self.assertEqual([name for name in names if "bound" in name and "," not in name], ["above the bound"])
            numbers = self.browser.evaluate("[...document.querySelectorAll('.figures dd')].map(value => value.textContent)")
            changes = self.browser.evaluate("document.querySelector('#figures tr:last-child .ours').textContent")
            self.assertFalse([text for text in numbers if text.split(",")[0].replace("\u00a0", "") == changes], numbers)

    def test_a_report_opens_at_the_start_where_the_whole_is_a_wall(self):
        pressed = "[...document.querySelectorAll('#views [aria-pressed=true]')].map(one => one.textContent)"
        self.browser.open(self.plan(self.profile))
        self.assertNotEqual(self.browser.evaluate(pressed), ["Start"], "12 micro-batches can be read as a whole")
        self.browser.open(self.plan(self.profile, "--micro-batches", "96", "--points", "3"))
        self.assertEqual(self.browser.evaluate(pressed), ["Start"])

    def assert_whole_on_a_phone(self, page):
        self.browser.open(page, width=PHONE)
        cut = "[...document.querySelectorAll('body *')].filter(one => one.scrollWidth > one.clientWidth + 1 && "
        self.assertEqual(self.browser.evaluate(cut + "getComputedStyle(one).overflowX !== 'visible').map(one => one.id || one.tagName)"),
                         [])

    def test_on_a_phone_nothing_of_a_report_is_cut_off(self):
        self.assert_whole_on_a_phone(self.plan(self.profile))

    def test_on_a_phone_nothing_of_an_emulated_cluster_is_cut_off(self):
        out = self.directory / "saved"
        run("lab", "emulate", "--profile", self.profile, "--micro-batches", "12", "--gpu", "a100-sxm", "--gpus-per-stage", "8",
            "--pipelines", "160", "--straggler", "20%,every=4min,for=2min,random", "--iterations", "200", "--quick", "--out", out)
        page = out / "emulation.html"
        self.look_at(page, doubtful=True, figures=1)
        self.assert_whole_on_a_phone(page)
        self.assertIn("+-", self.browser.evaluate("document.querySelector('table').textContent"), "the widest cells are there")

    def test_a_word_that_is_followed_leaves_the_plan_where_it_is(self):
        self.browser.open(self.plan(self.profile))
        self.browser.evaluate(MOVE_SLIDER % 0.5)
        headline = "document.getElementById('headline').textContent"
        before = self.browser.evaluate(headline)
        self.browser.evaluate("document.querySelector('a[href=\"#word-bound\"]').click()")
        self.assertEqual(self.browser.evaluate("new Promise(done => setTimeout(done, 100, location.hash))"), "#word-bound")
        self.assertEqual(self.browser.evaluate(headline), before)

    def test_a_report_draws_frontier_and_pipelines_whatever_the_objective(self):
        for goal in GOALS:
            with self.subTest(goal=goal):
                self.assertEqual(self.browser.open(self.plan(self.profile, *goal)), [])
                self.assertGreaterEqual(self.browser.evaluate("document.querySelectorAll('#chart circle').length"), 20)
                for caption in ("caption-all-max", "caption-plan"):
                    self.assertTrue(self.browser.evaluate(f"document.getElementById('{caption}').textContent"))
                self.assertEqual(self.browser.evaluate(
                    "document.body.innerText.match(/NaN|undefined|\\[object/g)"), None)

    def test_every_label_of_the_chart_can_be_read(self):
        for goal in (*GOALS, ["--straggler", "1.05x"], ["--least-energy"]):
            page = self.plan(self.profile, *goal)
            for width in (DESK, PHONE):
                self.browser.open(page, width=width)
                for share in (None, 0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1):
                    with self.subTest(goal=goal, width=width, share=share):
                        if share is not None:
                            self.browser.evaluate(MOVE_SLIDER % share)
                        self.assertEqual(self.browser.evaluate(HIDDEN_LABELS), [])

    def test_a_report_without_scripts_has_its_table_and_a_picture(self):
        page = self.plan(self.measured)
        self.browser.open(page, width=PHONE, dark=True, scripts=False)
        self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), PHONE)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('noscript svg').length"), 1)
        self.assertGreater(self.browser.evaluate("document.querySelectorAll('#table tr').length"), 20)
        dead = "[...document.querySelectorAll('canvas, input, button')].filter(one => one.offsetHeight > 0).length"
        self.assertEqual(self.browser.evaluate(dead), 0, "what needs scripts is not shown")

    def test_the_page_of_energy_and_carbon(self):
        for simulated in (True, False):
            with self.subTest(simulated=simulated):
                ledger = self.written("ledger.json", page_samples.ledger(simulated))
                page = self.directory / "carbon.html"
                run("carbon", "report", ledger, "--carbon", "302.5", "--offline", "--html", page)
                self.look_at(page, doubtful=simulated, figures=2)

    def test_the_pages_of_the_demonstrations(self):
        self.look_at(self.written("run.html", page_samples.run_page("slowdown 5 %")), doubtful=True, figures=4)
        self.look_at(self.written("day.html", page_samples.carbon_page()), doubtful=True, figures=4)

    def test_the_demonstration_says_when_what_happened_and_who_did_it(self):
        page = self.written("run.html", page_samples.run_page("slowdown 5 %"))
        self.assertEqual(self.browser.open(page, width=DESK), [])
        rows = self.browser.evaluate("[...document.querySelectorAll('.events tbody tr')].map(row => "
                                     "[...row.children].map(cell => cell.textContent))")
        self.assertEqual(rows[0], ["1", "0", "", "all 8 ranks have registered"])
        self.assertEqual(rows[2], ["3", "20", "41", "This demonstration: <b>pipeline 1</b> straggles"])
        self.assertTrue(rows[4][3].startswith("A user has set the objective: "), rows[4])
        # A user's objective does not count as recovery from a straggler.
        text = self.browser.evaluate("document.body.innerText")
        self.assertIn("After a user had set the objective slowdown 5 %", text)
        self.assertNotIn("recovered", text)
        self.browser.open(self.written("run.html", page_samples.run_page()), width=DESK)
        text = self.browser.evaluate("document.body.innerText")
        self.assertIn("recovered", text)
        self.assertNotIn("objective", text)

    def test_the_demonstration_uses_the_width_and_cuts_nothing_off(self):
        page = self.written("run.html", page_samples.run_page())
        self.browser.open(page, width=DESK)
        right = "Math.max(...[...document.querySelectorAll('%s')].map(one => one.getBoundingClientRect().right))"
        self.assertGreater(self.browser.evaluate(right % "figure svg"), 0.9 * DESK)
        # If pipelines do the same, both of their lines are visible.
        widths = self.browser.evaluate("[...document.querySelectorAll('figure svg')].slice(0, 3).map(svg => "
                                       "[...svg.querySelectorAll('polyline')].slice(0, 2).map(one => one.getAttribute('stroke-width')))")
        self.assertEqual(widths, [["5", "1.5"]] * 3)
        for width in (390, PHONE):
            self.browser.open(page, width=width)
            self.assertLessEqual(self.browser.evaluate(right % ".narrow .saved"), width - 16)

    def test_the_day_of_a_grid_is_compared_hour_by_hour_and_says_why_more_energy_can_be_right(self):
        self.browser.open(self.written("day.html", page_samples.carbon_page()), width=DESK)
        figure = "document.querySelector('figure')"
        self.assertEqual(self.browser.evaluate(f"[...{figure}.querySelectorAll('.legend li')].map(one => one.textContent)"),
                         ["Harpe", "the best steady pace"])
        self.assertEqual(self.browser.evaluate(f"[...{figure}.querySelectorAll('polyline:not([stroke-dasharray])')].length"), 2)
        text = self.browser.evaluate("document.body.innerText")
        self.assertIn("It emitted 9.1 % less CO2 than the best steady pace that meets the deadline, with 10.0 % more energy. More energy can be right: ", text)
        self.assertNotIn("it trained before", text)
        self.browser.open(self.written("day.html", page_samples.carbon_page(joules=9e4)), width=DESK)
        self.assertIn("with 10.0 % less energy. More energy can be right, too",
                      self.browser.evaluate("document.body.innerText"))

    @unittest.skipUnless(TRACES.is_dir(), "the traces are not there (HARPE_SHARED)")
    def test_the_page_of_regret(self):
        page = self.directory / "regret.html"
        run("replay", "zeus", TRACES, "--seeds", "1", "--out", page)
        self.look_at(page, doubtful=False, figures=6)


if __name__ == "__main__":
    if shutil.which("chromium") is None:
        print("no chromium")
        sys.exit(77)
    unittest.main()
