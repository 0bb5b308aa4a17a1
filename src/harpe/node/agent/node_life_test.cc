// Random lives of a node in simulated time: clients with and without rights, drivers and disks that
// fail, processes that die, rights that are lost, agents that crash at any point. The promises of
// the threat model (docs/security.md) hold in every case.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "harpe/base/json.h"
#include "harpe/node/agent/node_simulation_testing.h"

namespace harpe::node {
namespace {

constexpr int kGpus = 3;
constexpr std::int64_t kAlice = 1001, kBob = 1002, kCarol = 1003, kStranger = 1004;
constexpr const char* kLifePolicy = R"(
[[allow]]
users = [1001]
gpus = "*"
clocks_mhz = [300, 1200]
power_limit_w = [150, 400]
persistence_mode = true
max_lease_s = 100
[[allow]]
users = [1002]
gpus = ["0", "1"]
memory_clocks_mhz = [1215, 1215]
power_limit_w = [200, 250]
max_lease_s = 50
[[allow]]
users = [1003]
gpus = "*"
clocks_mhz = [900, 900]
requires = ["device"]
[[allow]]
users = [1004]
gpus = "*"
read = true
)";

/// The client's end of a channel.
class ClientSlot {
 public:
  explicit ClientSlot(ClockSlot& slot) : file_(slot.take_memory()) {
    void* memory =
        ::mmap(nullptr, ClockMemory::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    memory_ = static_cast<ClockMemory*>(memory);
  }
  ClientSlot(ClientSlot&& other) noexcept
      : file_(std::move(other.file_)),
        memory_(std::exchange(other.memory_, nullptr)),
        sequence_(other.sequence_) {}
  ClientSlot& operator=(ClientSlot&&) = delete;
  ~ClientSlot() {
    if (memory_ != nullptr) ::munmap(memory_, ClockMemory::kBytes);
  }
  void want(std::uint32_t clock) { memory_->wanted = std::uint64_t{++sequence_} << 32 | clock; }

 private:
  UniqueFd file_;
  ClockMemory* memory_;
  std::uint32_t sequence_ = 0;
};

/// One life, with the knowledge of an observer: the original settings, and the holders of leases.
class Life {
 public:
  explicit Life(unsigned seed)
      : random_(seed),
        node_(kGpus, *Policy::parse(kLifePolicy, "policy"),
              {.per_user = 4, .per_second = 5, .at_once = 20}) {
    for (int i = 0; i < kGpus; ++i) found_.push_back(node_.gpu(i).state());
    node_.on_call = [this](int gpu, const std::string& call) { return respond(gpu, call); };
    node_.proven = [this](const net::Peer& peer, int gpu) {
      return owned_.contains({peer.uid, gpu}) ? Proofs{Proof::kDevice} : Proofs();
    };
    node_.start();
  }

  /// Runs events, each of which may crash the agent, then `peace`, after which all is as it was.
  void live(int events) {
    for (int i = 0; i < events; ++i) {
      if (!node_.crash_at && coin(20)) node_.crash_at = upto(40);
      try {
        event();
      } catch (const SimulatedNode::Crash&) {
        node_.crash();
        ++crashes;
      }
      if (!node_.runs()) {
        if (coin(2)) outside();
        start();
      }
      check();
      if (testing::Test::HasFailure()) return;
    }
    peace();
  }

  int crashes = 0, granted = 0, applied = 0, refused = 0, restarts_with_work = 0;

 private:
  int upto(int highest) { return std::uniform_int_distribution<int>(0, highest)(random_); }
  bool coin(int sides) { return upto(sides - 1) == 0; }

