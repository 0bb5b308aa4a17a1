#pragma once
/// \file
/// The rules of pipeline parallelism: what every instruction of a schedule waits for.
///
/// Part k computes on micro-batch m once these have ended, for the same m:
///   forward    the forward of part k - 1, unless k is the first part of its model;
///   backward   the forward of part k; its recompute, if there is one; and the backward of part
///              k + 1, unless k is the last part of its model;
///   recompute  the forward of part k;
///   weight     the backward of part k;
///   send       the forward of part k, or its backward where a gradient is sent;
///   recv       the send of the part that the data comes from, if there is one;
/// a forward also its recv of the activation, a backward that of the gradient, where there are
/// such. A blocking transfer goes from the send to the recv, or from or to the computation where
/// one of them is missing; what it goes to waits for it. Instructions that compute several of these
/// at once (`recompute_backward`, `forward_backward`) start when all their halves may, and have
/// ended when all have. Every instruction waits for the one before it in its list besides.
///
/// Written apart from `Pipeline`, which it serves to check.

#include <string_view>
#include <vector>

#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/transfers.h"

namespace harpe::plan {

/// Why an instruction waits for another one.
enum class Rule : unsigned char {
  kOrder,
  kActivation,
  kGradient,
  kOwnForward,
  kRecomputed,
  kInputGradient,
  kMessage,
  kBlocking,  ///< no wait of a schedule: what blocking transfers add
};

/// The rule as a sentence: "a backward waits for the gradient from the part after".
std::string_view sentence(Rule rule);

/// An instruction by its list and its position there.
struct Position {
  int stage = -1;
  int index = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

/// One thing that an instruction waits for.
struct Wait {
  Rule rule = Rule::kOrder;
  Position from;  ///< must have ended
  /// The lower of the two parts between which data travels from one stage to another in this wait;
  /// -1 where none does.
  int boundary = -1;
  bool gradient = false;  ///< a gradient crosses, not an activation
};

/// The waits of one schedule, which must be valid and outlive this. Immutable.
class ScheduleRules {
 public:
  /// \param transfers  only whether they block matters: then data travels between sends and
  ///                   receives, else between computations
  explicit ScheduleRules(const Schedule& schedule, const Transfers& transfers = {});

  const Instruction& instruction(Position at) const { return schedule_.lists[at.stage][at.index]; }
  /// All that the instruction there waits for, the one before it in its list first.
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
  /// Adds the wait for a product, if any instruction gives it.
  void add(Rule rule, Product product, int part, int micro_batch, std::vector<Wait>& waits) const;
  /// Adds the wait of the computation of part `to` for the data of part `from`.
  void add_crossing(int from, int to, int micro_batch, std::vector<Wait>& waits) const;
  bool exists(Product product, int part, int micro_batch) const {
    return given_by_[place(product, part, micro_batch)].stage >= 0;
  }
  /// Whether data from part `from` to `to` travels by a blocking transfer.
  bool blocks(int from, int to) const;
  static void set_boundary(Wait& wait, int from, int to);

  const Schedule& schedule_;
  int model_parts_;
  bool activations_block_, gradients_block_;
  std::vector<Position> given_by_;  ///< each product of each part and micro-batch
};

/// Seconds that what `wait` is for travels; 0 where nothing does.
Seconds travel_time(const Wait& wait, const Transfers& transfers);
/// Whether it travels by a blocking transfer, if only for 0 s.
bool is_blocking(const Wait& wait, const Transfers& transfers);

}  // namespace harpe::plan
