#pragma once
/// \file
/// New times for events of an assignment, by beam search.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harpe/plan/flow/network.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe::plan {

/// What the arcs of a problem cost next to the prices of relaxed optima, their flows. With flow f
/// on an arc, an option of time t and cost c loses c + f t less the least of all options, and
/// waiting for w loses f w. As flow is conserved, the losses of all arcs at a set of events are
/// their cost but for a constant, whatever the times of the events.
class ArcPrices {
 public:
  using Arc = SearchOrder::Arc;

  /// \param relaxed  optima whose flows are averaged; at least one
  ArcPrices(const SearchOrder& layout, std::span<const flow::State> relaxed);

  const SearchOrder& layout() const { return layout_; }
  double flow(const Arc& arc) const { return price_[arc.network_arc].flow; }
  /// What an arc loses whose ends are `duration` apart. O(log options).
  double loss(const Arc& arc, std::int64_t duration) const;
  /// An option of an instruction and what it loses where no time is left over.
  struct Candidate {
    std::int64_t time;
    double loss;
  };
  /// The options of an instruction's arc that lose least, fastest first.
  std::span<const Candidate> least_losing(const Arc& arc) const {
    const Price& price = price_[arc.network_arc];
    return {candidates_.data() + price.first, candidates_.data() + price.last};
  }

 private:
  struct Price {
    double flow = 0;   ///< cost units a picosecond
    double least = 0;  ///< least of cost + flow x time of all options
    std::size_t first = 0, last = 0;
  };
  void set_candidates(Price& price, std::int32_t table);

  const SearchOrder& layout_;
  std::vector<Price> price_;  // of each network arc
  std::vector<Candidate> candidates_;
};

/// Gives some events new times, one after the other in the order of time, all others staying when
/// they are. Of all partial answers the few are followed that lose least: an option off the convex
/// hull, of which measured profiles are full, is tried where it loses little. Of partial answers
/// with the same future, as two clocks in the one order or the other, one is followed: the one that
/// is ranked first. Deterministic.
class EventBeam {
 public:
  struct Options {
    std::size_t width = 1;               ///< partial answers that are followed
    double most = 0;                     ///< loss of an answer
    double blur = 0;                     ///< random loss at most added where answers are compared
    const EventTimes* latest = nullptr;  ///< of each event, if given
    /// Answers are compared with that much more for the square of the way from `expected`, for each
    /// unit of flow: what is early or late will have to be made up for.
    double drift = 0;
    const EventTimes* expected = nullptr;
  };

  explicit EventBeam(const ArcPrices& prices);

  /// \param events  in the order of their times, without source and sink of the network
  /// \param time    feasible times; those of `events` are set
  /// \returns whether an answer was found; if not, `time` is as before. O(events x width x options)
  bool retime(std::span<const std::int32_t> events, EventTimes& time, const Options& options,
              SearchRandom& random);
  /// What all arcs at `events` lose together.
  double loss(std::span<const std::int32_t> events, const EventTimes& time);

 private:
  using Arc = SearchOrder::Arc;
  /// A partial answer: the next event at `time`, on top of partial answer `parent`.
  struct Branch {
    double rank;  ///< what it is compared by
    double loss;
    std::int64_t time;
    std::int32_t parent;
  };
  struct Step {
    std::int64_t time;
    std::int32_t parent;
  };

  void enter(std::span<const std::int32_t> events);
  void leave();
  void limit(const EventTimes& time, const Options& options);
  void assign_slots();
  bool extend(std::size_t i, const EventTimes& time, const Options& options, SearchRandom& random);
  double loss_of(std::size_t i, std::int64_t then, const std::int64_t* row,
                 const EventTimes& time) const;
  void add_branch(std::size_t i, std::int32_t parent, std::int64_t then, double loss,
                  const Options& options, SearchRandom& random);
  void keep_least(std::size_t i, std::size_t width);
  void keep(std::size_t i, const Branch& branch, std::uint64_t future);
  std::uint64_t future_without(std::size_t i, std::int32_t parent) const;
  void settle(std::size_t winner, EventTimes& time) const;
  bool is_inside(std::int32_t event) const { return place_[event] >= 0; }
  /// When an event is in a partial answer.
  std::int64_t at(std::int32_t event, const std::int64_t* row, const EventTimes& time) const {
    return is_inside(event) ? row[slot_[place_[event]]] : time[event];
  }

  const ArcPrices& prices_;
  const SearchOrder& layout_;
  std::vector<std::int32_t> place_;  // of each event among those that get new times, or -1
  std::span<const std::int32_t> events_;
  std::vector<std::int64_t> limit_;  // latest time of each of them
  std::vector<double> flow_;         // through each
  // Partial answers hold the times of events that others still ask for, each in a slot.
  std::vector<std::int32_t> slot_, last_use_, free_slots_;
  std::vector<std::vector<std::int32_t>> freed_;  // slots that no event after asks for
  std::size_t slots_ = 0;
  std::vector<std::int64_t> rows_, next_rows_;
  std::vector<double> losses_, next_losses_;           // of the partial answers
  std::vector<std::uint64_t> futures_, next_futures_;  // likewise
  std::vector<Branch> branches_;
  std::vector<double> ranks_, next_ranks_;  // scratch
  std::vector<std::int32_t> seen_;          // a hash table of the partial answers that are kept
  std::vector<std::vector<Step>> steps_;    // of each event: what was followed
};

}  // namespace harpe::plan
