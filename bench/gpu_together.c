/* Several devices at once: see gpu_together.h. */
#include "bench/gpu_together.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/gpu_member.h"
#include "core/clock.h"
#include "device/opencl.h"

enum { WATCH_US = 20000, MIB_MOST = 64 };

/* ---- the devices ------------------------------------------------------------------------- */

static bool taken(const struct meeting *meeting, int index)
{
    for (uint32_t i = 0; i < meeting->count; i++)
        if (meeting->members[i].index == index)
            return true;
    return false;
}

static void take(struct meeting *meeting, const struct device_found *found, int index)
{
    if (meeting->count < MEMBERS_MOST)
        meeting->members[meeting->count++] =
            (struct member){.index = index, .info = found[index].info};
}

/* The next device that a word may mean. */
static int take_named(struct meeting *meeting, const struct device_found *found, const char *word)
{
    int choices[DEVICES_MAX];
    const int count = device_choices(word, 0, choices, &meeting->problem);
    for (int i = 0; i < count; i++)
        if (!taken(meeting, choices[i])) {
            take(meeting, found, choices[i]);
            return 0;
        }
    return count < 0 ? count
                     : problem_set(&meeting->problem, ERROR_ARGUMENT,
                                   "--together: there is no further device '%s'", word);
}

/* In a process of its own: fills the members. */
static int find_devices(struct meeting *meeting, const char *devices)
{
    static struct device_found found[DEVICES_MAX];
    const int count = devices_find(found, DEVICES_MAX, 0, &meeting->problem);
    if (count < 0)
        return count;
    if (strcmp(devices, "all") == 0) {
        for (int i = 0; i < count && i < DEVICES_MAX; i++)
            if (found[i].info.gpu)
                take(meeting, found, i);
        return meeting->count > 0
                   ? 0
                   : problem_set(&meeting->problem, ERROR_NO_DEVICE,
                                 "--together all: there is no GPU; name other devices by their "
                                 "number in convolvd --list-devices");
    }
    char words[512];
    snprintf(words, sizeof words, "%s", devices);
    int error = 0;
    char *rest = NULL;
    for (char *word = strtok_r(words, ",", &rest); word != NULL && error == 0;
         word = strtok_r(NULL, ",", &rest))
        error = take_named(meeting, found, word);
    if (error == 0 && meeting->count == 0)
        return problem_set(&meeting->problem, ERROR_ARGUMENT, "--together names no device");
    return error;
}

/* ---- processes --------------------------------------------------------------------------- */

/* A child that ends with this process; -1 with errno. What is buffered is written once. */
static pid_t start(void)
{
    const pid_t parent = getpid();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
    }
    return pid;
}

static void end_all(struct meeting *meeting)
{
    for (uint32_t i = 0; i < meeting->count; i++)
        if (meeting->members[i].pid > 0) {
            kill(meeting->members[i].pid, SIGKILL);
            waitpid(meeting->members[i].pid, NULL, 0);
            meeting->members[i].pid = 0;
        }
}

/* Whether the member ended and did not end well, which it says. */
static bool member_died(struct member *member, uint32_t *running)
{
    int status = 0;
    if (member->pid <= 0 || waitpid(member->pid, &status, WNOHANG) != member->pid)
        return false;
    const pid_t pid = member->pid;
    member->pid = 0;
    --*running;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return false;
    fprintf(stderr, "bench_gpu: process %d of device %d (%s) ", (int)pid, member->index,
            member->info.name);
    if (WIFSIGNALED(status))
        fprintf(stderr, "was killed by signal %d", WTERMSIG(status));
    else
        fprintf(stderr, "ended with status %d", WEXITSTATUS(status));
    fprintf(stderr, ": the others are ended, there are no figures\n");
    return true;
}

/* The member that has come least far. */
static void say_silent(const struct meeting *meeting, int64_t limit_ns)
{
    const struct member *last = &meeting->members[0];
    for (uint32_t i = 1; i < meeting->count; i++)
        if (atomic_load(&meeting->members[i].steps) < atomic_load(&last->steps))
            last = &meeting->members[i];
    fprintf(stderr,
            "bench_gpu: process %d of device %d (%s) keeps the others waiting for %g s: all are "
            "ended, there are no figures (--limit SECONDS allows more)\n",
            (int)last->pid, last->index, last->info.name, (double)limit_ns * 1e-9);
}

