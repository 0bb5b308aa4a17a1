#pragma once
/// \file
/// Selection of GPUs by the value of `--gpus` and by environment variables.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/device/hw/device.h"

namespace harpe::device {

// The GPUs that a program started in this environment would use, by the rules of CUDA and ROCm for
// their environment variables. Harpe measures those GPUs and no others.
//
// CUDA (programming guide, "Environment variables"; undocumented behaviour is taken from PyTorch's
// and nvitop's parsers): the value is a list separated by commas. An entry is an ordinal, parsed
// like `strtol` (leading digits, the rest is ignored), or a UUID or a unique prefix of one. All
// entries are of the kind of the first. The first invalid entry (-1, unknown, ambiguous, of the
// other kind) ends the list. A list that names a GPU twice selects none; so does an empty list.
// Ordinals follow the order of CUDA_DEVICE_ORDER.
//
// ROCm: ROCR_VISIBLE_DEVICES (ordinals or UUIDs) selects first, and HIP_VISIBLE_DEVICES (ordinals)
// selects among the result. CUDA_VISIBLE_DEVICES replaces an unset HIP_VISIBLE_DEVICES on nodes
// without NVIDIA GPUs.

/// The environment variables that choose GPUs; nullopt if a variable is not set.
struct VisibilityVariables {
  std::optional<std::string> cuda_visible_devices = {};
  std::optional<std::string> cuda_device_order = {};
  std::optional<std::string> hip_visible_devices = {};
  std::optional<std::string> rocr_visible_devices = {};

  static VisibilityVariables of_environment();
};

struct VisibleGpus {
  /// `GpuIdentity::index` of each GPU, in the order in which a program counts them, NVIDIA first.
  std::vector<int> gpus;
  /// Notes for people: the entry at which a list ends and the reason; a warning if the order is an
  /// estimate, because CUDA's rule for sorting different GPUs fastest first is not published. Harpe
  /// sorts by `GpuIdentity::speed`.
  std::vector<std::string> notes;
};

/// Returns the GPUs that the variables select from `gpus`, which are in the order of their index.
/// Fails with `kNotSupported` if a list begins with a MIG instance: it has no own clock or power.
Result<VisibleGpus> visible_gpus(const std::vector<GpuIdentity>& gpus,
                                 const VisibilityVariables& variables);

struct GpuChoice {
  std::vector<int> gpus;  ///< `GpuIdentity::index` of each GPU once, in the order of `text`
  std::vector<std::string> notes;  ///< notes about the choice for the user
};

/// Returns the GPUs that `text` selects: a list, separated by commas, of indices ("0"), ranges of
/// indices ("0-3"), prefixes of UUIDs ("GPU-7a5e"), PCI addresses ("65:00.0", with or without the
/// domain) and "all". If `text` is empty, returns the GPUs that a program started here would use.
///
/// Indices are `GpuIdentity::index`; CUDA's variables do not affect them. Diagnostics name every
/// entry that selects no GPU or is ambiguous.
Result<GpuChoice> choose_gpus(std::string_view text, const std::vector<GpuIdentity>& gpus,
                              const VisibilityVariables& variables);

/// Returns a PCI address in the form "0000:65:00.0" from any usual form: "65:00.0",
/// "00000000:65:00.0", "0000:65:00"; upper or lower case. Empty if `text` is no PCI address.
std::string normal_pci_address(std::string_view text);

}  // namespace harpe::device
