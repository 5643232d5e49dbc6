/* The manual page: see manual.h. */
#include "manual.h"

/* Text with what roff would take for its own escaped. */
static void roff(FILE *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\\')
            fputs("\\e", out);
        else if (*at == '-')
            fputs("\\-", out);
        else if ((*at == '.' || *at == '\'') && (at == text || at[-1] == '\n'))
            fprintf(out, "\\&%c", *at);
        else
            fputc(*at, out);
    }
}

static void item(FILE *out, const char *term, const char *text)
{
    fputs(".TP\n.B ", out);
    roff(out, term);
    fputc('\n', out);
    roff(out, text);
    fputc('\n', out);
}

static void print_option(const struct tool_option *row, FILE *out)
{
    char term[128];
    if (row->name == NULL) {
        fputs(".SS ", out);
        roff(out, row->sentence);
        fputc('\n', out);
        return;
    }
    snprintf(term, sizeof term, "--%s%s%s", row->name, row->metavar != NULL ? " " : "",
             row->metavar != NULL ? row->metavar : "");
    item(out, term, row->sentence);
    if (row->fallback != NULL) {
        fputs("(default ", out);
        roff(out, row->fallback);
        fputs(")\n", out);
    }
}

void manual_print(const struct tool_option *rows, size_t count, FILE *out)
{
    fprintf(out,
            ".TH CONVOLV\\-WEB 8 \"\" \"convolvd %s\"\n"
            ".SH NAME\nconvolv\\-web \\- live page of convolvd in a browser\n"
            ".SH SYNOPSIS\n.B convolv\\-web\n.RI [ OPTION ...]\n.SH DESCRIPTION\n",
            CONVOLVD_VERSION);
    roff(out,
         "convolv-web shows what a running convolvd(8) measures to browsers: streams and levels, "
         "waveforms before and after the filters, A-scans, spectra, latencies, events, and "
         "Prometheus metrics. It is a process of its own; it asks the daemon over its control "
         "sockets and reads waveforms from shared memory that the daemon overwrites, so no "
         "browser can delay the measurement.\n");
    fputs(".PP\n", out);
    roff(out,
         "By default it listens on 127.0.0.1:8470, and whoever uses this machine may look. "
         "Changing anything needs --allow-control and a token with the role control; listening "
         "beyond loopback needs TLS and tokens.\n");
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < count; i++)
        print_option(&rows[i], out);
    fputs(".SH SIGNALS\n", out);
    item(out, "SIGTERM, SIGINT", "Closes all connections and ends.");
    item(out, "SIGHUP", "Reads the page's files and the tokens again.");
    fputs(".SH EXIT STATUS\n", out);
    item(out, "0", "Stopped by a signal.");
    item(out, "1", "It could not start; the reason was written to the standard error.");
    item(out, "2", "An option is wrong.");
    fputs(".SH FILES\n", out);
    item(out, "/run/convolvd/observe.sock, control.sock", "The daemon's control sockets.");
    fputs(".SH SEE ALSO\n.BR convolvd (8),\n.BR convolvctl (1)\n", out);
}
