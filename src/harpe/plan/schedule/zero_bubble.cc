// Schedules that split the weight gradient off the backward. p stages, m micro-batches, stage r.
// Qi et al., "Zero Bubble Pipeline Parallelism" (ZB-H1, ZB-H2) and "Pipeline Parallelism with
// Controllable Memory" (ZB-V); DualPipeV is DeepSeek's DualPipe folded into a V.

#include <algorithm>
#include <string>
#include <utility>

#include "harpe/plan/schedule/list_builder.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe {
namespace {

/// One part of a V on its stage. Appends instructions of each kind in the order of micro-batches.
class PartQueue {
 public:
  PartQueue(plan::ListBuilder& list, int part, int micro_batches)
      : list_(list), part_(part), micro_batches_(micro_batches) {}

  /// Returns the number of requested forwards. Forwards past the last micro-batch are not
  /// in the list.
  int forwards() const { return forwards_; }
  void forward() {
    if (forwards_ < micro_batches_) list_.forward(part_, forwards_);
    ++forwards_;
  }
  void backward() {
    if (backwards_ < micro_batches_) list_.backward(part_, backwards_);
    ++backwards_;
  }
  void weight() {
    if (weights_ < micro_batches_) list_.weight(part_, weights_);
    ++weights_;
  }
  void backward_weight() {
    backward();
    weight();
  }
  void remaining_weights() {
    while (weights_ < micro_batches_) weight();
  }

 private:
  plan::ListBuilder& list_;
  int part_;
  int micro_batches_;
  int forwards_ = 0;
  int backwards_ = 0;
  int weights_ = 0;
};

/// The list of one stage of a DualPipe, which runs two parts: micro-batches enter at `first`;
/// `second` is the other end.
class DualPipeList {
 public:
  DualPipeList(std::vector<Instruction>& list, int first, int second)
      : list_(list), parts_{first, second} {}

  /// \param depth  stages from one end of the V to its turn
  /// \param at     this stage's distance from the ends
  /// The numbering of the steps is DeepSeek's.
  void fill(int depth, int at, int micro_batches) {
    const int before_turn = depth - 1 - at;
    for (int i = 0; i < 2 * before_turn; ++i) forward(0);  // 1
    for (int i = 0; i <= at; ++i) {                        // 2
      forward(0);
      forward(1);
    }
    for (int i = 0; i < before_turn; ++i) {  // 3
      input_gradient(1);
      weight();
      forward(1);
    }
    for (int i = 0; i <= micro_batches - 2 * depth + at; ++i) {  // 4
      if (i == 0 && before_turn == 0) {
        // At the turn nothing is in flight yet to overlap with.
        forward(0);
        full_backward(1);
      } else {
        overlapped(0, 1);
      }
      overlapped(1, 0);
    }
    for (int i = 0; i < before_turn; ++i) {  // 5
      full_backward(1);
      overlapped(1, 0);
    }
    for (int i = 0; i < 2 * (at + 1); ++i) {  // 6
      const int end = i % 2 == 0 ? 1 : 0;
      if (i <= at) {
        full_backward(end);
      } else {
        input_gradient(end);
      }
    }
    for (int i = 0; i < before_turn; ++i) {  // 7
      weight();
      input_gradient(0);
    }
    for (int i = 0; i <= at; ++i) weight();  // 8
  }

 private:
  void forward(int end) { list_.forward(parts_[end], forwards_[end]++); }
  void full_backward(int end) { list_.backward(parts_[end], backwards_[end]++); }
  void input_gradient(int end) {
    pending_.emplace_back(parts_[end], backwards_[end]);
    full_backward(end);
  }
  void weight() {
    const auto [part, micro_batch] = pending_[next_pending_++];
    list_.weight(part, micro_batch);
  }
  void overlapped(int forward_end, int backward_end) {
    list_.forward_backward(parts_[forward_end], forwards_[forward_end]++, parts_[backward_end],
                           backwards_[backward_end]++);
  }

