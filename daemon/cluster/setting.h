/*
 * Setting: filter, gains and mutes of a partition's stream where commands have changed them, as the
 * records of its log carry it for a successor (docs/cluster.md has the bytes). A log tells one
 * change: the newest one, with the setting before it. That is enough, as an owner begins the next
 * one only once no frame that its log has not got yet depends on the one before:
 *
 *     LOG   ───── before ─────┬── before and after ──┬───── after ──────►    frames of the output
 *                           frame                  until
 *
 * A successor that goes on below `until` computes with `before` and makes the change again at
 * `frame`; behind it, with `after` alone.
 *
 * Pure functions, any thread. Reading trusts no byte.
 */
#ifndef CONVOLVD_CLUSTER_SETTING_H
#define CONVOLVD_CLUSTER_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SETTING_OUTPUTS_MAX = 1024,
    SETTING_NAME = 128,
    SETTING_HARD = 0, /* of setting_change.how: as the stream's enum change_how */
    SETTING_FADE = 1,
    SETTING_CLEAR = 2,
};

struct setting {
    char filter[SETTING_NAME]; /* of the configuration, for every output; empty: as configured */
    uint32_t outputs;          /* 0: as configured, all of them */
    float gain[SETTING_OUTPUTS_MAX]; /* [outputs], factors */
    bool muted[SETTING_OUTPUTS_MAX];
};

struct setting_change {
    uint8_t how;
    uint32_t fade_frames; /* FADE: frames of the input, at least 1 */
    uint64_t epoch;       /* of the partition */
    uint64_t frame;       /* the first output frame of `after` */
    uint64_t until;       /* output frames from here on depend on `after` alone */
    uint64_t since;       /* input frames before it are zeros to `after`, as before an epoch */
    struct setting before, after;
};

/* Whether it is what the configuration says. */
bool setting_configured(const struct setting *setting);
bool setting_equal(const struct setting *a, const struct setting *b);

/* Whether a log that ends before output frame `next` of `epoch` needs `after` alone. */
bool setting_past(const struct setting_change *change, uint64_t epoch, uint64_t next);

/* Bytes that setting_write writes. */
size_t setting_bytes(const struct setting_change *change);
void setting_write(const struct setting_change *change, uint8_t *bytes);
/* False: these are no bytes of a change; `change` is not to be used. */
bool setting_read(const uint8_t *bytes, size_t count, struct setting_change *change);

#endif
