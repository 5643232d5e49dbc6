/* Text writer: see text_writer.h. The lock is held to exchange pointers, never while writing. */
#include "core/text_writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "core/replace_file.h"

enum { QUEUE_MAX = 2 };

struct text {
    char *path; /* NULL: standard output */
    char *bytes;
    size_t count;
};

struct text_writer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* on the monotonic clock */

    /* protected by lock */
    struct text queue[QUEUE_MAX]; /* the first is the oldest */
    unsigned queued;
    bool closing, ended;
};

static void free_text(struct text *text)
{
    free(text->path);
    free(text->bytes);
}

static void write_stdout(const struct text *text)
{
    for (size_t done = 0; done < text->count;) {
        ssize_t written = write(STDOUT_FILENO, text->bytes + done, text->count - done);
        if (written < 0 && errno != EINTR)
            return; /* a closed standard output must not stop the daemon */
        done += written > 0 ? (size_t)written : 0;
    }
}

static void write_text(const struct text *text)
{
    struct problem problem;
    if (text->path == NULL)
        write_stdout(text);
    else if (replace_file(text->path, &(struct file_part){text->bytes, text->count}, 1, &problem) <
             0)
        log_warning("%s", problem.text);
}

static void *run(void *context)
{
    struct text_writer *writer = context;
    pthread_setname_np(pthread_self(), "text");
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        while (writer->queued == 0 && !writer->closing)
            pthread_cond_wait(&writer->changed, &writer->lock);
        if (writer->queued == 0)
            break;
        struct text text = writer->queue[0];
        writer->queued--;
        memmove(writer->queue, writer->queue + 1, writer->queued * sizeof *writer->queue);
        pthread_mutex_unlock(&writer->lock);
        write_text(&text);
        free_text(&text);
        pthread_mutex_lock(&writer->lock);
    }
    writer->ended = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

int text_writer_open(struct text_writer **out)
{
    struct text_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return ERROR_MEMORY;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&writer->lock, NULL);
    sigset_t all, before; /* signals belong to other threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&writer->thread, NULL, run, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        free(writer);
        return ERROR_MEMORY;
    }
    *out = writer;
    return 0;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the writer frees it, through struct text */
bool text_writer_put(struct text_writer *writer, const char *path, char *text, size_t bytes)
{
    struct text entry = {path != NULL ? strdup(path) : NULL, text, bytes};
    bool good = text != NULL && (path == NULL || entry.path != NULL);
    pthread_mutex_lock(&writer->lock);
    good = good && writer->queued < QUEUE_MAX;
    if (good)
        writer->queue[writer->queued++] = entry;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    if (!good)
        free_text(&entry);
    return good;
}

bool text_writer_close(struct text_writer *writer, int64_t timeout_ns)
{
    if (writer == NULL)
        return true;
    int64_t deadline_ns = clock_monotonic_ns() + timeout_ns;
    const struct timespec deadline = {deadline_ns / NS_PER_SECOND, deadline_ns % NS_PER_SECOND};
    pthread_mutex_lock(&writer->lock);
    writer->closing = true;
    pthread_cond_broadcast(&writer->changed);
    while (!writer->ended &&
           pthread_cond_timedwait(&writer->changed, &writer->lock, &deadline) != ETIMEDOUT)
        continue;
    bool ended = writer->ended;
    pthread_mutex_unlock(&writer->lock);
    if (!ended) {
        pthread_detach(writer->thread);
        return false;
    }
    pthread_join(writer->thread, NULL);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
    return true;
}
