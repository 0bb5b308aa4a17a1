// Forged plans and certificates: if the verifier accepts one, its claims are true, and its bound is
// at most the least energy of all assignments, which are tried one by one.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "harpe/plan/frontier/forged_case_testing.h"

namespace {

// Prints the counts of forgeries at the end if HARPE_FORGING_COUNTS is set.
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
