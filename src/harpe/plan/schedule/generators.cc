// Schedules with full backwards. p stages, m micro-batches, stage r.

#include <algorithm>
#include <string>
#include <utility>

#include "harpe/plan/schedule/list_builder.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe {
namespace {

/// The order of 1F1B: warm-up forwards, then a forward and a backward in turn, then the remaining
/// backwards. `append_backward(list, stage, warm_up, micro_batch)` appends a backward.
template <class AppendBackward>
Result<Schedule> one_f_one_b_order(std::string_view name, const ScheduleOptions& options,
                                   int instructions_each, AppendBackward append_backward) {
  const int p = options.stages, m = options.micro_batches;
  auto schedule = plan::start_schedule(name, options, 1, plan::Placement::kLoop, instructions_each);
  return plan::with_lists(std::move(schedule), [&](plan::ListBuilder list, int r) {
    const int warm_up = std::min(p - 1 - r, m);
    for (int k = 0; k < m + warm_up; ++k) {
      if (k < m) list.forward(r, k);
      if (k >= warm_up) append_backward(list, r, warm_up, k - warm_up);
    }
  });
}

/// A micro-batch on a chunk of each stage.
struct VirtualMicroBatch {
  int micro_batch;
  int chunk;
};

/// Returns the order in which groups of `group` micro-batches pass all chunks, one group
/// after the other.
std::vector<VirtualMicroBatch> virtual_micro_batches(int micro_batches, int chunks, int group) {
  std::vector<VirtualMicroBatch> order;
  for (int first = 0; first < micro_batches; first += group) {
    const int end = std::min(first + group, micro_batches);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int k = first; k < end; ++k) order.push_back({k, chunk});
    }
  }
  return order;
}

Schedule interleave(Schedule schedule, const ScheduleOptions& options, int group) {
  const int p = options.stages;
  const int v = options.chunks;
  const auto order = virtual_micro_batches(options.micro_batches, v, group);
  const int n = static_cast<int>(order.size());
  for (int r = 0; r < p; ++r) {
    plan::ListBuilder list(schedule.lists[r]);
    const int warm_up = std::min(2 * (p - 1 - r) + (v - 1) * group, n);
    for (int i = 0; i < n + warm_up; ++i) {
      if (i < n) list.forward(order[i].chunk * p + r, order[i].micro_batch);
      if (i >= warm_up) {
        const VirtualMicroBatch& done = order[i - warm_up];
        list.backward((v - 1 - done.chunk) * p + r, done.micro_batch);
      }
    }
  }
  return schedule;
}

}  // namespace

Result<Schedule> plan::start_schedule(std::string_view name, const ScheduleOptions& options,
                                      int chunks, plan::Placement placement,
                                      int instructions_each) {
  const std::string prefix = std::string(name) + ": ";
  const std::pair<const char*, int> sizes[] = {
      {"stages", options.stages}, {"micro-batches", options.micro_batches}, {"chunks", chunks}};
  Diagnostics diagnostics;
  double instructions = instructions_each;
  for (const auto& [what, size] : sizes) {
    if (size < 1) {
      diagnostics.add(prefix + "the number of " + what + " must be at least 1, got " +
                      std::to_string(size));
    }
    instructions *= size;
  }
  if (diagnostics.empty() && instructions > kMaxInstructions) {
    diagnostics.add(prefix + std::to_string(options.stages) + " stages with " +
                    std::to_string(options.micro_batches) + " micro-batches and " +
                    std::to_string(chunks) + " chunks need more than the " +
                    std::to_string(kMaxInstructions) + " instructions that a schedule may have");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));

  Schedule schedule;
  schedule.name = name;
  schedule.stages = options.stages;
  schedule.micro_batches = options.micro_batches;
  schedule.lists.resize(options.stages);
  for (int part = 0; part < options.stages * chunks; ++part) {
    const bool returning = placement == plan::Placement::kV && part >= options.stages;
    schedule.placement.push_back(returning ? 2 * options.stages - 1 - part : part % options.stages);
  }
  return schedule;
}

