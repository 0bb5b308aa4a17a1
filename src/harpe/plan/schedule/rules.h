#pragma once
/// \file
/// The rules of pipeline parallelism: the dependencies of every instruction of a schedule.
///
/// Part k computes on micro-batch m once these have ended, for the same m:
///   forward    the forward of part k - 1, unless k is the first part of its model;
///   backward   the forward of part k; its recompute, if there is one; and the backward of part
///              k + 1, unless k is the last part of its model;
///   recompute  the forward of part k;
///   weight     the backward of part k;
///   send       the forward of part k, or its backward if a gradient is sent;
///   recv       the send of the part that the data comes from, if there is one;
/// a forward also its recv of the activation, a backward its recv of the gradient, if the schedule
/// has them. A blocking transfer goes from the send to the recv; if the schedule lacks one of them,
/// from or to the computation instead. Its receiver waits for it. Instructions that combine several
/// of these (`recompute_backward`, `forward_backward`) start when all their halves may start, and
/// have ended when all halves have ended. In addition, every instruction waits for the one before
/// it in its list.
///
/// Independent of `Pipeline`, and used to check it.

#include <string_view>
#include <vector>

#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/transfers.h"

namespace harpe::plan {

/// The reason why an instruction waits for another one.
enum class Rule : unsigned char {
  kOrder,
  kActivation,
  kGradient,
  kOwnForward,
  kRecomputed,
  kInputGradient,
  kMessage,
  kBlocking,  ///< not a rule of schedules: added by blocking transfers
};

/// Returns the rule as a sentence: "a backward waits for the gradient from the part after".
std::string_view sentence(Rule rule);

/// The place of an instruction: its stage and its index in the stage's list.
struct Position {
  int stage = -1;
  int index = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

/// One dependency of an instruction.
struct Wait {
  Rule rule = Rule::kOrder;
  Position from;  ///< the instruction that must have ended
  /// The lower of the two parts between which this wait moves data from one stage to another; -1 if
  /// it moves none.
  int boundary = -1;
  bool gradient = false;  ///< true if the data is a gradient, false if an activation
};

/// The waits of one schedule, which must be valid and outlive this object. Immutable.
class ScheduleRules {
 public:
  /// \param transfers  only their blocking matters: if they block, data moves between sends and
  ///                   receives, else between computations
  explicit ScheduleRules(const Schedule& schedule, const Transfers& transfers = {});

  const Instruction& instruction(Position at) const { return schedule_.lists[at.stage][at.index]; }
  /// Returns all waits of the instruction at `at`; the first is for the one before it in its list.
  std::vector<Wait> waits(Position at) const;

 private:
  enum Product : unsigned char {
    kForwarded,
    kBackwarded,
    kRecomputed,
    kSentActivation,
    kSentGradient,
    kReceivedActivation,
    kReceivedGradient,
  };
  static constexpr int kProducts = 7;

  std::size_t place(Product product, int part, int micro_batch) const;
  void note(Product product, int part, int micro_batch, Position at);
  bool is_first(int part) const { return part % model_parts_ == 0; }
  bool is_last(int part) const { return part % model_parts_ == model_parts_ - 1; }
  void forward_waits(int part, int micro_batch, std::vector<Wait>& waits) const;
  void backward_waits(int part, int micro_batch, std::vector<Wait>& waits) const;
  void recv_waits(int part, int micro_batch, bool gradient, std::vector<Wait>& waits) const;
  /// Adds the wait for a product, if an instruction produces it.
  void add(Rule rule, Product product, int part, int micro_batch, std::vector<Wait>& waits) const;
  /// Adds the wait of the computation of part `to` for the data of part `from`.
  void add_crossing(int from, int to, int micro_batch, std::vector<Wait>& waits) const;
  bool exists(Product product, int part, int micro_batch) const {
    return given_by_[place(product, part, micro_batch)].stage >= 0;
  }
  /// Returns true if data moves from part `from` to `to` by a blocking transfer.
  bool blocks(int from, int to) const;
  static void set_boundary(Wait& wait, int from, int to);

  const Schedule& schedule_;
  int model_parts_;
  bool activations_block_, gradients_block_;
  std::vector<Position> given_by_;  ///< the source of each product of each part and micro-batch
};

/// Returns the seconds that the data of `wait` travels; 0 if it moves none.
Seconds travel_time(const Wait& wait, const Transfers& transfers);
/// Returns true if the data travels by a blocking transfer, even one of 0 s.
bool is_blocking(const Wait& wait, const Transfers& transfers);

}  // namespace harpe::plan
