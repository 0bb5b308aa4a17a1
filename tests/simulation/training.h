#pragma once
/// \file
/// A training job in simulated time: ranks on GPUs that train in synchronous iterations. It is
/// started, killed, started again, and ends.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/training/emulated_training/emulated_machines.h"
#include "harpe/training/wire/job_spec.h"
#include "simulation/history.h"
#include "simulation/node.h"
#include "simulation/rank.h"

namespace harpe::simulation {

class Training {
 public:
  struct World {
    Scheduler& scheduler;
    Network& network;
    History& history;
    std::vector<std::string> addresses;  ///< of servers, assigned to ranks in turn
    std::uint64_t seed = 0;
  };
  Training(World world, std::string id, JobSpec spec, const Profile& truth);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  const std::string& id() const { return id_; }
  const JobSpec& spec() const { return spec_; }
  training::EmulatedMachines& machines() { return machines_; }
  std::size_t ranks() const { return static_cast<std::size_t>(spec_.shape.ranks()); }
  /// Returns null if it is not running.
  Rank* rank(std::size_t index);
  std::string rank_name(std::size_t index) const { return id_ + "-" + std::to_string(index); }

  /// \param run  name of this start of training
  void start(const std::string& run);
  bool is_running() const { return !ranks_.empty(); }
  /// Kills one process: the others hang until all are killed.
  void kill_rank(std::size_t index);
  void stop_rank(std::size_t index);
  void go_on_rank(std::size_t index);
  void kill_all();
  /// Ends training in order after this iteration: all ranks report it.
  void end() { ending_ = true; }
  bool is_ending() const { return ending_; }
  /// Energies that ranks report instead of the measured ones.
  std::map<std::size_t, Joules> wrong_energies;
  /// Returns the machine of a rank.
  Node& node(std::size_t index) { return *nodes_[index]; }

 private:
  void begin_iteration();
  void end_iteration(Instant began, PlayedIteration played,
                     std::vector<training::IterationReport> reports);
  bool all_run() const;
  bool pauses();
  void tick();
  /// Returns the assignment that a rank's GPU follows, or none if it has its own setting.
  std::optional<training::StageAssignment> obeyed(
      std::size_t index, std::optional<training::StageAssignment> assignments);
  std::int64_t process_id(std::size_t index) const;

  World world_;
  const std::string id_;
  const JobSpec spec_;
  const std::string spec_text_;
  training::EmulatedMachines machines_;
  const MachineTime machine_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Process>> processes_;  ///< kept, since past events refer to them
  std::vector<std::unique_ptr<Rank>> past_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::uint64_t start_ = 0;
  std::int64_t next_ = 0;
  std::int64_t looked_before_ = -1;  ///< iteration before which all ranks last checked for a pause
  bool ending_ = false;
};

}  // namespace harpe::simulation
