/* Receive path: see receive_path.h. Loop thread. */
#include "io/net/receive_path.h"

const char *receive_path_name(enum receive_path path)
{
    static const char *const names[RECEIVE_PATHS + 1] = {
#define X(name, text) [RECEIVE_##name] = text,
        RECEIVE_PATH_TABLE(X)
#undef X
            [RECEIVE_AUTO] = "auto",
    };
    return (unsigned)path <= RECEIVE_PATHS ? names[(unsigned)path] : "?";
}

static void begin_turn(struct receive_trial *trial, uint32_t turn)
{
    trial->turn = turn;
    trial->path = turn % 2 == 0 ? RECEIVE_RECVMMSG : RECEIVE_GRO;
    trial->datagrams = trial->measured = 0;
    trial->cpu_ns = 0;
}

void receive_trial_reset(struct receive_trial *trial, enum receive_path wish)
{
    *trial = (struct receive_trial){
        .next_ns = INT64_MAX,
        .rest_ns = RECEIVE_PATH_REST_NS,
        .path = wish,
        .home = wish,
    };
    if (wish == RECEIVE_AUTO) {
        trial->home = RECEIVE_RECVMMSG;
        trial->measuring = true;
        begin_turn(trial, 0);
    }
}

void receive_trial_refuse(struct receive_trial *trial)
{
    receive_trial_reset(trial, RECEIVE_RECVMMSG);
}

static double median(const double values[RECEIVE_PATH_TURNS])
{
    double sorted[RECEIVE_PATH_TURNS] = {0};
    for (int i = 0; i < RECEIVE_PATH_TURNS; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return sorted[RECEIVE_PATH_TURNS / 2];
}

static void decide(struct receive_trial *trial, int64_t now_ns)
{
    for (int path = 0; path < RECEIVE_PATHS; path++)
        trial->cost_ns[path] = median(trial->turns_ns[path]);
    const enum receive_path other = trial->home == RECEIVE_GRO ? RECEIVE_RECVMMSG : RECEIVE_GRO;
    const bool better =
        trial->cost_ns[other] < (1 - RECEIVE_PATH_MARGIN) * trial->cost_ns[trial->home];
    if (better)
        trial->home = other;
    const int64_t longer_ns = 2 * trial->rest_ns;
    if (better || trial->trials == 0)
        trial->rest_ns = RECEIVE_PATH_REST_NS;
    else
        trial->rest_ns =
            longer_ns < RECEIVE_PATH_REST_MAX_NS ? longer_ns : RECEIVE_PATH_REST_MAX_NS;
    trial->path = trial->home;
    trial->measuring = false;
    trial->next_ns = now_ns + trial->rest_ns;
    trial->trials++;
}

bool receive_trial_note(struct receive_trial *trial, int64_t now_ns, uint32_t datagrams,
                        int64_t cpu_ns, bool settled)
{
    if (!trial->measuring) {
        if (now_ns >= trial->next_ns) {
            trial->measuring = true;
            begin_turn(trial, 0);
        }
        return false;
    }
    if (!settled)
        return false;
    trial->datagrams += datagrams;
    /* The wake-up in which the turn becomes warm is not measured: it did not know yet. */
    if (trial->datagrams - datagrams >= RECEIVE_PATH_WARM_DATAGRAMS) {
        trial->measured += datagrams;
        trial->cpu_ns += cpu_ns;
    }
    if (trial->measured < RECEIVE_PATH_TURN_DATAGRAMS)
        return false;
    trial->turns_ns[trial->path][trial->turn / 2] = (double)trial->cpu_ns / (double)trial->measured;
    if (trial->turn + 1 < 2 * RECEIVE_PATH_TURNS) {
        begin_turn(trial, trial->turn + 1);
        return false;
    }
    decide(trial, now_ns);
    return true;
}
