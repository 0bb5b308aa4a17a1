#pragma once
/// \file
/// The words for what a stage of a pipeline does, shared by profiles, schedules and plans.
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
  kBackward,           ///< full backward; in a profile with `weight` rows the input gradient
  kWeight,             ///< weight gradient, where the schedule splits it off
  kRecompute,          ///< forward again from a checkpoint, ahead of its backward
  kRecomputeBackward,  ///< `recompute` and `backward` run as one
  kForwardBackward,    ///< a forward and a backward of two micro-batches overlapped in one block
  kLoad,
  kSend,
  kRecv,
  kReduce,  ///< gradient reduction between pipelines
  kUnshard,
  kReshard,
  kOptimizer,
  kSwitch,  ///< cost of a clock that changes late, ahead of the instruction that asked for it
};

inline constexpr int kInstructionKinds = 14;

/// The name used in files and on the command line, such as "forward" or "recompute_backward".
std::string_view name(InstructionKind kind);

/// The kind with that name (any case), if there is one.
std::optional<InstructionKind> instruction_kind(std::string_view name);

/// Whether the kind takes a fixed time, without a clock to choose.
constexpr bool is_fixed_time(InstructionKind kind) {
  return kind >= InstructionKind::kLoad;
}

}  // namespace harpe
