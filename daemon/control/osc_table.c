/* The table of OSC addresses: see osc_table.h. */
#include "control/osc_table.h"

#include <string.h>

#include "control/command_table.h"
#include "control/osc_arguments.h"
#include "control/osc_counters.h"
#include "wire/osc.h"

/* One row per message; clang-format would break its sentences into pieces. */
/* clang-format off */
const struct osc_row osc_table[OSC_WORDS] = {
    [OSC_BLOCK] = {"block", true, true, false,
        "[h sequence, h first frame,] b samples",
        "Samples in, frame by frame, big-endian, float32 or int16 as the stream's `format` says; or a list of f instead of the blob. Sequence and first frame may also come as two i each (high, low) or as one i each. Without both, the daemon counts the frames itself and cannot see a loss. Never answered.",
        "/convolvd/rig/block ffff 0.1 0.2 0.3 0.4"},
    [OSC_LIST] = {"list", false, true, true,
        "[i port]",
        "Asks for the streams' names; the answer has the same address and an s for each.",
        "/convolvd/list i 9001"},
    [OSC_INFO] = {"info", true, true, true,
        "[i port]",
        "Asks for a stream's properties. Answer: s name, f rate in Hz, i channels in, i channels out, i frames of a block, s format, f delay of the filters in frames of the output, f load in %, f p50 and f p99 of the latency in us, h frames out, h invalid frames, s loss (detectable or undetectable), f rate of the output in Hz: that of the input over `decimate`.",
        "/convolvd/rig/info i 9001"},
    [OSC_SUBSCRIBE] = {"subscribe", true, true, true,
        "[s topic] [f most messages a second] [i port]",
        "A lease on levels, envelope, latency, results, alarms or events; without a topic on levels and envelope. Renew it by sending it again before `lease` of [osc] has passed. Without a rate: 10 a second, results 20000, events 1000.",
        "/convolvd/rig/subscribe sfi levels 5 9001"},
    [OSC_UNSUBSCRIBE] = {"unsubscribe", true, true, true,
        "[i port]",
        "Ends the subscriptions to a stream.",
        "/convolvd/rig/unsubscribe i 9001"},
    [OSC_NARROW] = {"narrow", false, true, false,
        "i 1 or 0",
        "Whether 64-bit numbers are sent here as two i (high, low), for patches without h.",
        "/convolvd/narrow i 1"},
    [OSC_PROVE] = {"prove", false, true, false,
        "i token",
        "Returns the token of a challenge, from the same host.",
        "/convolvd/prove i 123456"},
    [OSC_RESULT] = {"result", true, false, false,
        "h sequence, h first frame, i channels, i epoch, i flags, f latency in us, f delay in frames, b samples",
        "Output frames, float32 big-endian, frame by frame, in the stream's units. The sequence counts the messages of this subscription; flags: 1 the epoch begins, 2 it ends, 4 some frames are invalid, 8 the frames between the previous message's last and this one's first were shed, 16 gains or mutes differ from those of the configuration, 32 some frames are partial (results.md); the upper 16 bits are the causes of both, numbered as in results.md. Latency: last frame of the block received to this message sent.",
        "/convolvd/rig/result hhiiiffb 0 0 1 0 1 812.5 15 [4 byte blob]"},
    [OSC_LEVELS] = {"levels", true, false, false,
        "h first frame, i frames, then for every output: f peak, f RMS, i clips",
        "Of the output since the last message, in the stream's units; clips count input samples of that channel at full scale.",
        "/convolvd/rig/levels hiffi 0 4800 0.5 0.353 0"},
    [OSC_ENVELOPE] = {"envelope", true, false, false,
        "h first frame, i frames, then for every output: f peak",
        "The output's envelope, decimated: the largest magnitude of all frames since the last message.",
        "/convolvd/rig/envelope hif 0 4800 0.5"},
    [OSC_LATENCY] = {"latency", true, false, false,
        "f p50, f p99, f largest, then f p50 of accumulate, ingest, wait, device, egress",
        "Last frame received to results handed over, then the stages, all in us.",
        "/convolvd/rig/latency ffffffff 700 1200 1900 20000 5 20 600 40"},
    [OSC_ALARM] = {"alarm", true, false, false,
        "s name, s raised or ended, i channel, f value, s sentence",
        "An alarm of the stream was raised, or has ended (alarms.md), one message for each of its channels, counted from 1; 0: the stream as a whole. The value has the unit of the alarm's quantity.",
        "/convolvd/rig/alarm ssifs flat-line raised 3 1.02 \"alarm flat-line: all codes are equal for more than 1.00 s\""},
    [OSC_FIELDS] = {"fields", true, false, false,
        "s analysis, s kind, then s for each value",
        "Comes when a subscription to events begins or is renewed, for each analysis of the stream: the names of the values that its events carry, in their order (analysis.md).",
        "/convolvd/rig/fields sssss bursts hit amplitude peak_db rise_us"},
    [OSC_EVENT] = {"event", true, false, false,
        "s analysis, s kind, h number, i channel, h epoch, h frame, h arrival in ns, i flags, i dropped, then each value",
        "An event of an analysis, hits when they end: kind is hit, interval, source, ascan, condition or coupling; channels count from 1; arrival in Unix time; flags as in analysis.md; dropped: how many events this subscription has not got so far. Values in the order of `fields`: f, counters h or i; one that is not defined is NaN.",
        "/convolvd/rig/event sshihhhiifff bursts hit 17 1 0 48000 1790000000000000000 0 0 0.5 114 12.5"},
    [OSC_CHANGED] = {"changed", true, false, false,
        "s what, h frame",
        "A change of gain, mute or filter takes effect at this output frame of the epoch; it is flagged invalid with cause filter change.",
        "/convolvd/rig/changed sh filter 48000"},
    [OSC_REPLY] = {"COMMAND", true, false, false,
        "i piece, counted from 1, i pieces, s text",
        "The answer to a command that is no change, at the address of the command: the reply of the control socket (control.md), a text of JSON, in pieces that fit an Ethernet frame over UDP, up to 16 KB over TCP.",
        "/convolvd/rig/reset-counters iis 1 1 \"{\"ok\":true}\""},
    [OSC_ERROR] = {"error", false, false, false,
        "s address, s sentence",
        "The daemon cannot do what was asked; the sentence says why.",
        "/convolvd/error ss /convolvd/rig/gain \"stream rig has 2 outputs, not 3\""},
    [OSC_CHALLENGE] = {"prove", false, false, false,
        "i token",
        "The address that asked is allowed but may be forged: nothing is done until it has returned the token with /convolvd/prove. Sent as /prove, shorter than any question.",
        "/prove i 123456"},
};
/* clang-format on */

