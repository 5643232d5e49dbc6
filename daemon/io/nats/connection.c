/* Connection: see connection.h. */
#include "io/nats/connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PING_MS = 500, /* two without an answer: the server is dead */
    PINGS_OUT = 2,
    CONNECT_MS = 1000,
    AGAIN_MS = 100,
    WRITE_MS = 2000,
    CLOSE_S = 2,
    CREDENTIALS_BYTES = 16384,
    SERVERS_BYTES = 4096,
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

static void on_connected(natsConnection *connection, void *context)
{
    (void)connection;
    struct nats_connection *c = context;
    atomic_fetch_add(&c->connections, 1);
    atomic_store(&c->connected, true);
    c->changed(c->context);
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

/* What libnats would print: an owner that acts on it learns it otherwise. */
static void on_error(natsConnection *connection, natsSubscription *subscription, natsStatus status,
                     void *context)
{
    (void)connection;
    (void)subscription;
    (void)status;
    (void)context;
}

/* ---- opening ----------------------------------------------------------------------------- */

/* The one line "user:password" of a file of credentials, cut in two; false: there is none. */
static bool cut_password(char *text, char **user, char **password)
{
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

/* The server at `last`, HOST:PORT, becomes the last of the list; NULL: any order. */
static natsStatus set_servers(natsOptions *options, const char *servers, const char *last)
{
    char text[SERVERS_BYTES], *save = NULL;
    const char *list[NATS_SERVERS_MAX], *other = NULL;
    int count = 0;
    if (snprintf(text, sizeof text, "%s", servers) >= (int)sizeof text)
        return NATS_INVALID_ARG;
    for (char *word = strtok_r(text, ", \t", &save); word != NULL;
         word = strtok_r(NULL, ", \t", &save)) {
        if (count + (other != NULL) == NATS_SERVERS_MAX)
            return NATS_INVALID_ARG;
        if (last != NULL && other == NULL && strstr(word, last) != NULL)
            other = word;
        else
            list[count++] = word;
    }
    if (other != NULL)
        list[count++] = other;
    return count > 0 ? natsOptions_SetServers(options, list, count) : NATS_INVALID_ARG;
}

void nats_connection_elsewhere(struct nats_connection *c, const struct nats_servers *servers)
{
    char url[NATS_SUBJECT_BYTES] = "";
    if (c->connection == NULL ||
        natsConnection_GetConnectedUrl(c->connection, url, sizeof url) != NATS_OK)
        return;
    const char *host = strstr(url, "://");
    host = host != NULL ? host + 3 : url;
    if (*host != '\0' && set_servers(c->options, servers->servers, host) == NATS_OK)
        natsOptions_SetNoRandomize(c->options, true);
}

static natsStatus set_times(natsOptions *options)
{
    natsStatus s = natsOptions_SetPingInterval(options, PING_MS);
    s = s != NATS_OK ? s : natsOptions_SetMaxPingsOut(options, PINGS_OUT);
    s = s != NATS_OK ? s : natsOptions_SetTimeout(options, CONNECT_MS);
    s = s != NATS_OK ? s : natsOptions_SetAllowReconnect(options, true);
    s = s != NATS_OK ? s : natsOptions_SetMaxReconnect(options, -1);
    s = s != NATS_OK ? s : natsOptions_SetReconnectWait(options, AGAIN_MS);
    s = s != NATS_OK ? s : natsOptions_SetReconnectJitter(options, 1, 1);
    s = s != NATS_OK ? s : natsOptions_SetReconnectBufSize(options, 0);
    s = s != NATS_OK ? s : natsOptions_SetWriteDeadline(options, WRITE_MS);
    return s != NATS_OK ? s : natsOptions_SetSendAsap(options, true);
}

static natsStatus set_callbacks(natsOptions *options, struct nats_connection *c)
{
    natsStatus s = natsOptions_UseGlobalMessageDelivery(options, true);
    s = s != NATS_OK ? s : natsOptions_SetRetryOnFailedConnect(options, true, on_connected, c);
    s = s != NATS_OK ? s : natsOptions_SetReconnectedCB(options, on_connected, c);
    s = s != NATS_OK ? s : natsOptions_SetDisconnectedCB(options, on_disconnected, c);
    s = s != NATS_OK ? s : natsOptions_SetErrorHandler(options, on_error, c);
    return s != NATS_OK ? s : natsOptions_SetClosedCB(options, on_closed, c);
}

int nats_connection_open(struct nats_connection *c, const struct nats_servers *servers,
                         const char *name, struct problem *problem)
{
    sem_init(&c->completed, 0, 0);
    sem_init(&c->closed, 0, 0);
    if (nats_Open(-1) != NATS_OK || nats_SetMessageDeliveryPoolSize(1) != NATS_OK ||
        natsOptions_Create(&c->options) != NATS_OK)
        return problem_set(problem, ERROR_MEMORY, "%s: NATS' library cannot begin", name);
    if (set_servers(c->options, servers->servers, NULL) != NATS_OK)
        return problem_set(problem, ERROR_CONFIG,
                           "%s: \"%s\" are no addresses of NATS servers; write at most %d of the "
                           "form nats://host:port, with commas",
                           name, servers->servers, NATS_SERVERS_MAX);
    if (set_credentials(c->options, servers->credentials) != NATS_OK)
        return problem_set(problem, ERROR_CONFIG,
                           "%s: %s holds no credentials; it needs a line USER:PASSWORD, or a "
                           "user's JWT and seed",
                           name, servers->credentials);
    if (servers->ca != NULL &&
        (natsOptions_SetSecure(c->options, true) != NATS_OK ||
         natsOptions_LoadCATrustedCertificates(c->options, servers->ca) != NATS_OK))
        return problem_set(problem, ERROR_CONFIG, "%s: %s holds no certificates: %s", name,
                           servers->ca, nats_GetLastError(NULL));
    if (natsOptions_SetName(c->options, name) != NATS_OK || set_times(c->options) != NATS_OK ||
        set_callbacks(c->options, c) != NATS_OK)
        return problem_set(problem, ERROR_MEMORY, "%s: out of memory", name);
    natsInbox *inbox = NULL;
    if (natsInbox_Create(&inbox) != NATS_OK)
        return problem_set(problem, ERROR_MEMORY, "%s: out of memory", name);
    snprintf(c->inbox, sizeof c->inbox, "%s", inbox);
    natsInbox_Destroy(inbox);
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

bool nats_connection_begin(struct nats_connection *c, struct problem *problem)
{
    const char *reason = NULL;
    if (c->connection != NULL && natsConnection_GetLastError(c->connection, &reason) != NATS_OK &&
        reason != NULL)
        problem_set(problem, ERROR_SYSTEM, "%s", reason);
    if (!end(c))
        return false;
    atomic_store(&c->lost, false);
    const natsStatus status = natsConnection_Connect(&c->connection, c->options);
    if (status != NATS_OK && status != NATS_NOT_YET_CONNECTED) {
        problem_set(problem, ERROR_SYSTEM, "%s", natsStatus_GetText(status));
        atomic_store(&c->lost, true);
        return false;
    }
    snprintf(c->subjects[NATS_INBOX], sizeof c->subjects[NATS_INBOX], "%s.>", c->inbox);
    for (int i = 0; i < NATS_INTERESTS; i++)
        subscribe(c, (enum nats_interest)i);
    if (status == NATS_OK) /* no callback tells of the first, when it succeeds at once */
        on_connected(c->connection, c);
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
    natsOptions_Destroy(c->options);
    c->options = NULL;
    nats_ReleaseThreadMemory();
    if (ended) {
        sem_destroy(&c->completed);
        sem_destroy(&c->closed);
    }
    return ended;
}
