/* Connection: see connection.h. */
#include "io/nats/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"

enum {
    PING_MS = 500, /* two without an answer: the server is dead */
    PINGS_OUT = 2,
    CONNECT_MS = 1000,
    WRITE_MS = 2000,
    CLOSE_S = 2,
    CREDENTIALS_BYTES = 16384,
};

/* ---- libnats' threads -------------------------------------------------------------------- */

static void on_message(natsConnection *connection, natsSubscription *subscription, natsMsg *message,
                       void *context)
{
    (void)connection;
    (void)subscription;
    struct nats_connection *c = context;
    c->message(c->context, message);
}

static void on_disconnected(natsConnection *connection, void *context)
{
    (void)connection;
    struct nats_connection *c = context;
    atomic_store(&c->connected, false);
    c->changed(c->context);
}

static void on_closed(natsConnection *connection, void *context)
{
    (void)connection;
    struct nats_connection *c = context;
    atomic_store(&c->connected, false);
    atomic_store(&c->lost, true);
    c->changed(c->context);
    sem_post(&c->closed); /* last: nothing is touched any more */
}

static void on_complete(void *context)
{
    struct nats_connection *c = context;
    sem_post(&c->completed);
}

/* A connection's owner learns from outcomes what went wrong with it, except what the servers do not
 * permit: that has no outcome. */
static void on_error(natsConnection *connection, natsSubscription *subscription, natsStatus status,
                     void *context)
{
    (void)connection;
    (void)subscription;
    struct nats_connection *c = context;
    if (status != NATS_NOT_PERMITTED)
        return;
    atomic_store(&c->denied, true);
    c->changed(c->context);
}

/* ---- servers ----------------------------------------------------------------------------- */

/* Cuts the configured list into its URLs; false: it has none, or too many. */
static bool cut_servers(struct nats_connection *c)
{
    char *save = NULL;
    if (snprintf(c->text, sizeof c->text, "%s", c->servers.servers) >= (int)sizeof c->text)
        return false;
    for (char *word = strtok_r(c->text, ", \t", &save); word != NULL;
         word = strtok_r(NULL, ", \t", &save)) {
        if (c->count == NATS_SERVERS_MAX)
            return false;
        c->list[c->count++] = word;
    }
    return c->count > 0;
}

int nats_connection_servers(const struct nats_connection *c)
{
    return c->count + c->announced_count;
}

static const char *server_at(const struct nats_connection *c, int at)
{
    return at < c->count ? c->list[at] : c->announced[at - c->count];
}

/* HOST:PORT of a URL, without a password that stands in it. */
static const char *host_of(const char *url)
{
    const char *host = strstr(url, "://");
    host = host != NULL ? host + 3 : url;
    const char *user = strrchr(host, '@');
    return user != NULL ? user + 1 : host;
}

/* The host alone, where it is a name and no address. */
static void note_name(struct nats_connection *c, const char *url)
{
    unsigned char address[sizeof(struct in6_addr)];
    char host[NATS_SUBJECT_BYTES];
    snprintf(host, sizeof host, "%s", host_of(url));
    host[strcspn(host, ":/")] = '\0';
    const bool name = host[0] != '[' && inet_pton(AF_INET, host, address) != 1;
    snprintf(c->tls_name, sizeof c->tls_name, "%s", name ? host : "");
}

static bool is_known(const struct nats_connection *c, const char *url)
{
    for (int i = 0; i < nats_connection_servers(c); i++)
        if (strcmp(host_of(server_at(c, i)), host_of(url)) == 0)
            return true;
    return false;
}

/* Keeps the servers that the connected one has announced. */
static void note_servers(struct nats_connection *c)
{
    char **urls = NULL;
    int count = 0;
    if (c->connection == NULL ||
        natsConnection_GetDiscoveredServers(c->connection, &urls, &count) != NATS_OK)
        return;
    for (int i = 0; i < count; i++) {
        if (!is_known(c, urls[i]) && c->announced_count < NATS_SERVERS_MAX)
            snprintf(c->announced[c->announced_count++], NATS_SUBJECT_BYTES, "%s", urls[i]);
        free(urls[i]);
    }
    free(urls);
}