const char *osc_signature(const char *address)
{
    static const enum osc_word words[] = {OSC_NARROW, OSC_PROVE};
    struct osc_part part;
    if (osc_address_parts(address, &part, 1) != 1)
        return NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *word = osc_table[words[i]].word;
        if (strlen(word) == part.length && memcmp(word, part.text, part.length) == 0)
            return "i";
    }
    return NULL;
}

/* The address with STREAM in its place. */
static const char *row_address(const struct osc_row *row, char text[64])
{
    if (row == &osc_table[OSC_CHALLENGE])
        snprintf(text, 64, "/prove");
    else
        snprintf(text, 64, row->of_stream ? "/convolvd/STREAM/%s" : "/convolvd/%s", row->word);
    return text;
}

static void print_row(const struct osc_row *row, FILE *out)
{
    char address[64];
    fprintf(out, "| `%s` | %s | %s | `%s` |\n", row_address(row, address), row->arguments,
            row->sentence, row->example);
}

static void print_rows(bool inward, FILE *out)
{
    fputs("| address | arguments | meaning | example |\n|---|---|---|---|\n", out);
    for (int i = 0; i < OSC_WORDS; i++)
        if (osc_table[i].inward == inward)
            print_row(&osc_table[i], out);
    fputs("\n", out);
}

static void print_command(const struct command_row *row, FILE *out)
{
    const bool of_stream = osc_arguments_suit(row, true), alone = osc_arguments_suit(row, false);
    fputs("| ", out);
    if (of_stream)
        fprintf(out, "`/convolvd/STREAM/%s`", row->name);
    if (of_stream && alone)
        fputs(", ", out);
    if (alone)
        fprintf(out, "`/convolvd/%s`", row->name);
    fputs(" | ", out);
    osc_arguments_print(row, out);
    fprintf(out, " | %s | %s | `%s` |\n", command_role_word(row->role), row->summary, row->osc);
}

static void print_commands(FILE *out)
{
    fputs("| address | arguments | role | meaning | example |\n|---|---|---|---|---|\n", out);
    for (int i = 0; i < CONTROL_WORDS; i++)
        if (command_table[i].osc != NULL)
            print_command(&command_table[i], out);
    fputs("\n", out);
}

void osc_table_print(FILE *out)
{
    fputs("### What the daemon takes\n\n", out);
    print_rows(true, out);
    fputs("### Commands\n\n", out);
    print_commands(out);
    fputs("### What the daemon sends\n\n", out);
    print_rows(false, out);
    osc_counters_help(out);
}
