/* The continuous self-check: see self_check.h. */
#include "pipeline/self_check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "convolve/check/recheck.h"
#include "convolve/lost.h"
#include "core/clock.h"
#include "core/doorbell.h"
#include "core/log.h"
#include "signal/decimation.h"

/* The worker yields to everything else. */
enum { NICE = 10 };

/* Whose turn it is. */
enum turn {
    TURN_WAIT,    /* loop: nothing is due yet */
    TURN_ROOM,    /* worker: allocates what the copy needs */
    TURN_COPY,    /* loop: copies */
    TURN_COMPARE, /* worker: computes and compares */
    TURN_DROP,    /* worker: another plan came, gives the reference back */
};

struct self_check {
    /* immutable */
    struct self_checks *checks;
    struct self_check_options options;
    char stream[64];
    struct self_check *next; /* under checks->mutex */
    bool busy;               /* likewise: the worker works on it */

    /* whoever has the turn */
    _Atomic int turn;
    struct engine *engine; /* of the copy */
    struct plan_reference *reference;
    struct plan_info info;
    struct recheck_block block;
    uint32_t output, place, values;
    uint32_t sample_bytes; /* of the input */
    uint32_t input_count;
    uint16_t inputs[CHANNELS_MAX];
    uint8_t *input, *present, *results;
    uint64_t results_until; /* ring position behind the results */

    /* loop */
    int64_t due_ns;
    uint32_t turns;         /* outputs checked so far, and so which one follows */
    uint64_t filled;        /* frames copied */
    uint64_t position;      /* ring position that the next item has to begin at */
    uint64_t doubted_until; /* ring position; results before it are flagged as uncertain */
    bool begun;

    /* the worker writes, LOOP reads: ring position behind the last block that was right */
    _Atomic uint64_t held[CHANNELS_MAX];
    _Atomic uint32_t outputs; /* of them in use */

    /* figures: the worker writes, any thread reads */
    _Atomic uint64_t done, failures;
    _Atomic double last, worst;
    _Atomic uint32_t worst_output;
    _Atomic int64_t last_ns;
};

struct self_checks {
    pthread_mutex_t mutex; /* of the list; the loop never takes it */
    pthread_cond_t idle;
    struct self_check *first;
    pthread_t thread;
    int doorbell;
    _Atomic bool stopping;
};

static void pass(struct self_check *c, enum turn turn)
{
    atomic_store_explicit(&c->turn, turn, memory_order_release);
}

/* ---- the worker ---------------------------------------------------------------------------- */

static void give_back(struct self_check *c)
{
    recheck_release(c->reference);
    free(c->input);
    free(c->present);
    free(c->results);
    c->reference = NULL;
    c->input = c->present = c->results = NULL;
}

/* Without memory this turn is left out. */
static void make_room(struct self_check *c)
{
    const uint64_t frames = c->block.before + c->info.hop;
    c->input = malloc(frames * c->input_count * c->sample_bytes);
    c->present = malloc(frames);
    c->results = malloc((uint64_t)c->info.hop * c->values * c->info.sample_bytes);
    if (c->input != NULL && c->present != NULL && c->results != NULL) {
        pass(c, TURN_COPY);
        return;
    }
    give_back(c);
    pass(c, TURN_WAIT);
}

static void note(struct self_check *c, double error)
{
    const bool good = error <= 1;
    if (!good) {
        char detail[160];
        snprintf(detail, sizeof detail,
                 "stream %.60s: output %u is off by %.3g times the error bound", c->stream,
                 c->output + 1, error);
        if (c->failures == 0)
            log_error("self check: %s", detail);
        engine_declare_lost(c->engine, ENGINE_LOSS_WRONG_RESULT, detail);
    }
    if (error > c->worst) {
        c->worst_output = c->output;
        c->worst = error;
    }
    if (good)
        atomic_store(&c->held[c->output], c->results_until);
    c->last = error;
    c->last_ns = clock_monotonic_ns();
    c->failures += !good;
    c->done++;
}

static void compare(struct self_check *c)
{
    double error = 0;
    c->block.reference = c->reference;
    c->block.output = c->output;
    c->block.input = c->input;
    c->block.present = c->present;
    c->block.results = c->results;
    if (recheck_block(&c->block, &error) == 0)
        note(c, error);
    give_back(c);
    pass(c, TURN_WAIT);
}

static bool work_on(struct self_check *c)
{
    switch ((enum turn)atomic_load_explicit(&c->turn, memory_order_acquire)) {
    case TURN_ROOM:
        make_room(c);
        return true;
    case TURN_COMPARE:
        compare(c);
        return true;
    case TURN_DROP:
        give_back(c);
        pass(c, TURN_WAIT);
        return true;
    case TURN_WAIT:
    case TURN_COPY:
        break;
    }
    return false;
}

