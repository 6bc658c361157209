/* Steps the wall clock of the processes that load it (LD_PRELOAD): each looks at a number of its own, in nanoseconds, in
   the file $CHAOS_CLOCKS/$SUPERVISOR_PROCESS_NAME. The monotonic clock goes on, as it does when a real clock is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000L
/* Deadlines of the monotonic clock are far below. */
#define SINCE_1970(t) ((t)->tv_sec > 1000000000L)

static const volatile int64_t none = 0;
static const volatile int64_t *offset = &none;
static int (*real_clock)(clockid_t, struct timespec *);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_sem)(sem_t *, const struct timespec *);

__attribute__((constructor)) static void find(void) {
  char path[4096];
  const char *folder = getenv("CHAOS_CLOCKS"), *name = getenv("SUPERVISOR_PROCESS_NAME");
  real_clock = dlsym(RTLD_NEXT, "clock_gettime");
  real_wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  real_sem = dlsym(RTLD_NEXT, "sem_timedwait");
  if (!folder || !name) return;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *seen = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (seen != MAP_FAILED) offset = seen;
}

static struct timespec moved(struct timespec t, int64_t by) {
  int64_t all = t.tv_nsec + by % SECOND;
  t.tv_sec += by / SECOND + (all >= SECOND) - (all < 0);
  t.tv_nsec = (all + SECOND) % SECOND;
  return t;
}

int clock_gettime(clockid_t id, struct timespec *t) {
  int failed = real_clock ? real_clock(id, t) : (int)syscall(SYS_clock_gettime, id, t);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) *t = moved(*t, *offset);
  return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}

/* Whoever waits until a time of the stepped clock is told so by the kernel's, which is not stepped. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
  struct timespec back = SINCE_1970(until) ? moved(*until, -*offset) : *until;
  return real_wait(cond, mutex, &back);
}

int sem_timedwait(sem_t *sem, const struct timespec *until) {
  struct timespec back = moved(*until, -*offset);
  return real_sem(sem, &back);
}

long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
  long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
  va_end(list);
  struct timespec back;
  if (number == SYS_futex && (b & FUTEX_CLOCK_REALTIME) && d) {
    back = moved(*(const struct timespec *)d, -*offset);
    d = (long)&back;
  }
  register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
  long answer;
  __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  if (answer < 0 && answer > -4096) {
    extern int *__errno_location(void);
    *__errno_location() = (int)-answer;
    return -1;
  }
  return answer;
}