Result<Schedule> gpipe(const ScheduleOptions& options) {
  auto schedule = plan::start_schedule("gpipe", options, 1, plan::Placement::kLoop, 2);
  return plan::with_lists(std::move(schedule), [&](plan::ListBuilder list, int r) {
    for (int k = 0; k < options.micro_batches; ++k) list.forward(r, k);
    for (int k = 0; k < options.micro_batches; ++k) list.backward(r, k);
  });
}

Result<Schedule> one_f_one_b(const ScheduleOptions& options) {
  return one_f_one_b_order("1f1b", options, 2, [](plan::ListBuilder& list, int stage, int, int k) {
    list.backward(stage, k);
  });
}

Result<Schedule> recompute_one_f_one_b(const ScheduleOptions& options) {
  return one_f_one_b_order(
      "recompute-1f1b", options, 2,
      [](plan::ListBuilder& list, int stage, int, int k) { list.recompute_backward(stage, k); });
}

Result<Schedule> early_recompute_one_f_one_b(const ScheduleOptions& options) {
  // Only the last backwards have idle time before them in which to recompute early.
  const int m = options.micro_batches;
  return one_f_one_b_order("early-recompute-1f1b", options, 3,
                           [m](plan::ListBuilder& list, int stage, int warm_up, int k) {
                             if (k < m - warm_up) {
                               list.recompute_backward(stage, k);
                             } else {
                               list.recompute(stage, k);
                               list.backward(stage, k);
                             }
                           });
}

Result<Schedule> interleaved_one_f_one_b(const ScheduleOptions& options) {
  auto schedule = HARPE_TRY(
      plan::start_schedule("interleaved-1f1b", options, options.chunks, plan::Placement::kLoop, 2));
  const int group = options.micro_batch_group == 0 ? options.stages : options.micro_batch_group;
  if (group < 1 || options.micro_batches % group != 0) {
    return Error::invalid(
        schedule.name + ": the number of micro-batches (" + std::to_string(options.micro_batches) +
        ") must be a multiple of the micro-batches per group (" + std::to_string(group) +
        (options.micro_batch_group == 0 ? ", the number of stages)" : ")"));
  }
  if (group < options.stages) {
    // Smaller groups can deadlock.
    return Error::invalid(schedule.name + ": the micro-batches per group (" +
                          std::to_string(group) + ") must be at least the number of stages (" +
                          std::to_string(options.stages) + ")");
  }
  return interleave(std::move(schedule), options, group);
}

Result<Schedule> interleaved_one_f_one_b_torch(const ScheduleOptions& options) {
  auto schedule = HARPE_TRY(plan::start_schedule("interleaved-1f1b-torch", options, options.chunks,
                                                 plan::Placement::kLoop, 2));
  const int rounds = std::max(1, options.micro_batches / options.stages);
  if (options.micro_batches % rounds != 0) {
    return Error::invalid(schedule.name + ": the number of micro-batches (" +
                          std::to_string(options.micro_batches) +
                          ") must be a multiple of the number of rounds (" +
                          std::to_string(rounds) + " = micro-batches / stages, rounded down)");
  }
  return interleave(std::move(schedule), options, options.micro_batches / rounds);
}

Result<Schedule> looped_bfs(const ScheduleOptions& options) {
  const int p = options.stages, m = options.micro_batches;
  auto schedule =
      plan::start_schedule("looped-bfs", options, options.chunks, plan::Placement::kLoop, 2);
  return plan::with_lists(std::move(schedule), [&](plan::ListBuilder list, int r) {
    for (int chunk = 0; chunk < options.chunks; ++chunk) {
      for (int k = 0; k < m; ++k) list.forward(chunk * p + r, k);
    }
    for (int chunk = options.chunks - 1; chunk >= 0; --chunk) {
      for (int k = m - 1; k >= 0; --k) list.backward(chunk * p + r, k);
    }
  });
}

}  // namespace harpe
