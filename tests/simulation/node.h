#pragma once
/// \file
/// The machine of one rank in simulated time: its GPU, the agent that may lock the GPU's clocks,
/// and what a rank's client asks of it. It outlives agents and ranks.

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

  /// kill -9, after so many more calls of the driver and writes to the disk; 0: now.
  void kill_agent(int after_calls);
  void start_agent();

  /// What the GPU does with an instruction.
  struct Clock {
    bool obeyed = false;              ///< it has the clock that was asked for
    std::optional<Megahertz> locked;  ///< that it has, where it was not obeyed; none: the highest
  };
  /// The rank of this process wants this clock; none: its GPU as it was.
  Clock want(std::int64_t process, std::optional<Megahertz> clock);
  void process_ended(std::int64_t process);

  /// The agent does what is due. Call about once a second.
  void tick();

 private:
  net::Peer peer(std::int64_t process) const;
  std::optional<Megahertz> locked();
  /// Lets the agent act, which may be killed meanwhile.
  void act(const std::function<void()>& work);
  void settle();
  void check();

  Scheduler& scheduler_;
  const std::string name_;
  node::SimulatedNode node_;
  const node::TestGpu::State found_;
  // Of the client.
  std::string lease_;
  std::int64_t holder_ = 0;
  Instant renewed_{}, next_try_{};
};

}  // namespace harpe::simulation
