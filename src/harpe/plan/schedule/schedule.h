#pragma once
/// \file
/// Schedules: for each stage of a pipeline, the ordered list of its instructions.
///
///   const auto made = harpe::make_schedule("zb-h1", {.stages = 4, .micro_batches = 8});
///   const auto read = harpe::read_schedule("schedule.csv");  // of PyTorch or Python, or JSON
///   if (made.ok()) std::puts(harpe::schedule_json(*made).c_str());

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/instruction/instruction.h"

namespace harpe {

struct JsonValue;

/// One instruction in the list of a stage. `part` is the model part the instruction works on,
/// numbered along the model (PyTorch's "stage"), or -1 if it has none. `micro_batch` is -1 if the
/// instruction has none. A `forward_backward` block overlaps the forward of (part, micro_batch)
/// with the backward of (backward_part, backward_micro_batch), both on the same stage; for other
/// kinds `backward_part` and `backward_micro_batch` are -1.
struct Instruction {
  InstructionKind kind = InstructionKind::kForward;
  int part = -1;
  int micro_batch = -1;
  int backward_part = -1;
  int backward_micro_batch = -1;
  /// For `send` and `recv`: true if a gradient is sent (to part - 1), false for an activation.
  bool gradient = false;
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// A schedule of one iteration.
///
/// Invariants (checked by `validate`): `placement[k]` is the stage of model part k; every
/// instruction is in the list of the stage of its part; each (part, micro-batch) has exactly one
/// forward and exactly one backward (plain, fused with its recompute, or inside an overlapped
/// block), and at most one weight and one recompute.
struct Schedule {
  std::string name;  ///< such as "1f1b"; "custom" for imported ones
  int stages = 0;
  int micro_batches = 0;
  std::vector<int> placement;  ///< stage of each model part
  /// Number of independent models; `placement` lists their parts one model after the other.
  /// DualPipe's two directions are 2 copies.
  int copies = 1;
  std::vector<std::vector<Instruction>> lists;  ///< one ordered list for each stage