/* Until all members have ended: false when one died or none came further for the limit. */
static bool watch(struct meeting *meeting, int64_t limit_ns)
{
    uint32_t running = meeting->count, before = 0;
    int64_t since_ns = clock_monotonic_ns();
    while (running > 0) {
        uint32_t steps = meeting->count - running;
        for (uint32_t i = 0; i < meeting->count; i++) {
            if (member_died(&meeting->members[i], &running))
                return false;
            steps += atomic_load(&meeting->members[i].steps);
        }
        const int64_t now_ns = clock_monotonic_ns();
        if (steps != before) {
            before = steps;
            since_ns = now_ns;
        } else if (now_ns - since_ns > limit_ns) {
            say_silent(meeting, limit_ns);
            return false;
        }
        usleep(WATCH_US);
    }
    return true;
}

/* The child that finds the devices is watched as a member is: a driver may hang. */
static bool list_devices(struct meeting *meeting, const char *devices, int64_t limit_ns)
{
    const pid_t pid = start();
    if (pid == 0)
        exit(find_devices(meeting, devices) < 0);
    if (pid < 0) {
        fprintf(stderr, "bench_gpu: no process: %s\n", strerror(errno));
        return false;
    }
    const int64_t until_ns = clock_monotonic_ns() + limit_ns;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (clock_monotonic_ns() > until_ns) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            fprintf(stderr, "bench_gpu: the drivers list no devices within %g s\n",
                    (double)limit_ns * 1e-9);
            return false;
        }
        usleep(WATCH_US);
    }
    if (status == 0)
        return true;
    fprintf(stderr, "bench_gpu: %s\n",
            meeting->problem.text[0] != '\0' ? meeting->problem.text
                                             : "the process that lists the devices died");
    return false;
}

static bool start_members(const struct bench *bench, struct meeting *meeting)
{
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&meeting->barrier, &attributes, meeting->count);
    pthread_barrierattr_destroy(&attributes);
    for (uint32_t i = 0; i < meeting->count; i++) {
        const pid_t pid = start();
        if (pid == 0)
            exit(member_run(bench, meeting, i));
        if (pid < 0) {
            fprintf(stderr, "bench_gpu: no process: %s\n", strerror(errno));
            return false;
        }
        meeting->members[i].pid = pid;
        printf("device %d (%s): process %d\n", meeting->members[i].index,
               meeting->members[i].info.name, (int)pid);
    }
    fflush(stdout);
    return true;
}

/* ---- figures ----------------------------------------------------------------------------- */

static double rate(const struct member *member, enum contest contest, uint32_t i)
{
    const struct turn *turn = &member->turns[contest][i];
    return turn->amount / turn->seconds;
}

/* Of one device, or the sums over all of them (NULL), of each repetition. */
static struct spread figure(const struct meeting *meeting, const struct member *one,
                            enum contest contest, struct series *series)
{
    series->count = 0;
    for (uint32_t i = 0; i < meeting->repetitions; i++) {
        double sum = one != NULL ? rate(one, contest, i) : 0;
        for (uint32_t m = 0; one == NULL && m < meeting->count; m++)
            sum += rate(&meeting->members[m], contest, i);
        series_add(series, sum);
    }
    return series_spread(series);
}

/* Of the time that a repetition took, the share in which all devices were in their turn, and the
 * one in which two neighbours were, where they take turns alone. Medians. */
static double at_once(const struct meeting *meeting, enum contest contest)
{
    static struct series series;
    series.count = 0;
    for (uint32_t i = 0; i < meeting->repetitions; i++) {
        const struct turn *turn = &meeting->members[0].turns[contest][i];
        int64_t first = turn->from_ns, last = turn->until_ns, from = first, until = last;
        int64_t shared = 0;
        for (uint32_t m = 1; m < meeting->count; m++) {
            const int64_t before = turn->until_ns;
            turn = &meeting->members[m].turns[contest][i];
            shared += before > turn->from_ns ? before - turn->from_ns : 0;
            first = turn->from_ns < first ? turn->from_ns : first;
            last = turn->until_ns > last ? turn->until_ns : last;
            from = turn->from_ns > from ? turn->from_ns : from;
            until = turn->until_ns < until ? turn->until_ns : until;
        }
        if (contest != BANK_ALONE)
            shared = until > from ? until - from : 0;
        series_add(&series, (double)shared / (double)(last - first));
    }
    return series_spread(&series).median;
}

/* The table's line of one device, or of all (NULL). */
static void print_line(const struct meeting *meeting, const struct member *member)
{
    static struct series series;
    char index[16] = "sum", node[16] = "-";
    if (member != NULL) {
        snprintf(index, sizeof index, "%d", member->index);
        if (member->info.memory_node >= 0)
            snprintf(node, sizeof node, "%d", member->info.memory_node);
    }
    printf("%-6s %-40.40s %-12s %4s", index, member != NULL ? member->info.name : "",
           member == NULL                ? ""
           : member->info.pci[0] != '\0' ? member->info.pci
                                         : "-",
           member != NULL ? node : "");
    for (int contest = 0; contest < CONTESTS; contest++) {
        const double scale = contest <= COPIES ? 1e-9 : 1e-6;
        printf(" %12.6g", figure(meeting, member, (enum contest)contest, &series).median * scale);
    }
    printf("\n");
}

