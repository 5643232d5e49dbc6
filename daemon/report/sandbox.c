/* The sandbox of the service's unit: see sandbox.h. */
#include "report/sandbox.h"

#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the unit ---------------------------------------------------------------------------- */

static void add_path(char list[][SANDBOX_PATH_BYTES], unsigned *count, const char *prefix,
                     const char *path, size_t length)
{
    if (*count < SANDBOX_PATHS_MAX && length > 0)
        snprintf(list[(*count)++], SANDBOX_PATH_BYTES, "%s%.*s", prefix, (int)length, path);
}

/* Words separated by spaces, each behind its prefix; "-/path" and "+/path" are the path, and of
 * SOURCE:TARGET the target counts. */
static void add_words(char list[][SANDBOX_PATH_BYTES], unsigned *count, const char *prefix,
                      const char *words)
{
    for (const char *word = words; *word != '\0';) {
        word += strspn(word, " ");
        const size_t length = strcspn(word, " ");
        const char *start = word + strspn(word, "-+");
        const char *colon = memchr(start, ':', (size_t)(word + length - start));
        if (colon != NULL && colon[1] == '/')
            start = colon + 1;
        size_t bytes = (size_t)(word + length - start);
        const char *options = memchr(start, ':', bytes);
        add_path(list, count, prefix, start, options != NULL ? (size_t)(options - start) : bytes);
        word += length;
    }
}

/* "127.0.0.1:5004 (Datagram)", "[::]:5004 (Datagram)". */
static void add_listen(struct sandbox *sandbox, const char *value)
{
    const size_t length = strcspn(value, " ");
    if (strstr(value, "(Datagram)") != NULL && sandbox->listen_count < SANDBOX_PATHS_MAX &&
        length < SANDBOX_TEXT_BYTES && value[0] != '/')
        snprintf(sandbox->listen[sandbox->listen_count++], SANDBOX_TEXT_BYTES, "%.*s", (int)length,
                 value);
}

void sandbox_line(struct sandbox *sandbox, const char *line)
{
    const char *value = strchr(line, '=');
    char key[32];
    if (value == NULL || (size_t)(value - line) >= sizeof key)
        return;
    snprintf(key, sizeof key, "%.*s", (int)(value - line), line);
    value++;
    if (strcmp(key, "User") == 0)
        snprintf(sandbox->user, sizeof sandbox->user, "%s", value);
    else if (strcmp(key, "ProtectHome") == 0)
        snprintf(sandbox->home, sizeof sandbox->home, "%s", value);
    else if (strcmp(key, "ProtectSystem") == 0)
        snprintf(sandbox->system, sizeof sandbox->system, "%s", value);
    else if (strcmp(key, "PrivateTmp") == 0)
        sandbox->private_tmp = strcmp(value, "no") != 0;
    else if (strcmp(key, "ReadWritePaths") == 0)
        add_words(sandbox->writable, &sandbox->writable_count, "", value);
    else if (strcmp(key, "StateDirectory") == 0)
        add_words(sandbox->writable, &sandbox->writable_count, "/var/lib/", value);
    else if (strcmp(key, "CacheDirectory") == 0)
        add_words(sandbox->writable, &sandbox->writable_count, "/var/cache/", value);
    else if (strcmp(key, "RuntimeDirectory") == 0)
        add_words(sandbox->writable, &sandbox->writable_count, "/run/", value);
    else if (strcmp(key, "LogsDirectory") == 0)
        add_words(sandbox->writable, &sandbox->writable_count, "/var/log/", value);
    else if (strcmp(key, "BindPaths") == 0) {
        add_words(sandbox->writable, &sandbox->writable_count, "", value);
        add_words(sandbox->bound, &sandbox->bound_count, "", value);
    } else if (strcmp(key, "BindReadOnlyPaths") == 0)
        add_words(sandbox->bound, &sandbox->bound_count, "", value);
    else if (strcmp(key, "Listen") == 0)
        add_listen(sandbox, value);
}

/* Runs `systemctl show`; false: no such unit is loaded, or no systemd runs. */
static bool show(struct sandbox *sandbox, const char *unit, const char *keys, const char *wanted)
{
    char command[512], line[4096];
    bool found = false;
    snprintf(command, sizeof command, "systemctl show '%s' -p '%s' 2>/dev/null", unit, keys);
    FILE *out = popen(command, "re");
    while (out != NULL && fgets(line, sizeof line, out) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        found = found || strcmp(line, wanted) == 0;
        sandbox_line(sandbox, line);
    }
    return out != NULL && pclose(out) == 0 && found;
}

