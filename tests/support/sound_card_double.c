/* A sound card that the test plays itself; sound_card_double.h describes it. */
#include "tests/support/sound_card_double.h"

#include <stdlib.h>
#include <string.h>

struct sound_card card;

void sound_card_forget(void)
{
    free(card.shared);
    memset(&card, 0, sizeof card);
}

int sound_card_open(const struct sound_options *options, enum sound_direction direction,
                    const struct sound_card_user *user, const struct io_environment *environment,
                    struct sound_card **out, struct problem *problem)
{
    (void)environment, (void)problem;
    card.direction = direction;
    card.shared = aligned_alloc(4096, sound_shared_bytes(&options->request));
    if (card.shared == NULL)
        return ERROR_MEMORY;
    card.shared->request = options->request;
    sound_shared_reset(card.shared);
    card.user = *user;
    *out = &card;
    return 0;
}

void sound_card_start(struct sound_card *opened)
{
    opened->started = true;
}

void sound_card_set_filters(struct sound_cards *cards, const struct sound_options *options,
                            int filters)
{
    (void)cards, (void)options, (void)filters;
}

void sound_card_leave(struct sound_card *opened, enum sound_direction direction,
                      void (*closed)(void *context), void *context)
{
    (void)direction;
    opened->left = true;
    closed(context);
}

struct sound_shared *sound_card_shared(struct sound_card *opened)
{
    return opened->shared;
}

bool sound_card_base(const struct sound_card *opened, uint64_t *base)
{
    *base = opened->base;
    return opened->based;
}

void sound_card_set_origin(struct sound_card *opened, uint64_t frame)
{
    if (opened->direction == SOUND_CAPTURE)
        opened->origin = frame;
}

bool sound_card_origin(const struct sound_card *opened, uint64_t *frame)
{
    *frame = opened->origin;
    return opened->origin_known;
}

void sound_card_status(const struct sound_card *opened, struct sound_status *status)
{
    (void)opened;
    *status = (struct sound_status){0};
}
