#pragma once
/// \file
/// The heart of the agent: leases on GPUs, and the only code that sets them. It knows no transport.
///
/// One thread owns the driver of each GPU; everything that touches a GPU is queued to it, so a slow
/// driver call delays that GPU alone and never a caller. Before the first change under a lease the
/// state of the GPU is written to the state file (saved_state.h); it is restored on release,
/// expiry, death of the client, stop, and at the next start after a crash. Leases do not survive
/// the agent.
///
/// All functions are thread-safe and none waits for a driver, but `start` and the destructor.
/// docs/agent.md says all of this for users.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/device/hw/devices.h"
#include "harpe/node/agent/policy.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::node {

/// Called once with what became of a request: on a thread of the controller, or before the function
/// that took it returns. Must not block.
template <class T>
using Done = std::function<void(Result<T>)>;

/// What one user gets of leases; root takes them as often as it needs.
struct LeaseLimits {
  std::size_t per_user = 64;            ///< at a time
  double per_second = 1, at_once = 60;  ///< taken, in the long run and together
};

struct ControllerOptions {
  std::filesystem::path state_file = "/run/harpe/agent-state.json";
  std::filesystem::path audit_log;  ///< JSON lines (audit_log.h); empty: none
  LeaseLimits leases;
  /// Where clients get their clock channels (clock_channel.h); empty: none are given.
  std::filesystem::path clock_socket;
  unsigned clock_socket_mode = 0666;  ///< who may connect; the policy decides what they may do
  bool dry_run = false;               ///< nothing is set; answers say what would be
  Seconds minimum_dwell{0.02};        ///< between two clock changes of one GPU
  Seconds poll{0.05};                 ///< of power, only while there are listeners
  Seconds longest_shutdown{10};       ///< how long stopping tries to restore what a GPU refuses
  /// How much longer a driver's call may take then; one that hangs is left to itself.
  Seconds longest_hang{5};
  /// Hears each event as it comes, from any thread; must not block. May be empty.
  std::function<void(const std::string&)> on_event = {};
  /// Threads that own a driver run before ordinary ones (SCHED_FIFO where permitted, else nice), so
  /// that a clock command is not delayed by work.
  bool prompt_owners = true;
  /// CPUs for these threads; among them each goes to the one that its last clock command came from,
  /// if that is one of them, as waking another takes longer than everything else. Empty: any, as
  /// the kernel chooses, whatever clients say.
  std::vector<int> owner_cpus = {};
};

class Controller {
 public:
  /// Restores whatever the last agent left changed, then serves; waits for slow drivers up to 10
  /// s, after which it goes on in the background. The policy is checked on every request.
  static Result<std::unique_ptr<Controller>> start(Devices devices, Policy policy,
                                                   ControllerOptions options, Clock& clock);
  /// Ends all leases and restores all settings. What a GPU refuses for `longest_shutdown` is left
  /// to the next start, which reports it in `events`. If a driver's call hangs beyond
  /// `longest_hang` after that, its thread is left behind (devices and clock must then outlive it).
  virtual ~Controller() = default;

  /// What an operator should know: about the state file found at the start, and of everything that
  /// could not be restored. Newest last, a hundred at most.
  virtual std::vector<std::string> events() const = 0;
  /// What keeps the agent from working as it should now, and is shown to every client: what cannot
  /// be written, which GPUs could not be restored. Empty: nothing.
  virtual std::vector<std::string> troubles() const = 0;
  /// Opens the audit log anew, after it was rotated.
  virtual Status reopen_audit_log() = 0;

  virtual const std::vector<GpuIdentity>& gpus() const = 0;
  virtual const Policy& policy() const = 0;
  virtual int cpus() const = 0;

  /// What the peer may do to a GPU now, with what is proven.
  virtual Allowance allowance(const net::Peer& peer, int gpu) const = 0;
  virtual Result<Lease> take(const net::Peer& peer, const LeaseRequest& request) = 0;
  virtual Status renew(const net::Peer& peer, const std::string& lease, Seconds duration) = 0;
  /// Done when everything is back.
  virtual void release(const net::Peer& peer, const std::string& lease,
                       Done<std::monostate> done) = 0;
  /// Leases the peer may see: its own; all for root.
  virtual std::vector<Lease> leases(const net::Peer& peer) = 0;
  /// Who holds this GPU, for peers that may read or set it: leases without their ids.
  virtual std::vector<Lease> holders(const net::Peer& peer, int gpu) = 0;
  /// The lease of this peer's process on this GPU, made if there is none: for clients that know no
  /// leases (zeusd's). It lasts as long as the process, or `max_lease` without a request.
  virtual Result<Lease> implied_lease(const net::Peer& peer, const std::vector<int>& gpus) = 0;

  virtual void apply(const net::Peer& peer, const std::string& lease, int gpu,
                     const Setting& setting, Done<Applied> done) = 0;

  /// Reads one GPU now. A GPU that tells nothing at all is an error: the driver's, with what is
  /// still to be restored.
  virtual void read(const net::Peer& peer, int gpu, Done<GpuReading> done) = 0;
  virtual void power_limit_range(const net::Peer& peer, int gpu, Done<PowerLimitRange> done) = 0;
  virtual void supported_clocks(const net::Peer& peer, int gpu, ClockDomain domain,
                                Done<std::vector<Megahertz>> done) = 0;
  virtual void read_cpu(const net::Peer& peer, int cpu, Done<CpuEnergy> done) = 0;

  /// Calls `heard(gpu, reading)` on every new reading at about `poll`, until the returned handle
  /// is destroyed (not within `heard`). The first comes at once. Calls for different GPUs come from
  /// different threads and may overlap.
  virtual std::shared_ptr<void> listen(std::function<void(int gpu, const GpuReading&)> heard) = 0;

  /// For /metrics: counts since start.
  struct Counts {
    std::uint64_t leases_taken = 0, leases_expired = 0, leases_lost_with_process = 0;
    std::uint64_t settings_applied = 0, settings_refused = 0, settings_failed = 0;
    std::uint64_t clock_commands = 0, clock_commands_coalesced = 0;
    std::uint64_t restores = 0, restore_failures = 0;
    std::uint64_t refusals = 0, audit_lines_lost = 0;
  };
  virtual Counts counts() const = 0;
};

/// Counters since the agent's start (`Controller::Counts`), written by all its threads.
struct Counters {
  using Count = std::atomic<std::uint64_t>;
  Count leases_taken = 0, leases_expired = 0, leases_lost_with_process = 0;
  Count settings_applied = 0, settings_refused = 0, settings_failed = 0;
  Count clock_commands = 0, clock_commands_coalesced = 0;
  Count restores = 0, restore_failures = 0;
};

}  // namespace harpe::node
