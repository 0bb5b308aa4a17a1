#pragma once
/// \file
/// Beam search for new times of the events of an assignment.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harpe/plan/flow/network.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe::plan {

/// The losses of the arcs of a problem at the prices of relaxed optima, which are their flows. With
/// flow f on an arc, an option of time t and cost c loses c + f t minus the least value over all
/// options, and waiting for w loses f w. Because flow is conserved, the losses of all arcs at a set
/// of events equal their cost plus a constant, for all times of the events.
class ArcPrices {
 public:
  using Arc = SearchOrder::Arc;

  /// \param relaxed  optima whose flows are averaged; at least one
  ArcPrices(const SearchOrder& layout, std::span<const flow::State> relaxed);

  const SearchOrder& layout() const { return layout_; }
  double flow(const Arc& arc) const { return price_[arc.network_arc].flow; }
  /// Returns the loss of an arc whose ends are `duration` apart. O(log options).
  double loss(const Arc& arc, std::int64_t duration) const;
  /// An option of an instruction and its loss without waiting.
  struct Candidate {
    std::int64_t time;
    double loss;
  };
  /// Returns the options of an instruction's arc with the least losses, fastest first.
  std::span<const Candidate> least_losing(const Arc& arc) const {
    const Price& price = price_[arc.network_arc];
    return {candidates_.data() + price.first, candidates_.data() + price.last};
  }

 private:
  struct Price {
    double flow = 0;   ///< cost units per picosecond
    double least = 0;  ///< least cost + flow x time over all options
    std::size_t first = 0, last = 0;
  };
  void set_candidates(Price& price, std::int32_t table);

  const SearchOrder& layout_;
  std::vector<Price> price_;  // per network arc
  std::vector<Candidate> candidates_;
};

/// Beam search that gives some events new times, one after the other in the order of time, while
/// all other events keep their times. The search extends the few partial answers with the least
/// losses. It therefore tries an option off the convex hull, which is common in measured profiles,
/// if the option loses little. If partial answers agree in all times that later events need (such
/// as two clocks in either order), only the one with the lowest rank is kept. Deterministic.
class EventBeam {
 public:
  struct Options {
    std::size_t width = 1;               ///< number of partial answers to keep
    double most = 0;                     ///< largest loss of an answer
    double blur = 0;                     ///< largest random loss added in comparisons of answers
    const EventTimes* latest = nullptr;  ///< latest time of each event; null for no limit
    /// Penalty in comparisons of answers, per unit of flow and per squared distance from
    /// `expected`: an event that is early or late must be compensated later.
    double drift = 0;
    const EventTimes* expected = nullptr;
  };

  explicit EventBeam(const ArcPrices& prices);

  /// Sets new times for some events. O(events x width x options).
  /// \param events  in the order of their times, without source and sink of the network
  /// \param time    feasible times of all events; the times of `events` are replaced
  /// \returns true if an answer was found; if false, `time` is unchanged
  bool retime(std::span<const std::int32_t> events, EventTimes& time, const Options& options,
              SearchRandom& random);
  /// Returns the sum of the losses of all arcs at `events`.
  double loss(std::span<const std::int32_t> events, const EventTimes& time);

 private:
  using Arc = SearchOrder::Arc;
  /// A partial answer: partial answer `parent` with the next event at `time`.
  struct Branch {
    double rank;  ///< the loss with blur and drift, for comparisons
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
  /// Returns the time of an event in a partial answer.
  std::int64_t at(std::int32_t event, const std::int64_t* row, const EventTimes& time) const {
    return is_inside(event) ? row[slot_[place_[event]]] : time[event];
  }

  const ArcPrices& prices_;
  const SearchOrder& layout_;
  std::vector<std::int32_t> place_;  // index of each event in `events_`, or -1
  std::span<const std::int32_t> events_;
  std::vector<std::int64_t> limit_;  // latest time of each of `events_`
  std::vector<double> flow_;         // flow through each of `events_`
  // A partial answer stores the times of the events that later events still need, each in a slot.
  std::vector<std::int32_t> slot_, last_use_, free_slots_;
  std::vector<std::vector<std::int32_t>> freed_;  // for each event, the slots not needed after it
  std::size_t slots_ = 0;
  std::vector<std::int64_t> rows_, next_rows_;
  std::vector<double> losses_, next_losses_;           // per partial answer
  std::vector<std::uint64_t> futures_, next_futures_;  // per partial answer: hash of its slots
  std::vector<Branch> branches_;
  std::vector<double> ranks_, next_ranks_;  // scratch
  std::vector<std::int32_t> seen_;          // hash table of the kept partial answers
  std::vector<std::vector<Step>> steps_;    // for each event, the kept partial answers
};

}  // namespace harpe::plan
