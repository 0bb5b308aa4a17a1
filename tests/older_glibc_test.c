// Tests that the replacements for newer glibc functions (cmake/standalone/older_glibc.c) behave
// like glibc, on a system without these functions.
#define HARPE_OLDER_GLIBC
#define dlsym(handle, name) NULL
#include "../cmake/standalone/older_glibc.c"  // NOLINT(bugprone-suspicious-include)

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EXPECT(holds) \
  if (!(holds)) return printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #holds), 1

static double now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static struct timespec after(clockid_t clock, long nanoseconds) {
  struct timespec time;
  clock_gettime(clock, &time);
  time.tv_nsec += nanoseconds;
  time.tv_sec += time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static int waits_until_its_time(void) {
  const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};
  for (int i = 0; i < 2; ++i) {
    // The second of either clock may end before the wait does.
    for (int again = 0; again < 20; ++again) {
      const double begin = now(clocks[i]);
      const struct timespec until = after(clocks[i], 2000000);
      pthread_mutex_lock(&mutex);
      int result = 0;
      while (result == 0) result = pthread_cond_clockwait(&condition, &mutex, clocks[i], &until);
      pthread_mutex_unlock(&mutex);
      EXPECT(result == ETIMEDOUT);
      EXPECT(now(clocks[i]) - begin >= 0.0019);
    }
    const struct timespec past = {1, 0};
    pthread_mutex_lock(&mutex);
    EXPECT(pthread_cond_clockwait(&condition, &mutex, clocks[i], &past) == ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
  }
  return 0;
}

static void* signal_it(void* ready) {
  pthread_mutex_lock(&mutex);
  *(int*)ready = 1;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static int wakes_when_it_is_signalled(void) {
  int ready = 0;
  pthread_t thread;
  pthread_mutex_lock(&mutex);
  EXPECT(pthread_create(&thread, NULL, signal_it, &ready) == 0);
  const struct timespec until = after(CLOCK_MONOTONIC, 999999999);
  while (!ready) pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until);
  pthread_mutex_unlock(&mutex);
  EXPECT(now(CLOCK_MONOTONIC) < (double)until.tv_sec + 1e-9 * (double)until.tv_nsec);
  return pthread_join(thread, NULL);
}

// Plans must have the same bytes on every system.
static int computes_the_same_numbers(void) {
  const volatile double above = 1.7e308;
  for (double x = -750; x < 750; x += 0.37) {
    double wrapped[] = {__wrap_exp(x),
                        __wrap_exp2(x),
                        __wrap_log(fabs(x)),
                        __wrap_log2(fabs(x)),
                        __wrap_pow(fabs(x), x / 100),
                        __wrap_hypot(x, x + 3),
                        __wrap_hypotf((float)x, 3)};
    double plain[] = {exp(x),
                      exp2(x),
                      log(fabs(x)),
                      log2(fabs(x)),
                      pow(fabs(x), x / 100),
                      hypot(x, x + 3),
                      hypotf((float)x, 3)};
    EXPECT(memcmp(wrapped, plain, sizeof plain) == 0);
  }
  EXPECT(isinf(__wrap_exp(above)) && isinf(__wrap_hypot(above, above)) && isinf(__wrap_log(0)) &&
         isnan(__wrap_log(-1)));
  return 0;
}

static int gives_random_numbers(void) {
  uint32_t seen = 0;
  for (int i = 0; i < 64; ++i) seen |= arc4random();
  EXPECT(seen == UINT32_MAX);  // fails for each bit with probability 2^-64
  return 0;
}

int main(void) {
  EXPECT(sigabbrev_np(9) == NULL);
  return waits_until_its_time() || wakes_when_it_is_signalled() || computes_the_same_numbers() ||
         gives_random_numbers();
}
