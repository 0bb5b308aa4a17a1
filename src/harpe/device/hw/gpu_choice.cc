#include "harpe/device/hw/gpu_choice.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::device {

namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

bool is_amd(const GpuIdentity& gpu) {
  return gpu.backend == "rocm";
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> entries;
  while (true) {
    const std::size_t comma = list.find(',');
    entries.push_back(trim(list.substr(0, comma)));
    if (comma == std::string_view::npos) return entries;
    list.remove_prefix(comma + 1);
  }
}

/// Returns the leading digits with an optional sign, as `strtol` reads them; nullopt if there are
/// none. Numbers that are too long for an ordinal become a number that no GPU has.
std::optional<std::int64_t> ordinal_of(std::string_view entry) {
  const bool minus = entry.starts_with('-');
  if (minus || entry.starts_with('+')) entry.remove_prefix(1);
  const std::size_t digits = std::min(entry.find_first_not_of("0123456789"), entry.size());
  if (digits == 0) return std::nullopt;
  const auto value = parse_integer(entry.substr(0, digits)).value_or(1LL << 62);
  return minus ? -value : value;
}

/// Application of one variable to the GPUs that earlier variables have selected.
class Selection {
 public:
  Selection(const char* variable, std::vector<const GpuIdentity*> gpus, VisibleGpus& result)
      : variable_(variable), gpus_(std::move(gpus)), result_(result) {}

  Result<std::vector<const GpuIdentity*>> select(std::string_view list) {
    std::vector<const GpuIdentity*> chosen;
    if (trim(list).empty()) return chosen;
    bool first = true;
    for (const std::string_view entry : split(list)) {
      if (first) by_uuid_ = entry.starts_with("GPU-");
      if (first && entry.starts_with("MIG-")) return mig_refusal(entry);
      first = false;
      std::string why;
      const GpuIdentity* gpu = find(entry, why);
      if (gpu == nullptr) {
        note(in_quotes(entry) + " " + why + "; it and all later entries are ignored");
        return chosen;
      }
      if (std::ranges::find(chosen, gpu) != chosen.end()) {
        note("names GPU " + std::to_string(gpu->index) + " twice, so no GPU is selected");
        return std::vector<const GpuIdentity*>{};
      }
      chosen.push_back(gpu);
    }
    return chosen;
  }

  bool by_uuid() const { return by_uuid_; }

 private:
  const GpuIdentity* find(std::string_view entry, std::string& why) const {
    if (by_uuid_) {
      const std::string wanted = lower(entry);
      const GpuIdentity* found = nullptr;
      if (!entry.starts_with("GPU-")) return why = "is not a UUID like the first entry", nullptr;
      for (const GpuIdentity* gpu : gpus_) {
        if (!lower(gpu->uuid).starts_with(wanted)) continue;
        if (found != nullptr) return why = "matches the UUIDs of several GPUs", nullptr;
        found = gpu;
      }
      if (found == nullptr) why = "matches no GPU of this machine";
      return found;
    }
    const auto ordinal = ordinal_of(entry);
    if (!ordinal) return why = "is not an ordinal", nullptr;
    if (*ordinal >= 0 && *ordinal < static_cast<std::int64_t>(gpus_.size())) {
      return gpus_[static_cast<std::size_t>(*ordinal)];
    }
    why = *ordinal < 0 ? "ends the list" : "is not a GPU of this machine";
    return nullptr;
  }

  Error mig_refusal(std::string_view entry) const {
    return Error::of(ErrorCode::kNotSupported,
                     std::string(variable_) + " names the MIG instance " + in_quotes(entry, 80) +
                         ": only the whole GPU has a clock, a power sensor and an energy counter; "
                         "name that GPU (--gpus) to measure all its instances together");
  }

  void note(const std::string& text) {
    result_.notes.push_back(std::string(variable_) + ": " + text);
  }

  const char* variable_;
  std::vector<const GpuIdentity*> gpus_;
  VisibleGpus& result_;
  bool by_uuid_ = false;
};

/// Returns the NVIDIA GPUs in CUDA's own order. Sets `is_estimate` to true if it is uncertain.
std::vector<const GpuIdentity*> cuda_order(std::vector<const GpuIdentity*> gpus,
                                           const std::optional<std::string>& order,
                                           bool& is_estimate) {
  is_estimate = false;
  if (order && trim(*order) == "PCI_BUS_ID") return gpus;
  // Equal GPUs stay in PCI order, because CUDA moves only faster GPUs to the front.
  is_estimate = std::ranges::any_of(gpus, [&](const GpuIdentity* gpu) {
    return gpu->name != gpus.front()->name || gpu->speed != gpus.front()->speed;
  });
  std::ranges::sort(gpus, {},
                    [](const GpuIdentity* gpu) { return std::pair{-gpu->speed, gpu->index}; });
  return gpus;
}

