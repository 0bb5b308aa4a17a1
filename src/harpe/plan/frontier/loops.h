#pragma once
/// \file
/// Loops of a pipeline's graph, around which the times of real operating points do not add up.
///
/// Let f be a conserved flow of value F. Every plan that ends by a deadline T has effective
/// energies of at least `sum_a (c_a + f_a d_a) - F T`, where c_a is the effective energy of arc a
/// (an instruction, or a dependency at 0 J) and d_a >= t_a the time between its ends. The bound of
/// weak duality takes the least value of each term separately. The difference between a plan and
/// this bound is the sum of the losses of its arcs: an arc loses energy at a point that is not the
/// best at its price, and f_a (d_a - t_a) while it waits.
///
/// Two paths between the same two events take the same time, but the best points of their arcs
/// usually do not. Such a loop has a least loss above 0, which may be added to the bound. If
/// loops have an arc in common, its loss at each of its points is divided among them, and so is the
/// price of waiting. This is a Lagrangian decomposition (Guignard and Kim 1987), valid for every
/// flow, every list of loops and every division. loss_sharing.h finds good divisions.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe::plan {

/// The two events of each arc of a graph. The arcs are the nodes, followed by the dependencies.
struct EventArcs {
  std::vector<int> tail, head;  ///< per arc; both -1 if it is left out or within one event
};

/// Returns the events of a graph.
/// \param nodes     number of nodes, each with a start and an end
/// \param left_out  for each dependency, true to leave it out
///
/// Some starts and some ends form one event if each of these starts waits, without a lag, for
/// exactly these ends, and no other start waits for them. A start also forms one event with the
/// only end that it waits for without a lag, and an end with the only start that waits for it. All
/// starts without dependencies form one event, and so do all ends that no start waits for.
EventArcs event_arcs(std::size_t nodes, std::span<const Dependency> dependencies,
                     const std::vector<bool>& left_out);

/// A possible time of an arc, and its loss against the best choice at the price of the arc.
struct ArcChoice {
  Seconds time;
  Joules loss;
};
struct LossyArc {
  std::vector<ArcChoice> choices;
  Watts flow;
};

/// Returns pairs of disjoint paths between the same two events, of one or two arcs with a flow.
std::vector<CertificateLoop> find_loops(const EventArcs& events, std::span<const LossyArc> arcs);

/// Returns the least total loss of all loops of a certificate, with the rounding errors of a sum of
/// doubles. O(loops x n^2 log n) with n choices per arc, of which most are ruled out immediately.
Joules least_loss(const Certificate& certificate, std::span<const LossyArc> arcs);

}  // namespace harpe::plan
