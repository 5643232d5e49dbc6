/*
 * The manual: `--help-config` and the pages convolvd(8) and convolvd.conf(5), all from the
 * schema's rows and the table of arguments. Roff is written for man(7); every text is escaped
 * here and nowhere else.
 */
#include "config/schema.h"

#include <ctype.h>
#include <string.h>

#include "filter/filter.h"

/* ---- what a row says --------------------------------------------------------------------- */

/* "rtp, udp" for the types a key applies to; "" when to all. */
static const char *applies_text(const struct schema_key *key, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; key->applies != 0 && schema_type_name(key->section, i) != NULL; i++)
        if ((key->applies >> i) & 1 && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                                     schema_type_name(key->section, i));
    return text;
}

/* What to write after the =: the choices, or the kind of value. */
static const char *value_text(const struct option_row *row, char *text, size_t bytes)
{
    static const char *const lists[] = {
        [LIST_NONE] = "",
        [LIST_CHANNEL] = ", or a comma list",
        [LIST_COMMA] = ", comma list",
        [LIST_LINES] = ", repeatable",
    };
    if (row->choices != NULL)
        option_choices_text(row, " | ", text, bytes);
    else
        snprintf(text, bytes, "%s", option_words(row));
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s", lists[row->list]);
    return text;
}

/* "default 5 ms; 0 … 10 s; for rtp, udp-seq" */
static const char *facts_text(const struct schema_key *key, char *text, size_t bytes)
{
    char range[128], applies[256];
    bool required = key->required != 0;
    const char *lead = !required                         ? "default "
                       : key->row.fallback_words != NULL ? "required, or "
                                                         : "required";
    const char *rest = key->row.fallback != NULL         ? key->row.fallback
                       : key->row.fallback_words != NULL ? key->row.fallback_words
                       : required                        ? ""
                                                         : "none";
    size_t used = (size_t)snprintf(text, bytes, "%s%s", lead, rest);
    option_range_text(&key->row, range, sizeof range);
    if (range[0] != '\0' && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, "; %s", range);
    applies_text(key, applies, sizeof applies);
    if (applies[0] != '\0' && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, "; for %s", applies);
    if (key->row.running && used < bytes)
        snprintf(text + used, bytes - used, "; a reload changes it while the stream runs");
    return text;
}

/* ---- --help-config ----------------------------------------------------------------------- */

enum { WIDTH = 96, INDENT = 6 };

/* Words of `text`, broken before WIDTH; the first line begins at `column`, the others at INDENT. */
static void print_wrapped(FILE *out, const char *text, int column)
{
    bool first = true;
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        int columns = 0; /* bytes that begin a character */
        for (size_t i = 0; i < length; i++)
            columns += ((unsigned char)text[i] & 0xc0) != 0x80;
        if (!first && column + 1 + columns > WIDTH) {
            fprintf(out, "\n%*s", INDENT, "");
            column = INDENT;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)length, text);
        column += columns;
        first = false;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_key(const struct schema_key *key, FILE *out)
{
    char value[256], facts[512], line[560];
    fprintf(out, "\n  %s = %s\n", key->row.key, value_text(&key->row, value, sizeof value));
    fprintf(out, "%*s", INDENT, "");
    print_wrapped(out, key->row.sentence, INDENT);
    snprintf(line, sizeof line, "(%s)", facts_text(key, facts, sizeof facts));
    fprintf(out, "%*s", INDENT, "");
    print_wrapped(out, line, INDENT);
}

void schema_print_help(FILE *out)
{
    fprintf(
        out,
        "The configuration is a file of [sections] with lines `key = value`. Numbers carry their\n"
        "units, as in 5 MHz, 200 us, 16 MiB, -3 dB, 10 mV. # and ; begin a comment, a backslash "
        "at\n"
        "the end continues a line. After FILE, FILE.d/*.conf are read in the order of their\n"
        "names and override it key by key; an empty value takes a key back to its default.\n"
        "Relative paths start at the directory of the file they are written in.\n");
    for (int kind = 0; kind < SECTIONS; kind++) {
        const struct schema_section *section = &schema_sections[kind];
        int column = fprintf(out, "\n[%s%s]  ", section->word, section->named ? " NAME" : "");
        print_wrapped(out, section->sentence, column - 1);
        for (unsigned slot = 0; slot < schema_count((enum section_kind)kind); slot++)
            for (const struct schema_key *key = schema_at((enum section_kind)kind, slot);
                 key != NULL; key = key->other)
                print_key(key, out);
    }
}
/* ---- roff -------------------------------------------------------------------------------- */

/* One character beyond ASCII as \[uNNNN], which groff and mandoc know in every locale; returns its
 * bytes. */
