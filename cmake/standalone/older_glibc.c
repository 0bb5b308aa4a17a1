// Functions that newer versions of glibc have and older ones lack, for programs that are built on
// Debian 12 (2.36) and run on systems with glibc 2.28 (RHEL 8) or newer. With HARPE_OLDER_GLIBC
// they are linked with glibc 2.31. Without it they are linked with the glibc of Debian 12, and
// require 2.34. The linker's --wrap (HarpeStandalone.cmake) redirects calls of functions with two
// versions to this file.
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

// glibc 2.36, called by libstdc++'s std::random_device. As in glibc, uses the kernel's random
// numbers, and aborts if there are none.
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

// glibc 2.29 and 2.35 have two versions of these: the newer ones do not set errno, which Harpe does
// not read.
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

// glibc 2.32: true if the process has one thread, so that libstdc++ may count references without
// locks. Always false here.
HIDDEN char __libc_single_threaded = 0;

// Finds a function of the system's glibc that is missing in the glibc this was linked with. The
// pointer is copied, since ISO C has no conversion from data to function pointers.
#define FIND_NEWER(function, name)                 \
  do {                                             \
    void* const found = dlsym(RTLD_NEXT, name);    \
    memcpy(&(function), &found, sizeof(function)); \
  } while (0)

// glibc 2.32. Callers must expect null.
HIDDEN const char* sigabbrev_np(int signal);
const char* sigabbrev_np(int signal) {
  const char* (*real)(int);
  FIND_NEWER(real, "sigabbrev_np");
  return real == NULL ? NULL : real(signal);
}

// glibc 2.30, used by libstdc++ to wait until a time of the steady clock. Without it, the remaining
// time is waited for with the system clock. If that clock is set in the meantime, the wait ends
// early or late; callers detect this with the steady clock.
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
