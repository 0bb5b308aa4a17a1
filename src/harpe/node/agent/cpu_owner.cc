#include "harpe/node/agent/cpu_owner.h"

#include <chrono>

namespace harpe::node {
namespace {

constexpr std::size_t kMostWaiting = 4096;
/// Counters wrap; read so often, none is missed (device.h).
constexpr std::chrono::seconds kBetweenReadings{20};

}  // namespace

CpuOwner::CpuOwner(std::vector<std::unique_ptr<Cpu>> cpus)
    : cpus_(std::move(cpus)), thread_([this] { run(); }) {}

CpuOwner::~CpuOwner() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CpuOwner::read(int cpu, Done<CpuEnergy> done) {
  {
    const MutexLock lock(mutex_);
    if (queue_.size() < kMostWaiting) queue_.emplace_back(cpu, std::exchange(done, nullptr));
  }
  if (done) {
    return done(Error::of(ErrorCode::kUnavailable, "too many requests wait for CPU energy"));
  }
  changed_.notify_one();
}

void CpuOwner::run() {
  MutexLock lock(mutex_);
  while (!stopping_ || !queue_.empty()) {
    if (queue_.empty()) {
      const bool woken = changed_.wait_for(
          mutex_, kBetweenReadings,
          [this]() HARPE_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
      if (!woken) {
        lock.unlock();
        for (const auto& cpu : cpus_) (void)cpu->total_energy();
        lock.lock();
      }
      continue;
    }
    auto [cpu, done] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    done(cpus_[static_cast<std::size_t>(cpu)]->total_energy());
    done = nullptr;
    lock.lock();
  }
}

}  // namespace harpe::node
