/* Receive trial: see receive_trial.h. Loop thread. */
#include "io/net/receive_trial.h"

#include "core/median.h"

static void begin_turn(struct receive_trial *trial, uint32_t turn)
{
    trial->turn = turn;
    trial->path = turn % 2 == 0 ? RECEIVE_GRO : RECEIVE_RECVMMSG;
    trial->datagrams = trial->measured = trial->messages = 0;
    trial->cpu_ns = 0;
}

void receive_trial_reset(struct receive_trial *trial, enum receive_path requested)
{
    *trial = (struct receive_trial){
        .next_ns = INT64_MAX,
        .pause_ns = RECEIVE_PATH_PAUSE_NS,
        .path = requested,
        .chosen = requested,
    };
    if (requested == RECEIVE_AUTO) {
        trial->chosen = RECEIVE_RECVMMSG;
        trial->measuring = true;
        begin_turn(trial, 0);
    }
}

void receive_trial_refuse(struct receive_trial *trial)
{
    receive_trial_reset(trial, RECEIVE_RECVMMSG);
}

/* Whether one path has cost far more than the other in each of its turns so far. */
static bool is_clear(const struct receive_trial *trial, uint32_t turns)
{
    const double(*ns)[RECEIVE_PATH_TURNS] = trial->turns_ns;
    bool clear[RECEIVE_PATHS] = {true, true}; /* this one is the expensive one */
    for (uint32_t i = 0; i < turns; i++)
        for (int path = 0; path < RECEIVE_PATHS; path++)
            clear[path] = clear[path] && ns[path][i] >= RECEIVE_PATH_CLEAR * ns[!path][i];
    return clear[0] != clear[1];
}

/* `turns` of each path are done. */
static bool is_over(const struct receive_trial *trial, uint32_t turns)
{
    return turns == RECEIVE_PATH_TURNS ||
           (turns == RECEIVE_PATH_CLEAR_TURNS && is_clear(trial, turns));
}

/* The trial is over: this path from now on. */
static void choose(struct receive_trial *trial, enum receive_path path, int64_t now_ns)
{
    const int64_t longer_ns = 2 * trial->pause_ns;
    if (path != trial->chosen || trial->trials == 0)
        trial->pause_ns = RECEIVE_PATH_PAUSE_NS;
    else
        trial->pause_ns =
            longer_ns < RECEIVE_PATH_PAUSE_MAX_NS ? longer_ns : RECEIVE_PATH_PAUSE_MAX_NS;
    trial->path = trial->chosen = path;
    trial->measuring = false;
    trial->next_ns = now_ns + trial->pause_ns;
    trial->trials++;
}

static void decide(struct receive_trial *trial, uint32_t turns, int64_t now_ns)
{
    for (int path = 0; path < RECEIVE_PATHS; path++)
        trial->cost_ns[path] = median(trial->turns_ns[path], turns);
    const enum receive_path other = trial->chosen == RECEIVE_GRO ? RECEIVE_RECVMMSG : RECEIVE_GRO;
    const bool better =
        trial->cost_ns[other] < (1 - RECEIVE_PATH_MARGIN) * trial->cost_ns[trial->chosen];
    choose(trial, better ? other : trial->chosen, now_ns);
}

bool receive_trial_note(struct receive_trial *trial, int64_t now_ns,
                        const struct receive_wake *wake)
{
    if (!trial->measuring) {
        if (now_ns >= trial->next_ns) {
            trial->measuring = true;
            begin_turn(trial, 0);
        }
        return false;
    }
    if (!wake->settled)
        return false;
    trial->datagrams += wake->datagrams;
    /* The wake-up that ends the warm-up is not measured: it began before that was known. */
    if (trial->datagrams - wake->datagrams >= RECEIVE_PATH_WARM_DATAGRAMS) {
        trial->measured += wake->datagrams;
        trial->messages += wake->messages;
        trial->cpu_ns += wake->cpu_ns;
    }
    if (trial->measured < RECEIVE_PATH_TURN_DATAGRAMS)
        return false;
    const double cost_ns = (double)trial->cpu_ns / (double)trial->measured;
    const uint32_t done = trial->turn + 1;
    trial->turns_ns[trial->path][trial->turn / 2] = cost_ns;
    if (done == 1 && trial->measured >= RECEIVE_PATH_TRAIN * trial->messages) {
        trial->cost_ns[RECEIVE_GRO] = cost_ns;
        choose(trial, RECEIVE_GRO, now_ns);
        return true;
    }
    if (done % RECEIVE_PATHS != 0 || !is_over(trial, done / RECEIVE_PATHS)) {
        begin_turn(trial, done);
        return false;
    }
    decide(trial, done / RECEIVE_PATHS, now_ns);
    return true;
}
