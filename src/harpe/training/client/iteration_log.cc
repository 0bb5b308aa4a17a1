#include "harpe/training/client/iteration_log.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace harpe::training {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool is_known(const EnergyEstimate& energy) {
  // Missing or unobserved energy can have any value.
  return energy.source != EnergySource::kNone && energy.missing.value <= 0 &&
         energy.unobserved.value <= 0.01 * energy.time.value;
}

}  // namespace

std::optional<IterationRecord> IterationLog::add(const RankEvent& event, std::uint64_t lost) {
  std::optional<IterationRecord> ended;
  if (lost != lost_ && running_) running_->damaged = true;
  switch (event.kind) {
    case RankEvent::Kind::kIterationBegin:
      ended = close(event.at);
      running_ = {.iteration = event.number,
                  .version = event.version,
                  .span = {event.at, event.at},
                  .instructions = {},
                  .damaged = lost != lost_};
      in_instruction_ = false;
      ended_.reset();
      break;
    case RankEvent::Kind::kIterationEnd:
      ended_ = event.at;
      break;
    case RankEvent::Kind::kPause:
      ended = close(event.at);
      break;
    case RankEvent::Kind::kInstructionBegin:
      if (!running_) break;
      if (in_instruction_) running_->damaged = true;
      in_instruction_ = true;
      running_->instructions.push_back(
          {event.instruction, event.chunk, {event.at, event.at}, event.clock});
      break;
    case RankEvent::Kind::kInstructionEnd:
      if (!running_) break;
      if (!in_instruction_) {
        running_->damaged = true;
        break;
      }
      in_instruction_ = false;
      running_->instructions.back().span.end = event.at;
      break;
  }
  lost_ = lost;
  return ended;
}

std::optional<IterationRecord> IterationLog::close(Instant at) {
  if (!running_) return std::nullopt;
  IterationRecord record = *std::exchange(running_, std::nullopt);
  record.span.end = at;
  record.damaged |= in_instruction_ || record.instructions.empty();
  in_instruction_ = false;
  return record;
}

std::optional<IterationRecord> IterationLog::finish() {
  if (!running_) return std::nullopt;
  if (ended_) return close(*ended_);
  if (running_->instructions.empty()) return std::nullopt;
  return close(running_->instructions.back().span.end);
}

bool IterationLog::replace_times(IterationRecord& record, std::span<const TimeSpan> device) {
  if (device.size() != record.instructions.size()) return false;
  const auto is_reversed = [](const TimeSpan& span) { return span.end < span.begin; };
  if (std::ranges::any_of(device, is_reversed)) return false;
  for (std::size_t i = 0; i < device.size(); ++i) record.instructions[i].span = device[i];
  return true;
}

IterationReport make_report(const IterationRecord& record, RankCoordinates coordinates,
                            const SpanEnergies& energies) {
  IterationReport report;
  report.coordinates = coordinates;
  report.iteration = record.iteration;
  report.version = record.version;
  report.time = record.span.end - record.span.begin;

  std::vector<TimeSpan> spans;
  for (const TimedInstruction& instruction : record.instructions) spans.push_back(instruction.span);
  spans.push_back(record.span);
  std::vector<EnergyEstimate> energy = energies(spans);
  energy.resize(spans.size());

  std::map<std::pair<InstructionKind, int>, InstructionTotals> totals;
  for (std::size_t i = 0; i < record.instructions.size(); ++i) {
    const TimedInstruction& one = record.instructions[i];
    InstructionTotals& total = totals[{one.kind, one.chunk}];
    total.kind = one.kind;
    total.chunk = one.chunk;
    total.count += 1;
    total.time += one.span.end - one.span.begin;
    total.energy += is_known(energy[i]) ? energy[i].energy : Joules{kUnknown};
    // A sum of squares until all instructions are added.
    total.energy_error += Joules{energy[i].error.value * energy[i].error.value};
  }
  for (auto& [key, total] : totals) {
    total.energy_error = {std::isnan(total.energy.value) ? 0 : std::sqrt(total.energy_error.value)};
    report.instructions.push_back(total);
  }
  const EnergyEstimate& whole = energy.back();
  report.energy = is_known(whole) ? whole.energy : Joules{kUnknown};
  report.energy_error = is_known(whole) ? whole.error : Joules{0};
  return report;
}

}  // namespace harpe::training