static bool is_worker_turn(struct self_check *c)
{
    const int turn = atomic_load_explicit(&c->turn, memory_order_acquire);
    return turn != TURN_WAIT && turn != TURN_COPY;
}

static void *worker(void *argument)
{
    struct self_checks *checks = argument;
    const struct sched_param usual = {0};
    pthread_setname_np(pthread_self(), "self-check");
    /* It inherits real time where the whole daemon has it, and a nice value changes nothing there.
     */
    (void)pthread_setschedparam(pthread_self(), SCHED_OTHER, &usual);
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    while (!atomic_load_explicit(&checks->stopping, memory_order_acquire)) {
        pthread_mutex_lock(&checks->mutex);
        struct self_check *c = checks->first;
        while (c != NULL && !is_worker_turn(c))
            c = c->next;
        if (c != NULL)
            c->busy = true;
        pthread_mutex_unlock(&checks->mutex);
        if (c == NULL) {
            doorbell_wait(checks->doorbell);
            continue;
        }
        work_on(c);
        pthread_mutex_lock(&checks->mutex);
        c->busy = false;
        pthread_cond_broadcast(&checks->idle);
        pthread_mutex_unlock(&checks->mutex);
    }
    return NULL;
}

/* ---- opening and closing ------------------------------------------------------------------- */

