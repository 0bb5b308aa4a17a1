#pragma once
/// \file
/// A node in simulated time: the agent's state machine of leases and the duties of its GPUs'
/// owners, connected as in the controller, over GPUs and files in memory. It has no threads: work
/// that is queued for a GPU waits until `work` is called, and the time changes only on request. So
/// every order of events can be tried, and a seed reproduces a life.
///
/// GPUs and files outlive an agent that crashes. A crash (`crash_at`) may happen before any driver
/// call, and before or after any write of a file. It is an exception that passes through the agent,
/// which is then discarded as it is.

#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/node/agent/gpu_duties.h"
#include "harpe/node/agent/gpu_testing.h"
#include "harpe/node/agent/memory_files_testing.h"
#include "harpe/node/agent/node_leases.h"
#include "harpe/node/agent/saved_state.h"

namespace harpe::node {

class SimulatedNode {
 public:
  struct Crash : std::exception {};

  SimulatedNode(int gpus, Policy policy, LeaseLimits limits)
      : policy_(std::move(policy)), limits_(limits) {
    for (int i = 0; i < gpus; ++i) {
      gpus_.push_back(std::make_unique<TestGpu>(i));
      gpus_.back()->before([this, i](const std::string& call) -> Status {
        point();
        if (on_call) return on_call(i, call);
        return ok_status();
      });
    }
  }

  // --- The machine, which outlives the agent.
  TestGpu& gpu(int index) { return *gpus_[static_cast<std::size_t>(index)]; }
  int gpus() const { return static_cast<int>(gpus_.size()); }
  MemoryState& state_file() { return *state_; }
  MemoryLines& audit_lines() { return *lines_; }
  ManualClock& clock() { return clock_; }
  /// Runs before each driver call, which fails with the error that it returns.
  std::function<Status(int gpu, const std::string& call)> on_call;
  /// Returns the proofs that the kernel gives for a peer and a GPU.
  std::function<Proofs(const net::Peer&, int gpu)> proven = [](const net::Peer&, int) {
    return Proofs();
  };
  /// Number of points after which the agent crashes.
  std::optional<int> crash_at;

  // --- The agent.
  bool runs() const { return leases_ != nullptr; }
  /// Starts an agent. It reads the state of the last one and queues its restoration, as the
  /// controller does.
  void start() {
    crash();
    counters_ = std::make_unique<Counters>();
    audit_ = std::make_unique<AuditLog>();
    audit_->open(std::make_unique<PointSink>(*this, lines_));
    file_ = std::make_unique<StateFile>();
    const auto opened = file_->open(std::make_unique<PointStorage>(*this, state_), "boot");
    std::vector<GpuIdentity> identities;
    for (const auto& gpu : gpus_) {
      identities.push_back(gpu->identity());
      auto control = std::make_unique<GpuControl>(
          gpu->device(), GpuControl::Services{*file_, *audit_, *counters_,
                                              !policy_.goes_on_without_audit(), false});
      std::optional<SavedGpu> left;
      for (const SavedGpu& saved : opened->to_restore) {
        if (saved.uuid == gpu->identity().uuid) left = saved;
      }
      if (left) control->saved().take_over(*left);
      owners_.push_back({std::make_unique<GpuDuties>(std::move(control), Seconds{0.02}, *counters_,
                                                     clock_, [](const std::string&) {}),
                         {}});
      if (left)
        owners_.back().tasks.emplace_back([](GpuDuties& duties) { (void)duties.end_lease({}); });
    }
    leases_ = std::make_unique<NodeLeases>(std::move(identities), policy_, limits_, [this] {
      return "lease-" + std::to_string(++last_id_);
    });
  }
  void crash() {
    crash_at.reset();
    leases_.reset();
    owners_.clear();
    watches_.clear();
    file_.reset();
    audit_.reset();
  }
  /// Ends all leases and does all work. Settings that a GPU refuses stay in the state file.
  void stop() {
    leases_->stop(clock_.now());
    (void)perform();
    for (int i = 0; i < gpus(); ++i) {
      while (work(i)) {
      }
      owner(i).duties->drop_slot();
      (void)owner(i).duties->put_all_back();
    }
    audit_->flush(clock_.now(), true);
    (void)file_->mark_stopped();
    crash();
  }