/* As systemd/convolvd.service has them. */
static void set_shipped(struct sandbox *sandbox, const char *suffix)
{
    char line[SANDBOX_TEXT_BYTES + 40];
    static const char *const directories[] = {"StateDirectory", "CacheDirectory",
                                              "RuntimeDirectory"};
    sandbox_line(sandbox, "User=convolvd");
    sandbox_line(sandbox, "ProtectHome=yes");
    sandbox_line(sandbox, "ProtectSystem=strict");
    sandbox_line(sandbox, "PrivateTmp=yes");
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        snprintf(line, sizeof line, "%s=convolvd%s", directories[i], suffix);
        sandbox_line(sandbox, line);
    }
}

/* NAME of /etc/convolvd/NAME.conf with a dash before it; "" for convolvd.conf and other files. */
static void find_suffix(const char *path, char suffix[SANDBOX_TEXT_BYTES])
{
    static const char folder[] = "/etc/convolvd/", ending[] = ".conf";
    const char *name = path + sizeof folder - 1;
    suffix[0] = '\0';
    if (strncmp(path, folder, sizeof folder - 1) != 0 || strlen(name) <= sizeof ending - 1)
        return;
    const size_t length = strlen(name) - (sizeof ending - 1);
    if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") ==
            strlen(name) &&
        strcmp(name + length, ending) == 0 && length < SANDBOX_TEXT_BYTES - 1 &&
        strcmp(name, "convolvd.conf") != 0)
        snprintf(suffix, SANDBOX_TEXT_BYTES, "-%.*s", (int)length, name);
}

void sandbox_learn(const char *config_path, struct sandbox *out)
{
    char suffix[SANDBOX_TEXT_BYTES];
    *out = (struct sandbox){0};
    find_suffix(config_path, suffix);
    snprintf(out->unit, sizeof out->unit, "convolvd%s%s.service", suffix[0] != '\0' ? "@" : "",
             suffix[0] != '\0' ? suffix + 1 : "");
    struct sandbox shown = *out;
    if (show(&shown, out->unit,
             "LoadState,User,ProtectHome,ProtectSystem,PrivateTmp,ReadWritePaths,StateDirectory,"
             "CacheDirectory,RuntimeDirectory,LogsDirectory,BindPaths,BindReadOnlyPaths",
             "LoadState=loaded"))
        *out = shown;
    else
        set_shipped(out, suffix);
    shown = *out;
    if (suffix[0] == '\0' &&
        (show(&shown, "convolvd.socket", "Listen,ActiveState", "ActiveState=active") ||
         show(out, "convolvd.socket", "UnitFileState", "UnitFileState=enabled")))
        *out = shown;
}

/* ---- the real user ----------------------------------------------------------------------- */

/* In a child of this user; as somebody else than root nothing can be said. */
static bool real_may(const char *name, const char *path, bool write, bool *missing)
{
    const struct passwd *user = getpwnam(name);
    int status = 0;
    *missing = access(path, F_OK) != 0;
    if (*missing || geteuid() != 0 || user == NULL)
        return true;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (initgroups(name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 ||
            setuid(user->pw_uid) != 0)
            _exit(0);
        _exit(access(path, write ? W_OK | X_OK : R_OK) == 0 ? 0 : 1);
    }
    return child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
           WEXITSTATUS(status) == 0;
}

static const struct sandbox_host real_host = {.may = real_may};

/* ---- checks ------------------------------------------------------------------------------ */

