#include "harpe/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace harpe {

// Does not allocate: the heap itself might be broken.
void end_at_broken_invariant(const char* file, int line, const char* condition,
                             const char* meaning) noexcept {
  std::fprintf(stderr, "harpe: %s:%d: broken invariant: %s (%s)\n", file, line, meaning, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace harpe
