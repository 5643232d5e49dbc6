/* Options of a card in direct mode: see direct_options.h. */
#include "io/sound/direct_options.h"

#include <stdlib.h>

#include "io/sound/card.h"
#include "io/sound/direct.h"
#include "io/sound/link.h"
#include "io/sound/options.h"

static int make(const void *own, const struct plan_spec *spec, double full_scale, bool only,
                void **out, struct problem *problem)
{
    void *packed = NULL;
    struct sound_options *options = malloc(sizeof *options);
    if (options == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    *options = *(const struct sound_options *)own;
    options->direct_alone = only;
    int error = sound_direct_pack(spec, full_scale, &packed, &options->direct_bytes, problem);
    if (error < 0) {
        free(options);
        return error;
    }
    options->direct = packed;
    *out = options;
    return 0;
}

static void free_made(void *made)
{
    struct sound_options *options = made;
    if (options != NULL)
        free((void *)options->direct);
    free(options);
}

static int filters(const void *made, struct problem *problem)
{
    const struct sound_options *options = made;
    return sound_link_filters(options->direct, options->direct_bytes, problem);
}

static void set(const struct io_environment *environment, const void *made, int filters)
{
    sound_card_set_filters(environment->cards, made, filters);
}

const struct driver_direct sound_direct_ops = {
    .make = make,
    .free = free_made,
    .filters = filters,
    .set = set,
};
