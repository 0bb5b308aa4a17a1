#pragma once
/// \file
/// A controller without devices, for tests of the transport: it responds at once, on the caller's
/// thread, and records the settings.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harpe/node/agent/controller.h"

namespace harpe::node {

/// A policy that lets user 1000 and the holder of a token for "grafana" read, and user 1000 set
/// GPU 0.
inline constexpr const char* kTestPolicy = R"([[allow]]
users = [1000]
tokens = ["grafana"]
gpus = ["*"]
read = true

[[allow]]
users = [1000]
tokens = ["grafana"]
gpus = ["0"]
clocks_mhz = [900, 1410]
memory_clocks_mhz = [1215, 1215]
power_limit_w = [200, 400]
persistence_mode = true
)";

class FakeController final : public Controller {
 public:
  explicit FakeController(int gpus = 2, int cpus = 1)
      : policy_(*Policy::parse(kTestPolicy, "test")), cpus_(cpus) {
    for (int i = 0; i < gpus; ++i) {
      identities_.push_back({.index = i,
                             .uuid = "GPU-" + std::to_string(i),
                             .pci = "0000:0" + std::to_string(i) + ":00.0",
                             .name = "NVIDIA A40",
                             .backend = "sim"});
      readings_.push_back({.time = {},
                           .energy = Joules{123.456},
                           .power = Watts{250},
                           .average_power = {},
                           .power_limit = Watts{300},
                           .enforced_power_limit = Watts{300},
                           .graphics_clock = Megahertz{1410},
                           .memory_clock = {},
                           .temperature = 40,
                           .utilisation = 0.5,
                           .reasons = EventReasons{EventReasons::kPowerCap},
                           .persistence_mode = true});
    }
  }

  /// Errors that reads and settings return instead of success, by GPU.
  std::map<int, Error> failures;
  /// GPUs that another process holds.
  std::vector<int> held;
  /// The applied settings, such as "GPU 0: limit 250000 mW".
  std::vector<std::string> applied;
  std::vector<Lease> live;
  Seconds longest_lease{1e9};  ///< longest duration of a renewal

  GpuReading& reading(int gpu) { return readings_[static_cast<std::size_t>(gpu)]; }

  std::vector<std::string> troubles_now;

  std::vector<std::string> events() const override { return {}; }
  std::vector<std::string> troubles() const override { return troubles_now; }
  Status reopen_audit_log() override { return ok_status(); }
  const std::vector<GpuIdentity>& gpus() const override { return identities_; }
  const Policy& policy() const override { return policy_; }
  int cpus() const override { return cpus_; }