  Result<LeaseEntry> take(const net::Peer& peer, const LeaseRequest& request) {
    auto lease = leases_->take(peer, request, proofs(), clock_.now());
    if (lease.ok() && request.ends_with_process) watches_[lease->id] = peer.pid;
    return granted(std::move(lease));
  }
  Result<LeaseEntry> take_implied(const net::Peer& peer, const std::vector<int>& gpus) {
    auto lease = leases_->take_implied(peer, gpus, proofs(), clock_.now());
    if (lease.ok()) watches_[lease->id] = peer.pid;
    return granted(std::move(lease));
  }
  Status renew(const net::Peer& peer, const std::string& id, Seconds duration) {
    Status status = leases_->renew(peer, id, duration, proofs(), clock_.now());
    (void)perform();
    return status;
  }
  Status release(const net::Peer& peer, const std::string& id) {
    Status status = leases_->release(peer, id, clock_.now());
    (void)perform();
    return status;
  }
  void process_ended(std::int64_t pid) {
    const auto watches = watches_;
    for (const auto& [id, watched] : watches) {
      if (watched == pid) leases_->end(id, LeaseEnd::kProcessEnded, clock_.now());
    }
    (void)perform();
  }
  void channel_closed(const std::string& id) {
    leases_->end(id, LeaseEnd::kChannelClosed, clock_.now());
    (void)perform();
  }
  /// Queues a setting. `done` receives the result.
  void apply(
      const net::Peer& peer, const std::string& id, int gpu, const Setting& setting,
      const std::function<void(const Result<Applied>&)>& done = [](const auto&) {}) {
    const auto holder = [this, peer, id, gpu, control = control_of(setting)] {
      leases_->tick(clock_.now());
      (void)perform();
      return leases_->holder(peer, id, gpu, control, clock_.now());
    };
    if (const auto now = holder(); !now.ok()) {
      leases_->refused(peer, id, "setting", now.error());
      (void)perform();
      return done(now.error());
    }
    owner(gpu).tasks.emplace_back([this, holder, setting, done](GpuDuties& duties) {
      if (Status ready = duties.ready_to_set(); !ready.ok()) return done(std::move(ready).error());
      const auto now = holder();
      if (!now.ok()) return done(now.error());
      done(duties.control().apply(*now, setting, clock_.now()));
    });
  }
  /// Returns a channel to the clock of a GPU for the client that holds the lease; null if refused.
  std::shared_ptr<ClockSlot> attach(const net::Peer& peer, const std::string& id, int gpu) {
    leases_->tick(clock_.now());
    (void)perform();
    auto holder = leases_->holder(peer, id, gpu, Control::kClocks, clock_.now());
    if (!holder.ok()) return nullptr;
    auto slot = ClockSlot::make();
    if (!slot.ok()) return nullptr;
    owner(gpu).tasks.emplace_back(
        [slot = *slot, holder = *holder](GpuDuties& duties) { duties.attach(slot, holder); });
    return *slot;
  }

  /// Does one piece of the work that waits for a GPU. Returns false if there was none.
  bool work(int gpu) {
    Owner& owner = this->owner(gpu);
    if (owner.duties->serve_clock()) return true;
    if (!owner.tasks.empty()) {
      const auto task = std::move(owner.tasks.front());
      owner.tasks.pop_front();
      task(*owner.duties);
      return true;
    }
    const auto due = owner.duties->next_due();
    owner.duties->serve_due();
    return due && *due <= clock_.now();
  }
  /// Does the work of the loop's thread that is due.
  void keep_house() {
    audit_->flush(clock_.now());
    leases_->tick(clock_.now());
    leases_->check_rights(proofs(), clock_.now());
    (void)perform();
  }

