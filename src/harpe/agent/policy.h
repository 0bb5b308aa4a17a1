#pragma once
/// \file
/// Who may do what to which GPU: a TOML file that denies whatever it does not allow.
///
///   [[allow]]
///   users = ["alice"]            # or groups = ["ml"], or tokens = ["grafana"]; "*" is everybody
///   gpus = ["*"]                 # indices, UUIDs, PCI addresses, or "*"
///   read = true                  # energy, power, clocks, limits
///   clocks_mhz = [900, 1410]     # graphics clocks that may be locked; left out: none
///   memory_clocks_mhz = [1215, 1215]
///   power_limit_w = [200, 400]
///   persistence_mode = true
///   max_lease_s = 3600           # how long one lease may last before it is renewed
///
/// What several entries allow to one peer adds up. docs/security.md is the threat model.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/hw/device.h"

namespace harpe {

/// Who is asking, as the kernel or a verified token says; never as the client says.
struct Peer {
  std::int64_t uid = -1;  ///< -1: no local process (TCP)
  std::int64_t pid = 0;   ///< 0: unknown
  std::vector<std::int64_t> groups;
  std::string token_subject;        ///< of a verified token; empty: none
  std::vector<std::string> scopes;  ///< of the token
};

/// What one peer may do to one GPU. Default: nothing.
struct Allowance {
  bool read = false;
  bool persistence_mode = false;
  std::vector<ClockRange> clocks;         ///< graphics clocks; empty: none
  std::vector<ClockRange> memory_clocks;  ///< empty: none
  struct WattRange {
    Watts lowest, highest;
  };
  std::vector<WattRange> power_limits;  ///< empty: none
  Seconds max_lease{0};

  bool may_control() const {
    return persistence_mode || !clocks.empty() || !memory_clocks.empty() || !power_limits.empty();
  }
};

class Policy {
 public:
  /// All faults at once, with line and column. Unknown keys, users or groups are faults.
  static Result<Policy> parse(std::string_view text, const std::string& file);
  /// Refuses, naming what is wrong, a file that others than root and this process's user could
  /// write (itself or the directories above it).
  static Result<Policy> read(const std::filesystem::path& path);

  Allowance allowance(const Peer& peer, const GpuIdentity& gpu) const;
  /// Whether the peer may read CPU energy and the metrics of the whole node.
  bool may_read_node(const Peer& peer) const;

 private:
  struct Rule;
  std::vector<Rule> rules_;
};

}  // namespace harpe
