/*
 * Sandbox check (`--check --as-service`): names the files and folders of a configuration that the
 * service's unit hides. Root's plain --check reads and writes everything; the service runs as
 * another user, sees no /home and a private /tmp, and writes into few folders.
 *
 * sandbox_check is pure but for its host. Main thread.
 */
#ifndef CONVOLVD_REPORT_SANDBOX_H
#define CONVOLVD_REPORT_SANDBOX_H

#include "config/config.h"

enum { SANDBOX_PATHS_MAX = 64, SANDBOX_PATH_BYTES = 1024, SANDBOX_TEXT_BYTES = 64 };

/* What a unit says, as `systemctl show` prints it. */
struct sandbox {
    char unit[SANDBOX_TEXT_BYTES + 32], user[SANDBOX_TEXT_BYTES];
    char home[16];   /* ProtectHome=: "no", "yes", "read-only", "tmpfs" */
    char system[16]; /* ProtectSystem=: "no", "yes", "full", "strict" */
    bool private_tmp;
    unsigned writable_count, bound_count;
    char writable[SANDBOX_PATHS_MAX][SANDBOX_PATH_BYTES]; /* also its own directories */
    char bound[SANDBOX_PATHS_MAX][SANDBOX_PATH_BYTES];    /* shown whatever hides them */
    unsigned listen_count; /* of the socket unit, where it is enabled or active */
    char listen[SANDBOX_PATHS_MAX][SANDBOX_TEXT_BYTES]; /* HOST:PORT */
};

struct sandbox_host {
    /* Whether this user may read (else write) there; *missing: nothing is there. */
    bool (*may)(const char *user, const char *path, bool write, bool *missing);
};

/* Reads one line of `systemctl show`: "ProtectHome=yes". Others are ignored. */
void sandbox_line(struct sandbox *sandbox, const char *line);

/* The unit that runs the configuration: convolvd.service, or convolvd@NAME.service for
 * /etc/convolvd/NAME.conf. Its properties come from systemd, else they are the shipped unit's. */
void sandbox_learn(const char *config_path, struct sandbox *out);

/* What the service cannot read, write or receive becomes errors. host NULL: the real one. */
void sandbox_check(const struct config *config, const struct sandbox *sandbox,
                   const struct sandbox_host *host, struct config_errors *errors);

#endif
