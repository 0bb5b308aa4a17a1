#include "harpe/report/page_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>

#include "harpe/base/json_text.h"
#include "harpe/report/curve.h"
#include "harpe/report/drawing.h"
#include "harpe/report/markup.h"

namespace harpe::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxInstructions = 500'000;
constexpr int kTicksExponent = 7;

std::size_t count_instructions(const Plan& plan) {
  std::size_t count = 0;
  for (const auto& list : plan.instructions) count += list.size();
  return count;
}

/// Returns the length of a tick, a power of ten in seconds.
double tick_for(Seconds span) {
  const int exponent = span > Seconds{0} ? static_cast<int>(std::floor(std::log10(span.value))) : 0;
  const std::string text = "1e" + std::to_string(exponent - kTicksExponent);
  double tick = 1;
  std::from_chars(text.data(), text.data() + text.size(), tick);
  return tick;
}

double rounded(double value, int digits) {
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits).ptr;
  double result = value;
  std::from_chars(buffer, end, result);
  return result;
}

/// The distinct operating points of each stage, most used first.
class Modes {
 public:
  using Mode = std::tuple<InstructionSetting, double, double>;  // seconds, joules
  static Mode of(const PlannedInstruction& instruction) {
    return {instruction.setting(), instruction.time.value, instruction.energy.value};
  }

  explicit Modes(const std::vector<const Plan*>& plans) {
    for (const Plan* plan : plans) {
      stages_.resize(std::max(stages_.size(), plan->instructions.size()));
      for (std::size_t stage = 0; stage < plan->instructions.size(); ++stage) {
        for (const auto& instruction : plan->instructions[stage]) {
          ++stages_[stage].uses[of(instruction)];
        }
      }
    }
    for (Stage& stage : stages_) {
      for (const auto& [mode, uses] : stage.uses) stage.order.push_back(mode);
      std::sort(stage.order.begin(), stage.order.end(), [&](const Mode& a, const Mode& b) {
        const std::size_t uses_a = stage.uses.at(a);
        const std::size_t uses_b = stage.uses.at(b);
        return uses_a != uses_b ? uses_a > uses_b : a < b;
      });
      for (std::size_t i = 0; i < stage.order.size(); ++i) stage.uses[stage.order[i]] = i;
    }
  }

  std::size_t index(std::size_t stage, const PlannedInstruction& instruction) const {
    return stages_[stage].uses.at(of(instruction));
  }

  Json json() const {
    Json stages = Json::array();
    for (const Stage& stage : stages_) {
      Json modes = Json::array();
      for (const auto& [setting, time, energy] : stage.order) {
        Json mode = {setting.clock.value, time, energy};
        if (!setting.knobs.empty()) mode.push_back(text_of(setting.knobs));
        modes.push_back(std::move(mode));
      }
      stages.push_back(std::move(modes));
    }
    return stages;
  }

 private:
  struct Stage {
    std::map<Mode, std::size_t> uses;  ///< number of uses; later its index in `order`
    std::vector<Mode> order;
  };
  std::vector<Stage> stages_;
};

/// The distinct shapes of plans, each stored once.
class Shapes {
 public:
  explicit Shapes(double tick) : tick_(tick) {}

  std::size_t index(const Plan& plan) {
    const Json shape = describe(plan);
    const auto [entry, is_new] = known_.insert({shape.dump(), known_.size()});
    if (is_new) shapes_.push_back(shape);
    return entry->second;
  }
  const Json& json() const { return shapes_; }

 private:
  Json describe(const Plan& plan) const {
    Json stages = Json::array();
    for (const auto& list : plan.instructions) {
      Json kinds = Json::array(), chunks = Json::array(), micro_batches = Json::array(),
           backward = Json::array();
      bool any_chunk = false, any_backward = false;
      for (const auto& instruction : list) {
        kinds.push_back(static_cast<int>(instruction.kind));
        chunks.push_back(instruction.chunk);
        micro_batches.push_back(instruction.micro_batch);
        backward.push_back(instruction.backward_micro_batch);
        any_chunk = any_chunk || instruction.chunk != 0;
        any_backward = any_backward || instruction.backward_micro_batch >= 0;
      }
      Json stage = {{"kinds", std::move(kinds)}, {"microBatches", std::move(micro_batches)}};
      if (any_chunk) stage["chunks"] = std::move(chunks);
      if (any_backward) stage["backwardMicroBatches"] = std::move(backward);
      stages.push_back(std::move(stage));
    }
    Json links = Json::array();
    if (plan.transfers.mode == Transfers::Mode::kRendezvous) {
      for (const Link& link : transfer_links(plan)) {
        links.push_back({link.from_stage, link.from_position, link.to_stage, link.to_position,
                         std::floor(link.time.value / tick_)});
      }
    }
    return {{"stages", std::move(stages)}, {"links", std::move(links)}};
  }

  double tick_;
  std::map<std::string, std::size_t> known_;
  Json shapes_ = Json::array();
};

Json stage_streams(const Plan& plan, const Modes& modes, double tick) {
  Json streams = Json::array();
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    std::string stream;
    double cursor = 0;
    for (const auto& instruction : plan.instructions[stage]) {
      append_number(stream, modes.index(stage, instruction));
      const double start = std::max(cursor, std::floor(instruction.start.value / tick));
      append_number(stream, static_cast<std::uint64_t>(start - cursor));
      cursor = start + std::floor(instruction.time.value / tick);
    }
    streams.push_back(std::move(stream));
  }
  return streams;
}