/* One contest against another, as a line below the table and as a row for bench/check.py. */
static void tell(const struct bench *bench, const struct meeting *meeting, enum contest ours,
                 struct bar_row row)
{
    static struct series own, peers, ratio;
    const double scale = ours <= COPIES ? 1e-9 : 1e-6;
    char shape[128];
    snprintf(shape, sizeof shape, "%u device%s %s", meeting->count, meeting->count > 1 ? "s" : "",
             row.shape);
    row.shape = shape;
    row.ours = figure(meeting, NULL, ours, &own).median * scale;
    row.peer = figure(meeting, NULL, (enum contest)(ours + 1), &peers).median * scale;
    series_ratio(&own, &peers, &ratio);
    row.ratio = series_spread(&ratio);
    row.command = bench->command;
    printf("%-26s %-48s ours %9.4g  peer %9.4g %-10s %6.3f (%.3f…%.3f) bar %s error %.2g\n",
           row.what, row.shape, row.ours, row.peer, row.unit, row.ratio.median, row.ratio.q1,
           row.ratio.q3, row.bar, row.error);
    bars_write(bench->results, &row);
}

/* Returns how many results were wrong. */
static int report(const struct bench *bench, const struct meeting *meeting)
{
    static struct series series;
    double crossing_error = 0, bank_error = 0;
    int wrong = 0;
    printf("%-6s %-40s %-12s %4s %12s %12s %12s %12s\n", "device", "name", "PCI address", "node",
           "host to host", "copies", "bank", "bank alone");
    printf("%-6s %-40s %-12s %4s %12s %12s %12s %12s\n", "", "", "", "", "GB/s", "GB/s",
           "Msamples/s", "Msamples/s");
    for (uint32_t i = 0; i < meeting->count; i++) {
        const struct member *member = &meeting->members[i];
        print_line(meeting, member);
        crossing_error = fmax(crossing_error, member->crossing_error);
        bank_error = fmax(bank_error, member->bank_error);
        wrong += !(member->crossing_error <= 1e-6) + !(member->bank_error <= 1e-6);
    }
    print_line(meeting, NULL);
    printf("all at once for %.2f of the time of host to host, %.2f of the copies', %.2f of the "
           "bank's; "
           "two at once for %.2f of the bank's alone\n",
           at_once(meeting, CROSSING), at_once(meeting, COPIES), at_once(meeting, BANK),
           at_once(meeting, BANK_ALONE));
    const struct member *first = &meeting->members[0];
    const double crossed = figure(meeting, NULL, CROSSING, &series).median;
    const double banked = figure(meeting, NULL, BANK, &series).median * first->bank_bytes;
    printf("the bank (%s) moves %.3g GB/s in and out, %.2f of the bytes of host to host\n",
           first->bank_variant, banked * 1e-9, banked / crossed);
    /* bars: bench/bars.csv */
    tell(bench, meeting, CROSSING,
         (struct bar_row){.what = "gpu together duplex",
                          .shape = "Q=1024 16ch f32le host to host",
                          .bar = ">=0.9",
                          .unit = "GB/s",
                          .error = crossing_error});
    tell(bench, meeting, BANK,
         (struct bar_row){.what = "gpu together bank",
                          .shape = "64 filters of 1025 taps decimated by 64",
                          .bar = ">=0.95",
                          .unit = "Msamples/s",
                          .error = bank_error});
    if (wrong > 0)
        fprintf(stderr, "%d runs of devices gave WRONG results\n", wrong);
    return wrong;
}

int together_run(const struct bench *bench, const char *devices, int64_t limit_ns)
{
    if (bench->repetitions < 1 || bench->repetitions > TURNS_MOST) {
        fprintf(stderr, "bench_gpu: --repetitions is 1 to %d with --together\n", TURNS_MOST);
        return 1;
    }
    struct meeting *meeting =
        mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (meeting == MAP_FAILED) {
        fprintf(stderr, "bench_gpu: no memory to share: %s\n", strerror(errno));
        return 1;
    }
    struct bench mine = *bench;
    if (mine.bytes > (uint64_t)MIB_MOST << 20)
        mine.bytes = (uint64_t)MIB_MOST << 20;
    meeting->repetitions = mine.repetitions;
    bool good = list_devices(meeting, devices, limit_ns);
    if (good) {
        good = start_members(&mine, meeting) && watch(meeting, limit_ns);
        end_all(meeting);
    }
    const int wrong = good ? report(&mine, meeting) : 0;
    munmap(meeting, sizeof *meeting);
    return !good || wrong > 0;
}
