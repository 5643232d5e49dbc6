/* The words of `snapshot`: see snapshot.h. */
#include "clients/ctl/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int read_frames(const char *word, struct snapshot_options *options, struct problem *problem)
{
    char *end;
    errno = 0;
    const unsigned long long frames = strtoull(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || *end != '\0' || errno != 0 || frames == 0)
        return problem_set(problem, ERROR_ARGUMENT, "--frames %s: write a number from 1 on", word);
    options->frames = frames;
    return 0;
}

static int read_channels(const char *option, const char *value, struct snapshot_channels *channels,
                         struct problem *problem)
{
    const char *at = value;
    channels->count = 0;
    for (;;) {
        char *end;
        const unsigned long channel = strtoul(at, &end, 10);
        bool bad = *at < '0' || *at > '9' || (*end != ',' && *end != '\0') || channel < 1 ||
                   channel > WATCH_CHANNELS_MAX;
        for (uint32_t i = 0; i < channels->count; i++)
            bad = bad || channels->list[i] + 1u == channel;
        if (bad)
            return problem_set(problem, ERROR_ARGUMENT,
                               "%s %s: write numbers from 1 on, each once: %s 1,2", option, value,
                               option);
        if (channels->count == TAP_CHANNELS_MAX)
            return problem_set(problem, ERROR_ARGUMENT, "%s %s: at most %d channels", option, value,
                               TAP_CHANNELS_MAX);
        channels->list[channels->count++] = (uint16_t)(channel - 1);
        if (*end == '\0')
            return 0;
        at = end + 1;
    }
}

static int read_out(const char *word, struct snapshot_options *options, struct problem *problem)
{
    const char *ending = strrchr(word, '.'), *slash = strrchr(word, '/');
    const char *name = slash != NULL ? slash + 1 : word;
    const bool known = ending != NULL && ending > name &&
                       (strcmp(ending, ".npy") == 0 || strcmp(ending, ".wav") == 0);
    if (!known)
        return problem_set(problem, ERROR_ARGUMENT, "--out %s: write NAME.npy or NAME.wav", word);
    options->wav = strcmp(ending, ".wav") == 0;
    const size_t bytes = (size_t)(ending - word);
    if (bytes >= sizeof options->stem)
        return problem_set(problem, ERROR_ARGUMENT, "--out: the path is too long");
    memcpy(options->stem, word, bytes);
    options->stem[bytes] = '\0';
    return 0;
}

/* STREAM-DATE-TIME in the working directory. */
static int choose_out(struct snapshot_options *options, struct problem *problem)
{
    const time_t now = time(NULL);
    struct tm utc;
    char when[32];
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y%m%d-%H%M%S", &utc);
    if (strchr(options->stream, '/') != NULL ||
        snprintf(options->stem, sizeof options->stem, "%s-%s", options->stream, when) >=
            (int)sizeof options->stem)
        return problem_set(problem, ERROR_ARGUMENT,
                           "the stream's name is no file's: name one, --out NAME.npy");
    return 0;
}

int snapshot_options_read(int count, char *const *words, struct snapshot_options *options,
                          struct problem *problem)
{
    memset(options, 0, sizeof *options);
    int error = 0;
    for (int i = 1; i < count && error == 0; i++) {
        const char *option = words[i], *value = i + 1 < count ? words[i + 1] : NULL;
        const bool is_option = strncmp(option, "--", 2) == 0;
        if (!is_option && options->stream == NULL) {
            options->stream = option;
            continue;
        }
        if (!is_option)
            return problem_set(problem, ERROR_ARGUMENT, "%s: one word too many for `snapshot`",
                               option);
        if (value == NULL)
            return problem_set(problem, ERROR_ARGUMENT, "%s: its value is missing", option);
        if (strcmp(option, "--frames") == 0)
            error = read_frames(value, options, problem);
        else if (strcmp(option, "--channels") == 0)
            error = read_channels(option, value, &options->input, problem);
        else if (strcmp(option, "--outputs") == 0)
            error = read_channels(option, value, &options->output, problem);
        else if (strcmp(option, "--out") == 0)
            error = read_out(value, options, problem);
        else
            return problem_set(problem, ERROR_ARGUMENT, "%s: `snapshot` has no such option",
                               option);
        i++;
    }
    if (error != 0)
        return error;
    if (options->stream == NULL || options->frames == 0)
        return problem_set(problem, ERROR_ARGUMENT,
                           "write convolvctl snapshot STREAM --frames N; see convolvctl --help");
    if (options->output.count == 0)
        options->output = options->input;
    return options->stem[0] == '\0' ? choose_out(options, problem) : 0;
}