  /// Returns the holder of some lease, or any client.
  net::Peer client() {
    const auto& leases = node_.leases().book().leases();
    if (!leases.empty() && !coin(4)) {
      return leases[static_cast<std::size_t>(upto(static_cast<int>(leases.size()) - 1))].holder;
    }
    constexpr std::array<std::int64_t, 6> kUsers{0, kAlice, kAlice, kBob, kCarol, kStranger};
    net::Peer peer;
    peer.uid = kUsers[static_cast<std::size_t>(upto(5))];
    peer.pid = peer.uid * 10 + upto(2);
    peer.start_ticks = 1;
    return peer;
  }
  std::string some_lease() {
    const auto& leases = node_.leases().book().leases();
    if (leases.empty() || coin(8)) return "lease-" + std::to_string(upto(100));
    return leases[static_cast<std::size_t>(upto(static_cast<int>(leases.size()) - 1))].id;
  }
  Setting some_setting() {
    Setting setting;
    constexpr std::array<int, 5> kClocks{210, 300, 900, 1200, 1410};
    const int clock = kClocks[static_cast<std::size_t>(upto(4))];
    switch (upto(5)) {
      case 0:
        setting.kind = Setting::Kind::kPowerLimit;
        setting.limit = Watts{100.0 + 50 * upto(7)};
        break;
      case 1:
        setting.kind = Setting::Kind::kResetPowerLimit;
        break;
      case 2:
        setting.kind = Setting::Kind::kPersistenceMode;
        setting.enabled = coin(2);
        break;
      case 3:
        setting.domain = ClockDomain::kMemory;
        setting.clocks = {{1215}, {1215}};
        break;
      case 4:
        setting.kind = Setting::Kind::kResetClocks;
        break;
      default:
        setting.clocks = {{clock}, {clock}};
    }
    return setting;
  }

  Status respond(int gpu, const std::string& call) {
    ++calls_;
    const bool sets = call.starts_with("set_") || call.starts_with("reset_");
    if (broken_.contains(gpu) && sets) return Error::of(ErrorCode::kUnavailable, "GPU is lost");
    if (denied_.contains(gpu) && sets) return Error::of(ErrorCode::kNoPermission, "no permission");
    return ok_status();
  }

  // --- Events.

  /// Starts the agent, which may crash again while it restores. Like the controller, waits for the
  /// first attempt to restore.
  void start() {
    for (;;) {
      node_.start();
      channels_.clear();
      if (coin(4)) node_.crash_at = upto(8);
      try {
        for (int i = 0; i < kGpus; ++i) {
          restarts_with_work += node_.waits(i) ? 1 : 0;
          while (node_.waits(i)) node_.work(i);
        }
        return;
      } catch (const SimulatedNode::Crash&) {
        ++crashes;
      }
    }
  }

  void event() {
    heal();
    const int kind = upto(99);
    if (kind < 45) return ask();
    if (kind < 83) return work(upto(kGpus - 1));
    if (kind < 90) return pass(coin(8) ? upto(120) : upto(100) / 100.0);
    if (kind < 92) return node_.keep_house();
    if (kind < 93) return node_.process_ended(client().pid);
    if (kind < 94) return coin(3) ? node_.stop() : node_.channel_closed(some_lease());
    if (kind < 97) {
      const std::pair<std::int64_t, int> right{kCarol, upto(kGpus - 1)};
      if (!owned_.insert(right).second) owned_.erase(right);
      return;
    }
    switch (upto(3)) {
      case 0:
        broken_.insert(upto(kGpus - 1));
        break;
      case 1:
        denied_.insert(upto(kGpus - 1));
        break;
      case 2:
        node_.state_file().writable = false;
        break;
      default:
        node_.audit_lines().writable = false;
    }
  }

  /// Repairs faults at random, so that they last for about ten events.
  void heal() {
    if (coin(10)) broken_.clear();
    if (coin(10)) denied_.clear();
    if (coin(10)) node_.state_file().writable = true;
    if (coin(10)) node_.audit_lines().writable = true;
  }

  /// Advances the time without any work of the agent.
  void pass(double seconds) { node_.clock().advance(Seconds{seconds}); }

  void work(int gpu) {
    const TestGpu::State before = node_.gpu(gpu).state();
    const auto holders = holders_now(gpu);
    node_.work(gpu);
    justified(gpu, before, node_.gpu(gpu).state(), holders);
  }

