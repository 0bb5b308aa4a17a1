#pragma once
/// \file
/// The client's end of the agent's fast path. Setting a GPU's clock costs one write to shared
/// memory and at most one wake-up, and does not wait. Only a GPU's newest clock takes effect.
///
/// The client requests a channel on a Unix socket (SOCK_SEQPACKET) with text messages:
///
///   client: "harpe.clock/1 lease ID"                     channels of a lease it holds
///           "harpe.clock/1 take SECONDS GPU,GPU NAME"    a new lease, which ends with this socket
///   agent:  "gpu INDEX", with the descriptor of the memory (clock_slot.h); one message per GPU, in
///           order; then "ready ID SECONDS"
///   client: "renew SECONDS"                              at any later time
///   agent:  "renewed SECONDS"
///   client: "set memory_clock GPU MHZ", "set power_limit GPU WATTS"; 0: as before the lease
///   agent:  "set" once the setting is in force, or "refused TEXT"
///   agent:  "error TEXT" instead of any response

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/node/node_client/clock_slot.h"

namespace harpe::node {

/// `set`, `served`, `wanted` and `refused` are thread-safe and never block. Other functions are not
/// thread-safe and wait at most 5 s (`kUnavailable`). The destructor ends a lease from `take`.
class ClockChannel {
 public:
  /// Opens channels to all GPUs of a lease that this user holds.
  static Result<ClockChannel> join(const std::filesystem::path& socket, const std::string& lease);
  /// Takes a lease, which ends with this object, with this process, or if it is not renewed.
  static Result<ClockChannel> take(const std::filesystem::path& socket,
                                   const std::vector<int>& gpus, Seconds duration,
                                   const std::string& name);

  const std::string& lease() const { return lease_; }
  Seconds duration() const { return duration_; }
  /// Returns the GPUs' indices. Functions below take positions in this list.
  const std::vector<int>& gpus() const { return gpus_; }

  /// Requests a clock (0 MHz for the lock before the lease). Returns the command's sequence number.
  std::uint32_t set(std::size_t position, Megahertz clock) noexcept;

  struct Served {
    std::uint32_t sequence = 0;  ///< sequence number of the last served command; 0 if none yet
    ClockOutcome outcome = ClockOutcome::kNone;
    Megahertz clock;  ///< clock applied or refused
  };
  Served served(std::size_t position) const noexcept;
  /// Returns the sequence number of the last command; 0 if none yet.
  std::uint32_t wanted(std::size_t position) const noexcept;
  /// Returns the number of commands, up to the one of `served`, that were not applied.
  std::uint32_t refused(std::size_t position) const noexcept;

  /// Returns false if the agent has closed the connection.
  bool connected() const noexcept;

  Status renew(Seconds duration);

  // Set further controls under the same lease, which restores them; 0 for the value before the
  // lease. Wait for the driver. If the agent refuses (`kRefused`), the present setting stays.
  Status set_memory_clock(std::size_t position, Megahertz clock);
  Status set_power_limit(std::size_t position, Watts limit);

 private:
  struct Unmap {
    void operator()(ClockMemory* memory) const;
  };
  static Result<ClockChannel> open(const std::filesystem::path& socket, const std::string& hello);
  Status receive();
  Status apply(const char* what, std::size_t position, const std::string& value);

  UniqueFd socket_;
  std::string lease_;
  Seconds duration_{0};
  std::vector<int> gpus_;
  std::vector<std::unique_ptr<ClockMemory, Unmap>> memories_;
};

}  // namespace harpe::node
