#include "harpe/device/hw/gpu_choice.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::device {
namespace {

std::optional<unsigned> parse_hexadecimal(std::string_view text, std::size_t most_digits) {
  if (text.empty() || text.size() > most_digits) return std::nullopt;
  unsigned value = 0;
  for (const char c : lower(text)) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit ? c - '0' : c - 'a' + 10);
  }
  return value;
}

/// "GPUs 0 to 7" for messages.
std::string what_is_here(const std::vector<GpuIdentity>& gpus) {
  if (gpus.empty()) return "there is no GPU here (harpe devices says why)";
  if (gpus.size() == 1) return "here is GPU 0 only";
  return "here are GPUs 0 to " + std::to_string(gpus.size() - 1) + " (harpe devices lists them)";
}

class Chooser {
 public:
  explicit Chooser(const std::vector<GpuIdentity>& gpus) : gpus_(gpus) {}

  void add(std::string_view entry) {
    const auto count = static_cast<std::int64_t>(gpus_.size());
    if (const auto range = index_range(entry)) {
      const auto [first, last] = *range;
      if (first > last) return wrong(entry, "ends before it begins");
      if (last >= count) return unknown(entry);
      for (std::int64_t i = first; i <= last; ++i) take(static_cast<int>(i));
      return;
    }
    const std::string pci = normal_pci_address(entry);
    const std::string uuid = lower(entry);
    std::vector<int> found;
    for (const GpuIdentity& gpu : gpus_) {
      const bool named = pci.empty() ? uuid.starts_with("gpu-") && lower(gpu.uuid).starts_with(uuid)
                                     : gpu.pci == pci;
      if (named) found.push_back(gpu.index);
    }
    if (found.size() == 1) return take(found.front());
    if (found.size() > 1) return wrong(entry, "begins the UUID of several GPUs");
    if (uuid.starts_with("mig-")) {
      mig_ = true;
      return wrong(entry,
                   "is a MIG instance, which has no clock, power or energy counter of its own: "
                   "name the whole GPU");
    }
    if (!pci.empty() || uuid.starts_with("gpu-")) return unknown(entry);
    wrong(entry,
          "is no GPU: expected an index (0), a range (0-3), the beginning of a UUID (GPU-7a5e), a "
          "PCI address (65:00.0) or all");
  }

  Result<GpuChoice> finish() {
    if (diagnostics_.empty()) return GpuChoice{.gpus = std::move(chosen_), .notes = {}};
    ErrorCode code = unknown_only_ ? ErrorCode::kNotFound : ErrorCode::kInvalidInput;
    if (mig_) code = ErrorCode::kNotSupported;
    return Error{code, diagnostics_.take()};
  }

 private:
  static std::optional<std::pair<std::int64_t, std::int64_t>> index_range(std::string_view entry) {
    if (entry.empty() || entry.find_first_not_of("0123456789-") != std::string_view::npos) {
      return std::nullopt;
    }
    const std::size_t dash = entry.find('-');
    const auto first = parse_integer(entry.substr(0, dash));
    if (!first || dash == 0) return std::nullopt;
    if (dash == std::string_view::npos) return std::pair{*first, *first};
    const auto last = parse_integer(entry.substr(dash + 1));
    if (!last || *last < 0) return std::nullopt;
    return std::pair{*first, *last};
  }

  void take(int index) {
    if (std::ranges::find(chosen_, index) == chosen_.end()) chosen_.push_back(index);
  }
  void wrong(std::string_view entry, const std::string& why) {
    unknown_only_ = false;
    diagnostics_.add("--gpus: " + in_quotes(entry, 80) + " " + why);
  }
  void unknown(std::string_view entry) {
    diagnostics_.add("--gpus: no GPU " + in_quotes(entry, 80) + "; " + what_is_here(gpus_));
  }

  const std::vector<GpuIdentity>& gpus_;
  std::vector<int> chosen_;
  Diagnostics diagnostics_;
  bool unknown_only_ = true;
  bool mig_ = false;
};

}  // namespace

std::string normal_pci_address(std::string_view text) {
  const std::size_t last_colon = text.rfind(':');
  if (last_colon == std::string_view::npos) return {};
  const std::string_view tail = text.substr(last_colon + 1);
  std::string_view head = text.substr(0, last_colon);
  unsigned domain = 0;
  if (const std::size_t colon = head.rfind(':'); colon != std::string_view::npos) {
    const auto value = parse_hexadecimal(head.substr(0, colon), 8);
    if (!value) return {};
    domain = *value;
    head = head.substr(colon + 1);
  }
  const std::size_t dot = tail.find('.');
  const auto bus = parse_hexadecimal(head, 2);
  const auto slot = parse_hexadecimal(tail.substr(0, dot), 2);
  const auto function =
      dot == std::string_view::npos ? 0U : parse_hexadecimal(tail.substr(dot + 1), 1);
  if (!bus || !slot || !function || *slot > 0x1f || *function > 7) return {};
  std::array<char, 32> address{};
  const int length = std::snprintf(address.data(), address.size(), "%04x:%02x:%02x.%x", domain,
                                   *bus, *slot, *function);
  return {address.data(), static_cast<std::size_t>(length)};
}

Result<GpuChoice> choose_gpus(std::string_view text, const std::vector<GpuIdentity>& gpus,
                              const VisibilityVariables& variables) {
  text = trim(text);
  if (text.empty()) {
    VisibleGpus visible = HARPE_TRY(visible_gpus(gpus, variables));
    return GpuChoice{.gpus = std::move(visible.gpus), .notes = std::move(visible.notes)};
  }
  Chooser chooser(gpus);
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view entry = trim(text.substr(0, comma));
    if (lower(entry) == "all") {
      if (!gpus.empty()) chooser.add("0-" + std::to_string(gpus.size() - 1));
    } else {
      chooser.add(entry);
    }
    if (comma == std::string_view::npos) return chooser.finish();
    text.remove_prefix(comma + 1);
  }
}

}  // namespace harpe::device
