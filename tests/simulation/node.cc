#include "simulation/node.h"

#include <utility>

#include "simulation/require.h"

namespace harpe::simulation {
namespace {

constexpr std::int64_t kUser = 1001;
constexpr const char* kPolicy = R"(
[[allow]]
users = [1001]
gpus = "*"
clocks_mhz = [210, 1410]
max_lease_s = 60
)";
// The values of the client.
constexpr Seconds kLease{60}, kRetry{0.5};

}  // namespace

Node::Node(Scheduler& scheduler, std::string name)
    : scheduler_(scheduler),
      name_(std::move(name)),
      node_(1, *node::Policy::parse(kPolicy, "policy"), {}),
      found_(node_.gpu(0).state()) {
  start_agent();
}

net::Peer Node::peer(std::int64_t process) const {
  net::Peer peer;
  peer.uid = kUser;
  peer.pid = process;
  peer.start_ticks = 1;
  return peer;
}

void Node::act(const std::function<void()>& work) {
  if (!node_.runs()) return;
  node_.clock().sleep_until(Instant{1'000'000'000} + (scheduler_.now() - Instant{}));
  try {
    work();
    settle();
  } catch (const node::SimulatedNode::Crash&) {
    node_.crash();
  }
}

void Node::settle() {
  while (node_.work(0)) {
  }
}

void Node::kill_agent(int after_calls) {
  if (after_calls > 0) {
    node_.crash_at = after_calls;
  } else {
    node_.crash();
  }
}

void Node::start_agent() {
  node_.crash_at.reset();
  if (node_.runs()) return;
  node_.start();
  act([] {});
  check();
}

void Node::tick() {
  act([this] { node_.keep_house(); });
  check();
}

void Node::process_ended(std::int64_t process) {
  act([&] { node_.process_ended(process); });
  check();
}

std::optional<Megahertz> Node::locked() {
  const node::TestGpu::State state = node_.gpu(0).state();
  return state.graphics ? std::optional(state.graphics->highest) : std::nullopt;
}

Node::Clock Node::want(std::int64_t process, std::optional<Megahertz> clock) {
  if (holder_ != process) lease_.clear();
  holder_ = process;
  const Instant now = scheduler_.now();
  act([&] {
    if (lease_.empty()) {
      if (now < next_try_) return;
      next_try_ = now + kRetry;
      node::LeaseRequest request;
      request.gpus = {0};
      request.duration = kLease;
      request.ends_with_process = true;
      if (const auto lease = node_.take(peer(process), request); lease.ok()) {
        lease_ = lease->id;
        renewed_ = now;
      }
    } else if (now - renewed_ >= kLease / 3) {
      if (!node_.renew(peer(process), lease_, kLease).ok()) return lease_.clear();
      renewed_ = now;
    }
  });
  bool done = false;
  if (!lease_.empty()) {
    act([&] {
      node::Setting setting;
      if (clock) {
        setting.clocks = {*clock, *clock};
      } else {
        setting.kind = node::Setting::Kind::kResetClocks;
      }
      node_.apply(peer(process), lease_, 0, setting,
                  [&done](const Result<node::Applied>& applied) { done = applied.ok(); });
    });
  }
  if (!node_.runs()) {
    lease_.clear();
    done = false;
  }
  check();
  if (done && !clock && locked()) {
    broken("a rank that is not governed runs at the clocks found before: " + name_ +
           " is locked to " + std::to_string(locked()->value) + " MHz");
  }
  return {done, locked()};
}

/// Checks that no GPU is left changed without a lease while an agent runs.
void Node::check() {
  if (!node_.runs() || node_.waits(0)) return;
  if (node_.leases().book().leases().empty() && node_.gpu(0).state() != found_) {
    broken("no GPU is left changed without a lease: " + name_ + " is locked to " +
           (locked() ? std::to_string(locked()->value) + " MHz" : std::string("nothing")));
  }
}

}  // namespace harpe::simulation
