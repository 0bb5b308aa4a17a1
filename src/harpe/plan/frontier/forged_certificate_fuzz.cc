// No forged plan or certificate that the verifier accepts claims what is not true: its bound is at
// most the least energy of all assignments, which are tried one by one.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "harpe/plan/frontier/forged_case_testing.h"

namespace {

// HARPE_FORGING_COUNTS, if set: how many forgeries were accepted, at the end.
class Reported {
 public:
  Reported() = default;
  Reported(const Reported&) = delete;
  Reported& operator=(const Reported&) = delete;
  ~Reported() {
    if (std::getenv("HARPE_FORGING_COUNTS") != nullptr)
      std::fprintf(stderr, "%s\n", counts.text().c_str());
  }

  harpe::plan::ForgingCounts counts;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Reported reported;
  const std::string lie = harpe::plan::find_accepted_forgery({data, size}, reported.counts);
  if (lie.empty()) return 0;
  std::fprintf(stderr, "accepted, but %s\n", lie.c_str());
  std::abort();
}
