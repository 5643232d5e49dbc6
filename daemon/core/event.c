/* Events: see event.h. */
#include "core/event.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"

enum { WORDS = (sizeof(struct event) + 7) / 8 };

/* `turn` is the number of the event that the slot holds, and WRITING while it is being filled. The
 * event is kept as words, so that a reader that loses the race reads torn words, which it throws
 * away, and never races by the language's rules. A word is stored with release after the turn has
 * become WRITING, so a reader that sees a newer word sees a newer turn too. */
struct slot {
    _Atomic uint64_t turn;
    _Atomic uint64_t words[WORDS];
};

#define WRITING UINT64_MAX

static struct {
    _Atomic uint64_t last; /* the number given out last */
    struct slot slots[EVENTS_KEPT];
} ring;

const char *event_kind_word(enum event_kind kind)
{
    static const char *const words[EVENT_KINDS] = {
#define X(name, word) [EVENT_##name] = word,
        EVENT_TABLE(X)
#undef X
    };
    return (unsigned)kind < EVENT_KINDS ? words[kind] : "?";
}

/* ---- writing ----------------------------------------------------------------------------- */

static void publish(struct event *event)
{
    union {
        struct event event;
        uint64_t words[WORDS];
    } copy = {.words = {0}};
    event->number = atomic_fetch_add(&ring.last, 1) + 1;
    struct slot *slot = &ring.slots[event->number % EVENTS_KEPT];
    uint64_t turn = atomic_load_explicit(&slot->turn, memory_order_relaxed);
    /* A writer that was overtaken by a whole round leaves the slot to the newer event. */
    do {
        if (turn == WRITING || turn > event->number)
            return;
    } while (!atomic_compare_exchange_weak_explicit(&slot->turn, &turn, WRITING,
                                                    memory_order_acquire, memory_order_relaxed));
    copy.event = *event;
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&slot->words[i], copy.words[i], memory_order_release);
    atomic_store_explicit(&slot->turn, event->number, memory_order_release);
}

static void copy_text(char *to, size_t bytes, const char *from)
{
    snprintf(to, bytes, "%s", from != NULL ? from : "");
}

__attribute__((format(printf, 3, 0))) static void make(struct event *event,
                                                       const struct event_subject *subject,
                                                       const char *format, va_list arguments)
{
    memset(event, 0, sizeof *event);
    event->realtime_ns = clock_realtime_ns();
    event->kind = subject->kind;
    event->severity = subject->severity;
    event->framed = subject->framed;
    event->epoch = subject->epoch;
    event->frame = subject->frame;
    copy_text(event->stream, sizeof event->stream, subject->stream);
    copy_text(event->who, sizeof event->who, subject->who);
    vsnprintf(event->text, sizeof event->text, format, arguments);
}

static void write_log(const struct event *event, uint64_t suppressed)
{
    char more[48] = "";
    if (suppressed > 0)
        snprintf(more, sizeof more, " (and %llu more like it)", (unsigned long long)suppressed);
    log_line(event->severity, "%s%s%s%s%s%s%s%s", event->stream[0] != '\0' ? "stream " : "",
             event->stream, event->stream[0] != '\0' ? ": " : "", event->text,
             event->who[0] != '\0' ? " (asked by " : "", event->who,
             event->who[0] != '\0' ? ")" : "", more);
}

void event_raise(const struct event_subject *subject, const char *format, ...)
{
    struct event event;
    va_list arguments;
    va_start(arguments, format);
    make(&event, subject, format, arguments);
    va_end(arguments);
    write_log(&event, 0);
    publish(&event);
}

void event_keep(const struct event_subject *subject, const char *format, ...)
{
    struct event event;
    va_list arguments;
    va_start(arguments, format);
    make(&event, subject, format, arguments);
    va_end(arguments);
    publish(&event);
}

void event_raise_limited(struct log_limit *limit, int64_t interval_ns,
                         const struct event_subject *subject, const char *format, ...)
{
    const int64_t now_ns = clock_monotonic_ns();
    if (now_ns < limit->next_ns) {
        limit->suppressed++;
        return;
    }
    struct event event;
    va_list arguments;
    va_start(arguments, format);
    make(&event, subject, format, arguments);
    va_end(arguments);
    write_log(&event, limit->suppressed);
    publish(&event);
    limit->suppressed = 0;
    limit->next_ns = now_ns + interval_ns;
}

/* ---- reading ----------------------------------------------------------------------------- */

uint64_t event_last(void)
{
    return atomic_load(&ring.last);
}

/* False: the slot holds another event, or is being filled. */
static bool copy_slot(uint64_t number, struct event *out)
{
    union {
        struct event event;
        uint64_t words[WORDS];
    } copy;
    struct slot *slot = &ring.slots[number % EVENTS_KEPT];
    if (atomic_load_explicit(&slot->turn, memory_order_acquire) != number)
        return false;
    for (int i = 0; i < WORDS; i++)
        copy.words[i] = atomic_load_explicit(&slot->words[i], memory_order_acquire);
    if (atomic_load_explicit(&slot->turn, memory_order_relaxed) != number)
        return false;
    *out = copy.event;
    return true;
}

bool event_next(uint64_t *after, struct event *out, uint64_t *missed)
{
    *missed = 0;
    for (;;) {
        const uint64_t last = atomic_load(&ring.last);
        if (*after >= last)
            return false;
        uint64_t next = *after + 1;
        if (last >= EVENTS_KEPT && next <= last - EVENTS_KEPT) {
            *missed += last - EVENTS_KEPT + 1 - next;
            next = last - EVENTS_KEPT + 1;
            *after = next - 1;
        }
        if (copy_slot(next, out)) {
            *after = next;
            return true;
        }
        const uint64_t turn =
            atomic_load_explicit(&ring.slots[next % EVENTS_KEPT].turn, memory_order_acquire);
        if (turn == WRITING || turn < next)
            return false; /* its writer is not done */
        *after = next;    /* overwritten meanwhile */
        ++*missed;
    }
}