  int parts() const { return static_cast<int>(placement.size()); }
  /// Returns the number of model parts on stage 0 (chunks per stage); 1 for plain pipelines.
  int chunks() const { return stages == 0 ? 0 : parts() / stages; }
  /// Returns the position of `part` on its stage: the `chunk` of profiles and plans.
  int chunk(int part) const;
};

/// Checks the invariants of `Schedule` and reports every violation as one error.
Status validate(const Schedule& schedule);

struct ScheduleOptions {
  int stages = 1;
  int micro_batches = 1;
  int chunks = 2;  ///< only for interleaved schedules and looped BFS
  int micro_batch_group =
      0;  ///< micro-batches per group, only for Megatron's interleaved 1F1B; 0 = number of stages
  friend bool operator==(const ScheduleOptions&, const ScheduleOptions&) = default;
};

// Generators. Each fails if a size is below 1 or the schedule may need more than `kMaxInstructions`
// instructions; the message names the violated rule.
inline constexpr int kMaxInstructions = 4'000'000;

Result<Schedule> gpipe(const ScheduleOptions& options);
Result<Schedule> one_f_one_b(const ScheduleOptions& options);
/// Interleaved 1F1B in Megatron's order (groups of `micro_batch_group` micro-batches; needs
/// micro_batches % group == 0 and group >= stages).
Result<Schedule> interleaved_one_f_one_b(const ScheduleOptions& options);
/// Interleaved 1F1B in PyTorch's order (group = m / max(1, m / stages), which must divide m).
Result<Schedule> interleaved_one_f_one_b_torch(const ScheduleOptions& options);
Result<Schedule> early_recompute_one_f_one_b(const ScheduleOptions& options);
Result<Schedule> recompute_one_f_one_b(const ScheduleOptions& options);
Result<Schedule> zb_h1(const ScheduleOptions& options);
Result<Schedule> zb_h2(const ScheduleOptions& options);
Result<Schedule> zb_v(const ScheduleOptions& options);
Result<Schedule> dual_pipe_v(const ScheduleOptions& options);
Result<Schedule> looped_bfs(const ScheduleOptions& options);

/// A schedule generator and its name on the command line.
struct ScheduleGenerator {
  std::string_view name;         ///< "1f1b"
  std::string_view description;  ///< one line
  bool uses_chunks;              ///< true if `make` reads `ScheduleOptions::chunks`
  /// Most instructions that one micro-batch has on a stage, or on each chunk of a stage if
  /// `uses_chunks` is true.
  int instructions_each;
  Result<Schedule> (*make)(const ScheduleOptions&);
};
/// Returns all generators above, in the order of the help texts.
const std::vector<ScheduleGenerator>& schedule_generators();
/// Generates the schedule with this name: any case, `-` and `_` alike, PyTorch's names accepted.
/// The error for an unknown name suggests the nearest one.
Result<Schedule> make_schedule(std::string_view name, const ScheduleOptions& options);
/// Returns an upper bound on the number of instructions that `make_schedule` generates, in O(1) and
/// without generating them; 0 if no generator has this name.
std::int64_t most_instructions(std::string_view name, const ScheduleOptions& options);

/// Meaning of the letter B in a PyTorch CSV: the full backward (2025 and later, I is the input
/// gradient), or the input gradient (2024, BW is the full backward).
enum class TorchDialect { kDetect, kNew, kOld };

/// Reads the CSV of `torch.distributed.pipelining`: one line per stage, one action
/// `<part><TYPE>[<micro-batch>]` per cell. An empty cell is an idle slot, `(0F7;7B3)OVERLAP_F_B` an
/// overlapped block. Accepted as extensions: R (recompute), C (recompute fused with backward), and
/// LOAD, OPTIMIZER, SWITCH, whose numbers may be omitted. Reports all diagnostics together, with
/// line and column; trailing characters are diagnostics.
/// \param copies  number of independent models in the file; the cells alone do not determine it:
///                DualPipe (2) and one model placed as a V (1) have the same cells.
Result<Schedule> parse_torch_csv(std::string_view text, const std::string& file,
                                 TorchDialect dialect = TorchDialect::kDetect, int copies = 1);
/// Reads the same actions from lists as Python prints them: one list after the other,
/// "[0F0, 0B0]\n[1F0, 1B0]"; a list of lists; or a dictionary, as `print(schedule.pipeline_order)`
/// writes it, "{0: [0F0, None, 0B0], 1: [1F0, 1B0, None]}", with the keys 0, 1, 2, ... in this
/// order. Actions may be quoted; `None` is an idle slot. Reports all errors in actions, as for the
/// CSV, but only the first error in the syntax of the lists.
Result<Schedule> parse_printed_lists(std::string_view text, const std::string& file,
                                     TorchDialect dialect = TorchDialect::kDetect, int copies = 1);
/// Returns the CSV in the new dialect. Reading it back gives the same lists.
std::string torch_csv(const Schedule& schedule);
/// Returns one instruction in the same notation, with B for a full backward: "0SEND_F1".
std::string torch_action(const Instruction& instruction);

/// Reads the neutral form: {"name": "1f1b", "ranks": [[{"op": "forward", "stage": part, "mb": 0},
/// ...], ...], "placement": [stage of part 0, ...]}; an overlapped block adds "backward_stage" and
/// "backward_mb"; send and recv add "gradient"; DualPipe's two directions add "copies": 2. Only
/// "ranks" is required; its value alone is a valid document. Diagnostics have line and column.
Result<Schedule> parse_schedule_json(std::string_view text, const std::string& file);
/// Reads the neutral form from a part of a larger document.
Result<Schedule> read_schedule_json(const JsonValue& root, const std::string& file);
std::string schedule_json(const Schedule& schedule);

/// Detects the form from the content and reads it. `dialect` and `copies` are ignored for JSON.
Result<Schedule> parse_schedule(std::string_view text, const std::string& file,
                                TorchDialect dialect = TorchDialect::kDetect, int copies = 1);
Result<Schedule> read_schedule(const std::filesystem::path& path,
                               TorchDialect dialect = TorchDialect::kDetect, int copies = 1);

}  // namespace harpe
