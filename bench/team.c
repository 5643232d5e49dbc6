/*
 * A team of threads, see team.h.
 */
#include "team.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct member {
    struct team *team;
    uint32_t number;
    pthread_t thread;
};

struct team {
    pthread_mutex_t mutex;
    pthread_cond_t begin, end;
    /* protected by mutex */
    uint64_t round;
    uint32_t busy;
    bool stopping;
    void (*work)(void *context, uint32_t member);
    void *context;
    /* immutable */
    uint32_t helpers;
    struct member members[];
};

static void *member_thread(void *argument)
{
    const struct member *self = argument;
    struct team *team = self->team;
    uint64_t seen = 0;
    pthread_mutex_lock(&team->mutex);
    for (;;) {
        while (team->round == seen && !team->stopping)
            pthread_cond_wait(&team->begin, &team->mutex);
        if (team->stopping)
            break;
        seen = team->round;
        pthread_mutex_unlock(&team->mutex);
        team->work(team->context, self->number);
        pthread_mutex_lock(&team->mutex);
        if (--team->busy == 0)
            pthread_cond_signal(&team->end);
    }
    pthread_mutex_unlock(&team->mutex);
    return NULL;
}

struct team *team_open(uint32_t threads)
{
    assert(threads >= 1);
    struct team *team = calloc(1, sizeof *team + (threads - 1) * sizeof team->members[0]);
    if (team == NULL)
        return NULL;
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->begin, NULL);
    pthread_cond_init(&team->end, NULL);
    for (uint32_t i = 0; i + 1 < threads; i++) {
        struct member *member = &team->members[i];
        *member = (struct member){.team = team, .number = i + 1};
        if (pthread_create(&member->thread, NULL, member_thread, member) != 0) {
            team_close(team);
            return NULL;
        }
        team->helpers++;
    }
    return team;
}

void team_close(struct team *team)
{
    if (team == NULL)
        return;
    pthread_mutex_lock(&team->mutex);
    team->stopping = true;
    pthread_cond_broadcast(&team->begin);
    pthread_mutex_unlock(&team->mutex);
    for (uint32_t i = 0; i < team->helpers; i++)
        pthread_join(team->members[i].thread, NULL);
    pthread_cond_destroy(&team->begin);
    pthread_cond_destroy(&team->end);
    pthread_mutex_destroy(&team->mutex);
    free(team);
}

void team_run(struct team *team, void (*work)(void *context, uint32_t member), void *context)
{
    if (team->helpers > 0) {
        pthread_mutex_lock(&team->mutex);
        team->work = work;
        team->context = context;
        team->busy = team->helpers;
        team->round++;
        pthread_cond_broadcast(&team->begin);
        pthread_mutex_unlock(&team->mutex);
    }
    work(context, 0);
    if (team->helpers > 0) {
        pthread_mutex_lock(&team->mutex);
        while (team->busy > 0)
            pthread_cond_wait(&team->end, &team->mutex);
        pthread_mutex_unlock(&team->mutex);
    }
}
