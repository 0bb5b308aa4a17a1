#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "harpe/plan/profile/profile.h"
#include "harpe/report/curve.h"
#include "harpe/report/report.h"
#include "harpe/report/test_markup.h"
#include "harpe/report/test_plans.h"

namespace harpe::report {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string cell(std::string_view page, const std::string& row, int column) {
  std::string_view cells = between(page, "scope=\"row\">" + row + "</th>", "</tr>");
  for (int i = 0; i < column; ++i) cells.remove_prefix(cells.find("</td>") + 5);
  return std::string(between(cells, "<td>", "</td>"));
}

TEST(ReportHtml, IsTheSameBytesTwice) {
  const ReportInput input = make_report({}, 10);
  EXPECT_EQ(report_html(input), report_html(make_report({}, 10)));
}

TEST(ReportHtml, NamesNothingOutside) {
  const std::string page = report_html(make_report({}, 10));
  EXPECT_THAT(outside_references(page), IsEmpty());
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

/// Returns the page's explanation of letters, for plans with instructions of these kinds.
std::string letters_of(std::initializer_list<InstructionKind> kinds) {
  ReportInput input = make_report({}, 2);
  auto& list = input.all_max.instructions[0];
  list.resize(kinds.size());
  std::ranges::transform(kinds, list, list.begin(), [](InstructionKind kind, PlannedInstruction i) {
    i.kind = kind;
    return i;
  });
  input.all_max.instructions.resize(1);
  input.all_max.stages = 1;
  return std::string(between(report_html(input), "id=\"how-to-read\">", " of the micro-batch"));
}

TEST(ReportHtml, SaysWhatTheLettersOfThePlanMean) {
  using enum InstructionKind;
  const std::string row = "One row a stage (1 stage of 2 GPUs, 6 micro-batches, schedule 1f1b). ";
  EXPECT_EQ(letters_of({kForward, kBackward}), row + "<b>F</b> forward, <b>B</b> backward");
  EXPECT_EQ(letters_of({kForward, kBackward, kWeight}),
            row + "<b>F</b> forward, <b>B</b> input gradient, <b>W</b> weight gradient");
  EXPECT_EQ(letters_of({kForward, kRecompute, kBackward}),
            row + "<b>F</b> forward, <b>B</b> backward, <b>R</b> recomputation");
  EXPECT_EQ(letters_of({kForward, kRecomputeBackward}),
            row + "<b>F</b> forward, <b>RB</b> recomputation and backward as one");
  EXPECT_EQ(letters_of({kForwardBackward, kOptimizer}),
            row + "<b>F</b>…<b>B</b>… forward and backward at once");
}

TEST(ReportHtml, FillsEveryPlaceOfThePage) {
  EXPECT_THAT(report_html(make_report({}, 10)), Not(HasSubstr("{{")));
}

TEST(ReportHtml, EscapesAllTextOfTheInput) {
  const std::string attack =
      "</script></style></title><script>attack()</script><img onerror=attack()>\"'{{rows}}<!--";
  ReportInput input = make_report({}, 3);
  const std::string page = report_html(input);
  input.title = input.subtitle = input.all_max.schedule = input.all_max.job = attack;
  input.facts = {{attack, attack}};
  input.comparisons = {{attack, {1}, {1000}}};
  for (ReportPoint& point : input.points) point.plan.job = point.plan.schedule = attack;
  const std::string attacked = report_html(input);
  for (const std::string_view tag :
       {"<script", "</script", "<style", "</style", "<title", "<img", "<!--"}) {
    EXPECT_EQ(occurrences(attacked, tag), occurrences(page, tag)) << tag;
  }
  EXPECT_THAT(attacked, HasSubstr("&lt;script&gt;attack()"));
  EXPECT_TRUE(nlohmann::json::accept(
      between(attacked, "<script type=\"application/json\" id=\"data\">", "</script>")));
}

TEST(ReportHtml, TakesTextThatIsNotUtf8) {
  ReportInput input = make_report({}, 2);
  input.title = "\xFF\xFE";
  input.comparisons = {{"\xC3", {1}, {1}}};
  EXPECT_THAT(report_html(input), HasSubstr("\uFFFD\uFFFD"));
}

TEST(ReportHtml, TableHoldsTheFiguresOfEveryPlan) {
  ReportInput input = make_report({}, 4);
  input.chosen = 2;
  const std::string page = report_html(input);
  for (int i = 0; i < 4; ++i) {
    const ReportPoint& point = input.points[static_cast<std::size_t>(i)];
    const std::string row = std::to_string(i);
    const Seconds reference_time = input.all_max.iteration_time;
    const Joules reference = input.all_max.iteration_energy;
    EXPECT_NEAR(std::stod(cell(page, row, 0)), point.time.value, 1e-6);
    EXPECT_NEAR(std::stod(cell(page, row, 1)), 100 * (point.time / reference_time - 1), 1e-3);
    EXPECT_NEAR(std::stod(cell(page, row, 2)), point.energy.value, 1e-3);
    EXPECT_NEAR(std::stod(cell(page, row, 3)), 100 - 100 * (point.energy / reference), 1e-3);
    EXPECT_NEAR(std::stod(cell(page, row, 4)), (point.energy / point.time).value, 0.1);
    EXPECT_NEAR(std::stod(cell(page, row, 5)), point.lower_bound.value, 1e-3);
    EXPECT_NEAR(std::stod(cell(page, row, 6)), 100 * (point.energy / point.lower_bound - 1), 1e-4);
  }
}

TEST(ReportHtml, ComparesPlansWithoutAWaitWithAllMaxWithoutOne) {
  ReportInput input = make_report({}, 4);
  input.all_max_alone = input.all_max;
  const ReportPoint& first = input.points.front();
  const Seconds until = input.points.back().time + Seconds{1};
  input.all_max.iteration_energy += Joules{1000} * (until - input.all_max.iteration_time).value;
  input.all_max.iteration_time = until;
  ASSERT_LT(first.time, until);
  const std::string page = report_html(input);
  EXPECT_THAT(page, HasSubstr(headline(*input.all_max_alone, first)));
  EXPECT_THAT(page, Not(HasSubstr(headline(input.all_max, first))));
  EXPECT_THAT(page, HasSubstr(">all-max without the wait</th>"));
}

TEST(ReportHtml, ShowsATightenedBoundBesideTheOtherWhereTheyDiffer) {
  ReportInput input = make_report({}, 3);
  const std::string_view column = ">tightened bound J</th>";
  for (ReportPoint& point : input.points) point.tight_bound = point.lower_bound;
  const std::string alike = report_html(input);
  EXPECT_THAT(alike, Not(HasSubstr(std::string(column))));
  EXPECT_THAT(alike, Not(HasSubstr("tightBound\"")));

  ReportPoint& point = input.points[1];
  point.tight_bound = 0.4 * point.lower_bound + 0.6 * point.energy;
  input.chosen = 1;
  const std::string page = report_html(input);
  EXPECT_THAT(page, HasSubstr(std::string(column)));
  EXPECT_NEAR(std::stod(cell(page, "1", 7)), point.tight_bound.value, 1e-3);
  EXPECT_NEAR(std::stod(cell(page, "1", 8)), 100 * (point.energy / point.tight_bound - 1), 1e-4);
  EXPECT_EQ(cell(page, "2", 7), "");
  EXPECT_EQ(cell(page, "all-max", 7), "");
  const std::string words(between(page, "id=\"explanation\">", "</p>"));
  const auto percent_before = [&](std::string_view end) {
    const std::string_view before = std::string_view(words).substr(0, words.find(end));
    const auto digits = before.find_last_not_of("0123456789.");
    return std::stod(std::string(before.substr(digits + 1)));
  };
  EXPECT_NEAR(percent_before("\u00A0% of the best possible"),
              100 * (point.energy / point.tight_bound - 1), 0.0101);
  EXPECT_EQ(occurrences(words, "%"), 1) << "one gap, that to the highest bound";
  EXPECT_EQ(html_error(page), "");
}

TEST(ReportHtml, DrawsTheBoundOfLateClocksAndThatOfFreeChanges) {
  ReportInput input = make_report({}, 5);
  const auto data_of = [](const ReportInput& report) {
    return nlohmann::json::parse(between(
        report_html(report), "<script type=\"application/json\" id=\"data\">", "</script>"));
  };
  const auto free = data_of(input);
  EXPECT_TRUE(free["freeBound"].empty());
  make_late(input);
  const auto late = data_of(input);
  EXPECT_EQ(late["freeBound"], free["bound"]);
  EXPECT_NEAR(late["bound"].front()[0].get<double>(), input.late_bound.front().first.value, 1e-8);
  EXPECT_NEAR(late["bound"].front()[1].get<double>(), input.late_bound.front().second.value, 1e-5);
  EXPECT_GT(late["bound"].back()[1], late["freeBound"].back()[1]);
  EXPECT_EQ(late["fastest"], free["fastest"]) << "what any clocks allow";
  EXPECT_EQ(html_error(report_html(input)), "");
}

TEST(ReportHtml, ShowsThePublishedAllMaxOfGpt3) {
  const auto costs = gpt3_costs();
  if (!costs) GTEST_SKIP() << "the measured profiles are not there (HARPE_SHARED)";
  const TestPipeline pipeline{.stages = 8,
                              .micro_batches = 96,
                              .gpus_per_stage = 8,
                              .blocking_power = 83.64,
                              .cost = *costs};
  ReportInput input{.all_max = make_plan(pipeline, [](int, InstructionKind, int) { return 1410; })};
  for (int i = 0; i < 60; ++i) {
    const Plan plan = make_plan(pipeline, [&](int stage, InstructionKind, int micro_batch) {
      return 1410 - 15 * ((i / 3 + (7 - stage) / 2 + (micro_batch + i) % 5) % 30);
    });
    input.points.push_back({plan.iteration_time, plan.iteration_energy, plan.lower_bound, plan});
  }
  const std::string page = report_html(input);
  // Ten times as many layers take 156.794 s and 4,321,574 J.
  EXPECT_NEAR(std::stod(cell(page, "all-max", 0)), 15.6794, 5e-5);
  EXPECT_NEAR(std::stod(cell(page, "all-max", 2)), 432157.4, 0.1);
  EXPECT_LT(page.size(), 3'000'000U) << "60 plans of 1,536 instructions";
}

TEST(ReportHtml, SaysOnceThatAProfileIsSynthetic) {
  ReportInput input = make_report({}, 2);
  const std::string measured = report_html(input);
  for (const char* words : {"Synthetic profile", "class=\"banner\""}) {
    EXPECT_THAT(measured, Not(HasSubstr(words)));
  }
  for (ReportPoint& point : input.points) point.plan.synthetic = true;
  const std::string page = report_html(input);
  // Not in the header, where it would scroll out of sight.
  const std::string top(between(page, "</header>", "<section"));
  EXPECT_THAT(top, HasSubstr("class=\"banner\""));
  EXPECT_THAT(top, HasSubstr(std::string(kSyntheticRemark)));
  EXPECT_EQ(occurrences(page, "<figcaption"), 5);
  EXPECT_THAT(page, Not(HasSubstr("class=\"doubt\"")));
}

TEST(ReportHtml, LeadsToATrainingAndSaysWhatThePlanIsWorth) {
  ReportInput input = make_report({}, 3);
  EXPECT_THAT(report_html(input), Not(HasSubstr("aria-label=\"Next\"")));
  input.worth = {{"Saved against <all-max>", "180 kWh"}};
  input.next = {{"Measure & look:", "harpe profile measure -- 'train'"}, {"Then think.", ""}};
  const std::string page = report_html(input);
  const std::string next(between(page, "aria-label=\"Next\">", "</section>"));
  EXPECT_THAT(next, HasSubstr("<dt>Saved against &lt;all-max&gt;</dt><dd>180 kWh</dd>"));
  EXPECT_THAT(next, HasSubstr("<li>Measure &amp; look:<pre><code>harpe profile measure -- "));
  EXPECT_THAT(next, HasSubstr("<li>Then think.</li>"));
  EXPECT_EQ(html_error(page), "");
}

TEST(ReportHtml, IsWellFormed) {
  ReportInput input = make_report({}, 5);
  input.facts = {{"a", "b"}};
  EXPECT_EQ(html_error(report_html(input)), "");
}

TEST(ReportHtml, SaysWhatItWasMadeOf) {
  ReportInput input = make_report({}, 2);
  input.source = {.program = "harpe 1.2.3",
                  .command = "harpe plan --job x",
                  .inputs = {{"profile.csv", "fnv1a64:12"}}};
  const std::string page = report_html(input);
  const std::string footer(between(page, "<footer>", "</footer>"));
  EXPECT_THAT(footer, HasSubstr("harpe 1.2.3: <code>harpe plan --job x</code>"));
  EXPECT_THAT(footer, HasSubstr("profile.csv <code>fnv1a64:12</code>"));
}

/// Without scripts, the picture has the colours of the page and no white background.
TEST(ReportHtml, HasAPictureForThoseWithoutScripts) {
  const std::string page = report_html(make_report({}, 5));
  const std::string still(between(page, "<noscript>", "</noscript>"));
  EXPECT_THAT(still, HasSubstr("role=\"img\">\n<title>"));
  EXPECT_THAT(still, HasSubstr("var(--ink)"));
  EXPECT_THAT(still, Not(HasSubstr("#fff")));
}

TEST(ReportHtml, OpensWithTheChosenPlanEvenWithoutScripts) {
  ReportInput input = make_report({}, 20);
  input.chosen = 12;
  const double saving = 100 * (1 - input.points[12].energy / input.all_max.iteration_energy);
  const std::string page = report_html(input);
  const std::string sentence(between(page, "id=\"headline\">", "</p>"));
  const double shown = std::stod(sentence.substr(sentence.find(": ") + 2));
  EXPECT_NEAR(shown, saving, 0.0501);
}

TEST(ReportHtml, TakesTheSmallestInput) {
  ReportInput input = make_report({.stages = 1, .micro_batches = 1, .gpus_per_stage = 1}, 1);
  input.bound.clear();
  input.chosen = 99;
  EXPECT_THAT(report_html(input), HasSubstr("Same computation"));
  EXPECT_THAT(report_html({}), HasSubstr("No plan"));
}

}  // namespace
}  // namespace harpe::report
