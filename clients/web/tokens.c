/* Tokens and sessions: see tokens.h. */
#include "tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"

enum { FILE_BYTES_MAX = 64 << 10, SECRET_BYTES = 32 };

static const int64_t session_ns = 12 * 3600 * NS_PER_SECOND;

struct line {
    struct holder holder;
    uint8_t hash[SHA256_DIGEST_SIZE];
};

struct session {
    bool open;
    struct holder holder;
    uint8_t hash[SHA256_DIGEST_SIZE];
    int64_t used_ns;
};

struct tokens {
    char *path; /* NULL: none */
    struct line lines[TOKENS_MAX];
    unsigned count;
    struct session sessions[SESSIONS_MAX];
};

const char *role_name(enum role role)
{
    static const char *const names[] = {"none", "observe", "control"};
    return names[role];
}

/* ---- hexadecimal and hashes -------------------------------------------------------------- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(const char *text, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);
        if (low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return text[2 * count] == '\0';
}

static void write_hex(const uint8_t *bytes, size_t count, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * count] = '\0';
}

/* Of the text as it is presented. Longer ones than a token are cut: nobody's anyway. */
static void hash_of(const char *text, uint8_t hash[SHA256_DIGEST_SIZE])
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, strnlen(text, TOKEN_TEXT), (const uint8_t *)text);
    sha256_digest(&sha, SHA256_DIGEST_SIZE, hash);
}

static bool make_secret(char text[TOKEN_TEXT])
{
    uint8_t bytes[SECRET_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    write_hex(bytes, sizeof bytes, text);
    explicit_bzero(bytes, sizeof bytes);
    return true;
}

static bool good_name(const char *name)
{
    const size_t length =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.@");
    return length > 0 && length <= TOKEN_NAME_MAX && name[length] == '\0';
}

/* ---- the file ---------------------------------------------------------------------------- */

/* False: not a line of the form. */
static bool read_line(char *text, struct line *line)
{
    char *rest;
    const char *name = strtok_r(text, " \t", &rest), *role = strtok_r(NULL, " \t", &rest);
    const char *hash = strtok_r(NULL, " \t", &rest);
    if (hash == NULL || strtok_r(NULL, " \t", &rest) != NULL || !good_name(name) ||
        !read_hex(hash, line->hash, sizeof line->hash))
        return false;
    memcpy(line->holder.name, name, strlen(name) + 1);
    line->holder.role = strcmp(role, "control") == 0   ? ROLE_CONTROL
                        : strcmp(role, "observe") == 0 ? ROLE_OBSERVE
                                                       : ROLE_NONE;
    return line->holder.role != ROLE_NONE;
}

static int read_lines(struct tokens *tokens, char *text, struct problem *problem)
{
    unsigned number = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        number++;
        line[strcspn(line, "#\r")] = '\0';
        if (line[strspn(line, " \t")] == '\0')
            continue;
        if (tokens->count == TOKENS_MAX)
            return problem_set(problem, ERROR_LIMIT, "%s holds more than %d tokens", tokens->path,
                               TOKENS_MAX);
        if (!read_line(line, &tokens->lines[tokens->count++]))
            return problem_set(problem, ERROR_FORMAT,
                               "%s:%u: write NAME observe|control HASH, as convolv-web --new-token "
                               "prints it",
                               tokens->path, number);
    }
    return 0;
}