  void ask() {
    const net::Peer peer = client();
    const int calls_before = calls_;
    const std::vector<TestGpu::State> before = states();
    std::vector<int> gpus;
    for (int i = 0; i < kGpus; ++i) {
      if (coin(2)) gpus.push_back(i);
    }
    switch (upto(9)) {
      case 0:
      case 1: {
        LeaseRequest request{.gpus = gpus,
                             .duration = Seconds{1.0 + upto(150)},
                             .ends_with_process = coin(2),
                             .name = "x"};
        if (coin(2))
          request.controls = coin(2) ? Controls{Control::kClocks} : Controls{Control::kPowerLimit};
        note(peer, node_.take(peer, request).ok());
        break;
      }
      case 2:
        if (!gpus.empty()) note(peer, node_.take_implied(peer, gpus).ok());
        break;
      case 3:
        (void)node_.renew(peer, some_lease(), Seconds{1.0 + upto(150)});
        break;
      case 4:
        note(peer, node_.release(peer, some_lease()).ok() && peer.uid != 0);
        break;
      case 5: {
        const std::string id = some_lease();
        const int gpu = upto(kGpus - 1);
        if (auto slot = node_.attach(peer, id, gpu)) {
          note(peer, true);
          channels_.emplace_back(*slot);
        }
        break;
      }
      default:
        node_.apply(peer, some_lease(), upto(kGpus - 1), some_setting(),
                    [this, peer](const Result<Applied>& result) {
                      if (result.ok()) ++applied;
                      note(peer, result.ok());
                    });
    }
    if (!channels_.empty() && coin(2)) {
      // A client that has had a channel may write to its memory at any time.
      channels_[static_cast<std::size_t>(upto(static_cast<int>(channels_.size()) - 1))].want(
          static_cast<std::uint32_t>(upto(20) * 75));
    }
    // A request alone calls no driver, so no caller waits for the driver of another GPU.
    EXPECT_EQ(calls_, calls_before);
    EXPECT_EQ(states(), before);
  }

  /// Counts the result of a request. The client without rights must never succeed.
  void note(const net::Peer& peer, bool success) {
    EXPECT_FALSE(success && peer.uid == kStranger);
    ++(success ? granted : refused);
  }

  /// Sets a GPU as an administrator does while no agent runs, unless an agent left it changed.
  void outside() {
    const int gpu = upto(kGpus - 1);
    if (node_.gpu(gpu).state() != found_[static_cast<std::size_t>(gpu)]) return;
    if (node_.state_file().text.value_or("").find(node_.gpu(gpu).identity().uuid) !=
        std::string::npos) {
      return;
    }
    TestGpu::State state = found_[static_cast<std::size_t>(gpu)];
    state.limit = Watts{200.0 + upto(100)};
    if (coin(2)) state.graphics = ClockRange{{600}, {1005}};
    node_.gpu(gpu).set(state);
    found_[static_cast<std::size_t>(gpu)] = state;
  }

  // --- Invariants.

  struct Held {
    net::Peer holder;
    Controls controls;
    Allowance allowance;
  };
  std::vector<Held> holders_now(int gpu) {
    std::vector<Held> held;
    for (const LeaseEntry* lease : node_.leases().book().holders(gpu)) {
      if (lease->expires <= node_.clock().now() && !lease->renews_itself()) continue;
      held.push_back(
          {lease->holder, lease->controls, node_.leases().holder(*lease, gpu).allowance});
    }
    return held;
  }
  std::vector<TestGpu::State> states() {
    std::vector<TestGpu::State> all;
    for (int i = 0; i < kGpus; ++i) all.push_back(node_.gpu(i).state());
    return all;
  }

  /// Checks that each changed setting is as it was found, or is allowed by a lease in force.
  void justified(int gpu, const TestGpu::State& before, const TestGpu::State& after,
                 const std::vector<Held>& holders) {
    const TestGpu::State& found = found_[static_cast<std::size_t>(gpu)];
    const auto allowed = [&](Control control, auto may) {
      return std::ranges::any_of(holders, [&](const Held& held) {
        return held.controls.has(control) && may(held.allowance);
      });
    };
    if (after.graphics != before.graphics && after.graphics != found.graphics) {
      EXPECT_TRUE(allowed(Control::kClocks,
                          [&](const Allowance& allowance) {
                            return std::ranges::any_of(
                                allowance.clocks, [&](const ClockRange& range) {
                                  return range.lowest <= after.graphics->lowest &&
                                         after.graphics->highest <= range.highest;
                                });
                          }))
          << "GPU " << gpu << ": " << after.graphics->lowest.value << " MHz";
    }
    if (after.memory != before.memory && after.memory != found.memory) {
      EXPECT_TRUE(allowed(Control::kMemoryClocks, [](const Allowance& allowance) {
        return !allowance.memory_clocks.empty();
      }));
    }
    if (after.limit != before.limit && after.limit != found.limit) {
      EXPECT_TRUE(
          allowed(Control::kPowerLimit,
                  [&](const Allowance& allowance) {
                    return std::ranges::any_of(allowance.power_limits, [&](const auto& range) {
                      return range.lowest <= after.limit && after.limit <= range.highest;
                    });
                  }))
          << "GPU " << gpu << ": " << after.limit.value << " W";
    }
    if (after.persistence != before.persistence && after.persistence != found.persistence) {
      EXPECT_TRUE(allowed(Control::kPersistenceMode,
                          [](const Allowance& allowance) { return allowance.persistence_mode; }));
    }
  }

