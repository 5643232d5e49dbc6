/* Keeper of a log's settings: see keeper.h. */
#include "io/nats/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "core/log.h"
#include "io/nats/carried.h"

void nats_keeper_open(struct nats_keeper *k, const struct sink_options *options,
                      const struct cluster *cluster, struct nats_appender *appender,
                      struct nats_partition *partition)
{
    *k = (struct nats_keeper){.name = options->name,
                              .cluster = cluster,
                              .appender = appender,
                              .partition = partition,
                              .host = &options->keeper};
}

void nats_keeper_close(struct nats_keeper *k)
{
    free(k->change);
    k->change = NULL;
}

/* ---- a term begins ----------------------------------------------------------------------- */

/* The change that the log tells; the configured setting where it tells none, or was written by a
 * daemon with another configuration. False: it cannot be read, or there is no memory. */
static bool read_change(struct nats_keeper *k, const struct record *newest)
{
    const size_t config = strlen(k->cluster->config);
    if (k->change == NULL && (k->change = malloc(sizeof *k->change)) == NULL)
        return false;
    const bool same = newest->config.count == config &&
                      memcmp(newest->config.bytes, k->cluster->config, config) == 0;
    if (newest->kind != 0 && newest->state.count > 0 && same)
        return setting_read(newest->state.bytes, newest->state.count, k->change);
    if (newest->kind != 0 && newest->state.count > 0)
        log_warning("sink %s: filter, gains or mutes of partition %s were changed by command, "
                    "under another configuration; from here on they are as configured",
                    k->name, k->partition->name);
    memset(k->change, 0, sizeof *k->change);
    (void)nats_appender_carry(k->appender, NULL, 0);
    return true;
}

static void note_newest(struct nats_keeper *k, const struct record *newest)
{
    const size_t most = sizeof k->plan - 1,
                 count = newest->plan.count < most ? newest->plan.count : most;
    k->newest = *newest;
    nats_forget_spans(&k->newest);
    k->computed = newest->kind != 0 && newest->next > 0;
    if (count > 0)
        memcpy(k->plan, newest->plan.bytes, count);
    k->plan[count] = '\0';
}

/* What the log tells cannot be computed here: somebody else has to. */
static void give_up(struct nats_keeper *k)
{
    log_error("sink %s: partition %s is given up: filter, gains or mutes that the log names cannot "
              "be taken into use here",
              k->name, k->partition->name);
    nats_appender_release(k->appender, NULL);
}

bool nats_keeper_resume(struct nats_keeper *k, const struct record *newest)
{
    note_newest(k, newest);
    k->waits = false;
    k->sent = k->kept = true;
    k->settled = false;
    k->resuming = true;
    if (!read_change(k, newest)) {
        give_up(k);
        return false;
    }
    const struct setting_change *c = k->change;
    const bool past = setting_past(c, newest->epoch, newest->next);
    if (!k->touched && setting_configured(&c->after) && (past || setting_configured(&c->before))) {
        k->resuming = false;
        return true;
    }
    k->touched = true;
    if (k->host->resume == NULL)
        give_up(k);
    else
        k->host->resume(k->host->context, c, past);
    return false;
}

bool nats_keeper_resumed(struct nats_keeper *k, bool done)
{
    if (!k->resuming)
        return false; /* of a term that is over */
    if (!done)
        give_up(k);
    k->resuming = false;
    return done;
}

/* Every record names the plan that the stream has now; a term reads as far back as it needs. */
static void describe(struct nats_keeper *k)
{
    struct nats_partition *p = k->partition;
    if (p->source != NULL)
        p->replan(p->source);
    nats_appender_describe(k->appender, p->plan.pinned, p->plan.filters);
}

bool nats_keeper_begin(struct nats_keeper *k)
{
    if (k->touched)
        describe(k);
    const char *plan = k->partition->plan.pinned;
    const bool other = k->computed && strcmp(k->plan, plan) != 0;
    if (other)
        log_warning("sink %s: the results so far were computed by another plan (%s), these are "
                    "by %s: they agree within the error bound, not to the bit",
                    k->name, k->plan, plan);
    nats_partition_begin(k->partition, &k->newest);
    return other;
}

void nats_keeper_stop(struct nats_keeper *k)
{
    k->waits = k->resuming = false;
    if (k->host->told != NULL)
        k->host->told(k->host->context, KEEPER_LOST);
}