/* The whole file, terminated; NULL with the sentence. */
static char *read_file(const char *path, struct problem *problem)
{
    struct stat facts;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &facts) != 0) {
        problem_set(problem, ERROR_NO_FILE, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    char *text = NULL;
    if (!S_ISREG(facts.st_mode))
        problem_set(problem, ERROR_NO_FILE, "%s is no file", path);
    else if (facts.st_uid != 0 && facts.st_uid != geteuid())
        problem_set(problem, ERROR_NO_FILE,
                    "%s belongs to another user; give it to root or to that of convolv-web (chown)",
                    path);
    else if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        problem_set(problem, ERROR_NO_FILE, "others may change %s (mode %03o); run chmod go-w %s",
                    path, (unsigned)facts.st_mode & 0777u, path);
    else if ((text = malloc(FILE_BYTES_MAX)) == NULL)
        problem_set(problem, ERROR_MEMORY, "out of memory");
    const ssize_t got = text != NULL ? read(fd, text, FILE_BYTES_MAX - 1) : -1;
    close(fd);
    if (text == NULL)
        return NULL;
    if (got < 0 || memchr(text, '\0', (size_t)got) != NULL) {
        problem_set(problem, ERROR_FORMAT, "%s cannot be read as text", path);
        free(text);
        return NULL;
    }
    text[got] = '\0';
    return text;
}

static int read_tokens(struct tokens *tokens, struct problem *problem)
{
    char *text = read_file(tokens->path, problem);
    if (text == NULL)
        return problem->error;
    const int error = read_lines(tokens, text, problem);
    free(text);
    return error;
}

int tokens_open(const char *path, struct tokens **out, struct problem *problem)
{
    struct tokens *tokens = calloc(1, sizeof *tokens);
    if (tokens == NULL || (path != NULL && (tokens->path = strdup(path)) == NULL)) {
        free(tokens);
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    }
    const int error = path != NULL ? read_tokens(tokens, problem) : 0;
    if (error < 0) {
        tokens_close(tokens);
        return error;
    }
    *out = tokens;
    return 0;
}

int tokens_reload(struct tokens *tokens, struct problem *problem)
{
    struct tokens *fresh;
    const int error = tokens_open(tokens->path, &fresh, problem);
    if (error < 0)
        return error;
    memcpy(tokens->lines, fresh->lines, sizeof tokens->lines);
    tokens->count = fresh->count;
    tokens_close(fresh);
    for (unsigned s = 0; s < SESSIONS_MAX; s++) {
        struct session *session = &tokens->sessions[s];
        bool listed = false;
        for (unsigned i = 0; i < tokens->count; i++)
            listed |= tokens->lines[i].holder.role == session->holder.role &&
                      strcmp(tokens->lines[i].holder.name, session->holder.name) == 0;
        if (!listed)
            memset(session, 0, sizeof *session);
    }
    return 0;
}

void tokens_close(struct tokens *tokens)
{
    if (tokens == NULL)
        return;
    free(tokens->path);
    free(tokens);
}

unsigned tokens_count(const struct tokens *tokens)
{
    return tokens->count;
}

bool tokens_find(const struct tokens *tokens, const char *token, struct holder *holder)
{
    uint8_t hash[SHA256_DIGEST_SIZE];
    bool found = false;
    hash_of(token, hash);
    for (unsigned i = 0; i < tokens->count; i++) {
        if (memeql_sec(hash, tokens->lines[i].hash, sizeof hash)) {
            *holder = tokens->lines[i].holder;
            found = true;
        }
    }
    return found;
}

/* ---- sessions ---------------------------------------------------------------------------- */

/* A free entry, else the one unused longest. */
static struct session *take_entry(struct tokens *tokens)
{
    struct session *oldest = &tokens->sessions[0];
    for (unsigned i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = &tokens->sessions[i];
        if (!session->open)
            return session;
        if (session->used_ns < oldest->used_ns)
            oldest = session;
    }
    return oldest;
}

static struct session *find_session(struct tokens *tokens, const char *cookie)
{
    uint8_t hash[SHA256_DIGEST_SIZE];
    struct session *found = NULL;
    hash_of(cookie, hash);
    for (unsigned i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = &tokens->sessions[i];
        const int equal = memeql_sec(hash, session->hash, sizeof hash);
        if (session->open && equal)
            found = session;
    }
    return found;
}

bool tokens_login(struct tokens *tokens, const struct holder *holder, int64_t now_ns,
                  char cookie[TOKEN_TEXT])
{
    if (!make_secret(cookie))
        return false;
    struct session *session = take_entry(tokens);
    *session = (struct session){.open = true, .holder = *holder, .used_ns = now_ns};
    hash_of(cookie, session->hash);
    return true;
}

bool tokens_session(struct tokens *tokens, const char *cookie, int64_t now_ns,
                    struct holder *holder)
{
    struct session *session = find_session(tokens, cookie);
    if (session == NULL)
        return false;
    if (now_ns - session->used_ns > session_ns) {
        memset(session, 0, sizeof *session);
        return false;
    }
    session->used_ns = now_ns;
    *holder = session->holder;
    return true;
}

void tokens_logout(struct tokens *tokens, const char *cookie)
{
    struct session *session = find_session(tokens, cookie);
    if (session != NULL)
        memset(session, 0, sizeof *session);
}

int tokens_make(const char *name, enum role role, char token[TOKEN_TEXT], char line[256],
                struct problem *problem)
{
    uint8_t hash[SHA256_DIGEST_SIZE];
    char hex[2 * SHA256_DIGEST_SIZE + 1];
    if (!good_name(name))
        return problem_set(problem, ERROR_ARGUMENT,
                           "%s: a name consists of 1 to %d letters, digits, _, -, ., @", name,
                           TOKEN_NAME_MAX);
    if (!make_secret(token))
        return problem_set(problem, ERROR_SYSTEM, "getrandom: %s", strerror(errno));
    hash_of(token, hash);
    write_hex(hash, sizeof hash, hex);
    snprintf(line, 256, "%s %s %s", name, role_name(role), hex);
    return 0;
}
