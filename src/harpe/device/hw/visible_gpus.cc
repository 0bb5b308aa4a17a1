#include "harpe/device/hw/visible_gpus.h"

#include <algorithm>
#include <cstdlib>
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

/// Leading digits with an optional sign, as `strtol` reads them; nullopt where there are none.
/// Numbers too long to be an ordinal are some number that no GPU has.
std::optional<std::int64_t> ordinal_of(std::string_view entry) {
  const bool minus = entry.starts_with('-');
  if (minus || entry.starts_with('+')) entry.remove_prefix(1);
  const std::size_t digits = std::min(entry.find_first_not_of("0123456789"), entry.size());
  if (digits == 0) return std::nullopt;
  const auto value = parse_integer(entry.substr(0, digits)).value_or(1LL << 62);
  return minus ? -value : value;
}

/// One variable applied to the GPUs left by those before it.
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
        note(in_quotes(entry) + " " + why + "; it and what follows are left out");
        return chosen;
      }
      if (std::ranges::find(chosen, gpu) != chosen.end()) {
        note("names GPU " + std::to_string(gpu->index) + " twice, which leaves none");
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
      if (!entry.starts_with("GPU-")) return why = "is no UUID like those before it", nullptr;
      for (const GpuIdentity* gpu : gpus_) {
        if (!lower(gpu->uuid).starts_with(wanted)) continue;
        if (found != nullptr) return why = "begins the UUID of several GPUs", nullptr;
        found = gpu;
      }
      if (found == nullptr) why = "begins the UUID of no GPU here";
      return found;
    }
    const auto ordinal = ordinal_of(entry);
    if (!ordinal) return why = "is no ordinal", nullptr;
    if (*ordinal >= 0 && *ordinal < static_cast<std::int64_t>(gpus_.size())) {
      return gpus_[static_cast<std::size_t>(*ordinal)];
    }
    why = *ordinal < 0 ? "ends the list" : "is no GPU here";
    return nullptr;
  }

  Error mig_refusal(std::string_view entry) const {
    return Error::of(ErrorCode::kNotSupported,
                     std::string(variable_) + " names the MIG instance " + in_quotes(entry, 80) +
                         ": an instance has no clock, power or energy counter of its own, only "
                         "the whole GPU has; name that GPU (--gpus) to measure all its instances "
                         "together");
  }

  void note(const std::string& text) {
    result_.notes.push_back(std::string(variable_) + ": " + text);
  }

  const char* variable_;
  std::vector<const GpuIdentity*> gpus_;
  VisibleGpus& result_;
  bool by_uuid_ = false;
};

/// CUDA's own order of the NVIDIA GPUs, and whether it is certain.
std::vector<const GpuIdentity*> cuda_order(std::vector<const GpuIdentity*> gpus,
                                           const std::optional<std::string>& order,
                                           bool& is_estimate) {
  is_estimate = false;
  if (order && trim(*order) == "PCI_BUS_ID") return gpus;
  // Equal GPUs stay in PCI order: there is no faster one to move to the front.
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
    // UUIDs name GPUs in the user's own order.
    is_estimate = is_estimate && !selection.by_uuid();
  }
  if (is_estimate && !gpus.empty()) {
    result.order_is_estimate = true;
    result.notes.emplace_back(
        "the GPUs differ and CUDA's order of them is not published: sorted by cores times highest "
        "clock; CUDA_DEVICE_ORDER=PCI_BUS_ID, or UUIDs in CUDA_VISIBLE_DEVICES, make it certain");
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
  // Without any GPU the variables name nothing that could be wrong.
  if (!nvidia.empty()) {
    HARPE_TRY(add_nvidia(nvidia, variables, result));
  }
  if (!amd.empty()) {
    HARPE_TRY(add_amd(amd, variables, !nvidia.empty(), result));
  }
  return result;
}

}  // namespace harpe::device
