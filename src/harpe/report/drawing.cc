#include "harpe/report/drawing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <utility>

namespace harpe::report {

namespace {

struct Place {
  int stage = 0;
  int position = 0;
};
/// (is a gradient, model part, micro-batch) -> the instruction that produces or receives it.
using Places = std::map<std::tuple<bool, int, int>, Place>;

bool has_forward(InstructionKind kind) {
  return kind == InstructionKind::kForward || kind == InstructionKind::kForwardBackward;
}

bool has_backward(InstructionKind kind) {
  return kind == InstructionKind::kBackward || kind == InstructionKind::kRecomputeBackward ||
         kind == InstructionKind::kForwardBackward;
}

/// Returns the model parts of each stage; the chunk of an instruction is an index into
/// its stage's list.
std::vector<std::vector<int>> parts_of_stages(const Plan& plan) {
  std::vector<std::vector<int>> parts(plan.instructions.size());
  for (std::size_t part = 0; part < plan.placement.size(); ++part) {
    const auto stage = static_cast<std::size_t>(plan.placement[part]);
    if (stage < parts.size()) parts[stage].push_back(static_cast<int>(part));
  }
  return parts;
}

Places find_places(const Plan& plan) {
  const auto parts = parts_of_stages(plan);
  Places places;
  const auto add = [&](bool gradient, int chunk, int micro_batch, Place place) {
    const auto& own = parts[static_cast<std::size_t>(place.stage)];
    if (chunk < 0 || static_cast<std::size_t>(chunk) >= own.size()) return;
    places.insert({{gradient, own[static_cast<std::size_t>(chunk)], micro_batch}, place});
  };
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    for (std::size_t i = 0; i < plan.instructions[stage].size(); ++i) {
      const PlannedInstruction& instruction = plan.instructions[stage][i];
      const Place place{static_cast<int>(stage), static_cast<int>(i)};
      const bool both = instruction.kind == InstructionKind::kForwardBackward;
      if (has_forward(instruction.kind)) {
        add(false, instruction.chunk, instruction.micro_batch, place);
      }
      if (has_backward(instruction.kind)) {
        add(true, both ? instruction.backward_chunk : instruction.chunk,
            both ? instruction.backward_micro_batch : instruction.micro_batch, place);
      }
    }
  }
  return places;
}

const PlannedInstruction& at(const Plan& plan, int stage, int position) {
  return plan.instructions[static_cast<std::size_t>(stage)][static_cast<std::size_t>(position)];
}

}  // namespace

std::vector<Link> transfer_links(const Plan& plan) {
  std::vector<Link> links;
  if (plan.transfers.none()) return links;
  const Places places = find_places(plan);
  for (const auto& [key, place] : places) {
    const auto [gradient, part, micro_batch] = key;
    const int next = gradient ? part - 1 : part + 1;
    const auto& times = gradient ? plan.transfers.backward : plan.transfers.forward;
    const auto boundary = static_cast<std::size_t>(std::min(part, next));
    const auto receiver = places.find({gradient, next, micro_batch});
    if (next < 0 || boundary >= times.size() || receiver == places.end()) continue;
    const Place to = receiver->second;
    if (to.stage == place.stage || !(times[boundary] > Seconds{0})) continue;
    links.push_back({place.stage, place.position, to.stage, to.position, times[boundary]});
  }
  std::sort(links.begin(), links.end(), [](const Link& a, const Link& b) {
    return std::tie(a.from_stage, a.from_position, a.to_stage, a.to_position) <
           std::tie(b.from_stage, b.from_position, b.to_stage, b.to_position);
  });
  return links;
}

Interval transfer_interval(const Plan& plan, const Link& link) {
  const PlannedInstruction& sender = at(plan, link.from_stage, link.from_position);
  Seconds start = sender.start + sender.time;
  if (plan.transfers.mode == Transfers::Mode::kRendezvous && link.to_position > 0) {
    const PlannedInstruction& before = at(plan, link.to_stage, link.to_position - 1);
    start = std::max(start, before.start + before.time);
  }
  return {start, start + link.time};
}

PlanFigures plan_figures(const Plan& plan) {
  PlanFigures figures;
  double waiting = 0;
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    Seconds busy{0};
    for (const PlannedInstruction& instruction : plan.instructions[stage]) {
      busy += instruction.time;
      figures.computing += instruction.energy * plan.gpus_per_stage;
    }
    const Seconds idle = plan.iteration_time - busy;
    waiting += idle.value;
    figures.blocking += blocking_power(plan, static_cast<int>(stage)) * idle * plan.gpus_per_stage;
  }
  const double total = plan.iteration_time.value * static_cast<double>(plan.instructions.size());
  figures.waiting_share = total > 0 ? waiting / total : 0;
  return figures;
}

Watts power(const Plan& plan, int stage, const PlannedInstruction& instruction) {
  return instruction.time > Seconds{0} ? instruction.energy / instruction.time
                                       : blocking_power(plan, stage);
}

Watts blocking_power(const Plan& plan, int stage) {
  const auto index = static_cast<std::size_t>(stage);
  return index < plan.blocking_power.size() ? plan.blocking_power[index] : Watts{0};
}

