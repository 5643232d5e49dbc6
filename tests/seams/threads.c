/*
 * Threads: convolvd-test can create no thread from a SIGRTMIN + 9 on until the next one, as where
 * the system has reached its limit, so that tests can prove what happens then. The linker redirects
 * pthread_create of the daemon's own objects to the wrapper below (ld --wrap); the shipped daemon
 * links none of this. Jobs get their threads, so that what they find refused can be shown.
 *
 * Any thread.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct job;
struct job_watch;

static _Atomic bool refused;
static _Thread_local bool is_job;

static void on_signal(int number)
{
    (void)number;
    atomic_store(&refused, !atomic_load(&refused));
}

__attribute__((constructor)) static void install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN + 9, &action, NULL);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    if (atomic_load(&refused) && !is_job)
        return EAGAIN;
    return __real_pthread_create(thread, attributes, run, argument);
}

int __real_job_watch_start(struct job_watch *watch, struct job *job, int64_t timeout_ns);
int __wrap_job_watch_start(struct job_watch *watch, struct job *job, int64_t timeout_ns);
int __wrap_job_watch_start(struct job_watch *watch, struct job *job, int64_t timeout_ns)
{
    is_job = true;
    const int error = __real_job_watch_start(watch, job, timeout_ns);
    is_job = false;
    return error;
}
