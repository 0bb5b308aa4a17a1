#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/plan/profile/profile.h"
#include "harpe/report/curve.h"
#include "harpe/report/frame.h"
#include "harpe/report/markup.h"
#include "harpe/report/page_data.h"
#include "harpe/report/page_files.h"
#include "harpe/report/report.h"

namespace harpe::report {
namespace {

struct TableRow {
  std::string name;
  std::string attributes;
  Seconds time;
  Joules energy;
  Joules lower_bound;
  Joules tight_bound = Joules{0};  ///< 0 if there is none
};

/// Returns the digits after the point that distinguish energies of this size to about
/// 7 significant digits.
int energy_decimals(Joules energy) {
  return energy.value >= 1e5 ? 1 : energy.value >= 1e3 ? 3 : 6;
}

/// Returns a row of the table. Digits are not grouped, so that a pasted number stays a number.
std::string table_row(const TableRow& row, const Plan& all_max, bool with_tight_bound) {
  const auto [time_change, saving] = compare(all_max, row.time, row.energy);
  const int energy = energy_decimals(all_max.iteration_energy);
  const bool has_bound = row.lower_bound > Joules{0};
  const Watts power = row.time > Seconds{0} ? row.energy / row.time : Watts{0};
  std::string line =
      concat({"<tr", row.attributes, "><th scope=\"row\">", escape(row.name), "</th>"});
  for (const std::string& cell :
       {fixed(row.time.value, 6), fixed(100 * time_change, 3), fixed(row.energy.value, energy),
        fixed(100 * saving, 3), fixed(power.value, 1),
        has_bound ? fixed(row.lower_bound.value, energy) : std::string(),
        has_bound ? fixed(100 * (row.energy / row.lower_bound - 1), 4) : std::string()}) {
    line += concat({"<td>", cell, "</td>"});
  }
  if (with_tight_bound) {
    const bool is_known = row.tight_bound > Joules{0};
    line += concat(
        {"<td>", is_known ? fixed(row.tight_bound.value, energy) : std::string(), "</td><td>",
         is_known ? fixed(100 * (row.energy / row.tight_bound - 1), 4) : std::string(), "</td>"});
  }
  return line += "</tr>\n";
}

std::string table_rows(const ReportInput& input) {
  std::string rows;
  const Plan& all_max = input.all_max;
  const bool with_tight_bound = std::ranges::any_of(input.points, has_tight_bound);
  const auto add = [&](const TableRow& row, const Plan& base) {
    rows += table_row(row, base, with_tight_bound);
  };
  const auto add_all_max = [&](const std::string& name, const Plan& plan) {
    add({name, " class=\"reference\"", plan.iteration_time, plan.iteration_energy,
         plan.lower_bound},
        plan);
  };
  add_all_max("all-max", all_max);
  if (input.all_max_alone) add_all_max("all-max without the wait", *input.all_max_alone);
  for (const auto& other : input.comparisons)
    add({other.name, " class=\"reference\"", other.time, other.energy, Joules{0}}, all_max);
  for (std::size_t i = 0; i < input.points.size(); ++i) {
    const ReportPoint& point = input.points[i];
    const std::string number = std::to_string(i);
    add({number, concat({" data-point=\"", number, "\""}), point.time, point.energy,
         point.lower_bound, has_tight_bound(point) ? point.tight_bound : Joules{0}},
        all_max_for(input, point));
  }
  return rows;
}

std::string rows_of(const std::vector<std::pair<std::string, std::string>>& list) {
  std::string rows;
  for (const auto& [name, value] : list) {
    rows += concat({"<dt>", escape(name), "</dt><dd>", escape(value), "</dd>\n"});
  }
  return rows;
}

/// Returns the section with what the chosen plan is worth and how to run it; empty if the input
/// has neither.
std::string next_markup(const ReportInput& input) {
  if (input.worth.empty() && input.next.empty()) return {};
  std::string steps;
  for (const ReportStep& step : input.next) {
    steps += concat({"<li>", escape(step.words)});
    if (!step.command.empty())
      steps += concat({"<pre><code>", escape(step.command), "</code></pre>"});
    steps += "</li>\n";
  }
  std::string markup = "<section aria-label=\"Next\">\n<h2>Next, with the chosen plan</h2>\n";
  if (!input.worth.empty())
    markup += concat({"<dl class=\"worth\">\n", rows_of(input.worth), "</dl>\n"});
  if (!steps.empty()) markup += concat({"<ol class=\"steps\">\n", steps, "</ol>\n"});
  return markup += "</section>\n\n";
}

std::string pipeline_words(const Plan& plan) {
  std::string words =
      concat({std::to_string(plan.stages), plan.stages == 1 ? " stage" : " stages"});
  if (plan.gpus_per_stage > 1) {
    words += concat({" of ", std::to_string(plan.gpus_per_stage), " GPUs"});
  }
  words += concat({", ", std::to_string(plan.micro_batches), " micro-batches"});
  if (!plan.schedule.empty()) words += concat({", schedule ", plan.schedule});
  return words;
}

/// Returns the meanings of the letters in the plan's blocks, see `block_label`.
std::string letter_words(const Plan& plan) {
  std::set<InstructionKind> kinds;
  for (const auto& list : plan.instructions) {
    for (const PlannedInstruction& i : list) kinds.insert(i.kind);
  }
  const bool is_split = kinds.contains(InstructionKind::kWeight);
  const std::pair<InstructionKind, std::string_view> meanings[] = {
      {InstructionKind::kForward, "<b>F</b> forward"},
      {InstructionKind::kBackward, is_split ? "<b>B</b> input gradient" : "<b>B</b> backward"},
      {InstructionKind::kWeight, "<b>W</b> weight gradient"},
      {InstructionKind::kRecompute, "<b>R</b> recomputation"},
      {InstructionKind::kRecomputeBackward, "<b>RB</b> recomputation and backward as one"},
      {InstructionKind::kForwardBackward, "<b>F</b>…<b>B</b>… forward and backward at once"}};
  std::string words;
  for (const auto& [kind, meaning] : meanings) {
    if (kinds.contains(kind)) words += concat({words.empty() ? "" : ", ", meaning});
  }
  return words;
}

std::string transfer_words(const Plan& plan) {
  if (plan.transfers.none()) return "Transfers between stages take no time in this model.";
  if (plan.transfers.mode == Transfers::Mode::kOverlapped) {
    return "Transfers between stages delay the receiver and occupy no stage; they are not drawn.";
  }
  return "Transfers between stages are drawn hatched on both stages, which wait for them.";
}

std::string drawn_words(const ReportInput& input, std::size_t drawn) {
  if (drawn == input.points.size()) return {};
  return concat({"Because the pipeline has many instructions, the slider shows only ",
                 std::to_string(drawn), " of the ", std::to_string(input.points.size()),
                 " plans; the chart and the table show all of them."});
}

std::string whole_page(const ReportInput& input) {
  const ReportPoint& chosen = chosen_point(input);
  const bool synthetic = chosen.plan.synthetic;
  Frame frame{.title = input.title.empty() ? "Energy plan" : input.title,
              .subtitle = input.subtitle,
              .source = input.source,
              .has_scripts = true};
  if (synthetic) frame.banners.emplace_back(kSyntheticRemark);
  frame.premises = input.premises;
  const std::string pipeline = escape(pipeline_words(input.all_max));
  const std::string sentence = escape(headline(all_max_for(input, chosen), chosen));
  const std::string words = escape(explanation(all_max_for(input, chosen), chosen));
  const std::string facts = rows_of(input.facts);
  const std::string next = next_markup(input);
  const std::string rows = table_rows(input);
  const std::string more_columns =
      std::ranges::any_of(input.points, has_tight_bound)
          ? R"(<th scope="col">tightened bound J</th><th scope="col">gap to it %</th>)"
          : "";
  const std::string letters = letter_words(input.all_max);
  const std::string transfers = transfer_words(input.all_max);
  const std::string drawn = drawn_words(input, drawn_points(input).size());
  const std::string still = frontier_picture(input, Ground::kPage);  // where scripts do not run
  frame.body = fill(kPlanHtml, {{"pipeline", pipeline},
                                {"headline", sentence},
                                {"explanation", words},
                                {"facts", facts},
                                {"rows", rows},
                                {"columns", more_columns},
                                {"letters", letters},
                                {"transfers", transfers},
                                {"drawn", drawn},
                                {"next", next},
                                {"still", still}});
  frame.notes =
      fill(kPlanNotesHtml,
           {{"source",
             synthetic ? "Times and energies of instructions are from a synthetic profile, that "
                         "is, from a model."
                       : "Times and energies of instructions are from the profile, as given."}});
  const std::string data = page_data(input);
  frame.end = fill(kPlanEndHtml, {{"data", data}, {"script", kPageJs}});
  return framed_page(frame);
}

}  // namespace
}  // namespace harpe::report

namespace harpe {

std::string report_html(const ReportInput& input) {
  if (input.points.empty()) {
    return "<!doctype html><meta charset=\"utf-8\"><title>Harpe</title><p>No plan to show.\n";
  }
  return report::whole_page(input);
}

}  // namespace harpe