  const NodeLeases& leases() const { return *leases_; }
  AuditLog& audit() { return *audit_; }
  bool waits(int gpu) const { return !owners_[static_cast<std::size_t>(gpu)].tasks.empty(); }
  bool could_not_restore(int gpu) const {
    return owners_[static_cast<std::size_t>(gpu)].duties->could_not_restore();
  }

 private:
  struct Owner {
    std::unique_ptr<GpuDuties> duties;
    std::deque<std::function<void(GpuDuties&)>> tasks;
  };
  class PointStorage final : public StateStorage {
   public:
    PointStorage(SimulatedNode& node, std::shared_ptr<MemoryState> state)
        : node_(node), memory_(std::move(state)) {}
    std::string name() const override { return memory_.name(); }
    Result<std::optional<std::string>> load() override { return memory_.load(); }
    Status replace(std::string_view text) override {
      node_.point();
      Status status = memory_.replace(text);
      node_.point();
      return status;
    }
    Result<std::string> set_aside() override { return memory_.set_aside(); }

   private:
    SimulatedNode& node_;
    MemoryStorage memory_;
  };
  class PointSink final : public AuditSink {
   public:
    PointSink(SimulatedNode& node, std::shared_ptr<MemoryLines> lines)
        : node_(node), memory_(std::move(lines)) {}
    Status append(std::string_view line) override {
      node_.point();
      Status status = memory_.append(line);
      node_.point();
      return status;
    }
    bool has_room() override { return memory_.has_room(); }
    Status reopen() override { return memory_.reopen(); }

   private:
    SimulatedNode& node_;
    MemorySink memory_;
  };

  /// Crashes the agent if `crash_at` is reached.
  void point() {
    if (crash_at && (*crash_at)-- <= 0) throw Crash();
  }
  Owner& owner(int gpu) { return owners_[static_cast<std::size_t>(gpu)]; }
  NodeLeases::ProvenOf proofs() {
    return [this](const net::Peer& peer, int gpu, Proofs wanted) {
      const Proofs all = proven(peer, gpu);
      Proofs found;
      for (const Proof proof : {Proof::kDevice, Proof::kComputing}) {
        if (wanted.has(proof) && all.has(proof)) found.add({proof});
      }
      return found;
    };
  }
  Result<LeaseEntry> granted(Result<LeaseEntry> lease) {
    Status logged = perform();
    if (!lease.ok() || logged.ok()) return lease;
    leases_->end(lease->id, LeaseEnd::kNotLogged, clock_.now());
    (void)perform();
    return std::move(logged).error();
  }
  Status perform() {
    LeaseEffects effects = leases_->take_effects();
    for (const LeaseEffects::Ended& ended : effects.ended) {
      watches_.erase(ended.lease.id);
      for (const int gpu : ended.lease.gpus) {
        owner(gpu).tasks.emplace_back([holder = leases_->holder(ended.lease, gpu)](
                                          GpuDuties& duties) { (void)duties.end_lease(holder); });
      }
    }
    Status logged = ok_status();
    for (const AuditEntry& entry : effects.log) {
      if (Status status = audit_->write(entry); !status.ok()) logged = std::move(status);
    }
    for (AuditEntry& entry : effects.refused) audit_->refuse(std::move(entry), clock_.now());
    return logged.ok() || policy_.goes_on_without_audit() ? ok_status() : std::move(logged);
  }

  const Policy policy_;
  const LeaseLimits limits_;
  ManualClock clock_{Instant{1'000'000'000}};
  std::vector<std::unique_ptr<TestGpu>> gpus_;
  const std::shared_ptr<MemoryState> state_ = std::make_shared<MemoryState>();
  const std::shared_ptr<MemoryLines> lines_ = std::make_shared<MemoryLines>();
  int last_id_ = 0;

  std::unique_ptr<Counters> counters_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<StateFile> file_;
  std::vector<Owner> owners_;
  std::map<std::string, std::int64_t> watches_;  ///< process that ends each lease
  std::unique_ptr<NodeLeases> leases_;
};

}  // namespace harpe::node
