#pragma once
/// \file
/// Who may do what to which GPU: a TOML file that denies whatever it does not allow.
///
///   [[allow]]
///   users = ["alice", 1000]      # local processes of these; "*" is every local process
///   groups = ["ml"]              # or of members of these groups
///   tokens = ["grafana"]         # or holders of a token for these subjects, within its scopes
///   gpus = ["*"]                 # indices, UUIDs, PCI addresses, or "*"
///   read = true                  # energy, power, clocks, limits
///   clocks_mhz = [900, 1410]     # graphics clocks that may be locked; left out: none
///   memory_clocks_mhz = [1215, 1215]
///   power_limit_w = [200, 400]
///   persistence_mode = true
///   max_lease_s = 3600           # how long one lease may last before it is renewed (the default)
///   requires = ["device"]        # counts only for GPUs that are proven to be the client's
///
///   [audit]
///   when_full = "deny"           # or "allow": what a log that cannot be written means for control
///
/// What several entries allow to one peer adds up. An entry that names no user, no GPU or no right
/// is an error. What an entry allows to a token counts only with the token's scope: "gpu-read" to
/// read, "gpu-control" to set, "cpu-read" for the node. docs/security.md is the threat model.
///
/// A policy is immutable and cheap to copy; all functions are thread-safe.

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/device/hw/device.h"
#include "harpe/net/service/peer.h"

namespace harpe::node {

/// Something that the kernel or the driver shows of a client and a GPU (gpu_proof.h).
enum class Proof : unsigned char {
  kDevice,    ///< the client may use the GPU's device file, and is kept from others
  kComputing  ///< a process of the client's user computes on the GPU, and none of another user's
};
/// A set of them.
class Proofs {
 public:
  constexpr Proofs() = default;
  constexpr Proofs(std::initializer_list<Proof> proofs) {
    for (const Proof proof : proofs) bits_ |= 1U << static_cast<unsigned>(proof);
  }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(Proof proof) const { return (bits_ & Proofs({proof}).bits_) != 0; }
  constexpr bool has_all(Proofs other) const { return (bits_ & other.bits_) == other.bits_; }
  constexpr void add(Proofs other) { bits_ |= other.bits_; }
  friend constexpr bool operator==(Proofs, Proofs) = default;

 private:
  unsigned bits_ = 0;
};
/// "it is proven that its process may use that GPU's device file ... (requires = device)".
std::string text_of(Proofs proofs);

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
  /// Allows nothing to any client.
  Policy() = default;
  /// All errors at once, with line and column. Unknown keys, users or groups are errors.
  static Result<Policy> parse(std::string_view text, const std::string& file);
  /// Refuses, naming what is wrong, a file that others than root and this process's user could
  /// write (itself or the directories above it).
  static Result<Policy> read(const std::filesystem::path& path);

  /// What all entries allow of which it is proven what they require.
  Allowance allowance(const net::Peer& peer, const GpuIdentity& gpu, Proofs proven = {}) const;
  /// What entries for this peer and GPU require.
  Proofs required(const net::Peer& peer, const GpuIdentity& gpu) const;
  /// What any entry requires of any client.
  Proofs required() const;
  /// Whether control goes on while the audit log cannot be written.
  bool goes_on_without_audit() const;
  /// GPUs that are named and are none of these, each once, as text; UUIDs in lower case.
  std::vector<std::string> gpus_not_among(const std::vector<GpuIdentity>& gpus) const;
  /// Whether the peer may read CPU energy and the metrics of the whole node: where it may read
  /// "*" of the GPUs.
  bool may_read_node(const net::Peer& peer) const;

 private:
  struct Rule;
  std::shared_ptr<const std::vector<Rule>> rules_;  ///< null: nothing is allowed
  bool goes_on_without_audit_ = false;
};

}  // namespace harpe::node
