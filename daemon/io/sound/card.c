/*
 * Sound card: see card.h.
 *
 *     idle ─ start ─► opening ─► running ─► waiting ─ back-off ─► opening …
 *                          └── absent ─────────▲
 *
 * A timer polls the state of the helper every 20 ms. The device's callbacks ring the doorbell,
 * which wakes the loop at once.
 */
#include "io/sound/card.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/doorbell.h"
#include "core/log.h"
#include "io/sound/devices.h"
#include "io/sound/link.h"
#include "io/sound/ring.h"

enum {
    OPEN_TIMEOUT_MS = 10000,
    POLL_MS = 20,
    BACK_OFF_FIRST_MS = 100,
    BACK_OFF_LAST_MS = 5000,
    HUNG_MS = 4000, /* without a callback: the helper hangs (it ends itself after 2000) */
    STOP_MS = 3000, /* for the helper to close its device; then the card kills it */
    NUDGE_MS = 500, /* between two attempts because a JACK server may have come */
    LOG_INTERVAL_S = 60,
};

/* JACK servers have their sockets and memory here: one that comes changes the folder. */
static const char servers_folder[] = "/dev/shm";

enum phase { PHASE_IDLE, PHASE_OPENING, PHASE_RUNNING, PHASE_WAITING, PHASE_CLOSING };

/* One direction and its user. */
struct side {
    bool used;
    struct sound_card_user user;
    void (*closed)(void *context);
    void *closed_context;
};

struct sound_card {
    const struct sound_options *options;
    uv_loop_t *loop;
    struct sound_link *link;
    struct sound_cards *cards; /* NULL: none */
    /* under the lock of `cards` */
    struct sound_card *next;
    unsigned users;
    struct side sides[SOUND_DIRECTIONS];
    /* loop */
    enum phase phase;
    bool handles_open;
    int open_handles;
    uv_poll_t doorbell;
    uv_timer_t poll_timer;
    int64_t since_ns; /* when the phase began [monotonic] */
    int64_t retry_ns; /* in PHASE_WAITING: when it ends */
    uint32_t back_off_ms;
    bool stopped; /* in PHASE_WAITING, PHASE_CLOSING: the helper has ended */
    bool logged_absent, logged_priority;
    uint64_t logged_changed, logged_refused; /* filter changes of this session */
    char refused[SOUND_PROBLEM_BYTES]; /* why the device was refused, as the log has it; "": not */
    struct timespec servers_changed;   /* the folder's time when the last attempt began */
    struct log_limit limit;
    /* numbering */
    bool based; /* base is that of this session */
    bool ran;   /* in this session or an earlier one */
    bool origin_known;
    uint64_t origin, base;
    uint64_t last_frame;           /* global frame after the newest callback */
    int64_t last_ns;               /* when that callback ran [monotonic] */
    uint64_t sums[SOUND_COUNTERS]; /* of earlier sessions */
    uint64_t sessions;
};

struct sound_cards {
    pthread_mutex_t lock;
    struct sound_card *first;
};

static const char *label(const struct sound_card *card)
{
    for (int d = 0; d < SOUND_DIRECTIONS; d++)
        if (card->sides[d].used)
            return card->sides[d].user.label;
    return "sound card";
}

struct sound_shared *sound_card_shared(struct sound_card *card)
{
    return sound_link_shared(card->link);
}

void sound_card_set_origin(struct sound_card *card, uint64_t frame)
{
    card->origin = frame;
    card->origin_known = true;
}

bool sound_card_origin(const struct sound_card *card, uint64_t *frame)
{
    *frame = card->origin;
    return card->origin_known;
}

bool sound_card_base(const struct sound_card *card, uint64_t *base)
{
    *base = card->base;
    return card->based;
}

void sound_card_status(const struct sound_card *card, struct sound_status *status)
{
    const struct sound_shared *shared = sound_link_shared(card->link);
    struct sound_position position;
    sound_ring_position(shared, &position);
    *status = (struct sound_status){
        .running = card->phase == PHASE_RUNNING && card->based,
        .obtained = shared->obtained,
        .period_frames = position.period_frames,
        .sessions = card->sessions,
        .base = card->base,
    };
    for (int i = 0; i < SOUND_COUNTERS; i++)
        status->counters[i] = card->sums[i] + sound_count(shared, (enum sound_counter)i);
}

/* ---- logging ----------------------------------------------------------------------------- */

