/*
 * The table of sources, and the words of their ledger. A new protocol adds its row here.
 * Constant data, any thread.
 */
#include "io/sources.h"

#include <stddef.h>
#include <string.h>

#include "io/rows.h"

const struct option_choice source_modes[] = {
    {"continuous", MODE_CONTINUOUS}, {"record", MODE_RECORD}, {"direct", MODE_DIRECT}, {NULL, 0}};
const struct option_choice source_paces[] = {{"realtime", true}, {"fast", false}, {NULL, 0}};

static const struct source_ops *const sources[] = {
    &source_rtp, &source_udp,       &source_udp_sequence, &source_file,  &source_generator,
    &source_osc, &source_portaudio, &source_stdin,        &source_tradb, &source_nats,
};

enum { SOURCES = sizeof sources / sizeof sources[0] };

const struct source_ops *source_at(int index)
{
    return index >= 0 && index < SOURCES ? sources[index] : NULL;
}

const struct source_ops *source_find(const char *name)
{
    for (int i = 0; i < SOURCES; i++) {
        if (strcmp(sources[i]->name, name) == 0)
            return sources[i];
    }
    return NULL;
}

const char *reject_name(enum reject reject)
{
    static const char *const names[] = {
#define X(name, text) [REJECT_##name] = text,
        REJECT_TABLE(X)
#undef X
    };
    return (unsigned)reject < REJECTS ? names[(unsigned)reject] : "?";
}

void source_ledger_count(struct source_ledger *ledger, enum verdict verdict)
{
    static const enum reject rejects[VERDICTS] = {
        [VERDICT_DUPLICATE] = REJECT_DUPLICATE,
        [VERDICT_LATE] = REJECT_LATE,
        [VERDICT_OUT_OF_WINDOW] = REJECT_OUT_OF_WINDOW,
        [VERDICT_REFUSED] = REJECT_REFUSED,
    };
    if (verdict == VERDICT_ACCEPTED)
        ledger->accepted++;
    else
        ledger->rejected[rejects[verdict]]++;
}
