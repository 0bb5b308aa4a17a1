#include "harpe/command/cli/job_dashboard.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <sstream>
#include <utility>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/job_view.h"
#include "harpe/command/cli/status_fields.h"
#include "harpe/command/cli/terminal_text.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

constexpr Seconds kPowerSpan{30}, kShortestSpan{3};
/// The energy of an iteration becomes known with its reports, all at once.
constexpr double kFewestIterations = 4;
/// New clocks are assigned for an iteration that is some iterations after the newest reported one.
constexpr double kUntilFollowed = 6;
constexpr std::size_t kMostTimes = 500, kLabelWidth = 12, kEventsAtLeast = 3, kMostEvents = 12;
constexpr std::size_t kTrendColumns = 60;
constexpr std::size_t kAligned = 50;  // columns
constexpr std::size_t kNarrowestBar = 24, kWidestBar = 60;
constexpr std::size_t kMostPipelines = 16, kLinesAPipeline = 6;

struct Row {
  std::string label, text = {};
  Paint paint = Paint::kDim;
  bool painted = false;
  std::pair<std::size_t, std::size_t> place = {};  ///< among the rows; ties in the order added
  bool whole = false;                              ///< cut, not wrapped: a bar is already painted
};

/// Labels of `job_view` in order of importance to the user.
constexpr std::array<std::string_view, 25> kOrder{
    "phase",     "synthetic",  "ended",      "profiling", "observed", "would save", "iteration",
    "pipelines", "stage MHz",  "times",      "power",     "clocks",   "straggler",  "refused",
    "missing",   "slow stage", "fast stage", "pause",     "pace",     "carbon",     "slow GPUs",
    "plan",      "search",     "objective",  "shape"};

std::size_t place_of(const std::string& label) {
  return static_cast<std::size_t>(std::ranges::find(kOrder, label) - kOrder.begin());
}

