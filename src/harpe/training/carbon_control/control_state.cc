#include "harpe/training/carbon_control/control_state.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "harpe/base/json_fields.h"
#include "harpe/carbon/carbon_source/cached_series.h"

namespace harpe::training {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLatestControl = 1e12;  // s since 1970
constexpr double kMostGrams = 1e18;
constexpr double kMostWork = 1e12;
constexpr double kMostDone = 1e15;

Json decided_json(const DecidedInterval& decided) {
  return {{"from", decided.from.value},
          {"done", decided.done},
          {"speed", decided.speed},
          {"lost_s", decided.lost.value},
          {"power_w", decided.power.value},
          {"weight", decided.weight},
          {"fastest_s", decided.fastest.value},
          {"length_s", decided.length.value}};
}

DecidedInterval read_decided(Fields& fields) {
  DecidedInterval decided;
  read_number(fields, "from", -kLatestControl, kLatestControl, decided.from.value);
  read_number(fields, "done", -kMostDone, kMostDone, decided.done);
  read_number(fields, "speed", 0, 1, decided.speed);
  read_number(fields, "lost_s", 0, kLongestTime, decided.lost.value);
  read_number(fields, "power_w", 0, kMostPower, decided.power.value);
  read_number(fields, "weight", -1, 1, decided.weight);
  read_number(fields, "fastest_s", 0, kLongestTime, decided.fastest.value);
  read_number(fields, "length_s", 0, kLongestTime, decided.length.value);
  return decided;
}

void read_spread(Fields& fields, ControlState& state) {
  const JsonValue* list = fields.any("progress");
  if (list == nullptr) return;
  const auto is_pair = [](const JsonValue& item) {
    return item.type == JsonValue::Type::kArray && item.items.size() == 2 &&
           item.items[0].type == JsonValue::Type::kNumber &&
           item.items[1].type == JsonValue::Type::kNumber && item.items[0].number > 0 &&
           item.items[0].number <= kMostWork && std::abs(item.items[1].number) <= kMostWork;
  };
  if (list->type != JsonValue::Type::kArray ||
      list->items.size() > ProgressSpread::kMostIntervals ||
      !std::ranges::all_of(list->items, is_pair)) {
    return fields.error("progress", "expected pairs of seconds planned and lost");
  }
  for (const JsonValue& item : list->items) {
    state.spread.add({.planned = item.items[0].number, .lost = item.items[1].number});
  }
}

void read_state(Fields& fields, Diagnostics& diagnostics, ControlState& state) {
  read_number(fields, "begun", 0, kLatestControl, state.begun.value);
  read_number(fields, "deadline", 0, kLatestControl, state.deadline.value);
  read_number(fields, "done_at_begin", -kMostDone, kMostDone, state.done_at_begin);
  state.source = fields.text("source").value_or("");
  const auto kind = carbon::kind_of_word(fields.text("kind").value_or("unstated"));
  if (!kind) fields.error("kind", "is not a kind of intensity");
  state.kind = kind.value_or(IntensityKind::kUnstated);
  state.pauses_ignored = fields.boolean("pauses_ignored").value_or(false);
  state.is_paused = fields.boolean("paused").value_or(false);
  read_number(fields, "switched", 0, kLatestControl, state.switched.value);
  read_number(fields, "spent_g", -kMostGrams, kMostGrams, state.spent);
  read_number(fields, "static_spent_g", -kMostGrams, kMostGrams, state.static_spent);
  read_number(fields, "elapsed_s", 0, kLatestControl, state.elapsed.value);
  read_number(fields, "worked_s", 0, kMostDone, state.worked);
  if (const JsonValue* decided = fields.object("decided")) {
    Fields members(*decided, "decided", diagnostics);
    state.decided = read_decided(members);
  }
  read_spread(fields, state);
}

constexpr double kAssumed = 4;           // intervals
constexpr double kAssumedStray = 0.05;   // of each
constexpr double kUsualInterval = 3600;  // in s, if none was measured

double upper_tail(double p) {
  const double t = std::sqrt(-2 * std::log(p));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

/// Returns Student's t for a quantile of the normal distribution, by two terms of its expansion
/// (Abramowitz and Stegun 26.7.5).
double student(double z, double degrees) {
  const double z3 = z * z * z;
  return z + (z3 + z) / (4 * degrees) +
         (5 * z3 * z * z + 16 * z3 + 3 * z) / (96 * degrees * degrees);
}

}  // namespace

double normal_quantile(double p) {
  return p < 0.5 ? -upper_tail(p) : upper_tail(1 - p);
}

void ProgressSpread::add(const Interval& interval) {
  if (!(interval.planned > 0) || !std::isfinite(interval.planned + interval.lost)) return;
  intervals_.push_back(interval);
  if (intervals_.size() > kMostIntervals) intervals_.pop_front();
}

double ProgressSpread::mean_loss() const {
  double planned = 0, lost = 0;
  for (const Interval& one : intervals_) {
    planned += one.planned;
    lost += one.lost;
  }
  if (intervals_.empty()) return 0;
  const double usual = planned / static_cast<double>(intervals_.size());
  return std::max(0.0, lost / (planned + kAssumed * usual));
}

double ProgressSpread::reserve(double work_left, double probability) const {
  if (!(work_left > 0)) return 0;
  double planned = 0, squares = 0;
  const double mean = mean_loss();
  std::vector<double> losses;
  for (const Interval& one : intervals_) {
    planned += one.planned;
    losses.push_back(one.lost - mean * one.planned);
    squares += losses.back() * losses.back();
  }
  const auto count = static_cast<double>(losses.size());
  const double usual = losses.empty() ? std::min(kUsualInterval, work_left) : planned / count;
  planned += kAssumed * usual;
  squares += kAssumed * (kAssumedStray * usual) * (kAssumedStray * usual);
  const double variance = squares / planned;
  const double t = student(normal_quantile(probability), count + kAssumed - 1);
  const double normal =
      t * std::sqrt(variance * work_left + variance * work_left * work_left / planned);
  double single = 0;
  const auto rank = static_cast<std::size_t>(std::ceil((count + 1) * probability));
  if (!losses.empty() && rank <= losses.size()) {
    const auto at = losses.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
    std::ranges::nth_element(losses, at);
    single = std::min(*at, work_left);
  }
  return mean * work_left + std::max({0.0, normal, single});
}

void IterationCount::observe(std::int64_t newest) {
  if (newest == newest_) return;
  if (newest < 0) {
    before_ = newest_;
    base_ = done();
    newest_ = -1;
    return;
  }
  // Training continues with the next iteration, for example after it ended to pause.
  if (newest_ < 0 && before_ >= 0 && newest == before_ + 1) {
    base_ -= before_ + 1;
    newest_ = newest;
    return;
  }
  // The first iteration of a new start. A lower number is a start whose beginning was missed.
  if (newest_ < 0 && newest >= kFirstFew && base_ > 0) base_ = 0;
  if (newest < newest_) base_ = newest < kFirstFew ? done() : 0;
  newest_ = newest;
}

std::string control_state_json(const ControlState& state) {
  Json json = {{"begun", state.begun.value},
               {"deadline", state.deadline.value},
               {"done_at_begin", state.done_at_begin},
               {"source", state.source},
               {"kind", carbon::kind_word(state.kind)},
               {"paused", state.is_paused},
               {"pauses_ignored", state.pauses_ignored},
               {"switched", state.switched.value},
               {"spent_g", state.spent},
               {"static_spent_g", state.static_spent},
               {"elapsed_s", state.elapsed.value},
               {"worked_s", state.worked}};
  if (state.decided) json["decided"] = decided_json(*state.decided);
  Json progress = Json::array();
  for (const ProgressSpread::Interval& one : state.spread.intervals()) {
    progress.push_back({one.planned, one.lost});
  }
  json["progress"] = std::move(progress);
  return json_line(json);
}

Result<ControlState> parse_control_state(std::string_view text) {
  const std::string what = "carbon control";
  const JsonValue document = HARPE_TRY(parse_json(text, what));
  ControlState state;
  Status read = read_object(
      document, what, what, Unknown::kIgnored,
      [&](Fields& fields, Diagnostics& diagnostics) { read_state(fields, diagnostics, state); });
  if (!read.ok()) return std::move(read).error();
  return state;
}

}  // namespace harpe::training