  Allowance allowance(const net::Peer& peer, int gpu) const override {
    return policy_.allowance(peer, identities_[static_cast<std::size_t>(gpu)]);
  }
  Result<Lease> take(const net::Peer& peer, const LeaseRequest& request) override {
    for (const int gpu : request.gpus) {
      if (gpu < 0 || static_cast<std::size_t>(gpu) >= identities_.size()) {
        return Error::of(ErrorCode::kNotFound, "there is no GPU " + std::to_string(gpu));
      }
      if (!policy_.allowance(peer, identities_[static_cast<std::size_t>(gpu)]).may_control()) {
        return Error::of(ErrorCode::kNoPermission, "you may not set GPU " + std::to_string(gpu));
      }
      if (std::find(held.begin(), held.end(), gpu) != held.end()) {
        return Error::of(ErrorCode::kConflict, "another client holds GPU " + std::to_string(gpu));
      }
    }
    live.push_back({.id = "lease" + std::to_string(++leases_made_),
                    .gpus = request.gpus,
                    .uid = peer.uid,
                    .pid = peer.pid,
                    .name = request.name,
                    .expires_in = request.duration,
                    .controls = request.controls});
    return live.back();
  }
  Status renew(const net::Peer& /*peer*/, const std::string& lease, Seconds duration) override {
    for (Lease& known : live) {
      if (known.id != lease) continue;
      known.expires_in = std::min(duration, longest_lease);
      return ok_status();
    }
    return Error::of(ErrorCode::kNotFound, "there is no such lease");
  }
  void release(const net::Peer& /*peer*/, const std::string& lease,
               Done<std::monostate> done) override {
    const auto removed =
        std::erase_if(live, [&lease](const Lease& known) { return known.id == lease; });
    done(removed > 0 ? ok_status()
                     : Status(Error::of(ErrorCode::kNotFound, "there is no such lease")));
  }
  std::vector<Lease> leases(const net::Peer& /*peer*/) override { return live; }
  std::vector<Lease> holders(const net::Peer& peer, int gpu) override {
    if (!may_read(peer, gpu).ok()) return {};
    std::vector<Lease> found;
    for (const Lease& lease : live) {
      if (std::find(lease.gpus.begin(), lease.gpus.end(), gpu) != lease.gpus.end()) {
        found.push_back(lease);
        found.back().id.clear();
      }
    }
    return found;
  }
  Result<Lease> implied_lease(const net::Peer& peer, const std::vector<int>& gpus) override {
    for (const Lease& known : live) {
      if (known.gpus == gpus && known.pid == peer.pid) return known;
    }
    return take(peer, {.gpus = gpus, .name = "implied"});
  }
  void apply(const net::Peer& /*peer*/, const std::string& lease, int gpu, const Setting& setting,
             Done<Applied> done) override {
    const bool known = std::any_of(live.begin(), live.end(), [&](const Lease& each) {
      return each.id == lease &&
             std::find(each.gpus.begin(), each.gpus.end(), gpu) != each.gpus.end();
    });
    if (!known) return done(Error::of(ErrorCode::kNotFound, "there is no such lease of this GPU"));
    if (failures.contains(gpu)) return done(failures.at(gpu));
    applied.push_back("GPU " + std::to_string(gpu) + ": " + text_of(setting));
    done(Applied{.text = applied.back(), .limit = {}, .clocks = {}, .clock = {}});
  }
  void read(const net::Peer& peer, int gpu, Done<GpuReading> done) override {
    if (Status may = may_read(peer, gpu); !may.ok()) return done(std::move(may).error());
    done(reading(gpu));
  }
  void power_limit_range(const net::Peer& peer, int gpu, Done<PowerLimitRange> done) override {
    if (Status may = may_read(peer, gpu); !may.ok()) return done(std::move(may).error());
    done(PowerLimitRange{Watts{100}, Watts{300}, Watts{300}});
  }
  void supported_clocks(const net::Peer& peer, int gpu, ClockDomain /*domain*/,
                        Done<std::vector<Megahertz>> done) override {
    if (Status may = may_read(peer, gpu); !may.ok()) return done(std::move(may).error());
    done(std::vector<Megahertz>{{210}, {225}, {1410}});
  }
  void read_cpu(const net::Peer& peer, int /*cpu*/, Done<CpuEnergy> done) override {
    if (!policy_.may_read_node(peer)) {
      return done(Error::of(ErrorCode::kNoPermission, "you may not read the CPUs"));
    }
    cpu_energy_ += 1;
    done(CpuEnergy{Joules{cpu_energy_}, {}});
  }
  std::shared_ptr<void> listen(std::function<void(int, const GpuReading&)> heard) override {
    for (const GpuIdentity& gpu : identities_) heard(gpu.index, reading(gpu.index));
    listener = std::make_shared<std::function<void(int, const GpuReading&)>>(std::move(heard));
    return listener;
  }
  Counts counts() const override { return {}; }

  std::shared_ptr<std::function<void(int, const GpuReading&)>> listener;

 private:
  static std::string text_of(const Setting& setting) {
    const std::string domain = setting.domain == ClockDomain::kGraphics ? "graphics" : "memory";
    switch (setting.kind) {
      case Setting::Kind::kLockClocks:
        return domain + " " + std::to_string(setting.clocks.lowest.value) + "-" +
               std::to_string(setting.clocks.highest.value);
      case Setting::Kind::kResetClocks:
        return "reset " + domain;
      case Setting::Kind::kPowerLimit:
        return "limit " + std::to_string(static_cast<int>(setting.limit.value * 1000)) + " mW";
      case Setting::Kind::kResetPowerLimit:
        return "reset limit";
      case Setting::Kind::kPersistenceMode:
        break;
    }
    return setting.enabled ? "persistence on" : "persistence off";
  }
  Status may_read(const net::Peer& peer, int gpu) const {
    if (gpu < 0 || static_cast<std::size_t>(gpu) >= identities_.size()) {
      return Error::of(ErrorCode::kNotFound, "there is no GPU " + std::to_string(gpu));
    }
    if (!policy_.allowance(peer, identities_[static_cast<std::size_t>(gpu)]).read) {
      return Error::of(ErrorCode::kNoPermission, "you may not read GPU " + std::to_string(gpu));
    }
    if (failures.contains(gpu)) return failures.at(gpu);
    return ok_status();
  }

  Policy policy_;
  int cpus_;
  std::vector<GpuIdentity> identities_;
  std::vector<GpuReading> readings_;
  int leases_made_ = 0;
  double cpu_energy_ = 0;
};

}  // namespace harpe::node
