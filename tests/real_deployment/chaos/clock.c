/* A clock that is off: the time of day is F2ED_AHEAD seconds later than it is, and all else as it was. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long ahead(void) {
    const char *text = getenv("F2ED_AHEAD");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(which, now);
    if (status == 0 && which == CLOCK_REALTIME) now->tv_sec += ahead();
    return status;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    (void)zone;
    int status = clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return status;
}

time_t time(time_t *where) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (where) *where = found.tv_sec;
    return found.tv_sec;
}
