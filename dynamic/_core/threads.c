/* The threads of the native path, in the place of `dynamic._base.pool`: persistent, shared by all callers, and made
 * anew in a forked child. A caller works at its own call and never waits for a thread to become free.
 */
#include "core.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct task {
    core_job job;
    void *context;
    int64_t n;
    atomic_llong next; /* the first sample that nobody has taken */
    int wanted;        /* threads that may still join; under the lock, as all below */
    int inside;        /* threads that have joined and not left */
    struct task *following;
} task;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER, left = PTHREAD_COND_INITIALIZER;
static task *tasks; /* the calls that threads may join */
static int workers; /* how many threads there are */

static void take_out(task *gone)
{
    for (task **at = &tasks; *at; at = &(*at)->following)
        if (*at == gone) {
            *at = gone->following;
            return;
        }
}

#ifdef CORE_RUN /* another way, in a file of `benchmarks/` */
#include CORE_RUN
#else
static void run(core_job job, void *context, int64_t i) { job(context, i); }
#endif

static void work_at(task *one)
{
    for (int64_t i; (i = atomic_fetch_add(&one->next, 1)) < one->n;)
        run(one->job, one->context, i);
}

static void *worker(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        task *one = tasks;
        if (!one) {
            pthread_cond_wait(&posted, &lock);
            continue;
        }
        one->inside++;
        if (--one->wanted == 0)
            take_out(one);
        pthread_mutex_unlock(&lock);
        work_at(one);
        pthread_mutex_lock(&lock);
        if (--one->inside == 0)
            pthread_cond_broadcast(&left);
    }
    return NULL;
}

static void before_fork(void) { pthread_mutex_lock(&lock); }

static void in_parent(void) { pthread_mutex_unlock(&lock); }

static void in_child(void) /* where no thread but the one that forked is left */
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&posted, NULL);
    pthread_cond_init(&left, NULL);
    tasks = NULL;
    workers = 0;
}

static void at_first_use(void) { pthread_atfork(before_fork, in_parent, in_child); }

static void start_workers(int wanted) /* under the lock */
{
    sigset_t all, before;
    sigfillset(&all); /* Python's handlers run in threads of its own */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (pthread_t thread; workers < wanted && pthread_create(&thread, NULL, worker, NULL) == 0; workers++)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void core_share(core_job job, void *context, int64_t n, int threads)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    task one = {.job = job, .context = context, .n = n, .wanted = (int)(threads < n ? threads : n) - 1};
    bool alone = one.wanted < 1;
    if (!alone) {
        pthread_once(&once, at_first_use);
        pthread_mutex_lock(&lock);
        start_workers(one.wanted);
        one.following = tasks;
        tasks = &one;
        if (one.wanted >= workers)
            pthread_cond_broadcast(&posted); /* one call of the system instead of one for each */
        else
            for (int woken = one.wanted; woken--;)
                pthread_cond_signal(&posted);
        pthread_mutex_unlock(&lock);
    }
    work_at(&one);
    if (!alone) {
        pthread_mutex_lock(&lock);
        take_out(&one);
        while (one.inside)
            pthread_cond_wait(&left, &lock);
        pthread_mutex_unlock(&lock);
    }
}
