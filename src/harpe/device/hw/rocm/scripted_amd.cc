// A stand-in for AMD SMI, or with SCRIPTED_ROCM_SMI for ROCm SMI, made from their documentation. It
// returns values set by a test, without AMD hardware.

#include <array>
#include <cstring>

#include "harpe/device/hw/script_testing.h"

namespace {

int energy(std::uint64_t* count, float* microjoules, std::uint64_t* timestamp, const char* function,
           unsigned gpu) {
  *count = value("energy count " + std::to_string(gpu), 0);
  *microjoules = 15.259F;
  *timestamp = 1;
  return respond(function);
}

/// Returns the low bits of an address: bus 0xc1, 0xc2, ...; device 0x02, function 1.
std::uint64_t low_bdf(unsigned gpu) {
  return (0xc1ULL + gpu) << 8 | 0x02U << 3 | 1U;
}

}  // namespace

extern "C" {

#ifdef SCRIPTED_ROCM_SMI

int rsmi_init(std::uint64_t) {
  return respond("init");
}
int rsmi_shut_down() {
  return respond("shut_down");
}
int rsmi_status_string(int, const char** text) {
  *text = "RSMI words";
  return 0;
}
int rsmi_num_monitor_devices(std::uint32_t* count) {
  *count = small("count", 2);
  return respond("count");
}
int rsmi_dev_pci_id_get(std::uint32_t gpu, std::uint64_t* bdf) {
  *bdf = 1ULL << 32 | 3ULL << 28 | low_bdf(gpu);  // domain 1, partition 3
  return respond("bdf");
}
int rsmi_dev_name_get(std::uint32_t, char* text, std::size_t size) {
  std::strncpy(text, "Instinct MI210", size);
  return respond("name");
}
int rsmi_dev_energy_count_get(std::uint32_t gpu, std::uint64_t* count, float* microjoules,
                              std::uint64_t* timestamp) {
  return energy(count, microjoules, timestamp, "energy", gpu);
}
int rsmi_dev_power_cap_set(std::uint32_t gpu, std::uint32_t sensor, std::uint64_t microwatts) {
  remember("cap " + std::to_string(gpu) + " " + std::to_string(sensor), microwatts);
  return respond("set_power_cap");
}
int rsmi_perf_determinism_mode_set(std::uint32_t gpu, std::uint64_t megahertz) {
  remember("determinism " + std::to_string(gpu), megahertz);
  return respond("set_determinism");
}
int rsmi_dev_perf_level_set(std::uint32_t gpu, int level) {
  remember("level " + std::to_string(gpu), static_cast<std::uint64_t>(level) + 100);
  return respond("set_level");
}

#else

/// The objects that handles point to.
static std::array<char, 64> sockets;

int amdsmi_init(std::uint64_t flags) {
  return flags == 2 ? respond("init") : 1;
}
int amdsmi_shut_down() {
  return respond("shut_down");
}
int amdsmi_status_code_to_string(int, const char** text) {
  *text = "AMDSMI words";
  return 0;
}
// One socket per GPU, as on real machines, and one with only a CPU.
int amdsmi_get_socket_handles(std::uint32_t* count, void** handles) {
  if (handles == nullptr) {
    *count = small("count", 2) + 1;
  } else {
    for (std::uint32_t i = 0; i < *count; ++i) handles[i] = &sockets[i];
  }
  return respond("sockets");
}
int amdsmi_get_processor_handles(void* socket, std::uint32_t* count, void** handles) {
  *count = 1;
  if (handles != nullptr) handles[0] = socket;
  return respond("processors");
}
unsigned gpu_of(void* handle) {
  return static_cast<unsigned>(static_cast<char*>(handle) - sockets.data());
}
int amdsmi_get_processor_type(void* handle, int* type) {
  *type = gpu_of(handle) < small("count", 2) ? 1 : 2;
  return respond("type");
}
int amdsmi_get_gpu_device_bdf(void* handle, std::uint64_t* bdf) {
  *bdf = 1ULL << 16 | low_bdf(gpu_of(handle));
  return respond("bdf");
}
int amdsmi_get_gpu_asic_info(void*, char* info) {
  std::memset(info, 0xee, 2048);  // more than any version's structure
  std::strcpy(info, "AMD Instinct MI300X");
  return respond("name");
}
int amdsmi_get_energy_count(void* handle, std::uint64_t* count, float* microjoules,
                            std::uint64_t* timestamp) {
  return energy(count, microjoules, timestamp, "energy", gpu_of(handle));
}
int amdsmi_set_power_cap(void* handle, std::uint32_t sensor, std::uint64_t microwatts) {
  remember("cap " + std::to_string(gpu_of(handle)) + " " + std::to_string(sensor), microwatts);
  return respond("set_power_cap");
}
int amdsmi_set_gpu_perf_determinism_mode(void* handle, std::uint64_t megahertz) {
  remember("determinism " + std::to_string(gpu_of(handle)), megahertz);
  return respond("set_determinism");
}
int amdsmi_set_gpu_perf_level(void* handle, int level) {
  remember("level " + std::to_string(gpu_of(handle)), static_cast<std::uint64_t>(level) + 100);
  return respond("set_level");
}

#endif

}  // extern "C"