  plan::ListBuilder list_;
  int parts_[2];
  int forwards_[2] = {0, 0};
  int backwards_[2] = {0, 0};
  std::vector<std::pair<int, int>> pending_;  ///< (part, micro-batch) of weights, in order
  std::size_t next_pending_ = 0;
};

}  // namespace

Result<Schedule> zb_h1(const ScheduleOptions& options) {
  const int p = options.stages, m = options.micro_batches;
  auto schedule = plan::start_schedule("zb-h1", options, 1, plan::Placement::kLoop, 3);
  return plan::with_lists(std::move(schedule), [&](plan::ListBuilder list, int r) {
    const int warm_up = std::min(p - 1 - r, m);
    int weights = 0;
    for (int k = 0; k < m + warm_up; ++k) {
      if (k < m) list.forward(r, k);
      const int done = k - warm_up;
      if (done >= 0) list.backward(r, done);
      if (done >= r) list.weight(r, weights++);
    }
    while (weights < m) list.weight(r, weights++);
  });
}

Result<Schedule> zb_h2(const ScheduleOptions& options) {
  const int p = options.stages, m = options.micro_batches;
  auto schedule = plan::start_schedule("zb-h2", options, 1, plan::Placement::kLoop, 3);
  return plan::with_lists(std::move(schedule), [&](plan::ListBuilder list, int r) {
    const int warm_up = std::min(2 * (p - 1 - r) + 1, m);
    int forwards = 0;
    int weights = 0;
    while (forwards < warm_up) list.forward(r, forwards++);
    for (int k = 0; k < m; ++k) {
      list.backward(r, k);
      if (forwards < m) {
        while (forwards - weights >= 2 * p - 1) list.weight(r, weights++);
        list.forward(r, forwards++);
      } else if (weights <= k) {
        list.weight(r, weights++);
      }
    }
    while (weights < m) list.weight(r, weights++);
  });
}

Result<Schedule> zb_v(const ScheduleOptions& options) {
  const int p = options.stages, m = options.micro_batches;
  auto schedule = plan::start_schedule("zb-v", options, 2, plan::Placement::kV, 3);
  return plan::with_lists(std::move(schedule), [&](plan::ListBuilder list, int r) {
    const int forwards = std::max(2 * p - 1, m);
    PartQueue down(list, r, m);
    PartQueue up(list, 2 * p - 1 - r, m);
    for (int i = 0; i < 2 * (p - r) - 1; ++i) down.forward();
    for (int i = 0; i < r; ++i) {
      up.forward();
      down.forward();
    }
    for (int i = 0; i < p - r; ++i) {
      up.forward();
      up.backward_weight();
    }
    while (up.forwards() < down.forwards() || down.forwards() < forwards) {
      if (down.forwards() < forwards) down.forward();
      down.backward_weight();
      up.forward();
      up.backward_weight();
    }
    for (int i = 0; i < r; ++i) {
      down.backward();
      up.backward();
    }
    for (int i = 0; i < p - r; ++i) down.backward_weight();
    up.remaining_weights();
    down.remaining_weights();
  });
}

Result<Schedule> dual_pipe_v(const ScheduleOptions& options) {
  auto schedule = plan::start_schedule("dualpipev", options, 2, plan::Placement::kV, 3);
  if (!schedule.ok()) return schedule;
  const int p = options.stages;
  if (options.micro_batches < 2 * p) {
    return Error::invalid("dualpipev: " + std::to_string(p) + " stages need at least " +
                          std::to_string(2 * p) +
                          " micro-batches (twice the number of stages), got " +
                          std::to_string(options.micro_batches));
  }
  for (int r = 0; r < p; ++r) {
    DualPipeList(schedule->lists[r], r, 2 * p - 1 - r).fill(p, r, options.micro_batches);
  }
  return schedule;
}

}  // namespace harpe
