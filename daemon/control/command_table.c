/* The table of commands: see command_table.h. */
#include "control/command_table.h"

#include <math.h>
#include <string.h>

#include "core/quantity.h"

/* Texts that people write: names, marks, paths. */
enum { NAME_BYTES = 64, MARK_BYTES = 400, TRANSACTION_COMMANDS = 32 };

#define FRAMES_MAX 9007199254740992.0 /* 2^53: what JSON's numbers hold exactly */
#define STREAM(...)                                                                                \
    {                                                                                              \
        "stream", ARGUMENT_STREAM, .positional = true, .high = NAME_BYTES, __VA_ARGS__             \
    }
#define OUTPUT                                                                                     \
    {                                                                                              \
        "output", ARGUMENT_INTEGER, .low = 1, .high = 65535,                                       \
                                    .sentence = "the output, counted from 1; without it all"       \
    }
#define FRAME                                                                                      \
    {                                                                                              \
        "frame", ARGUMENT_INTEGER,                                                                 \
            .low = 0, .high = FRAMES_MAX, .unit = "frames",                                        \
            .sentence =                                                                            \
                "the output frame of the epoch from which it holds; without it the next block"     \
    }

/* One row per command; clang-format would break its sentences into pieces. */
/* clang-format off */
const struct command_row command_table[CONTROL_WORDS] = {
    [CONTROL_STATUS] = {"status", ROLE_OBSERVE, .costly = true,
        .summary = "The state of everything: rates, levels, losses, latencies, ledgers, filters, gains.",
        .arguments = {{"format", ARGUMENT_CHOICE, .choices = "table json", .sentence = "a table for people (without it) or JSON for programs"}},
        .answer = "`table`, a text, or `status`, an object",
        .example = "{\"command\": \"status\", \"format\": \"json\"}",
        .shell = "convolvctl status",
        .osc = "/convolvd/status si json 9001"},
    [CONTROL_STREAMS] = {"streams", ROLE_OBSERVE,
        .summary = "The streams with rate, channels, outputs, filter and state; the filters that may be chosen.",
        .answer = "`streams` and `filters`, lists",
        .example = "{\"command\": \"streams\"}",
        .shell = "convolvctl streams",
        .osc = "/convolvd/streams i 9001"},
    [CONTROL_COMMANDS] = {"commands", ROLE_OBSERVE,
        .summary = "This table, and the role that whoever asks has.",
        .answer = "`role`, `roles`, `commands` and `events`, the kinds of events",
        .example = "{\"command\": \"commands\"}",
        .shell = "convolvctl commands",
        .osc = "/convolvd/commands i 9001"},
    [CONTROL_EVENTS] = {"events", ROLE_OBSERVE,
        .summary = "What happens, from now on: one line for each event, as long as the connection lives.",
        .arguments = {{"since", ARGUMENT_INTEGER, .low = 0, .high = FRAMES_MAX, .sentence = "first the events kept with a higher number than this; 0: all that are kept (the last 2048)"},
            {"analyses", ARGUMENT_FLAG, .sentence = "with the events of all analyses, as `hits` tells them, from now on; without it none: there may be thousands a second"}},
        .answer = "`next`, the number of the next event; then lines `{\"event\": {…}}`, with `analyses` `{\"analysis_event\": {…}}` too, and `{\"missed\": n}` for a reader that is too slow",
        .example = "{\"command\": \"events\", \"since\": 0}",
        .shell = "convolvctl events -f"},
    [CONTROL_ANALYSES] = {"analyses", ROLE_OBSERVE,
        .summary = "The analyses that run: type, stream, fields of their events, settings, and what they have counted.",
        .answer = "`analyses`, a list: `kind` of event, `rate_hz`, `units`, `fields`, `parameters`, `settings`, `ledger` and `sinks` of each",
        .example = "{\"command\": \"analyses\"}",
        .shell = "convolvctl analyses",
        .osc = "/convolvd/analyses i 9001"},
    [CONTROL_HITS] = {"hits", ROLE_OBSERVE,
        .summary = "The events of analyses, hits when they end, from now on: one line for each, as long as the connection lives.",
        .arguments = {{"analysis", ARGUMENT_TEXT, .high = NAME_BYTES, .sentence = "of this one alone; without it of all"},
            {"kind", ARGUMENT_CHOICE, .choices = "hit interval source ascan condition", .sentence = "of this kind alone"},
            {"since", ARGUMENT_INTEGER, .low = 0, .high = FRAMES_MAX, .sentence = "first the events kept with a higher number than this; 0: all that are kept (the last 4095 of each analysis)"},
            {"samples", ARGUMENT_FLAG, .sentence = "with their samples, where they have some and those are still kept"}},
        .answer = "lines `{\"analysis_event\": {…}}`; `{\"replayed\": n}` behind those that `since` asked for; `{\"missed\": n}` for a reader that is too slow",
        .example = "{\"command\": \"hits\", \"analysis\": \"vessel\"}",
        .shell = "convolvctl hits -f --analysis vessel"},
    [CONTROL_TRANSIENT] = {"transient", ROLE_OBSERVE, .costly = true,
        .summary = "One of the last events of an analysis with its samples: a hit's transient, an A-scan, a spectrum.",
        .arguments = {{"analysis", ARGUMENT_TEXT, .required = true, .positional = true, .high = NAME_BYTES, .sentence = "the analysis"},
            {"number", ARGUMENT_INTEGER, .required = true, .positional = true, .low = 1, .high = FRAMES_MAX, .sentence = "the event's number"},
            {"from", ARGUMENT_INTEGER, .low = 0, .high = 4294967295.0, .sentence = "the first sample wanted, counted from 0: one answer holds at most 65536"}},
        .answer = "`event`; `samples`, base64 of float32, little-endian, from sample `from` of `sample_count` on; `first_sample`, its frame relative to the event's; `rate_hz`, `unit`",
        .example = "{\"command\": \"transient\", \"analysis\": \"vessel\", \"number\": 17}",
        .shell = "convolvctl transient vessel 17",
        .osc = "/convolvd/transient si vessel 17"},
    [CONTROL_DEVICES] = {"devices", ROLE_OBSERVE,
        .summary = "The OpenCL devices in use or standing by, with state and losses.",
        .answer = "`devices`, a list",
        .example = "{\"command\": \"devices\"}",
        .shell = "convolvctl devices",
        .osc = "/convolvd/devices i 9001"},
    [CONTROL_WATCH] = {"watch", ROLE_OBSERVE,
        .summary = "Shows what streams take in and hand on, in a ring of shared memory (daemon/wire/watch_ring.h), until the connection ends; each request takes the place of the one before.",
        .arguments = {{"levels", ARGUMENT_FLAG, .sentence = "levels of every stream, 12 times a second"},
                      {"streams", ARGUMENT_OBJECTS, .high = 64, .sentence = "`stream`, `side` (`input` or `output`), `minmax` (true: minimum and maximum of every channel, 500 to 1000 times a second) and `channels`, numbers of at most 16 whose frames are shown as they are"}},
        .answer = "`request`, its number; `streams`, what is shown of each or why not; with the first answer comes the descriptor of the ring (SCM_RIGHTS)",
        .example = "{\"command\": \"watch\", \"levels\": true, \"streams\": [{\"stream\": \"vessel\", \"side\": \"output\", \"minmax\": true, \"channels\": [1]}]}"},
    [CONTROL_RESPONSE] = {"response", ROLE_OBSERVE, .costly = true,
        .summary = "What filters do on a stream: taps, delay and hash of each; of one that is named, and of those the stream is configured with, magnitude over frequency and tap values.",
        .arguments = {STREAM(.required = true, .sentence = "the stream: its rate and channels count"),
            {"filter", ARGUMENT_TEXT, .positional = true, .high = NAME_BYTES, .sentence = "this one alone; without it all of the configuration, at most 64"}},
        .answer = "`filters`, a list: `magnitude_db` from `first_hz` in steps of `step_hz`, each the largest of its step; `tap_values`, of each `tap_step` taps the extreme one",
        .example = "{\"command\": \"response\", \"stream\": \"vessel\"}",
        .shell = "convolvctl response vessel",
        .osc = "/convolvd/rig/response si band2 9001"},
    [CONTROL_FILTER] = {"filter", ROLE_CONTROL, .change = true,
        .summary = "All channels of a stream pass this filter of the configuration from a frame on.",
        .arguments = {STREAM(.required = true, .sentence = "the stream"),
            {"filter", ARGUMENT_TEXT, .required = true, .positional = true, .high = NAME_BYTES, .sentence = "the name of a [filter NAME]"},
            FRAME,
            {"how", ARGUMENT_CHOICE, .choices = "fade hard clear", .sentence = "cross-faded (without it), at once, or begun in silence as at an epoch's start"},
            {"fade_ms", ARGUMENT_NUMBER, .low = 0.001, .high = 10000, .unit = "ms", .sentence = "length of the cross-fade; without it 10 ms"}},
        .answer = "`frame`, from which it holds",
        .example = "{\"command\": \"filter\", \"stream\": \"vessel\", \"filter\": \"band2\", \"fade_ms\": 20}",
        .shell = "convolvctl filter vessel band2 --fade 20ms",
        .osc = "/convolvd/rig/filter s band2"},
    [CONTROL_GAIN] = {"gain", ROLE_CONTROL, .change = true,
        .summary = "Gain on one output or all, beside the gains of the configuration.",
        .arguments = {STREAM(.required = true, .sentence = "the stream"),
            {"gain_db", ARGUMENT_NUMBER, .required = true, .positional = true, .low = -200, .high = 200, .unit = "dB", .sentence = "0 is as configured"},
            OUTPUT, FRAME},
        .answer = "`frame`, from which it holds",
        .example = "{\"command\": \"gain\", \"stream\": \"vessel\", \"gain_db\": -6, \"output\": 1}",
        .shell = "convolvctl gain vessel -6 --output 1",
        .osc = "/convolvd/rig/gain fi -6 1"},
    [CONTROL_MUTE] = {"mute", ROLE_CONTROL, .change = true,
        .summary = "Mutes one output or all, or lets it be heard again.",
        .arguments = {STREAM(.required = true, .sentence = "the stream"),
            {"mute", ARGUMENT_FLAG, .positional = true, .sentence = "true (without it) or false; for convolvctl on or off"},
            OUTPUT, FRAME},
        .answer = "`frame`, from which it holds",
        .example = "{\"command\": \"mute\", \"stream\": \"vessel\", \"mute\": true, \"output\": 2}",
        .shell = "convolvctl mute vessel on --output 2",
        .osc = "/convolvd/rig/mute ii 1 2"},
    [CONTROL_TRANSACTION] = {"transaction", ROLE_CONTROL,
        .summary = "Several changes at the same frame: filter, gain and mute of one stream take effect together; of several streams each at a frame of its own, a quarter of a second ahead, or all at the frame named.",
        .arguments = {{"commands", ARGUMENT_COMMANDS, .required = true, .positional = true, .high = TRANSACTION_COMMANDS, .sentence = "requests without `frame`; for convolvctl each a text in quotes"}, FRAME},
        .answer = "`changes`, a list with `stream` and `frame`. All are proven before the first is taken; should one fail afterwards, the error says so and `changes` has the others",
        .example = "{\"command\": \"transaction\", \"commands\": [{\"command\": \"gain\", \"stream\": \"vessel\", \"gain_db\": -6}, {\"command\": \"filter\", \"stream\": \"vessel\", \"filter\": \"band2\"}]}",
        .shell = "convolvctl transaction \"gain vessel -6\" \"filter vessel band2\"",
        .osc = "/convolvd/transaction s '[{\"command\": \"gain\", \"stream\": \"rig\", \"gain_db\": -6}, {\"command\": \"mute\", \"stream\": \"rig\", \"output\": 2}]'"},
    [CONTROL_SAVE] = {"save", ROLE_OBSERVE,
        .summary = "What was changed while the daemon ran, as a fragment of the configuration: with it a restart gives the same filters, gains, mutes and measured noise floors, and records what was recorded.",
        .answer = "`fragment`, a text, `config`, the file that it goes beside, and `streams`, those in it",
        .example = "{\"command\": \"save\"}",
        .shell = "convolvctl save",
        .osc = "/convolvd/save i 9001"},
    [CONTROL_RESET_COUNTERS] = {"reset-counters", ROLE_CONTROL,
        .summary = "Held peaks, the worst load and the histograms of latency begin anew. Ledgers and levels since the start go on: their sums stay exact.",
        .arguments = {STREAM(.sentence = "this stream alone; without it all")},
        .answer = "nothing more",
        .example = "{\"command\": \"reset-counters\", \"stream\": \"vessel\"}",
        .shell = "convolvctl reset-counters vessel",
        .osc = "/convolvd/rig/reset-counters"},
    [CONTROL_RELOAD] = {"reload", ROLE_CONTROL, .costly = true,
        .summary = "Reads the configuration again; streams that have not changed run on.",
        .answer = "`kept`, `changed` and `removed`, numbers of streams. A refusal has `problems` besides, a list with `file`, `line`, `severity` and `text`, where the configuration is wrong",
        .example = "{\"command\": \"reload\"}",
        .shell = "convolvctl reload",
        .osc = "/convolvd/reload i 9001"},
    [CONTROL_MARK] = {"mark", ROLE_CONTROL,
        .summary = "Marks this instant with a text: an event for every stream, or one, with its frame and time, and an entry in the sidecars of its recordings.",
        .arguments = {{"text", ARGUMENT_TEXT, .required = true, .positional = true, .high = MARK_BYTES, .sentence = "what happens: load step 2"},
            {"stream", ARGUMENT_STREAM, .high = NAME_BYTES, .sentence = "of this stream alone; without it of all"}},
        .answer = "`marks`, a list with `stream`, `epoch`, `frame` and `realtime_ns`",
        .example = "{\"command\": \"mark\", \"text\": \"load step 2\"}",
        .shell = "convolvctl mark \"load step 2\"",
        .osc = "/convolvd/mark s \"load step 2\""},
    [CONTROL_RECORD_START] = {"record-start", ROLE_CONTROL,
        .summary = "The recordings of a stream, or one, go on from its next results on, in a new file each.",
        .arguments = {STREAM(.required = true, .sentence = "the stream"),
            {"sink", ARGUMENT_TEXT, .positional = true, .high = NAME_BYTES, .sentence = "this recording alone; without it all of the stream"}},
        .answer = "`recordings`, a list with `name`, `changed` (false: it was recording already), and once results have come `epoch` and `frame`, the first that its file can hold",
        .example = "{\"command\": \"record-start\", \"stream\": \"vessel\"}",
        .shell = "convolvctl record start vessel",
        .osc = "/convolvd/rig/record-start i 9001"},
    [CONTROL_RECORD_STOP] = {"record-stop", ROLE_CONTROL,
        .summary = "Ends the file of each recording of a stream, or of one, behind its newest result; what comes then is dropped and counted as stopped until record-start, or until the sink is opened anew.",
        .arguments = {STREAM(.required = true, .sentence = "the stream"),
            {"sink", ARGUMENT_TEXT, .positional = true, .high = NAME_BYTES, .sentence = "this recording alone; without it all of the stream"}},
        .answer = "`recordings`, a list with `name`, `changed` (false: it was stopped already), and once results have come `epoch` and `frame`, the first that is not recorded",
        .example = "{\"command\": \"record-stop\", \"stream\": \"vessel\"}",
        .shell = "convolvctl record stop vessel",
        .osc = "/convolvd/rig/record-stop i 9001"},
    [CONTROL_HAND_OVER] = {"cluster-hand-over", ROLE_CONTROL,
        .summary = "Gives up a partition that this daemon computes, so that another one takes it: none of its frames is lost, doubled or computed otherwise. Where no other takes it within 2 s, this one does again.",
        .arguments = {{"partition", ARGUMENT_TEXT, .required = true, .positional = true, .high = NAME_BYTES, .sentence = "the partition"},
            {"worker", ARGUMENT_TEXT, .positional = true, .high = NAME_BYTES, .sentence = "the worker that takes it; without it the first that has room"}},
        .answer = "`partition`, and `term`, the one that ends",
        .example = "{\"command\": \"cluster-hand-over\", \"partition\": \"rig1\"}",
        .shell = "convolvctl cluster hand-over rig1",
        .osc = "/convolvd/cluster-hand-over s rig1"},
    [CONTROL_ACKNOWLEDGE] = {"acknowledge", ROLE_CONTROL,
        .summary = "Acknowledges alarms: an active one stays in the status until it ends, one that has ended leaves it.",
        .arguments = {{"alarm", ARGUMENT_TEXT, .positional = true, .high = NAME_BYTES, .sentence = "its name; without it all"},
            {"stream", ARGUMENT_STREAM, .high = NAME_BYTES, .sentence = "of this stream alone"},
            {"channel", ARGUMENT_INTEGER, .low = 1, .high = 1024, .sentence = "of this channel alone, counted from 1"}},
        .answer = "`acknowledged`, how many were not acknowledged before",
        .example = "{\"command\": \"acknowledge\", \"alarm\": \"flat-line\"}",
        .shell = "convolvctl acknowledge flat-line",
        .osc = "/convolvd/acknowledge s flat-line"},
    [CONTROL_NOISE_FLOOR] = {"noise-floor", ROLE_CONTROL,
        .summary = "Measures the level of every channel for a second, at rest, and takes it as the stream's noise floor until the daemon ends: a level under half of it raises the alarm noise-floor.",
        .arguments = {STREAM(.required = true, .sentence = "the stream")},
        .answer = "after that second `noise_floor`, a level for each channel in its unit, null where no frames came",
        .example = "{\"command\": \"noise-floor\", \"stream\": \"vessel\"}",
        .shell = "convolvctl noise-floor vessel",
        .osc = "/convolvd/rig/noise-floor i 9001"},
};
/* clang-format on */