Status add_nvidia(std::vector<const GpuIdentity*> gpus, const VisibilityVariables& variables,
                  VisibleGpus& result) {
  bool is_estimate = false;
  gpus = cuda_order(std::move(gpus), variables.cuda_device_order, is_estimate);
  if (variables.cuda_visible_devices) {
    Selection selection("CUDA_VISIBLE_DEVICES", gpus, result);
    std::vector<const GpuIdentity*> chosen =
        HARPE_TRY(selection.select(*variables.cuda_visible_devices));
    gpus = std::move(chosen);
    // UUIDs define the user's own order of GPUs.
    is_estimate = is_estimate && !selection.by_uuid();
  }
  if (is_estimate && !gpus.empty()) {
    result.notes.emplace_back(
        "the GPUs differ and CUDA's order of them is not published: sorted by cores times highest "
        "clock; to be certain, set CUDA_DEVICE_ORDER=PCI_BUS_ID, or UUIDs in CUDA_VISIBLE_DEVICES");
  }
  for (const GpuIdentity* gpu : gpus) {
    result.gpus.push_back(gpu->index);
    if (gpu->is_mig) {
      result.notes.push_back("GPU " + std::to_string(gpu->index) +
                             " is divided into MIG instances: CUDA shows a program one of them, "
                             "readings are of the whole GPU");
    }
  }
  return ok_status();
}

Status add_amd(std::vector<const GpuIdentity*> gpus, const VisibilityVariables& variables,
               bool with_nvidia, VisibleGpus& result) {
  const auto narrow = [&](const char* name, const std::string& list) -> Status {
    gpus = HARPE_TRY(Selection(name, gpus, result).select(list));
    return ok_status();
  };
  Status status = ok_status();
  if (variables.rocr_visible_devices) {
    status = narrow("ROCR_VISIBLE_DEVICES", *variables.rocr_visible_devices);
  }
  if (!status.ok()) return status;
  if (variables.hip_visible_devices) {
    status = narrow("HIP_VISIBLE_DEVICES", *variables.hip_visible_devices);
  } else if (variables.cuda_visible_devices && !with_nvidia) {
    status = narrow("CUDA_VISIBLE_DEVICES", *variables.cuda_visible_devices);
  }
  for (const GpuIdentity* gpu : gpus) result.gpus.push_back(gpu->index);
  return status;
}

}  // namespace

VisibilityVariables VisibilityVariables::of_environment() {
  return {.cuda_visible_devices = variable("CUDA_VISIBLE_DEVICES"),
          .cuda_device_order = variable("CUDA_DEVICE_ORDER"),
          .hip_visible_devices = variable("HIP_VISIBLE_DEVICES"),
          .rocr_visible_devices = variable("ROCR_VISIBLE_DEVICES")};
}

Result<VisibleGpus> visible_gpus(const std::vector<GpuIdentity>& gpus,
                                 const VisibilityVariables& variables) {
  std::vector<const GpuIdentity*> nvidia;
  std::vector<const GpuIdentity*> amd;
  for (const GpuIdentity& gpu : gpus) (is_amd(gpu) ? amd : nvidia).push_back(&gpu);
  VisibleGpus result;
  // If a vendor has no GPUs here, its variables are not checked.
  if (!nvidia.empty()) {
    HARPE_TRY(add_nvidia(nvidia, variables, result));
  }
  if (!amd.empty()) {
    HARPE_TRY(add_amd(amd, variables, !nvidia.empty(), result));
  }
  return result;
}

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

/// Returns the GPUs of this node for messages: "this machine has GPUs 0 to 7".
std::string what_is_here(const std::vector<GpuIdentity>& gpus) {
  if (gpus.empty()) return "there is no GPU here (harpe devices shows why)";
  if (gpus.size() == 1) return "this machine has GPU 0 only";
  return "this machine has GPUs 0 to " + std::to_string(gpus.size() - 1) +
         " (harpe devices lists them)";
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
    if (found.size() > 1) return wrong(entry, "matches the UUIDs of several GPUs");
    if (uuid.starts_with("mig-")) {
      mig_ = true;
      return wrong(
          entry,
          "is a MIG instance, which has no separate clock, power sensor or energy counter: "
          "name the whole GPU");
    }
    if (!pci.empty() || uuid.starts_with("gpu-")) return unknown(entry);
    wrong(
        entry,
        "is not a GPU: expected an index (0), a range (0-3), the beginning of a UUID (GPU-7a5e), a "
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
