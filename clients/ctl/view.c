/* The live view: see view.h. */
#include "clients/ctl/view.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "clients/ctl/reply.h"
#include "core/clock.h"

enum { REFRESH_MS = 500, NAME_COLUMNS = 16, HEAD_LINES = 3 };

static const double floor_db = -80; /* the left end of a bar */

/* ---- figures ----------------------------------------------------------------------------- */

static double sum_of(const json_t *object)
{
    const char *key;
    json_t *value;
    double sum = 0;
    json_object_foreach((json_t *)object, key, value) sum += json_number_value(value);
    return sum;
}

static double lost_frames(const json_t *stream)
{
    const json_t *in = json_object_get(stream, "frames_in");
    const json_t *out = json_object_get(stream, "frames_out");
    const json_t *shed = json_object_get(out, "shed");
    return sum_of(json_object_get(in, "gap")) + reply_number(shed, "overload");
}

static double latency_ns(const json_t *stream, const char *quantile)
{
    return reply_number(json_object_get(json_object_get(stream, "latency_ns"), "total"), quantile);
}

static double figure(const json_t *stream, enum view_sort sort)
{
    switch (sort) {
    case SORT_LOAD:
        return reply_number(stream, "load");
    case SORT_LOSS:
        return lost_frames(stream);
    case SORT_LATENCY:
        return latency_ns(stream, "p99");
    default:
        return 0;
    }
}

struct entry {
    const json_t *stream;
    enum view_sort sort;
};

static int compare(const void *a, const void *b)
{
    const struct entry *first = a, *second = b;
    const double x = figure(first->stream, first->sort), y = figure(second->stream, first->sort);
    if (x != y)
        return x < y ? 1 : -1; /* the largest first */
    return strcmp(reply_string(first->stream, "name"), reply_string(second->stream, "name"));
}

/* ---- drawing ----------------------------------------------------------------------------- */

static double decibels(double value, double full_scale)
{
    return value > 0 && full_scale > 0 ? 20 * log10(value / full_scale) : -INFINITY;
}

static int bar_end(double db, int width)
{
    const double part = (db - floor_db) / -floor_db;
    return part <= 0 ? 0 : part >= 1 ? width : (int)(part * width + 0.5);
}

/* RMS as #, peak as -, the held peak as |. */
static void draw_bar(double rms_db, double peak_db, double held_db, int width, FILE *out)
{
    const int rms = bar_end(rms_db, width), peak = bar_end(peak_db, width);
    const int held = bar_end(held_db, width);
    fputc('[', out);
    for (int i = 1; i <= width; i++)
        fputc(i == held ? '|' : i <= rms ? '#' : i <= peak ? '-' : ' ', out);
    fputc(']', out);
}

static double level(const json_t *channel, const char *name, const char *otherwise)
{
    const json_t *value = json_object_get(channel, name);
    return json_is_number(value) ? json_number_value(value) : reply_number(channel, otherwise);
}

/* The value at the right end of a bar: full scale at the sensor; where it is not known, the next of
 * 10 dB steps above the held peak. */
static double bar_scale(const json_t *channel, double held)
{
    const json_t *full_scale = json_object_get(channel, "full_scale");
    if (json_is_number(full_scale))
        return json_number_value(full_scale);
    return held > 0 ? pow(10, ceil(2 * log10(held)) / 2) : 1;
}

static void draw_channel(const struct view *view, int number, const json_t *channel, FILE *out)
{
    const double rms = level(channel, "rms_1s", "rms"), peak = level(channel, "peak_1s", "peak");
    const double held = level(channel, "peak_held", "peak"), full = bar_scale(channel, held);
    const int width = view->columns - 54;
    fprintf(out, "%4d ", number);
    if (width >= 8)
        draw_bar(decibels(rms, full), decibels(peak, full), decibels(held, full), width, out);
    fprintf(out, " rms %10.4g peak %10.4g %-5.5s", rms, held, reply_string(channel, "unit"));
    if (reply_number(channel, "overloads") > 0)
        fprintf(out, " over %.0f", reply_number(channel, "overloads"));
    fputc('\n', out);
}

static void draw_stream(const json_t *stream, bool chosen, FILE *out)
{
    const json_t *measured = json_object_get(stream, "measured_rate_hz");
    fprintf(out, "%c%-*.*s %12.8g %6.1f%% %12.0f %9.3g %9.3g %8.0f\n", chosen ? '>' : ' ',
            NAME_COLUMNS, NAME_COLUMNS, reply_string(stream, "name"),
            measured != NULL ? json_number_value(measured) : reply_number(stream, "rate_hz"),
            100 * reply_number(stream, "load"), lost_frames(stream),
            latency_ns(stream, "p50") / 1e6, latency_ns(stream, "p99") / 1e6,
            reply_number(stream, "epochs"));
}

static void draw_channels(const struct view *view, const json_t *stream, int lines, FILE *out)
{
    size_t i;
    json_t *channel;
    const json_t *filter = json_object_get(stream, "filter");
    if (stream == NULL || lines < 2)
        return;
    fprintf(out, "\n%s", reply_string(stream, "name"));
    if (filter != NULL)
        fprintf(out, ", filter %s", reply_string(filter, "name"));
    fprintf(out, ": levels in dB of full scale%s, %.0f to 0\n",
            json_is_number(json_object_get(json_array_get(json_object_get(stream, "channels"), 0),
                                           "full_scale"))
                ? ""
                : " (not known: of 10 dB steps)",
            floor_db);
    lines -= 2;
    json_array_foreach(json_object_get(stream, "channels"), i, channel)
    {
        if ((int)i == lines)
            break;
        draw_channel(view, (int)i + 1, channel, out);
    }
}