/// Returns the figures of a plan at the given time and energy.
Json plan_json(const Plan& plan, Seconds time, Joules energy, Joules lower_bound) {
  const PlanFigures figures = plan_figures(plan);
  return {{"time", time.value},
          {"energy", energy.value},
          {"bound", lower_bound.value},
          {"blocking", figures.blocking.value},
          {"waiting", figures.waiting_share},
          {"changes", plan.clock_changes()}};
}

Json reference_json(const Plan& plan) {
  return plan_json(plan, plan.iteration_time, plan.iteration_energy, plan.lower_bound);
}

Json bound_json(std::span<const CurvePoint> bound) {
  Json json = Json::array();
  for (const auto& [time, energy] : shown_bound(bound)) {
    json.push_back({rounded(time.value, 10), rounded(energy.value, 10)});
  }
  return json;
}

Json comparisons_json(const ReportInput& input) {
  Json comparisons = Json::array();
  for (const auto& other : input.comparisons) {
    comparisons.push_back({{"name", clean_text(other.name)},
                           {"time", other.time.value},
                           {"energy", other.energy.value}});
  }
  return comparisons;
}

Json power_json(const std::vector<const Plan*>& plans) {
  const PowerScale scale(plans);
  const auto shades = [](const std::string& (*shade)(int)) {
    Json list = Json::array();
    for (int i = 0; i < PowerScale::kColours; ++i) list.push_back(shade(i));
    return list;
  };
  return {
      {"low", scale.low().value},
      {"high", scale.high().value},
      {"light", {{"fills", shades(PowerScale::colour)}, {"edges", shades(PowerScale::border)}}},
      {"dark",
       {{"fills", shades(PowerScale::dark_colour)}, {"edges", shades(PowerScale::dark_border)}}}};
}

}  // namespace

void append_number(std::string& text, std::uint64_t number) {
  constexpr std::string_view kCharacters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  do {
    const std::uint64_t rest = number >> 5;
    text += kCharacters[(number & 31) | (rest == 0 ? 0 : 32)];
    number = rest;
  } while (number != 0);
}

std::vector<std::size_t> drawn_points(const ReportInput& input) {
  const std::size_t count = input.points.size();
  if (count == 0) return {};
  std::size_t largest = 1;
  for (const ReportPoint& point : input.points) {
    largest = std::max(largest, count_instructions(point.plan));
  }
  const std::size_t wanted = std::min(count, std::max<std::size_t>(3, kMaxInstructions / largest));
  std::set<std::size_t> drawn = {0, count - 1, std::min(input.chosen, count - 1)};
  for (std::size_t i = 0; i < wanted && wanted > 1; ++i) {
    if (drawn.size() < wanted) drawn.insert(i * (count - 1) / (wanted - 1));
  }
  return {drawn.begin(), drawn.end()};
}

std::string page_data(const ReportInput& input) {
  const auto drawn = drawn_points(input);
  std::vector<const Plan*> plans = {&input.all_max};
  for (const std::size_t i : drawn) plans.push_back(&input.points[i].plan);
  Seconds span{0};
  for (const Plan* plan : plans) span = std::max(span, plan->iteration_time);
  const double tick = tick_for(span);
  const Modes modes(plans);
  Shapes shapes(tick);

  const auto with_drawing = [&](Json json, const Plan& plan) {
    json["shape"] = shapes.index(plan);
    json["stages"] = stage_streams(plan, modes, tick);
    return json;
  };
  const Plan& all_max = input.all_max;
  Json baseline = with_drawing(reference_json(all_max), all_max);
  const bool is_late = !input.late_bound.empty();
  Json points = Json::array();
  for (std::size_t i = 0; i < input.points.size(); ++i) {
    const ReportPoint& point = input.points[i];
    Json json = plan_json(point.plan, point.time, point.energy, point.lower_bound);
    json["headline"] = headline(all_max_for(input, point), point);
    json["explanation"] = explanation(all_max_for(input, point), point);
    if (has_tight_bound(point)) json["tightBound"] = point.tight_bound.value;
    const bool is_drawn = std::binary_search(drawn.begin(), drawn.end(), i);
    points.push_back(is_drawn ? with_drawing(std::move(json), point.plan) : std::move(json));
  }
  Json kinds = Json::array();
  for (int i = 0; i < kInstructionKinds; ++i) {
    kinds.push_back(std::string(name(static_cast<InstructionKind>(i))));
  }
  Json blocking = Json::array();
  for (const Watts power : all_max.blocking_power) blocking.push_back(power.value);

  const Json data = {
      {"gpus", all_max.stages * all_max.gpus_per_stage},
      {"chunks", all_max.chunks},
      {"blockingPower", std::move(blocking)},
      {"kinds", std::move(kinds)},
      {"firstFixedKind", static_cast<int>(InstructionKind::kLoad)},
      {"tick", tick},
      {"span", span.value},
      {"power", power_json(plans)},
      {"modes", modes.json()},
      {"shapes", shapes.json()},
      {"allMax", std::move(baseline)},
      {"allMaxAlone", input.all_max_alone ? reference_json(*input.all_max_alone) : Json()},
      {"points", std::move(points)},
      {"chosen", std::min(input.chosen, input.points.size() - 1)},
      {"fastest", fastest_time(input).value},
      {"leastEnergy", least_energy_time(input).value},
      {"bound", bound_json(is_late ? input.late_bound : input.bound)},
      {"freeBound", is_late ? bound_json(input.bound) : Json::array()},
      {"comparisons", comparisons_json(input)}};
  return embeddable_json(json_line(data));
}

}  // namespace harpe::report
