/* Work for a loop: see loop_work.h. */
#include "core/loop_work.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

enum { THREADS_MAX = 4 };

/* The threads of the process, made as they are needed; they stay. */
static struct {
    pthread_once_t once;
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    struct loop_work *first, **last;
    unsigned threads, idle, waiting; /* waiting: in the queue */
} pool = {.once = PTHREAD_ONCE_INIT, .last = &pool.first};

static void open_pool(void)
{
    /* A loop in real time lends its priority to a thread that has the lock. */
    pthread_mutexattr_t lends;
    pthread_mutexattr_init(&lends);
    pthread_mutexattr_setprotocol(&lends, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&pool.mutex, &lends);
    pthread_mutexattr_destroy(&lends);
    pthread_cond_init(&pool.filled, NULL);
}

static void do_work(struct loop_work *work)
{
    work->work(work->context);
    loop_bell_ring(&work->bell); /* the last that a worker has to do with it */
}

static void *run_thread(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "work");
    pthread_mutex_lock(&pool.mutex);
    for (;;) {
        pool.idle++;
        while (pool.first == NULL)
            pthread_cond_wait(&pool.filled, &pool.mutex);
        pool.idle--;
        struct loop_work *work = pool.first;
        pool.waiting--;
        if ((pool.first = work->next) == NULL)
            pool.last = &pool.first;
        pthread_mutex_unlock(&pool.mutex);
        do_work(work);
        pthread_mutex_lock(&pool.mutex);
    }
    return NULL;
}

/* Under the mutex: whether a thread will take what is put into the queue now. */
static bool find_thread(void)
{
    if (pool.idle > pool.waiting || pool.threads == THREADS_MAX)
        return true;
    sigset_t all, before; /* signals are the loop's */
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool made = pthread_create(&thread, NULL, run_thread, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made) {
        pthread_detach(thread);
        pool.threads++;
    }
    return pool.threads > 0;
}

static void on_closed(uv_handle_t *handle)
{
    const struct loop_work *work = handle->data;
    work->done(work->context);
}

static void on_rung(void *context)
{
    loop_bell_close(&((struct loop_work *)context)->bell, on_closed);
}

void loop_work_start(struct loop_work *work, uv_loop_t *loop, void (*run)(void *context),
                     void (*done)(void *context), void *context)
{
    pthread_once(&pool.once, open_pool);
    *work = (struct loop_work){.work = run, .done = done, .context = context};
    loop_bell_open(&work->bell, loop, on_rung, work);
    pthread_mutex_lock(&pool.mutex);
    const bool queued = find_thread();
    if (queued) {
        *pool.last = work;
        pool.last = &work->next;
        pool.waiting++;
        pthread_cond_signal(&pool.filled);
    }
    pthread_mutex_unlock(&pool.mutex);
    if (!queued)
        do_work(work);
}