/* ---- options of an attempt --------------------------------------------------------------- */

/* The one line "user:password" of a file of credentials, cut in two; false: there is none. */
static bool cut_password(char *text, char **user, char **password)
{
    text += strspn(text, "\r\n");
    text[strcspn(text, "\r\n")] = '\0';
    char *colon = strchr(text, ':');
    if (colon == NULL)
        return false;
    *colon = '\0';
    *user = text;
    *password = colon + 1;
    return **user != '\0';
}

static natsStatus set_credentials(natsOptions *options, const char *path)
{
    static const char jwt[] = "-----BEGIN NATS USER JWT-----";
    char text[CREDENTIALS_BYTES], *user, *password;
    if (path == NULL)
        return NATS_OK;
    FILE *file = fopen(path, "re");
    const size_t count = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    text[count] = '\0';
    natsStatus status = NATS_INVALID_ARG;
    if (strstr(text, jwt) != NULL)
        status = natsOptions_SetUserCredentialsFromFiles(options, path, NULL);
    else if (cut_password(text, &user, &password))
        status = natsOptions_SetUserInfo(options, user, password);
    explicit_bzero(text, sizeof text);
    return status;
}

static natsStatus set_times(natsOptions *options)
{
    natsStatus s = natsOptions_SetPingInterval(options, PING_MS);
    s = s != NATS_OK ? s : natsOptions_SetMaxPingsOut(options, PINGS_OUT);
    s = s != NATS_OK ? s : natsOptions_SetTimeout(options, CONNECT_MS);
    s = s != NATS_OK ? s : natsOptions_SetAllowReconnect(options, false);
    s = s != NATS_OK ? s : natsOptions_SetWriteDeadline(options, WRITE_MS);
    return s != NATS_OK ? s : natsOptions_SetSendAsap(options, true);
}

static natsStatus set_callbacks(natsOptions *options, struct nats_connection *c)
{
    natsStatus s = natsOptions_UseGlobalMessageDelivery(options, true);
    s = s != NATS_OK ? s : natsOptions_SetDisconnectedCB(options, on_disconnected, c);
    s = s != NATS_OK ? s : natsOptions_SetErrorHandler(options, on_error, c);
    return s != NATS_OK ? s : natsOptions_SetClosedCB(options, on_closed, c);
}

/* Of an announced server, which another one has vouched for. */
static natsStatus set_tls_name(const struct nats_connection *c, natsOptions *options, int at)
{
    return at < c->count || c->tls_name[0] == '\0'
               ? NATS_OK
               : natsOptions_SetExpectedHostname(options, c->tls_name);
}

/* The options of an attempt at a server, from what the files hold now; the caller's. */
static int make_options(struct nats_connection *c, int at, natsOptions **options,
                        struct problem *problem)
{
    *options = NULL;
    if (natsOptions_Create(options) != NATS_OK || set_times(*options) != NATS_OK ||
        natsOptions_SetName(*options, c->name) != NATS_OK || set_callbacks(*options, c) != NATS_OK)
        return problem_set(problem, ERROR_MEMORY, "%s: out of memory", c->name);
    if (set_credentials(*options, c->servers.credentials) != NATS_OK)
        return problem_set(problem, ERROR_CONFIG,
                           "%s: %s holds no credentials; it needs a line USER:PASSWORD, or a "
                           "user's JWT and seed",
                           c->name, c->servers.credentials);
    if (c->servers.ca != NULL &&
        (natsOptions_SetSecure(*options, true) != NATS_OK ||
         natsOptions_LoadCATrustedCertificates(*options, c->servers.ca) != NATS_OK))
        return problem_set(problem, ERROR_CONFIG, "%s: %s holds no certificates: %s", c->name,
                           c->servers.ca, nats_GetLastError(NULL));
    if (natsOptions_SetURL(*options, server_at(c, at)) != NATS_OK ||
        set_tls_name(c, *options, at) != NATS_OK)
        return problem_set(problem, ERROR_MEMORY, "%s: out of memory", c->name);
    return 0;
}

