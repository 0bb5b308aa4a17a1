// What newer versions of glibc have and those of Ubuntu 22.04 (2.35) and RHEL 9 (2.34) have not, for
// wheels that are built on Debian 12 (2.36) and run there, too.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

// Of glibc 2.36, called by libstdc++'s std::random_device. As there: the kernel's numbers, or the end.
__attribute__((visibility("hidden"))) uint32_t arc4random(void);
uint32_t arc4random(void) {
  uint32_t number = 0;
  size_t filled = 0;
  while (filled < sizeof number) {
    const ssize_t got = getrandom((char*)&number + filled, sizeof number - filled, 0);
    if (got > 0) filled += (size_t)got;
    if (got < 0 && errno != EINTR) abort();
  }
  return number;
}

// glibc 2.35 has them twice: the newer ones set no errno, which Harpe does not read. The linker's
// --wrap leads every call here.
#if defined(__x86_64__)
#define HARPE_FIRST_VERSION "GLIBC_2.2.5"
#else
#define HARPE_FIRST_VERSION "GLIBC_2.17"
#endif
double first_hypot(double x, double y);
float first_hypotf(float x, float y);
__asm__(".symver first_hypot, hypot@" HARPE_FIRST_VERSION);
__asm__(".symver first_hypotf, hypotf@" HARPE_FIRST_VERSION);

double __wrap_hypot(double x, double y);
double __wrap_hypot(double x, double y) {
  return first_hypot(x, y);
}
float __wrap_hypotf(float x, float y);
float __wrap_hypotf(float x, float y) {
  return first_hypotf(x, y);
}
