/* Where source and sink of a partition meet: see hub.h. */
#include "io/nats/hub.h"

#include <stdlib.h>
#include <string.h>

static struct nats_partition *enter(struct nats_hub *hub, const char *name, bool as_source)
{
    for (struct nats_partition *p = hub->first; p != NULL; p = p->next)
        if (strcmp(p->name, name) == 0 && (as_source ? p->source : p->sink) == NULL)
            return p;
    struct nats_partition *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    made->name = name;
    made->next = hub->first;
    hub->first = made;
    return made;
}

struct nats_partition *nats_hub_source(struct nats_hub *hub, const char *name)
{
    return enter(hub, name, true);
}

struct nats_partition *nats_hub_sink(struct nats_hub *hub, const char *name)
{
    return enter(hub, name, false);
}

void nats_hub_source_leaves(struct nats_hub *hub, struct nats_partition *partition)
{
    partition->source = NULL;
    term_end(&partition->term);
    partition->running = false;
    if (partition->sink != NULL)
        partition->left(partition->sink);
    nats_hub_leave(hub, partition);
}

void nats_hub_leave(struct nats_hub *hub, struct nats_partition *partition)
{
    if (partition->source != NULL || partition->sink != NULL)
        return;
    for (struct nats_partition **at = &hub->first; *at != NULL; at = &(*at)->next)
        if (*at == partition) {
            *at = partition->next;
            free(partition);
            return;
        }
}

void nats_partition_begin(struct nats_partition *p, const struct record *newest)
{
    term_begin(&p->term, &p->plan.shape, newest->epoch, newest->next);
    p->newest = *newest;
    p->newest.plan = p->newest.filters = p->newest.config = (struct record_span){0};
    p->newest.worker = p->newest.state = (struct record_span){0};
    p->newest.range_count = 0;
    p->newest.range_bytes = p->newest.samples = NULL;
    p->running = true;
    if (p->source != NULL)
        p->begin(p->source);
}

void nats_partition_end(struct nats_partition *p)
{
    term_end(&p->term);
    p->running = false;
    if (p->source != NULL)
        p->end(p->source);
}

void nats_partition_place(const struct nats_partition *p, uint64_t epoch, uint64_t start)
{
    if (p->sink != NULL)
        p->place(p->sink, epoch, start);
}
