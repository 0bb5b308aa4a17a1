// Plans with other premises, and plans, certificates and profiles with wrong numbers.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "harpe/plan/frontier/brute_force_testing.h"
#include "harpe/plan/frontier/forged_case_testing.h"
#include "harpe/plan/frontier/planned_work_testing.h"

namespace harpe::plan {
namespace {

/// Returns a number that differs a little or a lot from `value`.
double changed(double value, Dice& dice) {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (dice.below(10)) {
    case 0:
      return std::nextafter(value, kInfinity);
    case 1:
      return std::nextafter(value, -kInfinity);
    case 2:
      return value * (1 + 4e-10);
    case 3:
      return value * (1 - 4e-10);
    case 4:
      return value + 1e-9;
    case 5:
      return value - 1e-9;
    case 6:
      return 2 * value;
    case 7:
      return value / 2;
    case 8:
      return -value;
    default: {
      static constexpr std::array kNumbers{
          0.0, 1e-300, 1e-18, 1e12, 1e300, kInfinity, std::numeric_limits<double>::quiet_NaN()};
      return dice.pick(kNumbers);
    }
  }
}

/// Returns an entry of some stage; null if there is none.
PlannedInstruction* some_entry(Plan& plan, Dice& dice) {
  if (plan.instructions.empty()) return nullptr;
  auto& list = dice.pick(plan.instructions);
  return list.empty() ? nullptr : &dice.pick(list);
}

/// Returns the latency of the plan's `switch` entries, or without any, of the certificate.
LatencyByClock latency_of(const ForgedCase& forged, const SmallProblem& problem) {
  const auto is_switch = [](const PlannedInstruction& entry) {
    return entry.kind == InstructionKind::kSwitch;
  };
  for (const auto& list : forged.plan.instructions) {
    if (std::ranges::any_of(list, is_switch)) return problem.latency;
  }
  return forged.certificate && forged.certificate->latency ? *forged.certificate->latency
                                                           : LatencyByClock{};
}

void change_settings(ForgedCase& forged, Dice& dice) {
  for (int n = 1 + dice.below(3); n > 0; --n) {
    if (forged.plan.instructions.empty()) return;
    const int stage = dice.below(static_cast<int>(forged.plan.instructions.size()));
    auto& list = forged.plan.instructions[stage];
    if (list.empty()) return;
    PlannedInstruction& entry = dice.pick(list);
    const auto points = forged.profile.points(stage, entry.chunk, entry.kind);
    if (is_fixed_time(entry.kind) || points.empty()) continue;
    const OperatingPoint& point = dice.pick(points);
    entry.clock = point.clock;
    entry.knobs = point.knobs;
  }
}

void change_transfers(Transfers& transfers, const SmallProblem& problem, Dice& dice) {
  auto& times = dice.one_in(2) ? transfers.forward : transfers.backward;
  switch (dice.below(4)) {
    case 0:
      transfers.mode = transfers.mode == Transfers::Mode::kRendezvous
                           ? Transfers::Mode::kOverlapped
                           : Transfers::Mode::kRendezvous;
      return;
    case 1:
      return times.clear();
    case 2:
      times.assign(std::max(0, problem.schedule.parts() - 1),
                   Seconds{problem.time_unit * dice.below(8) / 1024});
      return;
    default:
      if (!times.empty()) dice.pick(times).value *= dice.between(0, 2);
  }
}

/// Changes the rows of one kind of instruction, which the plan may or may not use.
void change_profile(Profile& profile, const SmallProblem& problem, Dice& dice) {
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  if (entries.empty()) return;
  InstructionProfile& entry = dice.pick(entries);
  OperatingPoint& point = dice.pick(entry.points);
  switch (dice.below(6)) {
    case 0:
    case 1: {
      double& value = dice.one_in(2) ? point.time.value : point.energy.value;
      const double other = dice.one_in(2) ? changed(value, dice) : value * dice.between(0.3, 1.7);
      if (std::isfinite(other) && other > 0) value = other;
      break;
    }
    case 2: {
      OperatingPoint added = point;
      added.clock.value = 1050 + 15 * dice.below(8);
      added.time.value *= dice.between(0.5, 1.5);
      added.energy.value *= dice.between(0.5, 1.5);
      const auto same = [&](const OperatingPoint& p) { return p.setting() == added.setting(); };
      if (std::ranges::none_of(entry.points, same)) entry.points.push_back(added);
      break;
    }
    case 3:
      if (entry.points.size() > 1)
        entry.points.erase(entry.points.begin() + (&point - entry.points.data()));
      break;
    case 4:
      if (entries.size() > 1) entries.erase(entries.begin() + (&entry - entries.data()));
      break;
    default: {
      // Adds rows for a whole instruction that had none, or for a fixed-time instruction.
      static constexpr std::array kKinds{InstructionKind::kRecomputeBackward,
                                         InstructionKind::kForwardBackward, InstructionKind::kLoad,
                                         InstructionKind::kSend, InstructionKind::kOptimizer};
      InstructionProfile added = entry;
      added.kind = dice.pick(kKinds);
      if (is_fixed_time(added.kind)) {
        added.points.resize(1);
        added.points[0].clock = {};
        added.points[0].knobs = {};
      }
      const double share = dice.between(0.5, 2);
      for (OperatingPoint& p : added.points) p.time.value *= share;
      if (profile.points(added.stage, added.chunk, added.kind).empty() &&
          problem.profile.has_chunks() == profile.has_chunks())
        entries.push_back(std::move(added));
    }
  }
  profile = profile.with_entries(std::move(entries));
}

/// Splits a whole instruction of the plan into its halves, at their first points.
void split_whole(ForgedCase& forged, Dice& dice) {
  Plan& plan = forged.plan;
  const Profile profile = rows_of_chunks(forged.profile, forged.schedule);
  const PlannedWork work = planned_work(plan, forged.schedule, profile);
  if (!work.mismatch.empty()) return;
  const int stage = dice.below(plan.stages);
  int position = 0;
  for (const PlannedRun& run : work.runs) {
    if (run.stage != stage) continue;
    const Instruction& whole = work.schedule.lists[stage][position++];
    const auto halves = halves_of(whole, work.schedule, profile);
    if (run.entries.size() != 1 || halves.size() < 2) continue;
    std::vector<PlannedInstruction> parts;
    for (const Instruction& half : halves) {
      const int chunk = chunk_of(work.schedule, half.part);
      const auto points = profile.points(stage, chunk, half.kind);
      if (points.empty()) return;
      parts.push_back({.kind = half.kind,
                       .chunk = chunk,
                       .micro_batch = half.micro_batch,
                       .fused_with_next = &half != &halves.back(),
                       .clock = points.front().clock,
                       .knobs = points.front().knobs});
    }
    auto& list = plan.instructions[stage];
    const auto at = list.erase(list.begin() + static_cast<std::ptrdiff_t>(run.entries[0]));
    list.insert(at, parts.begin(), parts.end());
    return;  // the positions of later runs have changed
  }
}

}  // namespace

void mutate_premises(ForgedCase& forged, const SmallProblem& problem, Dice& dice) {
  Plan& plan = forged.plan;
  const LatencyByClock latency = latency_of(forged, problem);
  Seconds wait_until = dice.one_in(2) ? plan.iteration_time : Seconds{0};
  switch (dice.below(9)) {
    case 0:
    case 1:
      change_settings(forged, dice);
      break;
    case 2:
      wait_until = plan.iteration_time * dice.between(1, 1.5);
      break;
    case 3:
      wait_until.value = changed(plan.iteration_time.value, dice);
      if (!std::isfinite(wait_until.value)) wait_until = {};
      break;
    case 4:
      if (!plan.blocking_power.empty())
        dice.pick(plan.blocking_power) = Watts{problem.power_unit * dice.below(200)};
      break;
    case 5:
      plan.gpus_per_stage = 1 + dice.below(9);
      break;
    case 6:
      change_transfers(plan.transfers, problem, dice);
      break;
    case 7:
      split_whole(forged, dice);
      break;
    default:
      change_profile(forged.profile, problem, dice);
  }
  // The solver's bound was for another plan.
  plan.lower_bound = Joules{0};
  recost(plan, forged.schedule, forged.profile, latency, wait_until);
}

void corrupt_plan(Plan& plan, Dice& dice) {
  PlannedInstruction* const entry = some_entry(plan, dice);
  if (entry == nullptr) return;
  const std::array numbers{&plan.iteration_time.value, &plan.iteration_energy.value,
                           &plan.lower_bound.value,    &entry->start.value,
                           &entry->time.value,         &entry->energy.value};
  const std::array integers{&plan.stages,        &plan.micro_batches,
                            &plan.chunks,        &plan.gpus_per_stage,
                            &plan.copies,        &entry->chunk,
                            &entry->micro_batch, &entry->backward_chunk,
                            &entry->clock.value, &entry->backward_micro_batch};
  auto& list = dice.pick(plan.instructions);
  switch (dice.below(8)) {
    case 0:
    case 1:
    case 2: {
      double& number = *dice.pick(numbers);
      number = changed(number, dice);
      return;
    }
    case 3: {
      int& number = *dice.pick(integers);
      number += dice.below(3) - 1;
      return;
    }
    case 4:
      if (!list.empty()) list.erase(list.begin() + dice.below(static_cast<int>(list.size())));
      return;
    case 5:
      if (!list.empty()) std::swap(dice.pick(list), dice.pick(list));
      return;
    case 6:
      entry->fused_with_next = !entry->fused_with_next;
      return;
    default:
      entry->kind = static_cast<InstructionKind>(dice.below(kInstructionKinds));
  }
}

void corrupt_certificate(Certificate& c, Dice& dice) {
  static constexpr std::array kFactors{0.5,
                                       2.0,
                                       1.0000001,
                                       -1.0,
                                       0.0,
                                       1e30,
                                       std::numeric_limits<double>::infinity(),
                                       std::numeric_limits<double>::quiet_NaN()};
  static constexpr std::array<std::int64_t, 6> kIntegers{0,
                                                         -1,
                                                         1,
                                                         std::int64_t{1} << 61,
                                                         std::numeric_limits<std::int64_t>::max(),
                                                         std::numeric_limits<std::int64_t>::min()};
  const std::array numbers{&c.deadline.value, &c.flow_unit.value, &c.time_unit.value,
                           &c.loss_unit.value};
  if (dice.one_in(3)) {
    *dice.pick(numbers) *= dice.pick(kFactors);
    return;
  }
  const std::array lists{&c.node_flow, &c.dependency_flow, &c.source_flow, &c.sink_flow,
                         &c.longest,   &c.start,           &c.end};
  auto& list = *dice.pick(lists);
  if (list.empty() || dice.one_in(8)) return list.push_back(dice.pick(kIntegers));
  std::int64_t& number = dice.pick(list);
  switch (dice.below(4)) {
    case 0:
      return std::swap(number, dice.pick(list));
    case 1:
      number = dice.pick(kIntegers);
      return;
    case 2:
      if (std::abs(number / 2) < (std::int64_t{1} << 61)) number += dice.below(3) - 1;
      return;
    default:
      list.pop_back();
  }
}

namespace {

/// Changes a few letters of a file, most often of a number.
void corrupt_text(std::string& text, Dice& dice) {
  static constexpr std::array kNumbers{"0",    "-0",   "-1",    "1e-18",
                                       "1e12", "1e18", "1e400", "9223372036854775807",
                                       "0.1",  "null", "true",  "[]"};
  if (text.empty()) return;
  const auto size = static_cast<int>(text.size());
  const auto at = text.find_first_of("0123456789", static_cast<std::size_t>(dice.below(size)));
  if (at == std::string::npos) return;
  const std::size_t end = std::min(text.find_first_not_of("0123456789.eE+-", at), text.size());
  switch (dice.below(4)) {
    case 0:
      text.replace(at, end - at, dice.pick(kNumbers));
      return;
    case 1:
      text[end - 1] = static_cast<char>('0' + dice.below(10));
      return;
    case 2:
      text.insert(end, 1, static_cast<char>('0' + dice.below(10)));
      return;
    default:
      text.erase(at, static_cast<std::size_t>(dice.below(3)));
  }
}

}  // namespace

bool corrupt_files(ForgedCase& forged, Dice& dice) {
  std::string plan = plan_json(forged.plan), profile = profile_csv(forged.profile);
  std::string certificate = forged.certificate ? certificate_json(*forged.certificate) : "";
  const std::array files{&plan, &certificate, &certificate, &profile};
  if (!dice.one_in(3)) corrupt_text(*dice.pick(files), dice);
  auto read_plan = parse_plan_json(plan, "plan.json");
  auto read_profile = parse_profile(profile, "profile.csv");
  if (!read_plan.ok() || !read_profile.ok()) return false;
  forged.plan = std::move(read_plan).take();
  forged.profile = std::move(read_profile).take();
  if (!forged.certificate) return true;
  auto read_certificate = parse_certificate_json(certificate, "certificate.json");
  if (!read_certificate.ok()) return false;
  forged.certificate = std::move(read_certificate).take();
  return true;
}

std::string ForgedCase::text() const {
  return "plan.json\n" + plan_json(plan) + "\ncertificate.json\n" +
         (certificate ? certificate_json(*certificate) : "none\n") + "\nprofile.csv\n" +
         profile_csv(profile) + "\nschedule.json\n" + schedule_json(schedule);
}

}  // namespace harpe::plan