static void log_obtained(const struct sound_card *card)
{
    const struct sound_obtained *got = &sound_link_shared(card->link)->obtained;
    const struct sound_request *request = &card->options->request;
    char capture[24] = "", playback[24] = "";
    sample_format_name(&request->capture.format, capture);
    sample_format_name(&request->playback.format, playback);
    log_info("%s: sound card `%s` (%s): %.15g Hz, %" PRIu32 " in %s, %" PRIu32
             " out %s, hardware %s; latency of the device %.2f ms in, %.2f ms out",
             label(card), got->device, got->api, got->rate_hz, request->capture.channels,
             request->capture.channels > 0 ? capture : "-", request->playback.channels,
             request->playback.channels > 0 ? playback : "-",
             got->format[0] != '\0' ? got->format : "not known", 1e3 * got->input_latency_s,
             1e3 * got->output_latency_s);
    if (got->direct_period_ns > 0)
        log_info("%s: direct mode: a period of %.0f us takes %.0f us, at worst %.0f us; no frame "
                 "is added",
                 label(card), 1e-3 * (double)got->direct_period_ns,
                 1e-3 * (double)got->direct_median_ns, 1e-3 * (double)got->direct_worst_ns);
    if (fabs(got->rate_hz - request->rate_hz) > 1e-6 * request->rate_hz)
        log_warning("%s: %.15g Hz requested, %.15g Hz obtained", label(card), request->rate_hz,
                    got->rate_hz);
}

static void log_priority(struct sound_card *card)
{
    const struct sound_shared *shared = sound_link_shared(card->link);
    const struct sound_obtained *got = &shared->obtained;
    struct sound_position position;
    sound_ring_position(shared, &position);
    int policy = atomic_load_explicit(&got->policy, memory_order_acquire);
    if (card->logged_priority || policy < 0 || position.period_frames == 0)
        return;
    card->logged_priority = true;
    bool real = policy == SCHED_FIFO || policy == SCHED_RR;
    log_info("%s: sound card's thread: period %" PRIu32 " frames, %s%.0d", label(card),
             position.period_frames,
             real ? "real time, priority " : "usual priority, no real time granted",
             real ? got->priority : 0);
}

static void log_filters(struct sound_card *card)
{
    const struct sound_shared *shared = sound_link_shared(card->link);
    const uint64_t changed = sound_count(shared, SOUND_FILTERS_CHANGED);
    const uint64_t refused = sound_count(shared, SOUND_FILTERS_REFUSED);
    if (changed > card->logged_changed)
        log_notice("%s: direct mode: playback uses the changed filters now", label(card));
    if (refused > card->logged_refused)
        log_warning("%s: direct mode: playback keeps its filters: %s", label(card),
                    shared->problem);
    card->logged_changed = changed;
    card->logged_refused = refused;
}

static void log_lost(struct sound_card *card, enum sound_state state)
{
    const char *why = sound_link_shared(card->link)->problem;
    if (state == SOUND_LOST && card->ran) {
        log_warning("%s: sound card lost: %s; it is opened again as soon as it is back",
                    label(card), why);
        card->refused[0] = '\0';
    } else if (state == SOUND_REFUSED && strcmp(card->refused, why) != 0) {
        /* It is back and can do something else: news, whatever the log had before. */
        log_warning("%s: sound card not open: %s; looking for it", label(card), why);
        snprintf(card->refused, sizeof card->refused, "%s", why);
    } else {
        log_limited(&card->limit, LOG_INTERVAL_S * NS_PER_SECOND,
                    card->logged_absent ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING,
                    "%s: sound card not open: %s; looking for it", label(card), why);
    }
    card->logged_absent = true;
}

/* ---- sessions ---------------------------------------------------------------------------- */

/* Sets the base of a new session: it continues after the last session by the time between, in whole
 * periods, so that blocks still end where periods end. */
static void set_base(struct sound_card *card)
{
    struct sound_position position;
    sound_ring_position(sound_link_shared(card->link), &position);
    if (card->based || position.now == 0)
        return;
    card->base = 0;
    if (card->ran) {
        double elapsed =
            (double)(position.callback_ns - card->last_ns) * card->options->request.rate_hz / 1e9;
        double periods = (elapsed - (double)position.now) / position.period_frames;
        card->base = card->last_frame +
                     (periods > 0 ? (uint64_t)llround(periods) * position.period_frames : 0);
        log_notice("%s: sound card back after %.1f s: %" PRIu64 " frames were not captured",
                   label(card), (double)(position.callback_ns - card->last_ns) / 1e9,
                   card->base - card->last_frame);
    }
    card->based = true;
    card->ran = true;
    card->logged_absent = false;
    card->refused[0] = '\0';
    card->back_off_ms = BACK_OFF_FIRST_MS;
}

