#include "harpe/zeus/tuning/agent_setter.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/node/node_client/agent_client.h"
#include "harpe/zeus/tuning/offered_knob.h"

namespace harpe {
namespace {

constexpr Seconds kLease{60};
// A lease that was lost is noticed so soon; a renewal costs a request over a local socket.
constexpr Seconds kRenewal{5};

class AgentSetter final : public KnobSetter {
 public:
  AgentSetter(AgentClient agent, Lease lease, Knob knob, Seconds lasts, Clock& clock)
      : agent_(std::move(agent)),
        lease_(std::move(lease)),
        knob_(std::move(knob)),
        lasts_(lasts),
        renewed_(clock.now()) {}
  ~AgentSetter() override { (void)restore().ok(); }
  AgentSetter(const AgentSetter&) = delete;
  AgentSetter& operator=(const AgentSetter&) = delete;

  const Knob& knob() const override { return knob_; }

  Status set(std::size_t setting) override {
    const MutexLock lock(mutex_);
    for (const int gpu : lease_.gpus) {
      const Applied applied = HARPE_TRY(agent_.apply(lease_.id, gpu, setting_of(setting)));
      if (applied.dry_run) {
        return Error::of(ErrorCode::kRefused, "the agent makes a dry run and sets nothing");
      }
    }
    return ok_status();
  }

  Status keep(Instant now) override {
    const MutexLock lock(mutex_);
    if (released_ || now - renewed_ < std::min(kRenewal, lasts_ / 3)) return ok_status();
    renewed_ = now;
    return agent_.renew(lease_.id, lasts_);
  }

  Status restore() override {
    const MutexLock lock(mutex_);
    if (std::exchange(released_, true)) return ok_status();
    return agent_.release(lease_.id);
  }

 private:
  Setting setting_of(std::size_t setting) const {
    const bool is_clock = knob_.kind() == KnobKind::kGraphicsClock;
    if (setting == 0) {
      return {.kind = is_clock ? Setting::Kind::kResetClocks : Setting::Kind::kResetPowerLimit};
    }
    if (!is_clock) return {.kind = Setting::Kind::kPowerLimit, .limit = {knob_[setting]}};
    const Megahertz clock{static_cast<int>(knob_[setting])};
    return {.kind = Setting::Kind::kLockClocks, .clocks = {clock, clock}};
  }

  Mutex mutex_;
  AgentClient agent_ HARPE_GUARDED_BY(mutex_);
  const Lease lease_;
  const Knob knob_;
  const Seconds lasts_;
  Instant renewed_ HARPE_GUARDED_BY(mutex_);
  bool released_ HARPE_GUARDED_BY(mutex_) = false;
};

Result<std::vector<int>> positions(AgentClient& agent, std::span<const std::string> uuids) {
  const std::vector<GpuIdentity> known = HARPE_TRY(agent.gpus());
  std::vector<int> gpus;
  for (const std::string& uuid : uuids) {
    const auto found = std::ranges::find(known, uuid, &GpuIdentity::uuid);
    if (found == known.end()) {
      return Error::of(ErrorCode::kNotFound, "the agent does not know the GPU " + uuid);
    }
    gpus.push_back(found->index);
  }
  if (gpus.empty()) return Error::of(ErrorCode::kNotFound, "there is no GPU");
  return gpus;
}

}  // namespace

Result<std::unique_ptr<KnobSetter>> open_agent_setter(const std::filesystem::path& socket,
                                                      std::span<const std::string> uuids,
                                                      const std::string& name, Seconds patience,
                                                      Clock& clock) {
  AgentClient agent = HARPE_TRY(AgentClient::connect(socket, patience));
  const std::vector<int> gpus = HARPE_TRY(positions(agent, uuids));
  std::vector<FoundGpu> found;
  Seconds lasts = kLease;
  for (const int gpu : gpus) {
    found.push_back({.offer = HARPE_TRY(agent.offer(gpu)), .found = {}});
    // Who may set a GPU without reading it finds it as the factory left it.
    const Result<GpuReading> reading = agent.read(gpu);
    if (reading.ok()) found.back().found = *reading;
    const Seconds most = found.back().offer.max_lease;
    if (most.value > 0) lasts = std::min(lasts, most);
  }
  std::optional<Error> refused;
  for (const bool clocks : {true, false}) {
    Knob knob = clocks ? clock_knob(found) : limit_knob(found);
    if (!knob.can_choose()) continue;
    Result<Lease> lease =
        agent.take({.gpus = gpus,
                    .duration = lasts,
                    .name = name,
                    .controls = {clocks ? Control::kClocks : Control::kPowerLimit}});
    if (lease.ok()) {
      return std::unique_ptr<KnobSetter>(std::make_unique<AgentSetter>(
          std::move(agent), std::move(lease).take(), std::move(knob), lasts, clock));
    }
    // Two optimizers on one GPU would each measure what the other sets: limits beside another
    // one's clocks, which the agent grants to one user, are no way out.
    if (lease.error().code == ErrorCode::kConflict) return std::move(lease).error();
    if (!refused) refused = std::move(lease).error();
  }
  if (refused) return *std::move(refused);
  return Error::of(ErrorCode::kNoPermission,
                   "the agent's policy lets you lower neither the clocks nor the power limits of "
                   "all these GPUs (clocks_mhz and power_limit_w in its file)");
}

}  // namespace harpe
