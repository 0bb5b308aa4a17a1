#include "harpe/cli/job_dashboard.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <sstream>
#include <utility>

#include "harpe/cli/job_view.h"
#include "harpe/cli/status_fields.h"
#include "harpe/cli/terminal_text.h"
#include "harpe/command/console.h"
#include "harpe/plan_cli/fitted_table.h"
#include "harpe/plan_cli/table.h"

namespace harpe {
namespace {

constexpr Seconds kPowerSpan{30}, kShortestSpan{3};
/// What is known of an iteration's energy when it ends comes with its reports, all at once.
constexpr double kFewestIterations = 4;
/// Other clocks are assigned for an iteration that comes some after the newest one reported.
constexpr double kUntilFollowed = 6;
constexpr std::size_t kMostTimes = 500, kLabel = 12, kEventsAtLeast = 3, kMostEvents = 12;
constexpr std::size_t kTrendColumns = 60;
constexpr std::size_t kAligned = 50;  // columns

struct Row {
  std::string label, text = {};
  Paint paint = Paint::kDim;
  bool painted = false;
  std::pair<std::size_t, std::size_t> place = {};  ///< among the others; ties as they came
};

/// What one wants to know first, of all that `job_view` says.
constexpr std::array<std::string_view, 25> kOrder{
    "phase",  "synthetic", "ended",     "profiling", "observed",   "would save", "iteration",
    "times",  "power",     "saved",     "straggler", "slow stage", "fast stage", "slow GPUs",
    "clocks", "refused",   "notice",    "missing",   "pause",      "pace",       "carbon",
    "plan",   "search",    "objective", "shape"};

std::size_t place_of(const std::string& label) {
  return static_cast<std::size_t>(std::ranges::find(kOrder, label) - kOrder.begin());
}

/// "  label       text" of `job_view`.
std::vector<Row> rows_of(const std::string& view) {
  std::vector<Row> rows;
  std::istringstream lines(view);
  std::string line;
  std::getline(lines, line);  // the job's name, which the heading has
  while (std::getline(lines, line)) {
    if (line.size() < kLabel + 2) continue;
    std::string label = line.substr(2, kLabel);
    label.erase(label.find_last_not_of(' ') + 1);
    if (label == "heard") continue;
    Row row{.label = label, .text = line.substr(kLabel + 2)};
    row.text.erase(0, row.text.find_first_not_of(' '));
    if (label == "refused" || label == "clocks" || label == "missing") {
      row.paint = Paint::kRed;
      row.painted = true;
    }
    if (label == "saved" && row.text.find("disting") == std::string::npos &&
        row.text.find("than predicted") == std::string::npos && row.text[0] != '-' &&
        row.text[0] != '0') {
      row.paint = Paint::kGreen;
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

/// Of all pipelines, of what was measured at all-max.
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
  std::string text;
  if (const auto power = trend.power()) {
    text = watts(power->value) + " over the last iterations";
    // While profiling goes on, clocks are tried, and nothing is saved by them.
    if (all_max && !member(status, "profiling").is_object())
      text += ", " + change_text(power->value / *all_max - 1) + " against all-max";
  }
  if (all_max)
    text += (text.empty() ? "" : " ") + std::string("(") + watts(*all_max) + " at all-max)";
  if (!text.empty()) rows.push_back({.label = "power", .text = std::move(text)});
}

/// The newest that fit, each with its local time.
std::vector<std::string> events_of(std::string_view log, std::size_t most, std::size_t columns) {
  const Json document = parsed(log);
  const Json& events = member(document, "events");
  std::vector<std::string> lines;
  if (!events.is_array()) return lines;
  const std::size_t first = events.size() > most ? events.size() - most : 0;
  for (std::size_t i = first; i < events.size(); ++i) {
    const auto when = static_cast<std::time_t>(number_in(events[i], "at").value_or(0));
    std::tm local{};
    ::localtime_r(&when, &local);
    std::array<char, 16> time{};
    std::string line(time.data(), std::strftime(time.data(), time.size(), "  %H:%M:%S  ", &local));
    const std::string kind = text_in(events[i], "kind");
    if (kind == "phase") line += "now ";
    if (kind == "warning") line += "warning: ";
    lines.push_back(cut_to(line + text_in(events[i], "text"), columns));
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
  // Training that starts again counts from another number.
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

std::string job_dashboard(const DashboardLook& look, const JobTrend& trend, int columns, int lines,
                          bool coloured) {
  const auto width = static_cast<std::size_t>(std::max(columns, 20));
  const Json status = parsed(look.status);
  std::string view = heading(look, status, width, coloured);
  std::vector<std::string> body;
  // Beside labels where there is room for both.
  const std::size_t indent = width >= kAligned ? kLabel + 2 : 2;
  const auto add = [&](const Row& row) {
    const bool beside = indent > 2 && !row.label.empty();
    std::string left = beside ? "  " + row.label : "";
    left.resize(beside ? std::max(indent, left.size() + 1) : 0, ' ');
    const std::string text = beside || row.label.empty() ? row.text : row.label + " " + row.text;
    std::istringstream broken(wrapped_text(text, static_cast<int>(width - indent), 0));
    for (std::string line; std::getline(broken, line); left.assign(indent, ' ')) {
      if (left.empty()) left = "  ";
      line = cut_to(left + line, width);
      body.push_back(row.painted ? painted(line, row.paint, coloured) : line);
    }
  };
  if (!look.trouble.empty())
    add({.label = {}, .text = look.trouble, .paint = Paint::kRed, .painted = true});
  if (!look.status.empty()) {
    std::vector<Row> rows = rows_of(job_view(look.status, false));
    add_trend(status, trend, rows, width > 50 ? width - 40 : 10);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].place = {place_of(rows[i].label), i};
    std::ranges::sort(rows, {}, &Row::place);
    for (const Row& row : rows) add(row);
  }
  // One for the heading, one for an empty line; some of the events are always there.
  std::size_t room = kMostEvents;
  if (lines > 0) {
    const auto left = static_cast<std::size_t>(std::max(lines - 2, 2));
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

}  // namespace harpe