static int roff_unicode(FILE *out, const char *at)
{
    const unsigned char *byte = (const unsigned char *)at;
    int more = byte[0] >= 0xf0 ? 3 : byte[0] >= 0xe0 ? 2 : 1;
    unsigned code = byte[0] & (0x3fu >> more);
    int taken = 1;
    for (; taken <= more && (byte[taken] & 0xc0) == 0x80; taken++)
        code = code << 6 | (byte[taken] & 0x3fu);
    fprintf(out, "\\[u%04X]", code);
    return taken;
}

/* Escapes a text for running roff; `code` between ` and ` becomes bold. */
static void roff(FILE *out, const char *text)
{
    bool bold = false, start = true;
    for (const char *at = text; *at != '\0'; at++) {
        if (start && (*at == '.' || *at == '\''))
            fputs("\\&", out);
        start = false;
        switch (*at) {
        case '\\':
            fputs("\\e", out);
            break;
        case '-':
            fputs("\\-", out);
            break;
        case '~':
            fputs("\\(ti", out);
            break;
        case '^':
            fputs("\\(ha", out);
            break;
        case '`':
            bold = !bold;
            fputs(bold ? "\\fB" : "\\fR", out);
            break;
        case '\n':
            start = true;
            fputc('\n', out);
            break;
        default:
            if ((unsigned char)*at < 0x80)
                fputc(*at, out);
            else
                at += roff_unicode(out, at) - 1;
        }
    }
}

static void roff_title(FILE *out, const char *name, int section)
{
    fprintf(out, ".\\\" Generated by convolvd --man.\n.TH ");
    for (const char *at = name; *at != '\0'; at++)
        fputc(toupper((unsigned char)*at), out);
    fprintf(out, " %d \"\" \"convolvd " CONVOLVD_VERSION "\" \"%s\"\n", section,
            section == 8 ? "System Administration" : "File Formats");
}

static void roff_paragraph(FILE *out, const char *text)
{
    fputs(".PP\n", out);
    roff(out, text);
    fputc('\n', out);
}

/* Lines as they are. */
static void roff_example(FILE *out, const char *text)
{
    fputs(".PP\n.in +4n\n.nf\n", out);
    roff(out, text);
    fputs("\n.fi\n.in\n", out);
}

static void roff_item(FILE *out, const char *term, const char *text)
{
    fputs(".TP\n\\fB", out);
    roff(out, term);
    fputs("\\fR\n", out);
    roff(out, text);
    fputc('\n', out);
}

static void roff_key(const struct schema_key *key, FILE *out)
{
    char value[256], facts[512];
    fputs(".TP\n\\fB", out);
    roff(out, key->row.key);
    fputs("\\fR = ", out);
    roff(out, value_text(&key->row, value, sizeof value));
    fputc('\n', out);
    roff(out, key->row.sentence);
    fputs(" (", out);
    roff(out, facts_text(key, facts, sizeof facts));
    fputs(")\n", out);
}

static void print_config_page(FILE *out)
{
    roff_title(out, "convolvd.conf", 5);
    fputs(".SH NAME\nconvolvd.conf \\- configuration of the streaming convolution daemon\n"
          ".SH DESCRIPTION\n",
          out);
    roff(
        out,
        "The configuration is a text file of sections with lines `key = value`. Each "
        "`[stream NAME]` names a source of samples and the filters they pass, each `[filter NAME]` "
        "describes a filter, each `[sink NAME]` a place where results go. Names consist of "
        "letters, digits, _, - and . only.\n");
    roff_paragraph(
        out,
        "Numbers carry their units: 5 MHz, 95 kHz, 200 us, 1.5 ms, 10 min, 16 MiB, -3 dB, 10 mV, "
        "5 %, 90 deg, 1024 frames. A number without a unit is refused where a unit belongs, 0 "
        "excepted.");
    roff_paragraph(out, "# and ; begin a comment, at the start of a line or after a space. A "
                        "backslash at the end of "
                        "a line continues it. A key is given once in a section, a list is "
                        "separated by commas; only "
                        "keys called repeatable may stand on several lines.");
    roff_paragraph(
        out,
        "After the file itself its fragments are read, FILE.d/*.conf, such as "
        "convolvd.conf.d/gains.conf, in the order of their names. A later file overrides key by "
        "key; an empty value takes a key back to its default. Relative paths start at the "
        "directory of the file they are written in. Fragments of the former name, conf.d/*.conf "
        "beside the file, are read before those where the file is alone in its folder, and are "
        "refused beside a second configuration.");
    roff_paragraph(out, "`convolvd --check FILE` reports all errors of a configuration in one run, "
                        "with their lines "
                        "and what to write instead, and prints what a valid one will do.");
    fputs(".SH EXAMPLE\n", out);
    roff_example(
        out,
        "[stream vessel]\nsource = rtp\naddress = 239.1.2.3:5004\nrate = 5 MHz\nchannels = 4\n"
        "format = s16be\nfull scale = 10 V\npreamp = 34 dB\nfilter = band\noutput = envelope\n\n"
        "[filter band]\ntype = bandpass\nlow = 95 kHz\nhigh = 850 kHz\nanalytic = yes\n\n"
        "[sink control-room]\ntype = rtp\nstream = vessel\naddress = 239.1.2.4:5006\nformat = "
        "f32be");
    for (int kind = 0; kind < SECTIONS; kind++) {
        const struct schema_section *section = &schema_sections[kind];
        fprintf(out, ".SH \"[%s%s] SECTION\"\n", section->word, section->named ? " NAME" : "");
        roff(out, section->sentence);
        fputc('\n', out);
        for (unsigned slot = 0; slot < schema_count((enum section_kind)kind); slot++)
            for (const struct schema_key *key = schema_at((enum section_kind)kind, slot);
                 key != NULL; key = key->other)
                roff_key(key, out);
    }
    fputs(".SH FILES\n", out);
    roff_item(out, "/etc/convolvd/convolvd.conf", "Read when no other file is named.");
    roff_item(out, "/etc/convolvd/convolvd.conf.d/*.conf", "Fragments that override it.");
    fputs(".SH SEE ALSO\n.BR convolvd (8)\n", out);
}