static void call_users(struct sound_card *card)
{
    if (!card->based)
        return;
    struct sound_position position;
    sound_ring_position(sound_link_shared(card->link), &position);
    for (int d = 0; d < SOUND_DIRECTIONS; d++)
        if (card->sides[d].used)
            card->sides[d].user.callback(card->sides[d].user.context);
    card->last_frame = card->base + position.now;
    card->last_ns = position.callback_ns;
}

static void end_session(struct sound_card *card)
{
    const struct sound_shared *shared = sound_link_shared(card->link);
    if (card->based) {
        call_users(card);
        card->based = false;
        for (int d = 0; d < SOUND_DIRECTIONS; d++)
            if (card->sides[d].used)
                card->sides[d].user.lost(card->sides[d].user.context);
    }
    for (int i = 0; i < SOUND_COUNTERS; i++)
        card->sums[i] += sound_count(shared, (enum sound_counter)i);
    sound_shared_reset(sound_link_shared(card->link));
    card->logged_priority = false;
    card->logged_changed = card->logged_refused = 0;
}

/* Stops the helper and schedules the next attempt to open the device. */
static void wait_to_retry(struct sound_card *card)
{
    int64_t now_ns = clock_monotonic_ns();
    card->phase = PHASE_WAITING;
    card->stopped = sound_link_stop(card->link, false);
    card->since_ns = now_ns;
    card->retry_ns = now_ns + card->back_off_ms * NS_PER_MS;
    card->back_off_ms =
        card->back_off_ms < BACK_OFF_LAST_MS / 2 ? 2 * card->back_off_ms : BACK_OFF_LAST_MS;
}

static struct timespec servers_time(void)
{
    struct stat status = {0};
    (void)stat(servers_folder, &status);
    return status.st_mtim;
}

/* Whether a server may have come since the last attempt began. */
static bool server_came(const struct sound_card *card)
{
    const struct timespec now = servers_time(), before = card->servers_changed;
    return card->options->request.api == SOUND_API_JACK &&
           (now.tv_sec != before.tv_sec || now.tv_nsec != before.tv_nsec) &&
           clock_monotonic_ns() - card->since_ns >= NUDGE_MS * NS_PER_MS;
}

static void spawn(struct sound_card *card)
{
    struct problem problem;
    card->servers_changed = servers_time();
    if (sound_link_spawn(card->link, &problem) != 0) {
        log_limited(&card->limit, LOG_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_WARNING, "%s: %s",
                    label(card), problem.text);
        wait_to_retry(card);
        return;
    }
    card->phase = PHASE_OPENING;
    card->since_ns = clock_monotonic_ns();
}

/* Compares with the time of the last callback in the shared memory, so a delay of the loop itself
 * does not count. */
static bool helper_hangs(const struct sound_card *card)
{
    struct sound_position position;
    sound_ring_position(sound_link_shared(card->link), &position);
    return position.now > 0 && clock_monotonic_ns() - position.callback_ns > HUNG_MS * NS_PER_MS;
}

static void poll_helper(struct sound_card *card)
{
    enum sound_state state = sound_link_state(card->link);
    if (card->phase == PHASE_OPENING && state == SOUND_STARTING &&
        clock_monotonic_ns() - card->since_ns > OPEN_TIMEOUT_MS * NS_PER_MS)
        state = sound_link_wait(card->link, 0);
    if (state == SOUND_RUNNING && helper_hangs(card)) {
        struct sound_shared *shared = sound_link_shared(card->link);
        card->stopped = sound_link_stop(card->link, true);
        snprintf(shared->problem, sizeof shared->problem, "its helper process hangs");
        state = SOUND_LOST;
    }
    switch (state) {
    case SOUND_STARTING:
        return;
    case SOUND_OPEN:
        if (card->phase == PHASE_OPENING) {
            card->phase = PHASE_RUNNING;
            card->sessions++;
            log_obtained(card);
            sound_link_start(card->link);
        }
        return;
    case SOUND_RUNNING:
        set_base(card);
        log_priority(card);
        log_filters(card);
        return;
    case SOUND_ABSENT:
    case SOUND_REFUSED:
    case SOUND_LOST:
        set_base(card); /* a session shorter than POLL_MS */
        log_lost(card, state);
        end_session(card);
        wait_to_retry(card);
        return;
    }
}

