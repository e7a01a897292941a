/* How `dynamic/_core/threads.c` runs jobs for `cores.py`: in mode 1 the time of each kind of job is measured, in mode 2 a job is a sleep of its
 * mean time, in mode 3 it is nothing. So a machine of two cores shows what many would do. Short jobs are always done:
 * they draw the numbers by which others work. */
#include <time.h>
enum { KINDS = 64, SHORT = 20000 /* nanoseconds */ };
static struct { _Atomic core_job job; _Atomic long long spent, count; } kinds[KINDS];
static _Atomic int mode;

EXPORT void core_measure(int wanted) { mode = wanted; }

static int kind_of(core_job job)
{
    int kind = 0;
    for (core_job none = NULL; kind < KINDS - 1; kind++, none = NULL)
        if (atomic_compare_exchange_strong(&kinds[kind].job, &none, job) || none == job)
            break;
    return kind;
}

static void run(core_job job, void *context, int64_t i)
{
    int kind = mode == 0 ? 0 : kind_of(job);
    long long mean = mode > 1 && kinds[kind].count ? kinds[kind].spent / kinds[kind].count : 0;
    struct timespec before, after, pause = {mean / 1000000000LL, mean % 1000000000LL};
    if (mean >= SHORT) {
        if (mode == 2)
            nanosleep(&pause, NULL);
        return;
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    job(context, i);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    if (mode == 1) {
        kinds[kind].spent += (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec;
        kinds[kind].count++;
    }
}
