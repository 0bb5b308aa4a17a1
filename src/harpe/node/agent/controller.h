#pragma once
/// \file
/// The core of the agent: leases on GPUs, and the only code that sets GPUs. It has no transport.
///
/// One thread owns the driver of each GPU, and all work on the GPU is queued to it. So a slow
/// driver call delays only that GPU and never a caller. Before the first change under a lease, the
/// state of the GPU is written to the state file (saved_state.h). It is restored on release,
/// expiry, death of the client and stop, and at the next start after a crash. Leases do not survive
/// the agent.
///
/// All functions are thread-safe, and only `start` and the destructor wait for drivers.
/// docs/agent.md is the documentation for users.

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

/// A callback with the result of a request. Called once, on a thread of the controller or before
/// the function that received it returns. Must not block.
template <class T>
using Done = std::function<void(Result<T>)>;

/// Limits on the leases of one user. The rate does not apply to root.
struct LeaseLimits {
  std::size_t per_user = 64;            ///< leases held at a time
  double per_second = 1, at_once = 60;  ///< rate and burst of taking leases
};

struct ControllerOptions {
  std::filesystem::path state_file = "/run/harpe/agent-state.json";
  std::filesystem::path audit_log;  ///< JSON lines (audit_log.h); empty if there is no log
  LeaseLimits leases;
  /// Socket from which clients get clock channels (clock_channel.h); empty if there is none.
  std::filesystem::path clock_socket;
  unsigned clock_socket_mode = 0666;  ///< file mode; the policy decides the rights of clients
  bool dry_run = false;               ///< if true, sets nothing and describes each setting instead
  Seconds minimum_dwell{0.02};        ///< least time between two clock changes of one GPU
  Seconds poll{0.05};                 ///< interval of power readings while there are listeners
  Seconds longest_shutdown{10};  ///< time for which a stop retries settings that fail to restore
  /// Additional time that a driver call may take at a stop; a call that hangs longer is abandoned.
  Seconds longest_hang{5};
  /// Called with each event, on any thread; must not block. May be empty.
  std::function<void(const std::string&)> on_event = {};
  /// If true, threads that own a driver get priority (SCHED_FIFO if permitted, else nice), so that
  /// other work does not delay a clock command.
  bool prompt_owners = true;
  /// CPUs for these threads. A thread moves to the CPU that sent its last clock command if the list
  /// contains it, because waking another CPU takes longer than the rest of a command. If empty, the
  /// kernel chooses, whatever CPU a client reports.
  std::vector<int> owner_cpus = {};
};

class Controller {
 public:
  /// Restores the settings that the last agent left changed, then serves. Waits up to 10 s for slow
  /// drivers; later restorations continue in the background. The policy applies to every request.
  static Result<std::unique_ptr<Controller>> start(Devices devices, Policy policy,
                                                   ControllerOptions options, Clock& clock);
  /// Ends all leases and restores all settings. Settings that a GPU refuses for `longest_shutdown`
  /// are left to the next start, which reports them in `events`. If a driver call hangs for another
  /// `longest_hang`, its thread is abandoned (devices and clock must then outlive the thread).
  virtual ~Controller() = default;

  /// Returns events for the operator, such as the state file found at the start and settings that
  /// could not be restored. Newest last, at most a hundred.
  virtual std::vector<std::string> events() const = 0;
  /// Returns the present troubles, which every client is shown: files that cannot be written, GPUs
  /// that could not be restored. Empty if there are none.
  virtual std::vector<std::string> troubles() const = 0;
  /// Reopens the audit log after a log rotation.
  virtual Status reopen_audit_log() = 0;

  virtual const std::vector<GpuIdentity>& gpus() const = 0;
  virtual const Policy& policy() const = 0;
  virtual int cpus() const = 0;

  /// Returns the present rights of the peer on a GPU, with the proofs that hold.
  virtual Allowance allowance(const net::Peer& peer, int gpu) const = 0;
  virtual Result<Lease> take(const net::Peer& peer, const LeaseRequest& request) = 0;
  virtual Status renew(const net::Peer& peer, const std::string& lease, Seconds duration) = 0;
  /// Ends a lease. Calls `done` when all its settings are restored.
  virtual void release(const net::Peer& peer, const std::string& lease,
                       Done<std::monostate> done) = 0;
  /// Returns the leases that the peer may see: its own; all for root.
  virtual std::vector<Lease> leases(const net::Peer& peer) = 0;
  /// Returns the leases on this GPU, without ids; none if the peer may neither read nor set it.
  virtual std::vector<Lease> holders(const net::Peer& peer, int gpu) = 0;
  /// Returns the lease of this peer's process on these GPUs, taken or extended if necessary, for
  /// clients without leases (zeusd's). Ends with the process, or `max_lease` after the last call.
  virtual Result<Lease> implied_lease(const net::Peer& peer, const std::vector<int>& gpus) = 0;

  virtual void apply(const net::Peer& peer, const std::string& lease, int gpu,
                     const Setting& setting, Done<Applied> done) = 0;

  /// Reads one GPU now. If no reading succeeds, fails with the driver's error, which also lists the
  /// settings still to be restored.
  virtual void read(const net::Peer& peer, int gpu, Done<GpuReading> done) = 0;
  virtual void power_limit_range(const net::Peer& peer, int gpu, Done<PowerLimitRange> done) = 0;
  virtual void supported_clocks(const net::Peer& peer, int gpu, ClockDomain domain,
                                Done<std::vector<Megahertz>> done) = 0;
  virtual void read_cpu(const net::Peer& peer, int cpu, Done<CpuEnergy> done) = 0;

  /// Calls `heard(gpu, reading)` with a new reading of each GPU at once and then about every
  /// `poll`, until the returned handle is destroyed (not within `heard`). Each GPU has its own
  /// thread, so calls for different GPUs may overlap.
  virtual std::shared_ptr<void> listen(std::function<void(int gpu, const GpuReading&)> heard) = 0;

  /// Counts since the start, for /metrics.
  struct Counts {
    std::uint64_t leases_taken = 0, leases_expired = 0, leases_lost_with_process = 0;
    std::uint64_t settings_applied = 0, settings_refused = 0, settings_failed = 0;
    std::uint64_t clock_commands = 0, clock_commands_coalesced = 0;
    std::uint64_t restores = 0, restore_failures = 0;
    std::uint64_t refusals = 0, audit_lines_lost = 0;
  };
  virtual Counts counts() const = 0;
};

/// Counters since the agent's start (`Controller::Counts`). All threads write them.
struct Counters {
  using Count = std::atomic<std::uint64_t>;
  Count leases_taken = 0, leases_expired = 0, leases_lost_with_process = 0;
  Count settings_applied = 0, settings_refused = 0, settings_failed = 0;
  Count clock_commands = 0, clock_commands_coalesced = 0;
  Count restores = 0, restore_failures = 0;
};

}  // namespace harpe::node
