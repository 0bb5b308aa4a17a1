#pragma once
/// \file
/// The client's end of the agent's cheap path: telling GPUs their clocks costs one write to shared
/// memory, and a wake-up when the agent sleeps. Nothing is waited for; per GPU only the newest
/// wanted clock counts.
///
/// A channel is asked for on a Unix socket (SOCK_SEQPACKET) by messages of text:
///
///   client: "harpe.clock/1 lease ID"                     channels of a lease it holds
///           "harpe.clock/1 take SECONDS GPU,GPU NAME"    a new lease, which ends with this socket
///   agent:  "gpu INDEX", with the descriptor of the memory (clock_slot.h); one message a GPU, in
///           order; then "ready ID SECONDS"
///   client: "renew SECONDS"                              any time later
///   agent:  "renewed SECONDS"
///   client: "set memory_clock GPU MHZ", "set power_limit GPU WATTS"; 0: as before the lease
///   agent:  "set", once it is in force; "refused TEXT"
///   agent:  "error TEXT" in place of any response

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

/// `set`, `served`, `wanted` and `refused` are thread-safe and never block; the rest is not
/// thread-safe, and waits for the agent for 5 s at most (`kUnavailable`). Destroying it ends a
/// lease that it took.
class ClockChannel {
 public:
  /// Channels of all GPUs of a lease that this user holds.
  static Result<ClockChannel> join(const std::filesystem::path& socket, const std::string& lease);
  /// Takes a lease that ends with this object, with this process, or when it is not renewed.
  static Result<ClockChannel> take(const std::filesystem::path& socket,
                                   const std::vector<int>& gpus, Seconds duration,
                                   const std::string& name);

  const std::string& lease() const { return lease_; }
  Seconds duration() const { return duration_; }
  /// The GPUs' indices; functions below take positions in this list.
  const std::vector<int>& gpus() const { return gpus_; }

  /// Wants this clock from now on (0 MHz: no lock). Returns the command's sequence.
  std::uint32_t set(std::size_t position, Megahertz clock) noexcept;

  struct Served {
    std::uint32_t sequence = 0;  ///< the last command that the agent looked at; 0: none yet
    ClockOutcome outcome = ClockOutcome::kNone;
    Megahertz clock;  ///< applied, or refused
  };
  Served served(std::size_t position) const noexcept;
  /// The sequence of the last command; 0: none yet.
  std::uint32_t wanted(std::size_t position) const noexcept;
  /// How many commands, up to that of `served`, came to nothing.
  std::uint32_t refused(std::size_t position) const noexcept;

  /// False where the agent has gone.
  bool connected() const noexcept;

  Status renew(Seconds duration);

  // Under the same lease, which restores them; 0: as before it. Takes as long as the driver does.
  // Where the agent refuses it (`kRefused`), what was in force stays.
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