void view_draw(const struct view *view, const json_t *status, FILE *out)
{
    static const char *const sorts[SORTS] = {"name", "load", "loss", "latency"};
    const json_t *streams = json_object_get(status, "streams");
    const size_t count = json_array_size(streams);
    struct entry *entries = calloc(count + 1, sizeof *entries);
    if (entries == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        entries[i] = (struct entry){json_array_get(streams, i), view->sort};
    qsort(entries, count, sizeof *entries, compare);
    fprintf(out, "convolvd %s, %s, up %.0f s, on %.30s%s\n", reply_string(status, "version"),
            reply_string(status, "state"), reply_number(status, "up_ns") / 1e9,
            reply_string(json_object_get(status, "device"), "name"), view->held ? "  HELD" : "");
    fprintf(out, "%.*s\n", view->columns,
            "keys: up, down choose a stream, s sorts, space holds, q ends");
    fprintf(out, " %-*s %12s %7s %12s %9s %9s %8s  by %s\n", NAME_COLUMNS, "stream", "rate [Hz]",
            "load", "lost", "p50 [ms]", "p99 [ms]", "epochs", sorts[view->sort]);
    const int room = view->rows - HEAD_LINES - 1;
    const int shown = (int)count < room / 2 ? (int)count : room / 2 > 0 ? room / 2 : 0;
    const int chosen = view->chosen < (int)count ? view->chosen : (int)count - 1;
    const int first = chosen >= shown ? chosen - shown + 1 : 0;
    for (int i = first; i < first + shown; i++)
        draw_stream(entries[i].stream, i == chosen, out);
    draw_channels(view, chosen >= 0 ? entries[chosen].stream : NULL, room - shown, out);
    free(entries);
}

/* ---- the terminal ------------------------------------------------------------------------ */

static struct termios before;
static bool changed;

static void restore(void)
{
    if (changed) {
        static const char leave[] = "\033[?25h\033[?1049l";
        (void)!write(STDOUT_FILENO, leave, sizeof leave - 1);
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    }
    changed = false;
}

static void on_signal(int number)
{
    restore();
    signal(number, SIG_DFL);
    raise(number);
}

static void prepare(void)
{
    static const char enter[] = "\033[?1049h\033[?25l";
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
        return;
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    changed = true;
    atexit(restore);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGHUP, on_signal);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    (void)!write(STDOUT_FILENO, enter, sizeof enter - 1);
}

static void measure(struct view *view)
{
    struct winsize size;
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
    view->rows = known ? size.ws_row : 40;
    view->columns = known && size.ws_col > 20 ? size.ws_col : 80;
}

/* False: it ends. */
static bool take_key(struct view *view, size_t streams)
{
    char keys[16];
    const ssize_t got = read(STDIN_FILENO, keys, sizeof keys);
    for (ssize_t i = 0; i < got; i++) {
        const bool arrow = keys[i] == '\033' && i + 2 < got && keys[i + 1] == '[';
        const char key = arrow ? (keys[i + 2] == 'A'   ? 'k'
                                  : keys[i + 2] == 'B' ? 'j'
                                                       : 0)
                               : keys[i];
        i += arrow ? 2 : 0;
        if (key == 'q')
            return false;
        if (key == 'k' && view->chosen > 0)
            view->chosen--;
        if (key == 'j' && view->chosen + 1 < (int)streams)
            view->chosen++;
        if (key == 's')
            view->sort = (enum view_sort)((view->sort + 1) % SORTS);
        if (key == ' ')
            view->held = !view->held;
    }
    return got > 0;
}

static void show(const struct view *view, const json_t *status)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return;
    fputs(changed ? "\033[H\033[J" : "", out);
    view_draw(view, status, out);
    fclose(out);
    fwrite(text, 1, bytes, stdout);
    fflush(stdout);
    free(text);
}

/* True: a key may have come. */
static bool wait_for_key(int timeout_ms)
{
    struct pollfd key = {.fd = changed ? STDIN_FILENO : -1, .events = POLLIN};
    return poll(&key, 1, timeout_ms) > 0;
}

static void show_json(const json_t *reply)
{
    json_dumpf(reply, stdout, JSON_COMPACT);
    fputc('\n', stdout);
    fflush(stdout);
}

int view_run(struct client *client, double seconds, bool json, struct problem *problem)
{
    struct view view = {.sort = SORT_NAME};
    const int64_t until_ns = clock_monotonic_ns() + (int64_t)(seconds * 1e9);
    json_t *reply = NULL;
    int error = 0;
    if (!json)
        prepare();
    for (bool going = true; going && error == 0 && !ferror(stdout);) {
        if (!view.held || reply == NULL) {
            json_decref(reply);
            error =
                client_ask(client, json_pack("{s:s, s:s}", "command", "status", "format", "json"),
                           &reply, problem);
        }
        const json_t *status = json_object_get(reply, "status");
        measure(&view);
        if (error == 0 && json)
            show_json(reply);
        else if (error == 0)
            show(&view, status);
        if (error == 0 && wait_for_key(REFRESH_MS))
            going = take_key(&view, json_array_size(json_object_get(status, "streams")));
        if (seconds > 0 && clock_monotonic_ns() >= until_ns)
            going = false;
    }
    if (!json)
        restore();
    json_decref(reply);
    return error;
}
