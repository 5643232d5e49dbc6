/*
 * What the sandbox of the service's unit hides from a configuration: files in /home and /tmp,
 * folders that it may not write, files that its user may not read, sockets that no stream has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/sandbox.h"
#include "tests/support/config_samples.h"

static bool may(const char *user, const char *path, bool write, bool *missing)
{
    *missing = strstr(path, "nowhere") != NULL;
    return strcmp(user, "convolvd") != 0 || strstr(path, "secret") == NULL || write;
}

static const struct sandbox_host host = {.may = may};

#define SHIPPED                                                                                    \
    "User=convolvd\nProtectHome=yes\nProtectSystem=strict\nPrivateTmp=yes\n"                       \
    "StateDirectory=convolvd\nCacheDirectory=convolvd\nRuntimeDirectory=convolvd\n"

static void read_lines(struct sandbox *sandbox, const char *lines)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", lines);
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
        sandbox_line(sandbox, line);
}

static void what_the_unit_hides(void **state)
{
    (void)state;
    static const struct {
        const char *unit, *source, *filter, *status, *words; /* NULL: nothing is wrong */
        unsigned line;
    } cases[] = {
        {SHIPPED, "", "type = identity", "/var/lib/convolvd/x.wav", NULL, 0},
        {SHIPPED, "", "type = identity", "/home/anna/x.wav",
         "does not see /home/anna (ProtectHome=yes in convolvd.service)", 2},
        {SHIPPED, "", "type = identity", "/root/x.wav", "does not see /root", 2},
        {SHIPPED, "", "type = identity", "/homes/x.wav", "may not write into /homes", 2},
        {SHIPPED, "", "type = identity", "/tmp/x.wav", "a /tmp of its own", 2},
        {SHIPPED, "", "type = identity", "/srv/nowhere/x.wav",
         "may not write into /srv/nowhere (ProtectSystem=strict", 2},
        {SHIPPED, "", "type = identity", "/var/lib/convolvd-2/x.wav", "may not write", 2},
        {SHIPPED "ReadWritePaths=-/opt /srv/nowhere\n", "", "type = identity", "/srv/nowhere/x.wav",
         NULL, 0},
        {SHIPPED "BindPaths=/data:/home/anna/data\n", "", "type = identity",
         "/home/anna/data/x.wav", NULL, 0},
        {SHIPPED "BindReadOnlyPaths=/home/anna\n", "", "type = identity", "/home/anna/x.wav",
         "may not write into /home/anna", 2},
        {SHIPPED, "", "type = file\npath = /home/anna/f.npy", "/var/lib/convolvd/x.wav",
         "does not see /home/anna/f.npy", 11},
        {SHIPPED, "", "type = file\npath = /etc/secret.npy", "/var/lib/convolvd/x.wav",
         "user convolvd may not read /etc/secret.npy", 11},
        {"ProtectHome=read-only\nProtectSystem=no\nPrivateTmp=no\n", "", "type = identity",
         "/home/anna/x.wav", "may not write into /home/anna", 2},
        {"ProtectHome=no\nProtectSystem=full\nPrivateTmp=no\n", "", "type = identity",
         "/home/anna/x.wav", NULL, 0},
        {SHIPPED "Listen=127.0.0.1:5004 (Datagram)\n", "127.0.0.1:5004", "type = identity",
         "/var/lib/convolvd/x.wav", NULL, 0},
        {SHIPPED "Listen=[::]:5004 (Datagram)\n", "*:5004", "type = identity",
         "/var/lib/convolvd/x.wav", NULL, 0},
        {SHIPPED "Listen=[::]:5004 (Datagram)\n", "127.0.0.1:5004", "type = identity",
         "/var/lib/convolvd/x.wav", "but convolvd.socket holds [::]:5004", 5},
        {SHIPPED "Listen=[::]:5006 (Datagram)\n", "127.0.0.1:5004", "type = identity",
         "/var/lib/convolvd/x.wav", "holds [::]:5006, which no stream receives from", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024], source[128] = "source = generator\nwaveform = sine";
        struct config *config;
        struct config_errors errors = {0};
        struct sandbox sandbox = {.unit = "convolvd.service"};
        if (cases[i].source[0] != '\0')
            snprintf(source, sizeof source, "source = rtp\naddress = %s", cases[i].source);
        snprintf(text, sizeof text,
                 "[daemon]\nstatus file = %s\n[stream a]\n%s\nrate = 48 kHz\nchannels = 1\n"
                 "filter = f\n[filter f]\n%s\n",
                 cases[i].status, source, cases[i].filter);
        read_lines(&sandbox, cases[i].unit);
        if (sample_load(text, &config, &errors) != 0)
            fail_msg("%s\n%s", text, sample_messages(&errors));
        config_errors_free(&errors);
        errors = (struct config_errors){0};
        sandbox_check(config, &sandbox, &host, &errors);
        char *all = sample_messages(&errors);
        if (errors.errors != (cases[i].words != NULL) ||
            (cases[i].words != NULL &&
             !sample_message(&errors, cases[i].line, false, cases[i].words)))
            fail_msg("case %zu: %s\n%s", i, cases[i].words != NULL ? cases[i].words : "", all);
        free(all);
        config_errors_free(&errors);
        config_free(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_unit_hides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
