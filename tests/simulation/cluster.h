#pragma once
/// \file
/// A whole cluster in simulated time: servers with a shared database, training jobs, users who
/// change them, a network, and a nemesis that breaks all of it, driven by a seed. The same seed
/// gives the same run, event by event.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/scheduler_testing.h"
#include "simulation/asked_value.h"
#include "simulation/history.h"
#include "simulation/network.h"
#include "simulation/server.h"
#include "simulation/training.h"

namespace harpe::simulation {

class Cluster {
 public:
  struct Options {
    std::uint64_t seed = 1;
    int plans = 12;       ///< of each frontier; their computation takes most of the time of a seed
    Seconds broken{140};  ///< duration of faults
    Seconds calm{130};    ///< time after the faults, at whose end everything must work
    /// Called with every event and its time; may be empty.
    std::function<void(const std::string& line)> trace;
  };
  explicit Cluster(Options options);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// Runs the simulation. A broken invariant ends the process: see `broken`.
  Figures run();
  std::uint64_t events() const { return scheduler_.events(); }

 private:
  enum class Database : unsigned char { kWell, kRefuses, kHangs, kFull, kShaky };
  void note(const std::string& line);
  void note_jobs();
  void build();

  // Faults: nemesis.cc.
  training::StoreFault fault_of(const training::StoreCall& call);
  void break_something();
  void trouble_server(Random& random);
  void trouble_database(Random& random);
  void trouble_network(Random& random);
  void trouble_training(Random& random);
  void trouble_machines(Random& random);
  void disturb_energies();
  /// Causes a fault, and repairs it after a while.
  void trouble(const std::string& what, Seconds time, const std::function<void()>& breaks,
               std::function<void()> mends);
  void restart(Training& training, Seconds after, const std::string& run);
  void start_again(Training& training, Seconds after, const std::string& run);
  void heal_all();

  // Users: people.cc.
  using Heard = std::function<void(int status, const std::string& body)>;
  void ask(const std::string& method, const std::string& path, const std::string& body,
           const Heard& heard, std::optional<std::size_t> server = {});
  void change_something();
  void change_objective(Training& training);
  void remove_job(Training& training);
  void pause(Training& training);
  /// Repeats the request until the server confirms it.
  void go_on(const std::string& job);

  void look(const Training& training);
  /// Checks that the acknowledged objective is in force in a status requested at `asked`.
  void check_objective(const std::string& job, const std::string& status, Instant asked);
  void answered(const std::string& job, std::size_t number, bool is_done);

  void check_end();
  void check_job(Training& training);

  const Options options_;
  Scheduler scheduler_;
  Random random_, noise_, energies_;
  training::SimulatedDatabase database_;
  Network network_;
  History history_;
  std::vector<MachineTime> machines_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<Training>> trainings_;
  std::map<std::string, AskedValue> objectives_;  ///< of each job
  MachineTime desk_;
  std::unique_ptr<Process> people_;
  Database database_state_ = Database::kWell;
  int troubles_ = 0, runs_ = 0;
  bool is_breaking_ = true;
};

}  // namespace harpe::simulation
