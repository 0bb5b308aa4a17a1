#include "harpe/device/hw/rocm/amd_library.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <utility>

namespace harpe::device {

std::string pci_text(std::uint64_t domain, unsigned bus, unsigned device, unsigned function) {
  std::array<char, 40> text{};
  const int length = std::snprintf(text.data(), text.size(), "%04" PRIx64 ":%02x:%02x.%x", domain,
                                   bus, device, function);
  return {text.data(), static_cast<std::size_t>(length)};
}

Result<std::shared_ptr<AmdLibrary>> AmdLibrary::load(const std::string& amd_smi,
                                                     const std::string& rocm_smi) {
  std::string tried;
  std::optional<Error> refused;
  for (const auto& [library, load] :
       {std::pair{amd_smi, &load_amd_smi}, std::pair{rocm_smi, &load_rocm_smi}}) {
    if (library.empty()) continue;
    Result<std::shared_ptr<AmdLibrary>> loaded = load(library);
    if (!loaded.ok()) {
      if (!refused) refused = std::move(loaded).error();
    } else if (*loaded != nullptr) {
      return loaded;
    }
    tried += (tried.empty() ? "" : " and ") + library;
  }
  if (refused) return *std::move(refused);
  return Error::of(ErrorCode::kNotFound, "no AMD driver library: " + tried + " not found");
}

}  // namespace harpe::device
