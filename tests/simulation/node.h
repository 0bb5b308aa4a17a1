#pragma once
/// \file
/// The machine of one rank in simulated time: its GPU, the agent that may lock the GPU's clocks,
/// and the requests of the rank's client. It outlives agents and ranks.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "harpe/base/scheduler_testing.h"
#include "harpe/node/agent/node_simulation_testing.h"

namespace harpe::simulation {

class Node {
 public:
  Node(Scheduler& scheduler, std::string name);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Kills the agent (kill -9) after this many more driver calls and disk writes; 0: now.
  void kill_agent(int after_calls);
  void start_agent();

  /// The clock that the GPU uses for an instruction.
  struct Clock {
    bool obeyed = false;              ///< it has the requested clock
    std::optional<Megahertz> locked;  ///< otherwise its lock, if any; none: the highest clock
  };
  /// Requests a clock for the rank of this process; none: the GPU's own setting.
  Clock want(std::int64_t process, std::optional<Megahertz> clock);
  void process_ended(std::int64_t process);

  /// Runs the agent's pending work. Call about once a second.
  void tick();

 private:
  net::Peer peer(std::int64_t process) const;
  std::optional<Megahertz> locked();
  /// Runs a step of the agent, which may be killed in it.
  void act(const std::function<void()>& work);
  void settle();
  void check();

  Scheduler& scheduler_;
  const std::string name_;
  node::SimulatedNode node_;
  const node::TestGpu::State found_;
  // State of the client.
  std::string lease_;
  std::int64_t holder_ = 0;
  Instant renewed_{}, next_try_{};
};

}  // namespace harpe::simulation
