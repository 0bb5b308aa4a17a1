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

/// One instruction in the list of a stage. `part` is the model part it works on, numbered along the
/// model (PyTorch's "stage"); -1 for instructions of no part. `micro_batch` is -1 where the
/// instruction has none. A `forward_backward` block overlaps the forward of (part, micro_batch)
/// with the backward of (backward_part, backward_micro_batch), both on the same stage; for other
/// kinds these two are -1.
struct Instruction {
  InstructionKind kind = InstructionKind::kForward;
  int part = -1;
  int micro_batch = -1;
  int backward_part = -1;
  int backward_micro_batch = -1;
  /// `send` and `recv` only: whether a gradient travels (towards part - 1) instead of an
  /// activation.
  bool gradient = false;
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// A schedule of one iteration.
///
/// Invariants (checked by `validate`): `placement[k]` is the stage of model part k; every
/// instruction stands on the stage of its part; each (part, micro-batch) has exactly one forward
/// and exactly one backward (plain, fused with its recompute, or inside an overlapped block), at
/// most one weight and one recompute.
struct Schedule {
  std::string name;  ///< such as "1f1b"; "custom" for imported ones
  int stages = 0;
  int micro_batches = 0;
  std::vector<int> placement;  ///< stage of each model part
  /// Number of independent models whose parts follow each other in `placement` (2 for DualPipe's
  /// two directions).
  int copies = 1;
  std::vector<std::vector<Instruction>> lists;  ///< one ordered list for each stage

  int parts() const { return static_cast<int>(placement.size()); }
  /// How many parts of the model stage 0 holds (chunks a stage); 1 for plain pipelines.
  int chunks() const { return stages == 0 ? 0 : parts() / stages; }
  /// Position of `part` among the parts of its stage: the `chunk` of profiles and plans.
  int chunk(int part) const;
};

/// Checks the invariants above; every violation is one error.
Status validate(const Schedule& schedule);

struct ScheduleOptions {
  int stages = 1;
  int micro_batches = 1;
  int chunks = 2;  ///< interleaved schedules and looped BFS only
  int micro_batch_group =
      0;  ///< interleaved, Megatron variant: micro-batches per group; 0 = number of stages
  friend bool operator==(const ScheduleOptions&, const ScheduleOptions&) = default;
};

// Generators. Sizes must be at least 1 and at most `kMaxInstructions` in total; they fail with a
// message that names the rule otherwise.
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

/// A generator by its name on the command line.
struct ScheduleGenerator {
  std::string_view name;         ///< "1f1b"
  std::string_view description;  ///< one line
  bool uses_chunks;              ///< whether `ScheduleOptions::chunks` matters
  /// That one micro-batch makes at most on a stage; on each chunk of it where they matter.
  int instructions_each;
  Result<Schedule> (*make)(const ScheduleOptions&);
};
/// All of the above, in the order of help texts.
const std::vector<ScheduleGenerator>& schedule_generators();
/// The generator named (any case, `-` and `_` alike, PyTorch's names accepted), or an error that
/// names the nearest.
Result<Schedule> make_schedule(std::string_view name, const ScheduleOptions& options);
/// How many instructions `make_schedule` makes of these at most, before any is made: O(1). 0 where
/// no generator has the name.
std::int64_t most_instructions(std::string_view name, const ScheduleOptions& options);

/// What the letter B means in a PyTorch CSV: full backward (2025 and later, I is the input
/// gradient), or input gradient (2024, BW is the full backward).
enum class TorchDialect { kDetect, kNew, kOld };

/// Reads the CSV of `torch.distributed.pipelining`: line = stage, cells = actions
/// `<part><TYPE>[<micro-batch>]`, an empty cell is an idle slot, `(0F7;7B3)OVERLAP_F_B` an
/// overlapped block. Accepted as extensions: R (recompute), C (recompute fused with backward), and
/// LOAD, OPTIMIZER, SWITCH, whose numbers may be left out. All diagnostics at once with line and
/// column; trailing characters are diagnostics.
/// \param copies  independent models in the file: it looks the same for the two directions of
///                DualPipe (2) as for one model placed as a V (1).
Result<Schedule> parse_torch_csv(std::string_view text, const std::string& file,
                                 TorchDialect dialect = TorchDialect::kDetect, int copies = 1);
/// Reads the same actions in lists as Python prints them: one list after the other,
/// "[0F0, 0B0]\n[1F0, 1B0]"; a list of them; or, as `print(schedule.pipeline_order)` writes it, a
/// dictionary, "{0: [0F0, None, 0B0], 1: [1F0, 1B0, None]}", whose keys rise from 0. Actions may
/// stand in quotes; `None` is an idle slot. Diagnostics as for the CSV, but of the lists
/// themselves only the first.
Result<Schedule> parse_printed_lists(std::string_view text, const std::string& file,
                                     TorchDialect dialect = TorchDialect::kDetect, int copies = 1);
/// Writes the CSV in the new dialect; reading it back gives the same lists.
std::string torch_csv(const Schedule& schedule);
/// One instruction in the same notation, backwards as full ones: "0SEND_F1".
std::string torch_action(const Instruction& instruction);

/// The neutral form: {"name": "1f1b", "ranks": [[{"op": "forward", "stage": part, "mb": 0}, ...],
/// ...], "placement": [stage of part 0, ...]}; an overlapped block adds "backward_stage" and
/// "backward_mb"; send and recv add "gradient"; DualPipe's two directions add "copies": 2. Only
/// "ranks" is needed, and may stand alone as the whole document. Diagnostics carry line and column.
Result<Schedule> parse_schedule_json(std::string_view text, const std::string& file);
/// The same as a part of a larger document.
Result<Schedule> read_schedule_json(const JsonValue& root, const std::string& file);
std::string schedule_json(const Schedule& schedule);

/// Reads any of these forms, told apart by content. `dialect` and `copies` are not for JSON.
Result<Schedule> parse_schedule(std::string_view text, const std::string& file,
                                TorchDialect dialect = TorchDialect::kDetect, int copies = 1);
Result<Schedule> read_schedule(const std::filesystem::path& path,
                               TorchDialect dialect = TorchDialect::kDetect, int copies = 1);

}  // namespace harpe