void nats_keeper_place(struct nats_keeper *k, uint64_t epoch, uint64_t start)
{
    const struct setting_change *c = k->change;
    if (c == NULL || k->host->place == NULL)
        return;
    if (epoch < c->epoch)
        k->host->place(k->host->context, 0, UINT64_MAX, 0);
    else if (epoch > c->epoch)
        k->host->place(k->host->context, 0, 0, 0);
    else
        k->host->place(k->host->context, start, c->frame, c->since);
}

/* ---- a change ---------------------------------------------------------------------------- */

bool nats_keeper_owns(struct nats_keeper *k, bool owned, uint64_t local,
                      struct keeper_frames *frames, struct problem *problem)
{
    struct nats_appender_figures figures = {0};
    if (k->appender != NULL)
        nats_appender_figures(k->appender, &figures);
    if (!owned) {
        if (figures.owner[0] != '\0' && strcmp(figures.owner, k->cluster->worker) != 0)
            problem_set(problem, ERROR_UNSUPPORTED,
                        "%s owns the partition, not this daemon: ask %s to change its filter, "
                        "gains or mutes",
                        figures.owner, figures.owner);
        else
            problem_set(problem, ERROR_UNSUPPORTED,
                        "nobody computes the partition at this moment: send it again once the "
                        "status names an owner");
        return false;
    }
    const struct term *t = &k->partition->term;
    const struct term_epoch *epoch = term_find(t, local);
    if (epoch == NULL && t->next > 0 && t->epoch_count == 0) {
        problem_set(problem, ERROR_UNSUPPORTED,
                    "this daemon has just taken the partition over and waits for its input: send "
                    "it again");
        return false;
    }
    *frames = (struct keeper_frames){.epoch = t->epoch + (t->next > 0)};
    if (epoch != NULL)
        *frames = (struct keeper_frames){.epoch = epoch->epoch,
                                         .shift = epoch->start / t->plan.decimate,
                                         .start = epoch->start,
                                         .least = epoch->epoch == t->epoch ? t->next : 0};
    return true;
}

/* Whether no frame that the log lacks depends on the newest change. */
static bool is_behind(const struct nats_keeper *k)
{
    const struct record *last = nats_appender_last(k->appender);
    return setting_past(k->change, last->epoch, last->next);
}

bool nats_keeper_settled(const struct nats_keeper *k)
{
    return k->change == NULL || k->settled || (k->kept && !k->waits && is_behind(k));
}

void nats_keeper_keep(struct nats_keeper *k, struct pieces *pieces,
                      const struct setting_change *change)
{
    *k->change = *change;
    k->touched = k->waits = true;
    k->sent = k->kept = k->settled = false;
    /* Results behind the frame come later than this; none of them may grow a record before it. */
    if (pieces->next > pieces->unsent)
        piece_at(pieces, pieces->next - 1)->whole = true;
    k->behind = pieces->next;
}

/* From the change's record on all of them carry it. */
static bool carry(struct nats_keeper *k)
{
    const size_t count = setting_bytes(k->change);
    uint8_t *bytes = malloc(count);
    bool done = false;
    if (bytes != NULL) {
        setting_write(k->change, bytes);
        done = nats_appender_carry(k->appender, bytes, (uint32_t)count);
    }
    free(bytes);
    if (!done)
        log_error("sink %s: out of memory for a change; it stays until there is some", k->name);
    return done;
}

bool nats_keeper_before(struct nats_keeper *k, uint64_t number)
{
    if (!k->waits || k->behind > number)
        return true;
    if (nats_appender_room(k->appender) == 0 || !carry(k))
        return false;
    describe(k);
    struct term *t = &k->partition->term;
    const uint32_t history = k->partition->plan.shape.history;
    t->plan.history = history > t->plan.history ? history : t->plan.history;
    if (!nats_appender_change(k->appender, term_sequence(t), &k->token))
        return false;
    k->waits = false;
    k->sent = true;
    return true;
}

void nats_keeper_look(struct nats_keeper *k)
{
    if (k->change == NULL || k->resuming || k->waits || k->settled || k->host->told == NULL)
        return;
    if (!k->kept && nats_appender_stored(k->appender, k->token)) {
        k->kept = true;
        k->host->told(k->host->context, KEEPER_KEPT);
    }
    if (k->kept && !k->settled && is_behind(k)) {
        k->settled = true;
        k->host->told(k->host->context, KEEPER_SETTLED);
    }
}