const char *command_role_word(enum command_role role)
{
    static const char *const words[ROLES] = {
        [ROLE_OBSERVE] = "observe", [ROLE_CONTROL] = "control"};
    return words[role];
}

bool command_role_find(const char *word, enum command_role *role)
{
    for (int r = 0; r < ROLES; r++) {
        if (strcmp(word, command_role_word((enum command_role)r)) == 0) {
            *role = (enum command_role)r;
            return true;
        }
    }
    return false;
}

int command_find(const char *name)
{
    for (int i = 0; i < CONTROL_WORDS; i++)
        if (command_table[i].name != NULL && strcmp(command_table[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- checking ---------------------------------------------------------------------------- */

static const struct command_argument *find_argument(const struct command_row *row, const char *name)
{
    for (int i = 0; i < COMMAND_ARGUMENTS && row->arguments[i].type != ARGUMENT_NONE; i++)
        if (strcmp(row->arguments[i].name, name) == 0)
            return &row->arguments[i];
    return NULL;
}

static bool is_choice(const char *choices, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = choices; length > 0 && *at != '\0';) {
        const size_t width = strcspn(at, " ");
        if (width == length && memcmp(at, word, width) == 0)
            return true;
        at += width;
        at += *at == ' ';
    }
    return false;
}

bool command_text_is_clean(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++)
        if (*at < 0x20 || *at == 0x7f || (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0))
            return false;
    return true;
}

static int check_text(const struct command_argument *argument, const json_t *value,
                      struct problem *problem)
{
    const char *text = json_string_value(value);
    if (text == NULL)
        return problem_set(problem, ERROR_ARGUMENT, "`%s` is a text", argument->name);
    const size_t bytes = json_string_length(value);
    if (bytes == 0 || bytes > (size_t)argument->high || strlen(text) != bytes ||
        !command_text_is_clean(text))
        return problem_set(problem, ERROR_ARGUMENT,
                           "`%s` is a text of 1 to %.0f bytes without control characters",
                           argument->name, argument->high);
    return 0;
}

static int check_number(const struct command_argument *argument, const json_t *value,
                        struct problem *problem)
{
    const bool whole = argument->type == ARGUMENT_INTEGER;
    const double number = json_number_value(value);
    if (json_is_number(value) && (!whole || number == floor(number)) && number >= argument->low &&
        number <= argument->high)
        return 0;
    return problem_set(problem, ERROR_ARGUMENT, "`%s` is a%s number from %.15g to %.15g%s%s",
                       argument->name, whole ? " whole" : "", argument->low, argument->high,
                       argument->unit != NULL ? " " : "",
                       argument->unit != NULL ? argument->unit : "");
}

static int check_value(const struct command_argument *argument, const json_t *value,
                       struct problem *problem)
{
    switch (argument->type) {
    case ARGUMENT_STREAM:
    case ARGUMENT_TEXT:
        return check_text(argument, value, problem);
    case ARGUMENT_NUMBER:
    case ARGUMENT_INTEGER:
        return check_number(argument, value, problem);
    case ARGUMENT_FLAG:
        return json_is_boolean(value)
                   ? 0
                   : problem_set(problem, ERROR_ARGUMENT, "`%s` is true or false", argument->name);
    case ARGUMENT_CHOICE:
        return json_is_string(value) && is_choice(argument->choices, json_string_value(value))
                   ? 0
                   : problem_set(problem, ERROR_ARGUMENT, "`%s` is one of: %s", argument->name,
                                 argument->choices);
    case ARGUMENT_COMMANDS:
        return json_is_array(value) && json_array_size(value) >= 1 &&
                       json_array_size(value) <= (size_t)argument->high
                   ? 0
                   : problem_set(problem, ERROR_ARGUMENT, "`%s` is a list of 1 to %.0f requests",
                                 argument->name, argument->high);
    case ARGUMENT_OBJECTS:
        return json_is_array(value) && json_array_size(value) <= (size_t)argument->high
                   ? 0
                   : problem_set(problem, ERROR_ARGUMENT, "`%s` is a list of at most %.0f objects",
                                 argument->name, argument->high);
    case ARGUMENT_NONE:
        break;
    }
    return problem_set(problem, ERROR_ARGUMENT, "`%s` cannot be given", argument->name);
}

/* What a request has besides the arguments of its row. */
static bool is_frame_of_request(const char *key)
{
    return strcmp(key, "command") == 0 || strcmp(key, "id") == 0 || strcmp(key, "holder") == 0 ||
           strcmp(key, "role") == 0;
}

json_t *command_number(const struct command_argument *argument, const char *text,
                       struct problem *problem)
{
    static const struct {
        const char *unit;
        enum dimension dimension;
        int exponent; /* from the base unit to the argument's */
    } units[] = {{"dB", DIMENSION_DECIBEL, 0},
                 {"ms", DIMENSION_TIME, 3},
                 {"Hz", DIMENSION_FREQUENCY, 0},
                 {"frames", DIMENSION_FRAMES, 0}};
    enum dimension dimension = DIMENSION_NUMBER;
    struct quantity quantity;
    struct problem detail;
    int exponent = 0;
    for (size_t i = 0; argument->unit != NULL && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(argument->unit, units[i].unit) == 0) {
            dimension = units[i].dimension;
            exponent = units[i].exponent;
        }
    if (quantity_parse(text, dimension, &quantity, &detail) != 0 ||
        (quantity.dimension != dimension && quantity.dimension != DIMENSION_NUMBER)) {
        problem_set(problem, ERROR_ARGUMENT, "%.60s: %s is a number%s%s", text, argument->name,
                    argument->unit != NULL ? " in " : "",
                    argument->unit != NULL ? argument->unit : "");
        return NULL;
    }
    if (quantity.dimension != DIMENSION_NUMBER && quantity.digits != 0)
        quantity.exponent += exponent;
    int64_t whole;
    if (argument->type == ARGUMENT_INTEGER && quantity_integer(&quantity, 0, &whole) == 0)
        return json_integer(whole);
    return json_real(quantity_value(&quantity));
}

/* Numbers that came as texts. */
static int take_numbers(const struct command_row *row, json_t *request, struct problem *problem)
{
    for (int i = 0; i < COMMAND_ARGUMENTS && row->arguments[i].type != ARGUMENT_NONE; i++) {
        const struct command_argument *argument = &row->arguments[i];
        const char *text = json_string_value(json_object_get(request, argument->name));
        /* A text without a unit is of the wrong type. */
        if (text == NULL || argument->unit == NULL || text[0] == '\0' ||
            strchr("0123456789.", text[strlen(text) - 1]) != NULL ||
            (argument->type != ARGUMENT_NUMBER && argument->type != ARGUMENT_INTEGER))
            continue;
        if (!command_text_is_clean(text))
            return problem_set(problem, ERROR_ARGUMENT, "`%s` is no number", argument->name);
        json_t *number = command_number(argument, text, problem);
        if (number == NULL)
            return ERROR_ARGUMENT;
        if (json_object_set_new(request, argument->name, number) != 0)
            return problem_set(problem, ERROR_MEMORY, "out of memory");
    }
    return 0;
}

int command_check(const struct command_row *row, json_t *request, struct problem *problem)
{
    const char *key;
    json_t *value;
    const int taken = take_numbers(row, request, problem);
    if (taken != 0)
        return taken;
    json_object_foreach(request, key, value)
    {
        const struct command_argument *argument = find_argument(row, key);
        if (argument == NULL && is_frame_of_request(key))
            continue;
        if (argument == NULL)
            return problem_set(
                problem, ERROR_ARGUMENT,
                "`%s` takes no `%.64s`; {\"command\": \"commands\"} lists what it takes", row->name,
                command_text_is_clean(key) ? key : "?");
        int error = check_value(argument, value, problem);
        if (error != 0)
            return error;
    }
    for (int i = 0; i < COMMAND_ARGUMENTS && row->arguments[i].type != ARGUMENT_NONE; i++) {
        const struct command_argument *argument = &row->arguments[i];
        if (argument->required && json_object_get(request, argument->name) == NULL)
            return problem_set(problem, ERROR_ARGUMENT, "`%s` needs `%s`: %s; for example %s",
                               row->name, argument->name, argument->sentence, row->example);
    }
    return 0;
}

/* ---- showing ----------------------------------------------------------------------------- */

static const char *type_word(enum argument_type type)
{
    static const char *const words[] = {
        [ARGUMENT_NONE] = "none",       [ARGUMENT_STREAM] = "stream",
        [ARGUMENT_TEXT] = "text",       [ARGUMENT_NUMBER] = "number",
        [ARGUMENT_INTEGER] = "integer", [ARGUMENT_FLAG] = "flag",
        [ARGUMENT_CHOICE] = "choice",   [ARGUMENT_COMMANDS] = "commands",
        [ARGUMENT_OBJECTS] = "objects",
    };
    return words[type];
}

static json_t *argument_json(const struct command_argument *argument)
{
    json_t *object =
        json_pack("{s:s, s:s, s:b, s:s}", "name", argument->name, "type", type_word(argument->type),
                  "required", argument->required, "sentence", argument->sentence);
    if (argument->type == ARGUMENT_NUMBER || argument->type == ARGUMENT_INTEGER) {
        json_object_set_new(object, "low", json_real(argument->low));
        json_object_set_new(object, "high", json_real(argument->high));
    }
    if (argument->type == ARGUMENT_TEXT || argument->type == ARGUMENT_STREAM)
        json_object_set_new(object, "bytes", json_integer((json_int_t)argument->high));
    if (argument->unit != NULL)
        json_object_set_new(object, "unit", json_string(argument->unit));
    if (argument->choices != NULL)
        json_object_set_new(object, "choices", json_string(argument->choices));
    return object;
}

json_t *command_row_json(const struct command_row *row)
{
    json_t *arguments = json_array();
    for (int i = 0; i < COMMAND_ARGUMENTS && row->arguments[i].type != ARGUMENT_NONE; i++)
        json_array_append_new(arguments, argument_json(&row->arguments[i]));
    return json_pack("{s:s, s:s, s:b, s:s, s:o, s:s, s:s, s:s?}", "name", row->name, "role",
                     command_role_word(row->role), "transaction", row->change, "summary",
                     row->summary, "arguments", arguments, "answer", row->answer, "example",
                     row->example, "convolvctl", row->shell);
}

static void print_range(const struct command_argument *argument, FILE *out)
{
    if (argument->type == ARGUMENT_INTEGER && argument->high >= FRAMES_MAX)
        fprintf(out, "integer from %.15g", argument->low);
    else if (argument->type == ARGUMENT_NUMBER || argument->type == ARGUMENT_INTEGER)
        fprintf(out, "%s, %.15g to %.15g", type_word(argument->type), argument->low,
                argument->high);
    else if (argument->type == ARGUMENT_CHOICE)
        fprintf(out, "one of %s", argument->choices);
    else if (argument->type == ARGUMENT_COMMANDS)
        fprintf(out, "requests, at most %.0f", argument->high);
    else if (argument->type == ARGUMENT_OBJECTS)
        fprintf(out, "objects, at most %.0f", argument->high);
    else if (argument->type == ARGUMENT_TEXT)
        fprintf(out, "text of at most %.0f bytes", argument->high);
    else
        fprintf(out, "%s", type_word(argument->type));
    if (argument->unit != NULL)
        fprintf(out, " [%s]", argument->unit);
}

void command_table_print(FILE *out)
{
    for (int i = 0; i < CONTROL_WORDS; i++) {
        const struct command_row *row = &command_table[i];
        if (row->name == NULL)
            continue;
        fprintf(out, "### %s\n\n%s Role: *%s*.%s\n\n", row->name, row->summary,
                command_role_word(row->role), row->change ? " May stand in a transaction." : "");
        if (row->arguments[0].type != ARGUMENT_NONE)
            fprintf(out, "| argument | | |\n|---|---|---|\n");
        for (int a = 0; a < COMMAND_ARGUMENTS && row->arguments[a].type != ARGUMENT_NONE; a++) {
            const struct command_argument *argument = &row->arguments[a];
            fprintf(out, "| `%s`%s | ", argument->name, argument->required ? "" : ", optional");
            print_range(argument, out);
            fprintf(out, " | %s |\n", argument->sentence);
        }
        fprintf(out, "%sAnswer: %s.\n\n", row->arguments[0].type != ARGUMENT_NONE ? "\n" : "",
                row->answer);
        if (row->shell != NULL)
            fprintf(out, "    %s\n", row->shell);
        fprintf(out, "    %s\n\n", row->example);
    }
}