int nats_connection_open(struct nats_connection *c, const struct nats_servers *servers,
                         const char *name, struct problem *problem)
{
    sem_init(&c->completed, 0, 0);
    sem_init(&c->closed, 0, 0);
    c->servers = *servers;
    c->name = name;
    atomic_store(&c->lost, true);
    if (nats_Open(-1) != NATS_OK || nats_SetMessageDeliveryPoolSize(1) != NATS_OK)
        return problem_set(problem, ERROR_MEMORY, "%s: NATS' library cannot begin", name);
    if (!cut_servers(c))
        return problem_set(problem, ERROR_CONFIG,
                           "%s: \"%s\" are no addresses of NATS servers; write at most %d of the "
                           "form nats://host:port, with commas",
                           name, servers->servers, NATS_SERVERS_MAX);
    natsOptions *options;
    const int error = make_options(c, 0, &options, problem);
    natsOptions_Destroy(options);
    if (error != 0)
        return error;
    natsInbox *inbox = NULL;
    if (natsInbox_Create(&inbox) != NATS_OK)
        return problem_set(problem, ERROR_MEMORY, "%s: out of memory", name);
    snprintf(c->inbox, sizeof c->inbox, "%s", inbox);
    natsInbox_Destroy(inbox);
    /* Clients spread over the servers. */
    c->at = (int)((uint64_t)clock_monotonic_ns() / 1000 % (uint64_t)c->count);
    return 0;
}

/* ---- the publishing thread --------------------------------------------------------------- */

static bool wait_for(sem_t *semaphore)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_S;
    int result;
    while ((result = sem_timedwait(semaphore, &until)) != 0 && errno == EINTR)
        continue;
    return result == 0;
}

/* False: it does not end. */
static bool drop(struct nats_connection *c, natsSubscription **subscription)
{
    if (*subscription == NULL)
        return true;
    natsSubscription_Unsubscribe(*subscription);
    const bool complete = wait_for(&c->completed);
    natsSubscription_Destroy(*subscription);
    *subscription = NULL;
    return complete;
}

static void subscribe(struct nats_connection *c, enum nats_interest interest)
{
    natsSubscription **at = &c->subscriptions[interest];
    if (c->subjects[interest][0] == '\0' || c->connection == NULL ||
        natsConnection_Subscribe(at, c->connection, c->subjects[interest], on_message, c) !=
            NATS_OK)
        return;
    natsSubscription_SetPendingLimits(*at, -1, -1);
    natsSubscription_SetOnCompleteCB(*at, on_complete, c);
}

void nats_connection_subscribe(struct nats_connection *c, enum nats_interest interest,
                               const char *subject)
{
    drop(c, &c->subscriptions[interest]);
    snprintf(c->subjects[interest], sizeof c->subjects[interest], "%s",
             subject != NULL ? subject : "");
    subscribe(c, interest);
}

/* Ends what libnats still has of the connection; false: it does not end. */
static bool end(struct nats_connection *c)
{
    bool ended = true;
    if (c->connection == NULL)
        return true;
    for (int i = 0; i < NATS_INTERESTS; i++)
        ended = drop(c, &c->subscriptions[i]) && ended;
    natsConnection_Close(c->connection);
    ended = wait_for(&c->closed) && ended;
    natsConnection_Destroy(c->connection);
    c->connection = NULL;
    return ended;
}

