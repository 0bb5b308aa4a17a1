#pragma once
/// \file
/// Loops of a pipeline's graph, around which the times of real operating points do not add up.
///
/// Take a conserved flow f, of value F. Every plan that ends by a deadline T has effective energies
/// of at least `sum_a (c_a + f_a d_a) - F T`: c_a is the effective energy of arc a (an instruction,
/// or a dependency at 0 J), d_a >= t_a the time between its ends. The bound of weak duality takes
/// the least of every term by itself. What a plan has above it is what its arcs lose against that
/// least: at a point that is not the best at its price, or while something waits, f_a (d_a - t_a).
///
/// Two paths between the same two events take the same time. The best points of their arcs do not:
/// something is lost around every such loop, and as much may be added to the bound. Where loops
/// have an instruction in common, what it loses at each of its points is shared out among them; so
/// is the price of waiting. That is a Lagrangian decomposition (Guignard and Kim 1987): valid for
/// every flow, every list of loops and every way to share. Good ways are found by loss_sharing.h.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe::plan {

/// The events between which the arcs of a graph lie: first its nodes, then its dependencies.
struct EventArcs {
  std::vector<int> tail, head;  ///< of each arc; both -1: not between two events
};

/// \param nodes     all have a start and an end
/// \param left_out  of each dependency, whether it may be left out
///
/// A start and the ends that it waits for are one event, and so are several starts, where each
/// waits for the same ends, for nothing else, without a lag, and nothing else waits for these ends.
/// So are a start and the one end that it waits for without a lag, and an end and the one start
/// that waits for it.
EventArcs event_arcs(std::size_t nodes, std::span<const Dependency> dependencies,
                     const std::vector<bool>& left_out);

/// What an arc can be and loses then against the best at its price.
struct ArcChoice {
  Seconds time;
  Joules loss;
};
struct LossyArc {
  std::vector<ArcChoice> choices;
  Watts flow;
};

/// Pairs of disjoint paths of one or two arcs from one event to another, all arcs with a flow.
std::vector<CertificateLoop> find_loops(const EventArcs& events, std::span<const LossyArc> arcs);

/// What all loops of a certificate must lose together. Rounded like sums of doubles.
/// O(loops x n^2 log n) with n choices an arc, of which most are ruled out at once.
Joules least_loss(const Certificate& certificate, std::span<const LossyArc> arcs);

}  // namespace harpe::plan
