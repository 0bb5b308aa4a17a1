#pragma once
/// \file
/// The policy: a TOML file with the rights of clients on GPUs. Denies all that it does not allow.
///
///   [[allow]]
///   users = ["alice", 1000]      # local processes of these users; "*": every local process
///   groups = ["ml"]              # local processes of members of these groups
///   tokens = ["grafana"]         # holders of tokens with these subjects, within their scopes
///   gpus = ["*"]                 # indices, UUIDs, PCI addresses, or "*"
///   read = true                  # energy, power, clocks, limits
///   clocks_mhz = [900, 1410]     # graphics clocks that may be locked; default: none
///   memory_clocks_mhz = [1215, 1215]
///   power_limit_w = [200, 400]
///   persistence_mode = true
///   max_lease_s = 3600           # longest time until a lease must be renewed (default: 3600)
///   requires = ["device"]        # applies only to GPUs that are proven to be the client's
///
///   [audit]
///   when_full = "deny"           # or "allow" control while the audit log cannot be written
///
/// A peer has the rights of all entries that match it. An entry without a client, a GPU or a right
/// is an error. A token needs a scope for each right: "gpu-read" to read, "gpu-control" to set,
/// "cpu-read" for the node. docs/security.md is the threat model.
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

/// A fact about a client and a GPU that the kernel or the driver proves (gpu_proof.h).
enum class Proof : unsigned char {
  kDevice,    ///< the kernel restricts device access and lets the client use the GPU's device file
  kComputing  ///< a process of the client's user computes on the GPU, and no other user's process
};
/// A set of proofs.
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
/// Returns "it is proven that its process may use that GPU's device file ... (requires = device)".
std::string text_of(Proofs proofs);

/// The rights of one peer on one GPU. By default none.
struct Allowance {
  bool read = false;
  bool persistence_mode = false;
  std::vector<ClockRange> clocks;         ///< allowed graphics clocks; empty if none
  std::vector<ClockRange> memory_clocks;  ///< allowed memory clocks; empty if none
  struct WattRange {
    Watts lowest, highest;
  };
  std::vector<WattRange> power_limits;  ///< allowed power limits; empty if none
  Seconds max_lease{0};

  bool may_control() const {
    return persistence_mode || !clocks.empty() || !memory_clocks.empty() || !power_limits.empty();
  }
};

class Policy {
 public:
  /// Allows nothing to any client.
  Policy() = default;
  /// Parses a policy. Reports all errors at once, with line and column, including unknown keys,
  /// users and groups.
  static Result<Policy> parse(std::string_view text, const std::string& file);
  /// Reads a policy file. Fails, with the reasons, if users other than root and this process's user
  /// could write the file or a directory above it.
  static Result<Policy> read(const std::filesystem::path& path);

  /// Returns the rights from entries for this peer and GPU that require only proofs in `proven`.
  Allowance allowance(const net::Peer& peer, const GpuIdentity& gpu, Proofs proven = {}) const;
  /// Returns the proofs that entries for this peer and GPU require.
  Proofs required(const net::Peer& peer, const GpuIdentity& gpu) const;
  /// Returns the proofs that any entry requires.
  Proofs required() const;
  /// Returns true if control is allowed while the audit log cannot be written.
  bool goes_on_without_audit() const;
  /// Returns the policy's names of GPUs that are not in `gpus`, each once; UUIDs in lower case.
  std::vector<std::string> gpus_not_among(const std::vector<GpuIdentity>& gpus) const;
  /// Returns true if the peer may read CPU energy and the metrics of the whole node: an entry lets
  /// it read all GPUs ("*"), and a token has the scope "cpu-read".
  bool may_read_node(const net::Peer& peer) const;

 private:
  struct Rule;
  std::shared_ptr<const std::vector<Rule>> rules_;  ///< null if nothing is allowed
  bool goes_on_without_audit_ = false;
};

}  // namespace harpe::node
