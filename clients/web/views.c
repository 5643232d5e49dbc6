/* Views: see views.h. */
#include "views.h"

#include <stdlib.h>

struct views {
    struct web *web;
};

int views_open(struct web *web, struct views **out)
{
    struct views *views = calloc(1, sizeof *views);
    if (views == NULL)
        return ERROR_MEMORY;
    views->web = web;
    *out = views;
    return 0;
}

void views_close(struct views *views)
{
    free(views);
}

void views_watchers(struct views *views, unsigned sessions)
{
    (void)views;
    (void)sessions;
}

int views_want(struct views *views, struct session *session, const struct want *want,
               struct problem *problem)
{
    (void)views;
    (void)session;
    (void)want;
    return problem_set(problem, ERROR_UNSUPPORTED, "no pictures yet");
}

void views_drop(struct views *views, struct session *session, uint16_t id)
{
    (void)views;
    (void)session;
    (void)id;
}

void views_leave(struct views *views, const struct session *session)
{
    (void)views;
    (void)session;
}

void views_watched(struct views *views, json_t *answer, int *fd)
{
    (void)views;
    (void)answer;
    (void)fd;
}

void views_status(struct views *views)
{
    (void)views;
}