int self_checks_open(struct self_checks **out, struct problem *problem)
{
    struct self_checks *checks = calloc(1, sizeof *checks);
    if (checks == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    pthread_mutex_init(&checks->mutex, NULL);
    pthread_cond_init(&checks->idle, NULL);
    checks->doorbell = doorbell_open();
    if (checks->doorbell >= 0 && pthread_create(&checks->thread, NULL, worker, checks) == 0) {
        *out = checks;
        return 0;
    }
    if (checks->doorbell >= 0)
        close(checks->doorbell);
    free(checks);
    return problem_set(problem, ERROR_SYSTEM,
                       "no thread for self checks: raise the limits of threads (ulimit -u) and "
                       "open files (ulimit -n)");
}

void self_checks_close(struct self_checks *checks)
{
    if (checks == NULL)
        return;
    atomic_store_explicit(&checks->stopping, true, memory_order_release);
    doorbell_ring(checks->doorbell);
    pthread_join(checks->thread, NULL);
    close(checks->doorbell);
    pthread_mutex_destroy(&checks->mutex);
    pthread_cond_destroy(&checks->idle);
    free(checks);
}

int self_check_open(struct self_checks *checks, const struct self_check_options *options,
                    struct self_check **out, struct problem *problem)
{
    struct self_check *c = calloc(1, sizeof *c);
    if (c == NULL)
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", options->stream);
    c->checks = checks;
    c->options = *options;
    snprintf(c->stream, sizeof c->stream, "%s", options->stream);
    pthread_mutex_lock(&checks->mutex);
    c->next = checks->first;
    checks->first = c;
    pthread_mutex_unlock(&checks->mutex);
    *out = c;
    return 0;
}

void self_check_close(struct self_check *c)
{
    if (c == NULL)
        return;
    struct self_checks *checks = c->checks;
    pthread_mutex_lock(&checks->mutex);
    while (c->busy)
        pthread_cond_wait(&checks->idle, &checks->mutex);
    struct self_check **link = &checks->first;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    pthread_mutex_unlock(&checks->mutex);
    give_back(c);
    free(c);
}

void self_check_figures(const struct self_check *c, struct self_check_figures *figures)
{
    *figures = (struct self_check_figures){
        .checks = c->done,
        .failures = c->failures,
        .last = c->last,
        .worst = c->worst,
        .worst_output = c->worst_output,
        .last_ns = c->last_ns,
    };
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void hand_over(struct self_check *c, enum turn turn)
{
    pass(c, turn);
    doorbell_ring(c->checks->doorbell);
}

/* Chooses the output and asks the worker for room. */
static void request(struct self_check *c, const struct batch_item *item, int64_t now_ns)
{
    c->due_ns = now_ns + c->options.interval_ns;
    c->info = *plan_info(item->plan);
    c->reference = recheck_reference(item->plan);
    recheck_hold(c->reference);
    c->engine = c->options.engine(c->options.context);
    c->output = c->turns++ % c->info.outputs;
    atomic_store(&c->outputs, c->info.outputs);
    c->input_count =
        recheck_inputs(c->reference, c->output, c->inputs, CHANNELS_MAX, &c->place, &c->values);
    const uint64_t hop = c->info.hop;
    c->block.before = (c->info.taps_longest - 1 + hop - 1) / hop * hop;
    c->sample_bytes = item->ring->frame_bytes / c->info.inputs;
    c->begun = false;
    hand_over(c, TURN_ROOM);
}

/* Appends the block of new frames at ring position `position`. */
static void copy_input(struct self_check *c, const struct ring *ring, uint64_t position)
{
    const uint32_t bytes = c->sample_bytes, mask = ring->frames - 1;
    const uint64_t frames = c->block.before + c->info.hop;
    for (uint32_t i = 0; i < c->input_count; i++) {
        uint8_t *to = c->input + (i * frames + c->filled) * bytes;
        const uint8_t *channel = ring->bytes + (size_t)c->inputs[i] * bytes;
        for (uint32_t n = 0; n < c->info.hop; n++)
            memcpy(to + (size_t)n * bytes,
                   channel + ((position + n) & mask) * (uint64_t)ring->frame_bytes, bytes);
    }
    for (uint32_t n = 0; n < c->info.hop; n++) {
        const uint64_t slot = (position + n) & mask;
        c->present[c->filled + n] = ring->present[slot / 32] >> (slot % 32) & 1;
    }
    c->filled += c->info.hop;
}

/* Copies the results of one block of the item. */
static void copy_results(struct self_check *c, const struct batch_item *item, uint32_t block)
{
    const struct decimation kept = {c->info.decimate, c->info.decimate_phase};
    const uint64_t first = (item->epoch_block + block) * c->info.hop;
    const uint64_t before =
        decimation_kept(&kept, item->epoch_block * c->info.hop, (uint64_t)block * c->info.hop);
    const uint64_t count = decimation_kept(&kept, first, c->info.hop);
    const size_t bytes = (size_t)c->values * c->info.sample_bytes;
    const uint8_t *from = (const uint8_t *)item->samples;
    for (uint64_t k = 0; k < count; k++)
        memcpy(c->results + k * bytes,
               from + ((before + k) * c->info.output_floats + c->place) * c->info.sample_bytes,
               bytes);
    c->block.first_frame = first;
}

static void begin_copy(struct self_check *c, const struct batch_item *item)
{
    c->begun = true;
    c->filled = 0;
    if (item->epoch_block > 0)
        return;
    /* before an epoch lies silence */
    memset(c->present, 0, c->block.before);
    c->filled = c->block.before;
}

static void copy(struct self_check *c, const struct batch_item *item)
{
    const uint32_t hop = c->info.hop, whole = item->write_until / hop;
    if (recheck_reference(item->plan) != c->reference ||
        c->options.engine(c->options.context) != c->engine) {
        hand_over(c, TURN_DROP);
        return;
    }
    if (!c->begun || item->position != c->position)
        begin_copy(c, item);
    for (uint32_t block = 0; block < whole; block++) {
        bool last = c->filled == c->block.before;
        if (last && block * hop < item->write_from) {
            /* Written in part: it has results of another plan, or of nobody. */
            if (c->block.before == 0)
                continue;
            c->filled = 0;
            last = false;
        }
        copy_input(c, item->ring, item->position + (uint64_t)block * hop);
        if (last) {
            copy_results(c, item, block);
            c->results_until = item->position + (uint64_t)(block + 1) * hop;
            hand_over(c, TURN_COMPARE);
            return;
        }
    }
    c->position = item->position + (uint64_t)whole * hop;
}

uint64_t self_check_held(const struct self_check *c)
{
    if (c == NULL)
        return 0;
    const uint32_t outputs = atomic_load(&c->outputs);
    uint64_t oldest = outputs > 0 ? UINT64_MAX : 0;
    for (uint32_t o = 0; o < outputs; o++) {
        const uint64_t held = atomic_load(&c->held[o]);
        oldest = held < oldest ? held : oldest;
    }
    return oldest > c->doubted_until ? oldest : c->doubted_until;
}

void self_check_doubted(struct self_check *c, uint64_t position)
{
    if (c != NULL && position > c->doubted_until)
        c->doubted_until = position;
}

void self_check_inspect(void *context, const struct batch_item *item)
{
    struct self_check *c = context;
    const int turn = atomic_load_explicit(&c->turn, memory_order_acquire);
    if (turn == TURN_WAIT) {
        const int64_t now_ns = clock_monotonic_ns();
        if (now_ns >= c->due_ns)
            request(c, item, now_ns);
    } else if (turn == TURN_COPY) {
        copy(c, item);
    }
}
