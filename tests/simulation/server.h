#pragma once
/// \file
/// A server in simulated time: the real registry, owners and API, with a simulated store, network
/// and loop. Its process can be killed, stopped and started again.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harpe/training/server/api.h"
#include "harpe/training/server/job_owners.h"
#include "harpe/training/server/job_registry.h"
#include "harpe/training/store/simulated_store_testing.h"
#include "simulation/network.h"
#include "simulation/process.h"

namespace harpe::simulation {

class Server {
 public:
  struct World {
    Scheduler& scheduler;
    Network& network;
    training::SimulatedDatabase& database;
    std::uint64_t seed = 0;
    std::function<void(const std::string& text)> log;
  };
  Server(World world, int number, const MachineTime& machine);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& url() const { return url_; }
  /// Starts as soon as the database is available, and again after each failure, like a service.
  void start();
  /// kill -9.
  void kill() { end(true); }
  /// SIGTERM: stores everything and releases its lease.
  void end_in_order() { end(false); }
  void stop();   ///< SIGSTOP
  void go_on();  ///< SIGCONT

  bool is_running() const { return life_ != nullptr && life_->up && !life_->process.dead(); }
  /// Returns null if it is not running.
  training::JobRegistry* registry() { return is_running() ? life_->registry.get() : nullptr; }

 private:
  /// One run of the server process.
  struct Life {
    Life(Scheduler& scheduler, const std::string& name, const MachineTime& machine,
         std::uint64_t seed)
        : process(scheduler, name, machine, seed) {}
    Process process;
    std::unique_ptr<training::Store> store;
    std::unique_ptr<training::Hosting> hosting;
    std::unique_ptr<training::JobRegistry> registry;
    std::unique_ptr<training::RecurringJobs> recurring_jobs;
    std::unique_ptr<training::JobOwners> owners;
    std::unique_ptr<training::ServerApi> api;
    bool starting = true, up = false, gone = false;
  };
  void open(Life& life);
  bool try_open(Life& life);
  void serve(Life& life);
  void end(bool at_once);
  void take_down(Life& life);
  static void every(Life& life, Seconds period, const std::function<void()>& work);
  void forward(Life& life, const std::string& url, const net::HttpRequest& request,
               const std::function<void(Result<net::HttpResponse>)>& answered);

  World world_;
  const std::string name_, url_;
  const MachineTime& machine_;
  Life* life_ = nullptr;
  std::vector<std::unique_ptr<Life>> lives_;  ///< kept, since past events refer to them
};

}  // namespace harpe::simulation