/// Returns the rows of `job_view`, whose lines are "  label       text".
std::vector<Row> rows_of(const std::string& view) {
  std::vector<Row> rows;
  std::istringstream lines(view);
  std::string line;
  std::getline(lines, line);  // the job's name, which the heading shows
  while (std::getline(lines, line)) {
    if (line.size() < kLabelWidth + 2) continue;
    std::string label = line.substr(2, kLabelWidth);
    label.erase(label.find_last_not_of(' ') + 1);
    if (label == "heard" || label == "saved") continue;  // the headline shows savings
    Row row{.label = label, .text = line.substr(kLabelWidth + 2)};
    row.text.erase(0, row.text.find_first_not_of(' '));
    if (label == "refused" || label == "clocks" || label == "missing") {
      row.paint = Paint::kRed;
      row.painted = true;
    }
    if (label == "phase" || label == "synthetic") {
      row.paint = Paint::kBold;
      row.painted = true;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string watts(double power) {
  return power >= 1e4 ? fixed(power / 1e3, 1) + " kW" : fixed(power, 0) + " W";
}

/// Returns the power of all pipelines measured at all-max; nullopt if not measured.
std::optional<double> all_max_power(const Json& status) {
  const auto energy = number_in(status, "measured_all_max_energy_j");
  const auto time = number_in(status, "measured_all_max_time_s");
  if (!energy || !time || *time <= 0) return std::nullopt;
  return *energy * number_in(status, "data").value_or(1) / *time;
}

void add_trend(const Json& status, const JobTrend& trend, std::vector<Row>& rows,
               std::size_t columns) {
  const std::deque<double>& times = trend.iteration_times();
  if (times.size() > 1) {
    const std::string line = sparkline(times, std::min(columns, kTrendColumns));
    const auto shown = std::min(times.size(), std::min(columns, kTrendColumns));
    const auto from = times.end() - static_cast<std::ptrdiff_t>(shown);
    const auto [least, most] = std::minmax_element(from, times.end());
    rows.push_back({.label = "times",
                    .text = line + " " + seconds_text(*least) + " to " + seconds_text(*most)});
  }
  const auto all_max = all_max_power(status);
  const auto power = trend.power();
  if (!power && !all_max) return;
  std::string text = power ? watts(power->value) + " over the last iterations" : "not known yet";
  // Profiling tries clocks, and these save nothing.
  if (power && all_max && !member(status, "profiling").is_object())
    text += ", " + change_text(power->value / *all_max - 1) + " against all-max";
  if (all_max) text += " (" + watts(*all_max) + " at all-max)";
  rows.push_back({.label = "power", .text = std::move(text)});
}

/// Returns the width of a bar beside text of `beside` columns, or below it.
std::size_t bar_width(std::size_t columns, std::size_t beside) {
  return std::clamp(columns - std::min(columns, beside), kNarrowestBar, kWidestBar);
}

/// Returns the line that users want to see first:
/// "SAVED  12.3 ± 0.4 %   41.2 ± 1.1 kJ against all-max  [||||     ]".
std::string headline(const Json& status, std::size_t columns, bool coloured) {
  const auto share = saved_share(status);
  if (!share) {
    const bool is_known = number_in(status, "saved_j").value_or(0) != 0;
    const std::string text =
        "  SAVED  " + (is_known ? saving_text(status) : std::string("nothing measured yet"));
    std::string headline;
    for (const std::string& line : lines_of(wrapped_text(text, static_cast<int>(columns), 9)))
      headline += painted(cut_to(line, columns), Paint::kBold, coloured) + '\n';
    return headline;
  }
  const std::string percent =
      "  SAVED  " + fixed(share->percent, 1) + " ± " + fixed(share->error, 1) + " %";
  const std::string energy = "   " + saved_text(status) + " against all-max  ";
  const std::size_t beside = display_width(percent) + display_width(energy);
  std::string line = percent;
  if (beside <= columns + 2) line += energy;
  line = painted(painted(cut_to(line, columns), Paint::kGreen, coloured), Paint::kBold, coloured);
  if (beside + kNarrowestBar <= columns)
    line += bar(share->percent / 100, "", bar_width(columns, beside), Paint::kGreen, coloured);
  return line + '\n';
}

/// Returns at most `most` pipelines of a status by number; stragglers are kept before others.
std::vector<Json> pipelines_of(const Json& status, std::size_t most) {
  const Json& given = member(status, "pipelines");
  std::vector<Json> pipelines;
  if (!given.is_array()) return pipelines;
  for (const Json& one : given)
    if (number_in(one, "time_s")) pipelines.push_back(one);
  std::ranges::sort(pipelines, {}, [](const Json& one) {
    return std::pair(number_in(one, "factor").value_or(1) == 1, number_in(one, "pipeline"));
  });
  if (pipelines.size() > most) pipelines.resize(most);
  std::ranges::sort(pipelines, {}, [](const Json& one) { return number_in(one, "pipeline"); });
  return pipelines;
}

/// Adds a bar for each pipeline: its planned iteration time, relative to the job's target time.
void add_pipelines(const Json& status, std::size_t columns, std::size_t most, bool coloured,
                   std::vector<Row>& rows) {
  const std::vector<Json> pipelines = pipelines_of(status, most);
  double target = number_in(status, "wait_until_s").value_or(0);
  for (const Json& one : pipelines) target = std::max(target, number_in(one, "time_s").value_or(0));
  if (!(target > 0)) return;
  rows.push_back({.label = "pipelines",
                  .text = "planned iteration times, relative to " + seconds_text(target)});
  constexpr std::size_t kNumber = 5, kMark = 30;
  for (const Json& one : pipelines) {
    const double time = number_in(one, "time_s").value_or(0);
    const double factor = number_in(one, "factor").value_or(1);
    const bool straggles = factor > 1;
    std::string text = whole_in(one, "pipeline");
    text = padded(text + ' ', kNumber, Align::kLeft);
    text += bar(time / target, "", bar_width(columns, kNumber + kMark),
                straggles ? Paint::kYellow : Paint::kGreen, coloured);
    text += "  " + seconds_text(time);
    if (straggles) text += "  straggler, " + shortest(factor, 3) + "x";
    rows.push_back({.label = "pipelines", .text = std::move(text), .whole = true});
  }
  const auto all = static_cast<std::size_t>(count_of(status, "data"));
  if (all > pipelines.size())
    rows.push_back(
        {.label = "pipelines", .text = "and " + std::to_string(all - pipelines.size()) + " more"});
}

/// Adds the clocks of each stage's newest assignments, such as "0:1410, 1:1095-1200".
void add_clocks(const Json& status, std::vector<Row>& rows) {
  std::string text;
  for (const Json& stage : member(status, "stage_clocks")) {
    const std::string lowest = whole_in(stage, "lowest_mhz");
    const std::string highest = whole_in(stage, "highest_mhz");
    if (!text.empty()) text += ", ";
    text += whole_in(stage, "stage") + ":" + (lowest == highest ? lowest : lowest + "-" + highest);
  }
  if (!text.empty()) rows.push_back({.label = "stage MHz", .text = std::move(text)});
}

/// Returns the newest events, at most `most`, each with its local time.
std::vector<std::string> events_of(std::string_view log, std::size_t most, std::size_t columns) {
  const Json document = parsed(log);
  const Json& events = member(document, "events");
  std::vector<std::string> lines;
  if (!events.is_array()) return lines;
  const std::size_t first = events.size() > most ? events.size() - most : 0;
  for (std::size_t i = first; i < events.size(); ++i) {
    lines.push_back(cut_to(event_text(events[i], "  %H:%M:%S  "), columns));
  }
  return lines;
}

std::string heading(const DashboardLook& look, const Json& status, std::size_t columns,
                    bool coloured) {
  std::string id = text_in(status, "id");
  if (const std::string name = text_in(status, "name"); !name.empty() && name != id)
    id += "  " + name;
  const std::string title = "harpe job watch";
  const std::string rest = "  " + id + "  " + look.time_of_day + "  (q ends)";
  return painted(title, Paint::kBold, coloured) +
         cut_to(rest, std::max(columns, title.size() + 1) - title.size()) + "\n";
}

}  // namespace

void JobTrend::add(std::string_view given, Instant now) {
  newest_ = now;
  const Json status = parsed(given);
  const auto iteration = number_in(status, "newest_iteration");
  const auto joules = number_in(status, "energy_j");
  if (!iteration || !joules) return;
  if (const auto version = number_in(status, "version"); version != version_) {
    if (version_) settled_from_ = *iteration + kUntilFollowed;
    version_ = version;
    looks_.clear();
  }
  if (*iteration == iteration_) return;
  // Restarted training counts from another number.
  if (*iteration < iteration_) settled_from_ = 0;
  if (*iteration < iteration_ || (!looks_.empty() && *joules < looks_.back().joules))
    looks_.clear();
  iteration_ = *iteration;
  if (*iteration >= settled_from_) looks_.push_back({now, *iteration, *joules});
  while (looks_.size() > 2 && now - looks_[1].at >= kPowerSpan &&
         *iteration - looks_[1].iteration >= kFewestIterations) {
    looks_.pop_front();
  }
  if (const auto time = number_in(status, "iteration_time_s")) times_.push_back(*time);
  if (times_.size() > kMostTimes) times_.pop_front();
}

std::optional<Watts> JobTrend::power() const {
  if (looks_.size() < 2) return std::nullopt;
  const Look &first = looks_.front(), &last = looks_.back();
  const Seconds span = last.at - first.at;
  if (span < kShortestSpan || last.iteration - first.iteration < kFewestIterations)
    return std::nullopt;
  if (newest_ - last.at > std::max(kPowerSpan, span)) return std::nullopt;
  return Joules{last.joules - first.joules} / span;
}

std::string sparkline(const std::deque<double>& values, std::size_t columns) {
  constexpr double kSame = 0.01;
  const std::size_t shown = std::min(values.size(), columns);
  const auto from = values.end() - static_cast<std::ptrdiff_t>(shown);
  if (shown == 0) return {};
  const auto [least, most] = std::minmax_element(from, values.end());
  const double range = *most - *least;
  std::vector<double> levels;
  for (auto value = from; value != values.end(); ++value) {
    levels.push_back(range > kSame * *least ? (*value - *least) / range : 0);
  }
  return spark(levels);
}

namespace {

/// Appends the lines of a row: beside its label if there is room for both.
void append_row(const Row& row, bool repeats_label, std::size_t width, bool coloured,
                std::vector<std::string>& body) {
  const std::size_t indent = width >= kAligned ? kLabelWidth + 2 : 2;
  const bool beside = indent > 2 && !row.label.empty();
  std::string left = beside && !repeats_label ? "  " + row.label : "";
  left.resize(beside ? std::max(indent, left.size() + 1) : 0, ' ');
  if (row.whole) {
    body.push_back(cut_painted((left.empty() ? "  " : left) + row.text, width));
    return;
  }
  const std::string text = beside || row.label.empty() ? row.text : row.label + " " + row.text;
  if (left.empty()) left = "  ";
  for (const std::string& part :
       lines_of(wrapped_text(text, static_cast<int>(width - indent), 0))) {
    const std::string line = cut_to(left + part, width);
    body.push_back(row.painted ? painted(line, row.paint, coloured) : line);
    left.assign(indent, ' ');
  }
}

std::vector<Row> rows_to_show(const DashboardLook& look, const Json& status, const JobTrend& trend,
                              std::size_t width, std::size_t pipelines, bool coloured) {
  std::vector<Row> rows = rows_of(job_view(look.status, false));
  add_trend(status, trend, rows, width > 50 ? width - 40 : 10);
  add_pipelines(status, width - std::min(width, kLabelWidth + 2), pipelines, coloured, rows);
  add_clocks(status, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].place = {place_of(rows[i].label), i};
  std::ranges::sort(rows, {}, &Row::place);
  return rows;
}

}  // namespace

std::string job_dashboard(const DashboardLook& look, const JobTrend& trend, int columns, int lines,
                          bool coloured) {
  const auto width = static_cast<std::size_t>(std::max(columns, 20));
  const auto height = static_cast<std::size_t>(std::max(lines, 0));
  const Json status = parsed(look.status);
  std::string view = heading(look, status, width, coloured);
  std::vector<std::string> body;
  if (!look.trouble.empty()) {
    append_row({.label = {}, .text = look.trouble, .paint = Paint::kRed, .painted = true}, false,
               width, coloured, body);
  }
  if (!look.status.empty()) {
    if (!member(status, "observed").is_object()) {
      std::istringstream saved(headline(status, width, coloured));
      for (std::string line; std::getline(saved, line);) body.push_back(line);
    }
    const std::size_t pipelines =
        height > 0 ? std::clamp<std::size_t>(height / kLinesAPipeline, 1, kMostPipelines)
                   : kMostPipelines;
    std::string before;
    for (const Row& row : rows_to_show(look, status, trend, width, pipelines, coloured)) {
      append_row(row, row.label == "pipelines" && row.label == before, width, coloured, body);
      before = row.label;
    }
  }
  // One line for the heading, one empty line; some lines are reserved for events.
  std::size_t room = kMostEvents;
  if (lines > 0) {
    const std::size_t left = std::max<std::size_t>(height, 4) - 2;
    const std::size_t kept = left > kEventsAtLeast ? left - kEventsAtLeast : left;
    if (body.size() > kept) body.resize(kept);
    room = std::min(room, left - body.size());
  }
  for (const std::string& line : body) view += line + '\n';
  const std::vector<std::string> events = events_of(look.log, room, width);
  if (!events.empty()) view += '\n';
  for (const std::string& line : events) view += line + '\n';
  return view;
}

}  // namespace harpe::command
