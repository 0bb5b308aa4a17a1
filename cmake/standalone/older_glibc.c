// What newer versions of glibc have and older ones have not, for programs that are built on Debian
// 12 (2.36) and run on systems from 2.28 on (RHEL 8): with HARPE_OLDER_GLIBC they are linked with a
// glibc of 2.31, without it with that of Debian 12, and then run from 2.34 on. The linker's --wrap
// (HarpeStandalone.cmake) leads calls of what exists twice here.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden")))

// Of glibc 2.36, called by libstdc++'s std::random_device. As there: the kernel's numbers, or the
// end.
HIDDEN uint32_t arc4random(void);
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

#if defined(__x86_64__)
#define HARPE_FIRST_VERSION "GLIBC_2.2.5"
#else
#define HARPE_FIRST_VERSION "GLIBC_2.17"
#endif

// glibc 2.29 and 2.35 have them twice: the newer ones set no errno, which Harpe does not read.
#define FIRST_OF_ONE(type, name)                                      \
  type first_##name(type x);                                          \
  __asm__(".symver first_" #name ", " #name "@" HARPE_FIRST_VERSION); \
  type __wrap_##name(type x);                                         \
  type __wrap_##name(type x) {                                        \
    return first_##name(x);                                           \
  }
#define FIRST_OF_TWO(type, name)                                      \
  type first_##name(type x, type y);                                  \
  __asm__(".symver first_" #name ", " #name "@" HARPE_FIRST_VERSION); \
  type __wrap_##name(type x, type y);                                 \
  type __wrap_##name(type x, type y) {                                \
    return first_##name(x, y);                                        \
  }
FIRST_OF_ONE(double, exp)
FIRST_OF_ONE(double, exp2)
FIRST_OF_ONE(double, log)
FIRST_OF_ONE(double, log2)
FIRST_OF_TWO(double, pow)
FIRST_OF_TWO(double, hypot)
FIRST_OF_TWO(float, hypotf)

#ifdef HARPE_OLDER_GLIBC

// Of glibc 2.32: whether the process has one thread, so that libstdc++ may count references without
// locks. It never may.
HIDDEN char __libc_single_threaded = 0;

// What the system's glibc has beside what this was linked with. Copied, since ISO C knows no
// conversion of one to the other.
#define FIND_NEWER(function, name)                 \
  do {                                             \
    void* const found = dlsym(RTLD_NEXT, name);    \
    memcpy(&(function), &found, sizeof(function)); \
  } while (0)

// Of glibc 2.32: null is what callers have to expect of it.
HIDDEN const char* sigabbrev_np(int signal);
const char* sigabbrev_np(int signal) {
  const char* (*real)(int);
  FIND_NEWER(real, "sigabbrev_np");
  return real == NULL ? NULL : real(signal);
}

// Of glibc 2.30, by which libstdc++ waits until a steady time. Without it the time that is left is
// waited for by the system's clock: where that is set meanwhile, the wait ends early or late, which
// callers read from the steady clock.
typedef int (*clockwait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const struct timespec* until);
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  static _Atomic(clockwait) known;
  static _Atomic int looked;
  if (!looked) {
    clockwait newer;
    FIND_NEWER(newer, "pthread_cond_clockwait");
    known = newer;
    looked = 1;
  }
  const clockwait real = known;
  if (real != NULL) return real(condition, mutex, clock, until);
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, until);
  struct timespec now, then;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &then);
  const long long second = 1000000000;
  long long left = (until->tv_sec - now.tv_sec) * second + (until->tv_nsec - now.tv_nsec);
  if (left < 0) left = 0;
  const long long nanoseconds = then.tv_nsec + left % second;
  then.tv_sec += left / second + nanoseconds / second;
  then.tv_nsec = nanoseconds % second;
  return pthread_cond_timedwait(condition, mutex, &then);
}

#endif
