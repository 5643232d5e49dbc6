/* Gains on their way into sidecars: see gains.h. */
#include "io/recording/gains.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- in a message ------------------------------------------------------------------------ */

/* With its end. */
static size_t who_bytes(const struct result_gains *gains)
{
    return gains->who != NULL ? strlen(gains->who) + 1 : 0;
}

size_t recorded_gains_bytes(const struct result_gains *gains)
{
    return sizeof *gains + gains->outputs * (sizeof(float) + sizeof(bool)) + who_bytes(gains);
}

const struct result_gains *recorded_gains_copy(const struct result_gains *gains, void *to)
{
    struct result_gains *copy = to;
    float *factors = (float *)(void *)(copy + 1);
    bool *muted = (bool *)(void *)(factors + gains->outputs);
    *copy = *gains;
    memcpy(factors, gains->factors, gains->outputs * sizeof *factors);
    memcpy(muted, gains->muted, gains->outputs * sizeof *muted);
    copy->factors = factors;
    copy->muted = muted;
    if (gains->who != NULL)
        copy->who = memcpy(muted + gains->outputs, gains->who, who_bytes(gains));
    return copy;
}

/* ---- in the writer ----------------------------------------------------------------------- */

static int open_set(struct recorded_gains_set *set, uint32_t outputs_max)
{
    set->factors = calloc(outputs_max + 1, sizeof *set->factors);
    set->muted = calloc(outputs_max + 1, sizeof *set->muted);
    return set->factors != NULL && set->muted != NULL ? 0 : ERROR_MEMORY;
}

int recorded_gains_open(struct recorded_gains *recorded, uint32_t outputs_max)
{
    recorded->outputs_max = outputs_max;
    const int error = open_set(&recorded->now, outputs_max);
    return error != 0 ? error : open_set(&recorded->next, outputs_max);
}

void recorded_gains_close(struct recorded_gains *recorded)
{
    struct recorded_gains_set *const sets[] = {&recorded->now, &recorded->next};
    for (int i = 0; i < 2; i++) {
        free(sets[i]->factors);
        free(sets[i]->muted);
    }
}

static void set_gains(struct recorded_gains_set *set, uint32_t changes, uint32_t outputs,
                      const float *factors, const bool *muted, const char *who)
{
    memcpy(set->factors, factors, outputs * sizeof *factors);
    memcpy(set->muted, muted, outputs * sizeof *muted);
    snprintf(set->who, sizeof set->who, "%s", who != NULL ? who : "");
    set->gains = (struct sidecar_gains){.changes = changes,
                                        .outputs = outputs,
                                        .factors = set->factors,
                                        .muted = set->muted,
                                        .who = set->who};
}

void recorded_gains_take(struct recorded_gains *recorded, const struct result *result)
{
    const struct result_gains *gains = result->gains;
    if (gains == NULL || gains->changes == recorded->next.gains.changes ||
        gains->outputs > recorded->outputs_max)
        return;
    set_gains(&recorded->next, gains->changes, gains->outputs, gains->factors, gains->muted,
              gains->who);
    recorded->waiting = true;
    recorded->epoch = result->epoch;
    recorded->from = result->gains_from;
}

void recorded_gains_add(struct recorded_gains *recorded, struct sidecar *sidecar, uint64_t epoch,
                        uint64_t first, uint64_t until)
{
    const struct sidecar_gains *next = &recorded->next.gains;
    struct sidecar_gains *now = &recorded->now.gains;
    const bool due = recorded->waiting && (recorded->epoch != epoch || recorded->from < until);
    const bool later = due && recorded->epoch == epoch && recorded->from > first;
    if (sidecar->gains_count == 0 && now->changes > 0 && (!due || later)) {
        now->first_frame = first;
        sidecar_gain(sidecar, now);
    }
    if (!due)
        return;
    recorded->waiting = false;
    set_gains(&recorded->now, next->changes, next->outputs, next->factors, next->muted, next->who);
    now->first_frame = later ? recorded->from : first;
    sidecar_gain(sidecar, now);
}