static void print_daemon_page(FILE *out, const struct manual_option *options, unsigned count)
{
    roff_title(out, "convolvd", 8);
    fputs(".SH NAME\nconvolvd \\- real-time streaming convolution for non-destructive testing\n"
          ".SH SYNOPSIS\n.B convolvd\n.RI [ OPTION ...]\n.SH DESCRIPTION\n",
          out);
    roff(out, "convolvd receives multichannel signals in blocks over UDP or from recordings, "
              "passes every "
              "channel through long FIR filters on an OpenCL device, and sends or records the "
              "results, each "
              "block with its measured latency. What it does is said in its configuration, see "
              "convolvd.conf(5).\n");
    fputs(".SH OPTIONS\n", out);
    for (unsigned i = 0; i < count; i++)
        roff_item(out, options[i].option, options[i].sentence);
    fputs(".SH SIGNALS\n", out);
    roff_item(
        out, "SIGTERM, SIGINT",
        "Stops the sources, processes what was received, lets the tails of the filters "
        "follow, closes all files, prints the table and exits 0. What is not done after `drain "
        "timeout` (a start that hangs too) or hangs while it is closed is cut off: the log "
        "says what, the exit status is 3. A second one leaves at once.");
    roff_item(out, "SIGUSR2",
              "As SIGTERM, but the streams are handed over to the next daemon through the service "
              "manager's descriptor store, which goes on in the middle of each epoch; the unit "
              "sends it for a restart. Without a service manager it is SIGTERM.");
    roff_item(out, "SIGUSR1", "Prints the table of rates, losses, levels, latencies and ledgers.");
    roff_item(
        out, "SIGHUP",
        "Reads the configuration again. What is wrong with it is said and nothing changes; else "
        "changed streams are prepared and swapped in, unchanged ones run on without missing a "
        "block. "
        "Filter files changed in place count. [device] and directories need a restart. (Sent by "
        "the kernel because the terminal is gone, it stops the daemon as SIGTERM does.)");
    fputs(".SH EXIT STATUS\n", out);
    roff_item(out, "0", "Success; with --check: the configuration is valid.");
    roff_item(out, "1", "An error, which was written to the standard error.");
    roff_item(out, "3",
              "Stopped by a signal, but something hung or took too long and was cut off.");
    roff_item(out, "4",
              "The run came to its end by itself, because every source has one, but some of its "
              "input or results are lost; the log says what and why. The unit does not start the "
              "daemon again.");
    roff_item(out, "130",
              "Ctrl-C (SIGINT) stopped a recording or another source before its end. SIGTERM "
              "stops it with 0.");
    roff_item(out, "78",
              "The configuration is wrong, so the daemon has not started. After 1 the unit tries "
              "again for as long as it takes, as a device or an address may be late; after 78 it "
              "does not.");
    fputs(".SH ENVIRONMENT\n", out);
    roff_item(
        out, "RUNTIME_DIRECTORY, STATE_DIRECTORY, CACHE_DIRECTORY",
        "Defaults of `runtime directory`, `state directory` and `cache`, as systemd sets them.");
    roff_item(out, "JOURNAL_STREAM",
              "When it names stderr, as systemd sets it, the log goes to the journal with levels "
              "and fields "
              "(STREAM=, CHANNEL=, SINK=, FILTER=).");
    fputs(".SH SEE ALSO\n.BR convolvd.conf (5)\n", out);
}

int schema_print_man(FILE *out, const char *page, const struct manual_option *options,
                     unsigned count)
{
    if (strcmp(page, "convolvd.conf") == 0)
        print_config_page(out);
    else if (strcmp(page, "convolvd") == 0)
        print_daemon_page(out, options, count);
    else
        return ERROR_ARGUMENT;
    return 0;
}