std::string block_label(const PlannedInstruction& instruction) {
  using Letter = std::pair<InstructionKind, const char*>;
  constexpr std::array kLetters{Letter{InstructionKind::kForward, "F"},
                                Letter{InstructionKind::kBackward, "B"},
                                Letter{InstructionKind::kWeight, "W"},
                                Letter{InstructionKind::kRecompute, "R"},
                                Letter{InstructionKind::kRecomputeBackward, "RB"},
                                Letter{InstructionKind::kForwardBackward, "F"}};
  const auto with = [](std::string letter, int micro_batch) {
    return micro_batch < 0 ? letter : letter.append(std::to_string(micro_batch));
  };
  const auto letter = std::ranges::find(kLetters, instruction.kind, &Letter::first);
  if (letter == kLetters.end()) return std::string(name(instruction.kind));
  const std::string label = with(letter->second, instruction.micro_batch);
  const bool both = instruction.kind == InstructionKind::kForwardBackward;
  return both ? label + with("B", instruction.backward_micro_batch) : label;
}

std::vector<double> average_power(const Plan& plan, int stage, Seconds span, int columns) {
  if (!(span > Seconds{0})) return std::vector<double>(static_cast<std::size_t>(columns), -1.0);
  const double width = span.value / columns;
  const double idle = blocking_power(plan, stage).value;
  std::vector<double> joules(static_cast<std::size_t>(columns), 0.0);
  std::vector<double> covered(joules.size(), 0.0);
  const auto spread = [&](double start, double end, double watts) {
    const int first = std::clamp(static_cast<int>(start / width), 0, columns - 1);
    const int last = std::clamp(static_cast<int>(end / width), 0, columns - 1);
    for (int column = first; column <= last; ++column) {
      const double part = std::min(end, (column + 1) * width) - std::max(start, column * width);
      if (part <= 0) continue;
      joules[static_cast<std::size_t>(column)] += watts * part;
      covered[static_cast<std::size_t>(column)] += part;
    }
  };
  double end = 0;
  for (const auto& instruction : plan.instructions[static_cast<std::size_t>(stage)]) {
    spread(end, instruction.start.value, idle);
    end = (instruction.start + instruction.time).value;
    spread(instruction.start.value, end, power(plan, stage, instruction).value);
  }
  spread(end, plan.iteration_time.value, idle);
  for (std::size_t i = 0; i < joules.size(); ++i) {
    joules[i] = covered[i] > 0 ? joules[i] / covered[i] : -1;
  }
  return joules;
}

namespace {

constexpr double kEdge = 0.72;  ///< brightness of a border relative to its block
constexpr std::array<std::uint32_t, 17> kStops{
    0xfaf3e0, 0xf5e5bd, 0xf1d59f, 0xecc585, 0xe7b56e, 0xe0a55b, 0xd89649, 0xd0863a, 0xc7772d,
    0xbd6721, 0xb25917, 0xa64b12, 0x993e13, 0x8a3214, 0x7c2714, 0x6d1d14, 0x5e1313};

// For a dark ground: from hardly brighter than the ground to cream.
constexpr std::array<std::uint32_t, 9> kDarkStops{0x2d2824, 0x483326, 0x683e23, 0x8c4a1c, 0xaf5b1c,
                                                  0xcd762f, 0xe39854, 0xf2c088, 0xfae8c8};

std::array<std::string, PowerScale::kColours> make_colours(std::span<const std::uint32_t> stops,
                                                           double shade) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<std::string, PowerScale::kColours> colours;
  for (std::size_t i = 0; i < colours.size(); ++i) {
    const double place = static_cast<double>(i) * static_cast<double>(stops.size() - 1) /
                         static_cast<double>(colours.size() - 1);
    const auto stop = std::min(static_cast<std::size_t>(place), stops.size() - 2);
    const double part = place - static_cast<double>(stop);
    colours[i] = "#";
    for (const int shift : {16, 8, 0}) {
      const auto channel = [&](std::size_t of) {
        return static_cast<double>(stops[of] >> shift & 0xff);
      };
      const double mixed = channel(stop) * (1 - part) + channel(stop + 1) * part;
      const auto value = static_cast<std::size_t>(std::lround(mixed * shade));
      colours[i] += {kDigits[value / 16], kDigits[value % 16]};
    }
  }
  return colours;
}

}  // namespace

PowerScale::PowerScale(Watts low, Watts high) : low_(low), high_(high) {
  if (!(high_ > low_)) high_ = low_ + Watts{std::max(1e-9, std::abs(low_.value))};
}

PowerScale::PowerScale(const std::vector<const Plan*>& plans)
    : PowerScale(Watts{0}, Watts{std::numeric_limits<double>::min()}) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  const auto include = [&](Watts power) {
    low = std::min(low, power.value);
    high = std::max(high, power.value);
  };
  for (const Plan* plan : plans) {
    for (const Watts power : plan->blocking_power) include(power);
    for (const auto& list : plan->instructions) {
      for (const PlannedInstruction& instruction : list) {
        if (instruction.time > Seconds{0} && instruction.kind != InstructionKind::kSwitch)
          include(instruction.energy / instruction.time);
      }
    }
  }
  if (low <= high) *this = PowerScale(Watts{low}, Watts{high});
}

int PowerScale::index(Watts power) const {
  const double fraction = (power - low_) / (high_ - low_);
  return static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * (kColours - 1)));
}

const std::string& PowerScale::colour(int index) {
  static const auto kShades = make_colours(kStops, 1);
  return kShades[static_cast<std::size_t>(index)];
}

const std::string& PowerScale::border(int index) {
  static const auto kShades = make_colours(kStops, kEdge);
  return kShades[static_cast<std::size_t>(index)];
}

const std::string& PowerScale::dark_colour(int index) {
  static const auto kShades = make_colours(kDarkStops, 1);
  return kShades[static_cast<std::size_t>(index)];
}

const std::string& PowerScale::dark_border(int index) {
  static const auto kShades = make_colours(kDarkStops, kEdge);
  return kShades[static_cast<std::size_t>(index)];
}

}  // namespace harpe::report