static bool is_below(const char *path, const char *folder)
{
    const size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static bool is_in(const char *path, const char list[][SANDBOX_PATH_BYTES], unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (is_below(path, list[i]))
            return true;
    return false;
}

static bool is_home(const char *path)
{
    return is_below(path, "/home") || is_below(path, "/root") || is_below(path, "/run/user");
}

/* The folder of a file that is written, the file itself else; links are followed. */
static void find_target(const struct config_path *path, char target[PATH_MAX])
{
    char whole[PATH_MAX], *slash;
    snprintf(target, PATH_MAX, "%s", path->path);
    if (path->written && !path->folder && (slash = strrchr(target, '/')) != NULL)
        *(slash > target ? slash : slash + 1) = '\0';
    else if (path->written && !path->folder)
        snprintf(target, PATH_MAX, ".");
    if (realpath(target, whole) != NULL)
        snprintf(target, PATH_MAX, "%s", whole);
}

static void check_path(const struct config_path *path, const struct sandbox *sandbox,
                       const struct sandbox_host *host, struct config_errors *errors)
{
    char target[PATH_MAX];
    bool missing = false;
    find_target(path, target);
    const bool bound = is_in(target, sandbox->bound, sandbox->bound_count);
    const bool hidden = strcmp(sandbox->home, "yes") == 0 || strcmp(sandbox->home, "tmpfs") == 0;
    const bool tmp = is_below(target, "/tmp") || is_below(target, "/var/tmp");
    if (hidden && !bound && is_home(target))
        config_error(errors, path->place,
                     "`%s`: the service does not see %s (ProtectHome=%s in %s); move it to "
                     "/etc/convolvd or /var/lib/convolvd, or write BindPaths=%s into a drop-in: "
                     "systemctl edit %s",
                     path->key, target, sandbox->home, sandbox->unit, target, sandbox->unit);
    else if (sandbox->private_tmp && !bound && tmp)
        config_error(errors, path->place,
                     "`%s`: the service has a /tmp of its own (PrivateTmp=yes in %s) and does not "
                     "see %s; move it to /etc/convolvd or /var/lib/convolvd",
                     path->key, sandbox->unit, target);
    else if (path->written && !tmp &&
             (strcmp(sandbox->system, "strict") == 0 ||
              (is_home(target) && strcmp(sandbox->home, "read-only") == 0)) &&
             !is_in(target, sandbox->writable, sandbox->writable_count))
        config_error(errors, path->place,
                     "`%s`: the service may not write into %s (ProtectSystem=%s in %s); write into "
                     "%s, or ReadWritePaths=%s into a drop-in: systemctl edit %s",
                     path->key, target, sandbox->system, sandbox->unit,
                     sandbox->writable_count > 0 ? sandbox->writable[0] : "its StateDirectory=",
                     target, sandbox->unit);
    else if (!host->may(sandbox->user, target, path->written, &missing) && !missing)
        config_error(errors, path->place,
                     "`%s`: the service's user %s may not %s %s; change its owner or permissions",
                     path->key, sandbox->user, path->written ? "write into" : "read", target);
}

static const char *port_of(const char *address)
{
    const char *colon = strrchr(address, ':');
    return colon != NULL ? colon + 1 : address;
}

/* Every own address, in any spelling. */
static bool is_wildcard(const char *address)
{
    return strncmp(address, "*:", 2) == 0 || strncmp(address, "[::]:", 5) == 0 ||
           strncmp(address, "0.0.0.0:", 8) == 0;
}

/* A socket that systemd holds for an address that no stream has receives for nobody. */
static void check_listen(const struct config *config, const struct sandbox *sandbox,
                         const char *listen, struct config_errors *errors)
{
    const struct config_path *near = NULL;
    for (unsigned i = 0; i < config->path_count; i++) {
        const struct config_path *address = &config->paths[i];
        if (!address->received || strcmp(port_of(address->path), port_of(listen)) != 0)
            continue;
        if (strcmp(address->path, listen) == 0 ||
            (is_wildcard(address->path) && is_wildcard(listen)))
            return;
        near = address;
    }
    if (near != NULL)
        config_error(errors, near->place,
                     "`%s = %s`, but convolvd.socket holds %s; write the same address here and as "
                     "ListenDatagram= in the socket unit: systemctl edit convolvd.socket",
                     near->key, near->path, listen);
    else
        config_error(errors, (struct config_place){config->path, 0},
                     "convolvd.socket holds %s, which no stream receives from; write it as a "
                     "stream's `address`, or take it out: systemctl edit convolvd.socket",
                     listen);
    (void)sandbox;
}

void sandbox_check(const struct config *config, const struct sandbox *sandbox,
                   const struct sandbox_host *host, struct config_errors *errors)
{
    for (unsigned i = 0; i < config->path_count; i++)
        if (!config->paths[i].received)
            check_path(&config->paths[i], sandbox, host != NULL ? host : &real_host, errors);
    for (unsigned i = 0; i < sandbox->listen_count; i++)
        check_listen(config, sandbox, sandbox->listen[i], errors);
}
