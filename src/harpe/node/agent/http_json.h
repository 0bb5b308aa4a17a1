#pragma once
/// \file
/// Readings of devices in JSON. Include only in `.cc` files.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/node/agent/controller.h"

namespace harpe::node {

/// Returns a value in thousandths, rounded.
std::int64_t milli(double value);

/// Returns a reading with Harpe's names and units (seconds, joules, watts, megahertz). Values that
/// could not be read are null.
net::OrderedJson reading_json(int gpu, const GpuReading& reading);
/// Returns {"cpu_mw": ..., "dram_mw": ...}, the mean power between two readings.
net::OrderedJson cpu_power_json(const CpuEnergy& before, const CpuEnergy& after, Seconds time);

/// A collector of results from several devices, which arrive on several threads, for one reply.
/// Construct it with the number of results, and pass one `slot(key)` to each request.
template <class T>
class Gather : public std::enable_shared_from_this<Gather<T>> {
 public:
  using Results = std::map<int, Result<T>>;

  /// \param all  called once, on the thread of the last response
  static std::shared_ptr<Gather> of(std::size_t expected, std::function<void(Results)> all) {
    return std::shared_ptr<Gather>(new Gather(expected, std::move(all)));
  }

  Done<T> slot(int key) {
    return [self = this->shared_from_this(), key](Result<T> result) {
      self->put(key, std::move(result));
    };
  }

 private:
  Gather(std::size_t expected, std::function<void(Results)> all)
      : expected_(expected), all_(std::move(all)) {}

  void put(int key, Result<T> result) {
    Results all;
    {
      const MutexLock lock(mutex_);
      results_.emplace(key, std::move(result));
      if (results_.size() < expected_) return;
      all = std::move(results_);
    }
    all_(std::move(all));
  }

  const std::size_t expected_;
  const std::function<void(Results)> all_;
  Mutex mutex_;
  Results results_ HARPE_GUARDED_BY(mutex_);
};

}  // namespace harpe::node
