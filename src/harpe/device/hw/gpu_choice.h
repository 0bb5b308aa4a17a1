#pragma once
/// \file
/// The GPUs a user means: the value of `--gpus`.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/device/hw/device.h"

namespace harpe::device {

// The GPUs that a program started in this environment would use, by the rules of CUDA and ROCm for
// their environment variables. Harpe measures those GPUs and no others.
//
// CUDA (programming guide, "Environment variables"; what the driver does beyond the text is known
// from PyTorch's and nvitop's readers): entries are separated by commas; an entry is an ordinal,
// read like `strtol` (leading digits count, the rest is ignored), or a UUID or a beginning of it
// that names one GPU; entries of one list are all of one kind. The first invalid one (-1, unknown,
// ambiguous, of the other kind) cuts the list there; naming a GPU twice leaves none; an empty list
// leaves none. Ordinals count in the order of CUDA_DEVICE_ORDER.
//
// ROCm: ROCR_VISIBLE_DEVICES (ordinals or UUIDs) selects first, HIP_VISIBLE_DEVICES (ordinals)
// selects among those; CUDA_VISIBLE_DEVICES stands in for the latter on nodes without NVIDIA GPUs.

/// The environment variables that choose GPUs; nullopt if a variable is not set.
struct VisibilityVariables {
  std::optional<std::string> cuda_visible_devices = {};
  std::optional<std::string> cuda_device_order = {};
  std::optional<std::string> hip_visible_devices = {};
  std::optional<std::string> rocr_visible_devices = {};

  static VisibilityVariables of_environment();
};

struct VisibleGpus {
  /// `GpuIdentity::index` of each, in the order in which a program counts them: NVIDIA's first.
  std::vector<int> gpus;
  /// For people: where the list was cut and why, and that the order is an estimate: CUDA sorts
  /// different GPUs fastest first by a rule that is not published; Harpe by `GpuIdentity::speed`.
  std::vector<std::string> notes;
};

/// Fails with `kNotSupported` where a MIG instance is named: it has no clock and no power reading
/// of its own. `gpus` are in the order of their index.
Result<VisibleGpus> visible_gpus(const std::vector<GpuIdentity>& gpus,
                                 const VisibilityVariables& variables);

struct GpuChoice {
  std::vector<int> gpus;  ///< `GpuIdentity::index` of each, every GPU once, in the order given
  std::vector<std::string> notes;  ///< what the user should know about the choice
};

/// `text` is a list separated by commas of indices ("0"), ranges of them ("0-3"), beginnings of
/// UUIDs ("GPU-7a5e") and PCI addresses ("65:00.0", with or without the domain), or "all". Without
/// any text: the GPUs that a program started here would use.
///
/// Indices are `GpuIdentity::index`, whatever CUDA's variables say. Diagnostics name every entry
/// that means no GPU, or more than one.
Result<GpuChoice> choose_gpus(std::string_view text, const std::vector<GpuIdentity>& gpus,
                              const VisibilityVariables& variables);

/// "0000:65:00.0" of any usual way to write a PCI address: "65:00.0", "00000000:65:00.0",
/// "0000:65:00"; upper or lower case. Empty when it is none.
std::string normal_pci_address(std::string_view text);

}  // namespace harpe::device