/* Calls `closed` of the users that have left. */
static void confirm_left(struct sound_card *card)
{
    for (int d = 0; d < SOUND_DIRECTIONS; d++) {
        struct side *side = &card->sides[d];
        void (*closed)(void *) = side->closed;
        side->closed = NULL;
        if (closed != NULL)
            closed(side->closed_context);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct sound_card *card = handle->data;
    if (--card->open_handles > 0)
        return;
    confirm_left(card);
    sound_link_close(card->link);
    free(card);
}

static void close_card(struct sound_card *card)
{
    int64_t now_ns = clock_monotonic_ns();
    if (!card->stopped)
        card->stopped = sound_link_stop(card->link, now_ns - card->since_ns > STOP_MS * NS_PER_MS);
    if (!card->stopped || uv_is_closing((uv_handle_t *)&card->poll_timer))
        return;
    uv_close((uv_handle_t *)&card->poll_timer, on_closed);
    uv_close((uv_handle_t *)&card->doorbell, on_closed);
}

static void poll_card(struct sound_card *card)
{
    switch (card->phase) {
    case PHASE_IDLE:
        break;
    case PHASE_OPENING:
    case PHASE_RUNNING:
        poll_helper(card);
        break;
    case PHASE_WAITING:
        if (!card->stopped)
            card->stopped = sound_link_stop(card->link, clock_monotonic_ns() - card->since_ns >
                                                            STOP_MS * NS_PER_MS);
        if (card->stopped && (clock_monotonic_ns() >= card->retry_ns || server_came(card)))
            spawn(card);
        break;
    case PHASE_CLOSING:
        close_card(card);
        return;
    }
    confirm_left(card);
}

static void on_poll_timer(uv_timer_t *timer)
{
    poll_card(timer->data);
}

static void on_doorbell(uv_poll_t *poll, int status, int events)
{
    struct sound_card *card = poll->data;
    if (status != 0 || !(events & UV_READABLE))
        return;
    doorbell_wait(sound_link_doorbell(card->link));
    if (card->phase == PHASE_OPENING || card->phase == PHASE_RUNNING) {
        if (!card->based)
            poll_card(card);
        call_users(card);
    }
}

/* ---- life -------------------------------------------------------------------------------- */

int sound_cards_open(struct sound_cards **out, struct problem *problem)
{
    struct sound_cards *cards = calloc(1, sizeof *cards);
    if (cards == NULL || pthread_mutex_init(&cards->lock, NULL) != 0) {
        free(cards);
        return problem_set(problem, ERROR_MEMORY, "no memory for sound cards");
    }
    *out = cards;
    return 0;
}

void sound_cards_close(struct sound_cards *cards)
{
    if (cards == NULL)
        return;
    assert(cards->first == NULL);
    pthread_mutex_destroy(&cards->lock);
    free(cards);
}

/* Under the lock, once the card is in the list. */
static void use_side(struct sound_card *card, enum sound_direction direction,
                     const struct sound_card_user *user)
{
    card->sides[direction].used = true;
    card->sides[direction].user = *user;
    card->users++;
}

/* Joins the card with these options whose other direction is in use; NULL when there is none. */
static struct sound_card *join_card(struct sound_cards *cards, const struct sound_options *options,
                                    enum sound_direction direction,
                                    const struct sound_card_user *user)
{
    if (cards == NULL || !options->duplex)
        return NULL;
    pthread_mutex_lock(&cards->lock);
    struct sound_card *card = cards->first;
    while (card != NULL && (card->options != options || card->sides[direction].used))
        card = card->next;
    if (card != NULL)
        use_side(card, direction, user);
    pthread_mutex_unlock(&cards->lock);
    return card;
}

/* Opens the device, which may take seconds; the lock is not held meanwhile, because the loop takes
 * it too. name: begins log lines. */
static int make_card(const struct sound_options *options, const char *name,
                     const struct io_environment *environment, struct sound_card **out,
                     struct problem *problem)
{
    struct sound_card *card = calloc(1, sizeof *card);
    if (card == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a sound card");
    card->options = options;
    card->loop = environment->loop;
    card->cards = environment->cards;
    card->back_off_ms = BACK_OFF_FIRST_MS;
    int error = sound_link_open(&options->request, &card->link, problem);
    if (error == 0 && options->direct != NULL) {
        const int filters = sound_link_filters(options->direct, options->direct_bytes, problem);
        error = filters < 0 ? filters : 0;
        if (error == 0)
            sound_link_set_filters(card->link, filters);
    }
    if (error == 0)
        error = sound_link_spawn(card->link, problem);
    if (error != 0)
        goto failed;
    enum sound_state state = sound_link_wait(card->link, OPEN_TIMEOUT_MS);
    const char *why = sound_link_shared(card->link)->problem;
    if (state == SOUND_REFUSED) {
        error = problem_set(problem, ERROR_UNSUPPORTED, "%s", why);
        if (!sound_link_kill(card->link))
            return error; /* what the helper uses stays */
        goto failed;
    }
    if (state != SOUND_OPEN) {
        log_warning("%s: sound card not open: %s; looking for it", name, why);
        card->logged_absent = true;
        sound_link_kill(card->link);
    }
    *out = card;
    return 0;

failed:
    sound_link_close(card->link);
    free(card);
    return error;
}

int sound_card_open(const struct sound_options *options, enum sound_direction direction,
                    const struct sound_card_user *user, const struct io_environment *environment,
                    struct sound_card **out, struct problem *problem)
{
    struct sound_cards *cards = environment->cards;
    *out = join_card(cards, options, direction, user);
    if (*out != NULL)
        return 0;
    int error = make_card(options, user->label, environment, out, problem);
    if (error != 0)
        return error;
    use_side(*out, direction, user);
    if (cards == NULL)
        return 0;
    pthread_mutex_lock(&cards->lock);
    (*out)->next = cards->first;
    cards->first = *out;
    pthread_mutex_unlock(&cards->lock);
    return 0;
}

static void open_handles(struct sound_card *card)
{
    if (card->handles_open)
        return;
    card->handles_open = true;
    uv_poll_init(card->loop, &card->doorbell, sound_link_doorbell(card->link));
    uv_timer_init(card->loop, &card->poll_timer);
    card->doorbell.data = card->poll_timer.data = card;
    card->open_handles = 2;
    uv_timer_start(&card->poll_timer, on_poll_timer, POLL_MS, POLL_MS);
}

void sound_card_start(struct sound_card *card)
{
    if (card->phase != PHASE_IDLE)
        return;
    open_handles(card);
    uv_poll_start(&card->doorbell, UV_READABLE, on_doorbell);
    card->phase = PHASE_OPENING;
    card->since_ns = clock_monotonic_ns();
    if (!sound_link_spawned(card->link)) { /* the device was absent at sound_card_open */
        card->stopped = true;
        wait_to_retry(card);
    } else {
        poll_card(card);
    }
}

void sound_card_set_filters(struct sound_cards *cards, const struct sound_options *options,
                            int filters)
{
    struct sound_card *card = NULL;
    if (cards != NULL) {
        pthread_mutex_lock(&cards->lock);
        card = cards->first;
        while (card != NULL && card->options != options)
            card = card->next;
        if (card != NULL)
            sound_link_set_filters(card->link, filters);
        pthread_mutex_unlock(&cards->lock);
    }
    if (card == NULL)
        close(filters);
}

/* Returns true when the card has no user left; it is then no longer in the list. */
static bool release_card(struct sound_card *card)
{
    if (card->cards == NULL)
        return --card->users == 0;
    pthread_mutex_lock(&card->cards->lock);
    const bool last = --card->users == 0;
    struct sound_card **at = &card->cards->first;
    while (last && *at != card)
        at = &(*at)->next;
    if (last)
        *at = card->next;
    pthread_mutex_unlock(&card->cards->lock);
    return last;
}

void sound_card_leave(struct sound_card *card, enum sound_direction direction,
                      void (*closed)(void *context), void *context)
{
    struct side *side = &card->sides[direction];
    assert(side->used);
    side->used = false;
    side->closed = closed;
    side->closed_context = context;
    open_handles(card);
    if (!release_card(card))
        return;
    uv_poll_stop(&card->doorbell);
    card->stopped = sound_link_stop(card->link, false);
    card->since_ns = clock_monotonic_ns();
    card->phase = PHASE_CLOSING;
}