  /// Checks that controls without a lease are as they were found, if their owner has no work left.
  void check() {
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      Controls held = Controls::none();
      std::set<std::int64_t> users;
      for (const LeaseEntry* lease : node_.leases().book().holders(gpu)) {
        held.add(lease->controls);
        users.insert(lease->holder.uid);
      }
      EXPECT_LE(users.size(), 1U);
      if (node_.waits(gpu) || node_.could_not_restore(gpu)) continue;
      const TestGpu::State& found = found_[static_cast<std::size_t>(gpu)];
      const TestGpu::State now = node_.gpu(gpu).state();
      const std::string where = "GPU " + std::to_string(gpu);
      const auto same = [&](Control control, bool as_found) {
        EXPECT_TRUE(held.has(control) || as_found) << where << ": " << text_of(Controls{control});
      };
      same(Control::kClocks, now.graphics == found.graphics);
      same(Control::kMemoryClocks, now.memory == found.memory);
      same(Control::kPowerLimit, now.limit == found.limit);
      same(Control::kPersistenceMode, now.persistence == found.persistence);
    }
  }

  /// Repairs drivers and disks, ends processes and leases, and does all waiting work of the agent.
  /// Then everything must be as it was found.
  void peace() {
    node_.crash_at.reset();
    broken_.clear();
    denied_.clear();
    node_.state_file().writable = node_.audit_lines().writable = true;
    std::set<std::int64_t> processes;
    for (const LeaseEntry& lease : node_.leases().book().leases()) {
      if (lease.renews_itself()) processes.insert(lease.holder.pid);
    }
    for (const std::int64_t pid : processes) node_.process_ended(pid);
    pass(4000);  // longer than the longest lease
    for (int turn = 0; turn < 10; ++turn) {
      node_.keep_house();
      for (int i = 0; i < kGpus; ++i) {
        while (node_.work(i)) {
        }
      }
      pass(31);
    }
    EXPECT_TRUE(node_.leases().book().leases().empty());
    EXPECT_EQ(states(), found_);
    node_.stop();
    EXPECT_EQ(states(), found_);
    EXPECT_EQ(node_.state_file().text->find("uuid"), std::string::npos) << "nothing is left to do";
    node_.start();
  }

  std::mt19937 random_;
  SimulatedNode node_;
  std::vector<TestGpu::State> found_;
  std::vector<ClientSlot> channels_;
  std::set<std::pair<std::int64_t, int>> owned_;
  std::set<int> broken_, denied_;
  int calls_ = 0;
};

TEST(NodeLife, LeavesNoGpuChangedWithoutALeaseWhateverHappens) {
  const char* given = std::getenv("HARPE_SEED");
  const unsigned first =
      given != nullptr ? static_cast<unsigned>(std::atol(given)) : std::random_device()();
  const int lives = given != nullptr ? 1 : HARPE_UNDER_SANITIZERS != 0 ? 40 : 400;
  int crashes = 0, granted = 0, applied = 0, refused = 0, restarts = 0;
  for (int life = 0; life < lives; ++life) {
    const unsigned seed = first + static_cast<unsigned>(life);
    Life one(seed);
    one.live(400);
    if (HasFailure()) {
      FAIL() << "seed " << seed << " (HARPE_SEED)";
    }
    crashes += one.crashes;
    granted += one.granted;
    applied += one.applied;
    refused += one.refused;
    restarts += one.restarts_with_work;
  }
  std::printf(
      "%d lives from seed %u: %d crashes, %d things granted, %d applied, %d refused, "
      "%d GPUs restored at a start\n",
      lives, first, crashes, granted, applied, refused, restarts);
  if (given != nullptr) return;
  EXPECT_GT(crashes, lives) << "not tried where it matters";
  EXPECT_GT(applied, lives);
  EXPECT_GT(restarts, lives / 4);
}

}  // namespace
}  // namespace harpe::node