/* The reason for which a server did not let this connection in. */
static enum nats_attempt fail(const struct nats_connection *c, natsStatus status,
                              struct problem *problem)
{
    natsStatus said_of = NATS_OK;
    const char *host = host_of(server_at(c, c->at)), *said = nats_GetLastError(&said_of),
               *path = c->servers.credentials;
    said = said != NULL && said_of == status ? said : natsStatus_GetText(status);
    switch (status) {
    case NATS_CONNECTION_AUTH_FAILED:
    case NATS_NOT_PERMITTED:
        if (path != NULL)
            problem_set(problem, ERROR_CONFIG,
                        "%s refuses the user of %s: %s; correct the file, which is read at each "
                        "attempt",
                        host, path, said);
        else
            problem_set(problem, ERROR_CONFIG,
                        "%s refuses a user without credentials: %s; write `credentials`, the file "
                        "that holds them",
                        host, said);
        return NATS_ATTEMPT_REFUSED;
    case NATS_SECURE_CONNECTION_REQUIRED:
    case NATS_SECURE_CONNECTION_WANTED:
    case NATS_SSL_ERROR:
        problem_set(problem, ERROR_CONFIG, "no TLS with %s: %s; see `ca`", host, said);
        return NATS_ATTEMPT_REFUSED;
    case NATS_ERR: /* the server's own words: too many connections, an unknown account */
        problem_set(problem, ERROR_SYSTEM, "%s refuses the connection: %s", host, said);
        return NATS_ATTEMPT_REFUSED;
    case NATS_NO_SERVER:
        problem_set(problem, ERROR_SYSTEM, "%s does not answer", host);
        return NATS_ATTEMPT_AWAY;
    default:
        problem_set(problem, ERROR_SYSTEM, "%s does not answer: %s", host, said);
        return NATS_ATTEMPT_AWAY;
    }
}

enum nats_attempt nats_connection_begin(struct nats_connection *c, struct problem *problem)
{
    natsOptions *options;
    note_servers(c);
    if (!end(c)) {
        problem_set(problem, ERROR_SYSTEM, "the connection before does not end");
        atomic_store(&c->lost, true);
        return NATS_ATTEMPT_STUCK;
    }
    c->at = (c->at + 1) % nats_connection_servers(c);
    atomic_store(&c->lost, false);
    if (make_options(c, c->at, &options, problem) != 0) {
        natsOptions_Destroy(options);
        atomic_store(&c->lost, true);
        return NATS_ATTEMPT_REFUSED;
    }
    const natsStatus status = natsConnection_Connect(&c->connection, options);
    natsOptions_Destroy(options);
    if (status != NATS_OK) {
        c->connection = NULL;
        atomic_store(&c->lost, true);
        return fail(c, status, problem);
    }
    if (c->at < c->count)
        note_name(c, c->list[c->at]);
    snprintf(c->subjects[NATS_INBOX], sizeof c->subjects[NATS_INBOX], "%s.>", c->inbox);
    for (int i = 0; i < NATS_INTERESTS; i++)
        subscribe(c, (enum nats_interest)i);
    return NATS_ATTEMPT_CONNECTED;
}

void nats_connection_ready(struct nats_connection *c)
{
    atomic_fetch_add(&c->connections, 1);
    atomic_store(&c->connected, true);
    if (atomic_load(&c->lost)) /* it has ended meanwhile */
        atomic_store(&c->connected, false);
    c->changed(c->context);
}

bool nats_connection_denial(struct nats_connection *c, struct problem *problem)
{
    const char *said = NULL;
    if (!atomic_exchange(&c->denied, false) || c->connection == NULL ||
        natsConnection_GetLastError(c->connection, &said) == NATS_OK || said == NULL)
        return false;
    problem_set(problem, ERROR_CONFIG, "%s does not permit this user what it needs: %s",
                host_of(server_at(c, c->at)), said);
    return true;
}

bool nats_connection_send(struct nats_connection *c, natsMsg *message)
{
    const bool sent = c->connection != NULL && atomic_load(&c->connected) &&
                      natsConnection_PublishMsg(c->connection, message) == NATS_OK;
    natsMsg_Destroy(message);
    return sent;
}

bool nats_connection_close(struct nats_connection *c)
{
    const bool ended = end(c);
    nats_ReleaseThreadMemory();
    if (ended) {
        sem_destroy(&c->completed);
        sem_destroy(&c->closed);
    }
    return ended;
}
