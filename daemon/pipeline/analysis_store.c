/* Analysis store: see analysis_store.h. */
#include "pipeline/analysis_store.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "core/error.h"

enum {
    WORDS = (sizeof(struct stored_event) + sizeof(uint64_t) - 1) / sizeof(uint64_t),
    SAMPLE_WORDS = STORE_SAMPLE_BYTES / sizeof(uint64_t), /* a power of two */
};

#define WRITING    UINT64_MAX
#define NO_SAMPLES UINT64_MAX

struct slot {
    _Atomic uint64_t turn; /* place of the event in it; WRITING: being filled */
    _Atomic uint64_t words[WORDS];
};

struct analysis_store {
    uint64_t id;
    _Atomic uint64_t last;
    _Atomic uint64_t claimed; /* words of samples written or being written, since the start */
    struct slot slots[STORE_EVENTS];
    _Atomic uint64_t samples[SAMPLE_WORDS]; /* two floats each */
};

/* An event with its words; what lies behind the body stays zero. */
union copy {
    struct stored_event event;
    uint64_t words[WORDS];
};

int analysis_store_open(struct analysis_store **out)
{
    static _Atomic uint64_t stores;
    struct analysis_store *store = mmap(NULL, sizeof *store, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (store == MAP_FAILED)
        return ERROR_MEMORY;
    store->id = atomic_fetch_add(&stores, 1) + 1;
    *out = store;
    return 0;
}

void analysis_store_close(struct analysis_store *store)
{
    if (store != NULL)
        munmap(store, sizeof *store);
}

uint64_t analysis_store_bytes(void)
{
    return sizeof(struct analysis_store);
}

uint64_t analysis_store_id(const struct analysis_store *store)
{
    return store->id;
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Where they stand, in words since the start; NO_SAMPLES: nowhere. */
static uint64_t put_samples(struct analysis_store *store, const struct analysis_event *event)
{
    const uint64_t words = (event->sample_count + 1u) / 2;
    if (event->samples == NULL || words == 0 || words > SAMPLE_WORDS)
        return NO_SAMPLES;
    const uint64_t at = atomic_load(&store->claimed);
    atomic_store(&store->claimed,
                 at + words); /* readers of what is overwritten see it afterwards */
    for (uint64_t i = 0; i < words; i++) {
        float pair[2] = {event->samples[2 * i], 0};
        uint64_t word;
        if (2 * i + 1 < event->sample_count)
            pair[1] = event->samples[2 * i + 1];
        memcpy(&word, pair, sizeof word);
        atomic_store_explicit(&store->samples[(at + i) % SAMPLE_WORDS], word, memory_order_release);
    }
    return at;
}

void analysis_store_put(struct analysis_store *store, const struct analysis_event *event)
{
    const uint64_t place = atomic_load(&store->last) + 1;
    struct slot *slot = &store->slots[place % STORE_EVENTS];
    union copy copy;
    const size_t bytes =
        event->body_bytes < STORE_BODY_BYTES ? event->body_bytes : STORE_BODY_BYTES;
    memset(&copy, 0, offsetof(struct stored_event, body));
    copy.event.event = *event;
    copy.event.event.samples = NULL;
    copy.event.event.body = NULL;
    copy.event.event.body_bytes = bytes;
    copy.event.place = place;
    copy.event.samples_at = put_samples(store, event);
    memcpy(copy.event.body, event->body, bytes);
    const size_t words =
        (offsetof(struct stored_event, body) + bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    atomic_store_explicit(&slot->turn, WRITING, memory_order_relaxed);
    for (size_t i = 0; i < words; i++)
        atomic_store_explicit(&slot->words[i], copy.words[i], memory_order_release);
    atomic_store_explicit(&slot->turn, place, memory_order_release);
    atomic_store(&store->last, place);
}

/* ---- reading ----------------------------------------------------------------------------- */

uint64_t analysis_store_last(const struct analysis_store *store)
{
    return atomic_load(&store->last);
}

/* False: the slot holds another event, or is being filled. */
static bool copy_slot(const struct analysis_store *store, uint64_t place, struct stored_event *out)
{
    const struct slot *slot = &store->slots[place % STORE_EVENTS];
    union copy copy;
    if (atomic_load_explicit(&slot->turn, memory_order_acquire) != place)
        return false;
    for (int i = 0; i < WORDS; i++)
        copy.words[i] = atomic_load_explicit(&slot->words[i], memory_order_acquire);
    if (atomic_load_explicit(&slot->turn, memory_order_relaxed) != place)
        return false;
    *out = copy.event;
    out->event.body = out->body;
    return true;
}

bool analysis_store_next(const struct analysis_store *store, uint64_t *after,
                         struct stored_event *out, uint64_t *missed)
{
    *missed = 0;
    for (;;) {
        const uint64_t last = atomic_load(&store->last);
        if (*after >= last)
            return false;
        /* The oldest slot may be written anew already. */
        const uint64_t kept = STORE_EVENTS - 1;
        if (last > kept && *after < last - kept) {
            *missed += last - kept - *after;
            *after = last - kept;
        }
        ++*after;
        if (copy_slot(store, *after, out))
            return true;
        ++*missed; /* overwritten meanwhile */
    }
}

bool analysis_store_find(const struct analysis_store *store, uint64_t number,
                         struct stored_event *out)
{
    const uint64_t last = atomic_load(&store->last);
    const uint64_t first = last > STORE_EVENTS ? last - STORE_EVENTS : 0;
    for (uint64_t place = last; place > first; place--)
        if (copy_slot(store, place, out) && out->event.number == number)
            return true;
    return false;
}

bool analysis_store_samples(const struct analysis_store *store, const struct stored_event *event,
                            float *out)
{
    const uint64_t words = (event->event.sample_count + 1u) / 2, at = event->samples_at;
    if (at == NO_SAMPLES)
        return false;
    for (uint64_t i = 0; i < words; i++) {
        const uint64_t word =
            atomic_load_explicit(&store->samples[(at + i) % SAMPLE_WORDS], memory_order_acquire);
        const size_t bytes = 2 * i + 1 < event->event.sample_count ? sizeof word : sizeof(float);
        memcpy(&out[2 * i], &word, bytes);
    }
    return atomic_load_explicit(&store->claimed, memory_order_acquire) <= at + SAMPLE_WORDS;
}
