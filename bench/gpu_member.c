/* One device of bench_gpu --together: see gpu_member.h. */
#include "bench/gpu_member.h"

#include <stdio.h>
#include <string.h>

#include "bench/gpu_copies.h"
#include "core/clock.h"

/* One process, while it measures. */
struct process {
    struct bench bench;
    struct meeting *meeting;
    struct member *self;
};

static int failed(const struct process *process, const char *what)
{
    fprintf(stderr, "bench_gpu: device %d (%s): %s\n", process->self->index,
            process->self->info.name, what);
    return 1;
}

static void step(struct process *process)
{
    atomic_fetch_add(&process->self->steps, 1);
}

/* Returns once every member is here. */
static void meet(struct process *process)
{
    step(process);
    pthread_barrier_wait(&process->meeting->barrier);
    step(process);
}

static int open_run(struct process *process, struct run *run, double *error)
{
    struct problem problem = {0};
    run->format_name = "f32le";
    if (!run_parse_formats(run) || run_open(&process->bench, run, &problem) < 0)
        return failed(process, problem.text);
    *error = run_check(&process->bench, run);
    step(process);
    return 0;
}

/* One turn of the engine, or of the copies where they are given. Turn 0 of a contest warms up and
 * counts for nothing. */
static void take_turn(struct process *process, enum contest contest, uint32_t i,
                      const struct run *run, const struct duplex *copies, double amount)
{
    const int64_t for_ns = 4 * process->bench.repetition_ns;
    struct turn turn = {.from_ns = clock_monotonic_ns()};
    if (copies != NULL) {
        const struct copied copied = duplex_run(copies, for_ns);
        turn.amount = copied.bytes;
        turn.seconds = copied.seconds;
    } else {
        turn.amount = amount;
        turn.seconds = run_timed(&process->bench, run, CROSSING_IN_FLIGHT, for_ns);
    }
    turn.until_ns = clock_monotonic_ns();
    if (i > 0)
        process->self->turns[contest][i - 1] = turn;
}

static int host_to_host(struct process *process)
{
    struct copier copier = {0};
    struct duplex duplex = {0};
    struct run run = {.points = 1024, .channels = 16};
    struct problem problem = {0};
    struct bench *bench = &process->bench;
    if (copier_open(&copier, bench->device, 4096, &problem) < 0)
        return failed(process, problem.text);
    if (!duplex_open(&duplex, copier.context, copier.device, bench->bytes))
        return failed(process, "no pinned memory for copies both ways");
    step(process);
    if (open_run(process, &run, &process->self->crossing_error) != 0)
        return 1;
    const double bytes = (run_samples_in(&run) + run_samples_out(&run)) * sizeof(float);
    for (uint32_t i = 0; i <= process->meeting->repetitions; i++) {
        meet(process);
        take_turn(process, CROSSING, i, &run, NULL, bytes);
        meet(process);
        take_turn(process, COPIES, i, NULL, &duplex, 0);
    }
    run_close(bench, &run);
    duplex_close(&duplex);
    copier_close(&copier);
    return 0;
}

static int bank(struct process *process)
{
    /* 1025 taps: half of the window is new */
    struct run run = {.points = 1024,
                      .channels = 1,
                      .hop = 1024,
                      .filters = BANK_FILTERS,
                      .decimate = BANK_FILTERS};
    struct member *self = process->self;
    process->bench.bytes /= 4; /* a sample costs more here: as many batches a turn */
    if (open_run(process, &run, &self->bank_error) != 0)
        return 1;
    snprintf(self->bank_variant, sizeof self->bank_variant, "%s", plan_info(run.plan)->variant);
    const double samples = run_samples_in(&run);
    self->bank_bytes = (1 + run_samples_out(&run) / samples) * sizeof(float);
    for (uint32_t i = 0; i <= process->meeting->repetitions; i++) {
        meet(process);
        take_turn(process, BANK, i, &run, NULL, samples);
        for (uint32_t alone = 0; alone < process->meeting->count; alone++) {
            meet(process);
            if (self == &process->meeting->members[alone])
                take_turn(process, BANK_ALONE, i, &run, NULL, samples);
        }
    }
    run_close(&process->bench, &run);
    return 0;
}

int member_run(const struct bench *bench, struct meeting *meeting, uint32_t which)
{
    struct process process = {*bench, meeting, &meeting->members[which]};
    struct problem problem = {0};
    char index[16];
    snprintf(index, sizeof index, "%d", process.self->index);
    process.bench.device = index;
    if (bench_open(&process.bench, (struct node_setting){NODE_AUTO, 0}, &problem) < 0)
        return failed(&process, problem.text);
    /* this thread beside its device, as the daemon's loop, before it touches memory of the copies
     */
    const struct node_place *place = engine_place(process.bench.engine);
    if (place->bound && number_set_count(&place->processors) > 0)
        thread_run_on(pthread_self(), &place->processors);
    step(&process);
    if (host_to_host(&process) != 0 || bank(&process) != 0)
        return 1;
    meet(&process); /* nobody closes its device while another one is measured */
    engine_close(process.bench.engine);
    return 0;
}
