// Faults in a simulated cluster.

#include <utility>

#include "harpe/base/text.h"
#include "simulation/cluster.h"

namespace harpe::simulation {
namespace {

constexpr const char* kDatabase = "database";

}  // namespace

training::StoreFault Cluster::fault_of(const training::StoreCall& call) {
  using Outcome = training::StoreFault::Outcome;
  const Seconds before = noise_.around(Seconds{2e-4}, Seconds{0.01});
  const Seconds after = noise_.around(Seconds{1e-4}, Seconds{0.01});
  if (database_state_ == Database::kRefuses) return {Outcome::kRefused, before, after};
  if (database_state_ == Database::kHangs || network_.is_cut(call.url, kDatabase)) {
    return {Outcome::kLostBefore, before, after};
  }
  if (database_state_ == Database::kFull && call.writes()) return {Outcome::kFull, before, after};
  if (database_state_ != Database::kShaky || !noise_.chance(0.1)) {
    return {Outcome::kDone, before, after};
  }
  const std::vector<Outcome> outcomes{Outcome::kDone, Outcome::kLostBefore, Outcome::kLostAfter,
                                      Outcome::kResetBefore, Outcome::kResetAfter};
  return {noise_.one_of(outcomes), noise_.around(before, Seconds{15}),
          noise_.around(after, Seconds{15})};
}

void Cluster::trouble(const std::string& what, Seconds time, const std::function<void()>& breaks,
                      std::function<void()> mends) {
  note("nemesis: " + what + " for " + shortest(time.value) + " s");
  history_.count_fault();
  ++troubles_;
  history_.troubled(true);
  breaks();
  scheduler_.after(time, [this, what, mends = std::move(mends)] {
    note("nemesis: no more " + what);
    mends();
    if (--troubles_ == 0) history_.troubled(false);
  });
}

void Cluster::break_something() {
  if (!is_breaking_) return;
  switch (random_.below(8)) {
    case 0:
    case 1:
    case 2:
      trouble_server(random_);
      break;
    case 3:
      trouble_database(random_);
      break;
    case 4:
    case 5:
      trouble_network(random_);
      break;
    case 6:
      trouble_training(random_);
      break;
    default:
      trouble_machines(random_);
  }
  scheduler_.after(random_.around(Seconds{0.2}, Seconds{25}), [this] { break_something(); });
}

void Cluster::trouble_server(Random& random) {
  const std::size_t number = random.below(servers_.size());
  Server& server = *servers_[number];
  const std::string name = "server " + std::to_string(number);
  const Seconds time = random.around(Seconds{0.05}, Seconds{40});
  switch (random.below(4)) {
    case 0:
      return trouble(name + " killed", time, [&] { server.kill(); }, [&] { server.start(); });
    case 1:
      return trouble(
          name + " ended", time, [&] { server.end_in_order(); }, [&] { server.start(); });
    case 2: {
      const double jump = random.between(-3e5, 3e5);
      note("nemesis: the wall clock of " + name + " jumps by " + shortest(jump) + " s");
      history_.count_fault();
      machines_[number].wall += Seconds{jump};
      return;
    }
    default:
      return trouble(name + " stopped", time, [&] { server.stop(); }, [&] { server.go_on(); });
  }
}

void Cluster::trouble_database(Random& random) {
  if (database_state_ != Database::kWell) return;
  const Seconds time = random.around(Seconds{0.5}, Seconds{60});
  const auto becomes = [&](const std::string& what, Database state) {
    trouble(
        "database " + what, time, [&] { database_state_ = state; },
        [this] { database_state_ = Database::kWell; });
  };
  switch (random.below(5)) {
    case 0:
      note("nemesis: the database starts again");
      history_.count_fault();
      return database_.restart();
    case 1:
      return becomes("refuses", Database::kRefuses);
    case 2:
      return becomes("hangs", Database::kHangs);
    case 3:
      return becomes("is full", Database::kFull);
    default:
      return becomes("is shaky", Database::kShaky);
  }
}

void Cluster::trouble_network(Random& random) {
  const std::string server = random.one_of(servers_)->url();
  const Seconds time = random.around(Seconds{0.5}, Seconds{60});
  std::string other = kDatabase;
  switch (random.below(4)) {
    case 0:
      other = random.one_of(servers_)->url();
      if (other == server) return;
      break;
    case 1: {
      const Training& training = *random.one_of(trainings_);
      other = training.rank_name(random.below(training.ranks()));
      break;
    }
    case 2:
      return trouble(
          "connections that break", time,
          [&] { network_.quality.breaks = random.between(0.01, 0.3); },
          [this] { network_.quality.breaks = 0; });
    default:
      break;
  }
  trouble(
      server + " cut off from " + other, time, [&] { network_.cut(server, other); },
      [this, server, other] { network_.heal(server, other); });
}

void Cluster::restart(Training& training, Seconds after, const std::string& run) {
  scheduler_.after(after, [this, &training, run] {
    training.kill_all();
    start_again(training, Seconds{1}, run);
  });
}

/// Starts the training again once none of its ranks exists.
void Cluster::start_again(Training& training, Seconds after, const std::string& run) {
  scheduler_.after(after, [this, &training, after, run] {
    if (training.is_ending()) return start_again(training, after, run);
    if (!training.is_running()) training.start(run);
    // A new start may take a while until more than half of its ranks have registered.
    if (--troubles_ == 0) history_.troubled(false);
  });
}

void Cluster::trouble_training(Random& random) {
  Training& training = *random.one_of(trainings_);
  if (!training.is_running() || training.is_ending()) return;
  const std::size_t rank = random.below(training.ranks());
  // torchrun gives its restarts the same name, other launchers a new one.
  const std::string run = random.chance(0.5) ? "elastic" : "run-" + std::to_string(++runs_);
  const Seconds after = random.around(Seconds{1}, Seconds{30});
  const auto begins = [this](const std::string& what) {
    note("nemesis: " + what + ", and training starts again");
    history_.count_fault();
    ++troubles_;
    history_.troubled(true);
  };
  switch (random.below(4)) {
    case 0:
      begins(training.id() + " ended");
      training.end();
      return start_again(training, after, run);
    case 1:
      begins(training.rank_name(rank) + " killed");
      training.kill_rank(rank);
      return restart(training, after, run);
    default:
      trouble(
          training.rank_name(rank) + " stopped", random.around(Seconds{0.5}, Seconds{80}),
          [&] { training.stop_rank(rank); }, [&training, rank] { training.go_on_rank(rank); });
  }
}

void Cluster::trouble_machines(Random& random) {
  Training& training = *random.one_of(trainings_);
  if (random.chance(0.5)) {
    const std::size_t number = random.below(training.ranks());
    Node& node = training.node(number);
    return trouble(
        "agent of " + training.rank_name(number) + " killed",
        random.around(Seconds{0.5}, Seconds{60}),
        [&] { node.kill_agent(static_cast<int>(random.below(20))); },
        [&node] { node.start_agent(); });
  }
  const JobShape& shape = training.spec().shape;
  const std::pair group{static_cast<int>(random.below(static_cast<std::size_t>(shape.data))),
                        static_cast<int>(random.below(static_cast<std::size_t>(shape.stages)))};
  auto& slow = training.machines().slow;
  history_.count_fault();
  if (slow.contains(group)) {
    slow.erase(group);
    note("nemesis: GPU of " + training.id() + " well again");
  } else {
    slow[group] = random.between(1.05, 1.5);
    note("nemesis: GPU " + std::to_string(group.first) + "." + std::to_string(group.second) +
         " of " + training.id() + " slower by " + shortest(slow[group]));
  }
  history_.machines_changed(training.id());
}

/// Disturbs energies: a hot room, or a faulty counter. Starts before the first iteration, so that
/// all-max is also measured with disturbances.
void Cluster::disturb_energies() {
  if (!is_breaking_) return;
  Training& training = *energies_.one_of(trainings_);
  const double factor = energies_.between(0.75, 1.4);
  if (energies_.chance(0.6)) {
    note("nemesis: all energies of " + training.id() + " times " + shortest(factor));
    training.machines().energy_factor = [factor](std::int64_t) { return factor; };
  } else {
    const std::size_t rank = energies_.below(training.ranks());
    const std::vector<double> wrong{1e15, -4.3e6, 1e5, -1};
    const Joules energy{energies_.one_of(wrong)};
    note("nemesis: " + training.rank_name(rank) + " reports " + shortest(energy.value) + " J");
    training.wrong_energies[rank] = energy;
    scheduler_.after(energies_.around(Seconds{0.5}, Seconds{20}),
                     [&training, rank] { training.wrong_energies.erase(rank); });
  }
  history_.count_fault();
  scheduler_.after(energies_.around(Seconds{2}, Seconds{120}), [this] { disturb_energies(); });
}

void Cluster::heal_all() {
  is_breaking_ = false;
  // Pending repairs still happen; no fault lasts longer than this.
  database_state_ = Database::kWell;
  network_.quality.breaks = 0;
  network_.heal_all();
  for (const auto& server : servers_) {
    server->go_on();
    server->start();
  }
  for (const auto& training : trainings_) {
    for (std::size_t i = 0; i < training->ranks(); ++i) {
      training->go_on_rank(i);
      training->node(i).start_agent();
    }
  }
  note("all is healed");
}

}  // namespace harpe::simulation
