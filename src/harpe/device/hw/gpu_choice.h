#pragma once
/// \file
/// The GPUs a user means: the value of `--gpus`.

#include <string>
#include <string_view>
#include <vector>

#include "harpe/device/hw/visible_gpus.h"

namespace harpe::device {

struct GpuChoice {
  std::vector<int> gpus;  ///< `GpuIdentity::index` of each, every GPU once, in the order given
  std::vector<std::string> notes;  ///< what the user should know about the choice
};

/// `text` is a list separated by commas of indices ("0"), ranges of them ("0-3"), beginnings of
/// UUIDs ("GPU-7a5e") and PCI addresses ("65:00.0", with or without the domain), or "all". Without
/// any text: the GPUs that a program started here would use (visible_gpus.h).
///
/// Indices are `GpuIdentity::index`, whatever CUDA's variables say. Diagnostics name every entry
/// that means no GPU, or more than one.
Result<GpuChoice> choose_gpus(std::string_view text, const std::vector<GpuIdentity>& gpus,
                              const VisibilityVariables& variables);

/// "0000:65:00.0" of any usual way to write a PCI address: "65:00.0", "00000000:65:00.0",
/// "0000:65:00"; upper or lower case. Empty when it is none.
std::string normal_pci_address(std::string_view text);

}  // namespace harpe::device
