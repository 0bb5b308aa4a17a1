#pragma once
/// \file
/// Instruction kinds: the vocabulary of profiles, schedules and plans for the work of a stage.
///
///   const auto kind = harpe::instruction_kind("backward");
///   if (kind && !harpe::is_fixed_time(*kind)) std::puts(std::string(harpe::name(*kind)).c_str());

#include <array>
#include <optional>
#include <string_view>

namespace harpe {

/// Kinds of instructions. The first six are computations with a choice of clock; the rest take a
/// fixed time.
enum class InstructionKind : unsigned char {
  kForward,
  kBackward,           ///< full backward; input gradient if the profile has `weight` rows
  kWeight,             ///< weight gradient, if the schedule splits it off
  kRecompute,          ///< forward repeated from a checkpoint, before its backward
  kRecomputeBackward,  ///< `recompute` and `backward` run as one
  kForwardBackward,    ///< a forward and a backward of two micro-batches overlapped in one block
  kLoad,
  kSend,
  kRecv,
  kReduce,  ///< gradient reduction between pipelines
  kUnshard,
  kReshard,
  kOptimizer,
  kSwitch,  ///< cost of a late clock change, before the instruction that requested the clock
};

inline constexpr int kInstructionKinds = 14;

/// Returns the name used in files and on the command line, such as "forward" or
/// "recompute_backward".
std::string_view name(InstructionKind kind);

/// Returns the kind with that name (any case); nullopt if there is none.
std::optional<InstructionKind> instruction_kind(std::string_view name);

/// Returns true if the kind takes a fixed time, without a choice of clock.
constexpr bool is_fixed_time(InstructionKind kind) {
  return kind >= InstructionKind::kLoad;
}

}  // namespace harpe
