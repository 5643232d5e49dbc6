/*
 * The least a program between two logs of one NATS server can do: an ordered consumer of one, and
 * an append to the other for each message, 32 of them unacknowledged at most. What a worker's rate
 * and delay are held against.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include <nats/nats.h>

enum { PENDING = 32, STALL_MS = 10000 };

struct echo {
    jsCtx *context;
    const char *to;
};

static void on_message(natsConnection *connection, natsSubscription *subscription, natsMsg *message,
                       void *closure)
{
    (void)connection;
    (void)subscription;
    const struct echo *echo = closure;
    natsMsg *copy = NULL;
    natsStatus status = natsMsg_Create(&copy, echo->to, NULL, natsMsg_GetData(message),
                                       natsMsg_GetDataLength(message));
    if (status == NATS_OK)
        status = js_PublishMsgAsync(echo->context, &copy, NULL);
    if (status != NATS_OK)
        fprintf(stderr, "echo_nats: %s\n", natsStatus_GetText(status));
    natsMsg_Destroy(copy);
    natsMsg_Destroy(message);
}

static natsStatus open_echo(const char *url, const char *from, struct echo *echo,
                            natsConnection **connection, natsSubscription **subscription)
{
    natsOptions *options = NULL;
    jsOptions js;
    jsSubOptions ordered;
    jsOptions_Init(&js);
    jsSubOptions_Init(&ordered);
    js.PublishAsync.MaxPending = PENDING;
    js.PublishAsync.StallWait = STALL_MS;
    ordered.Ordered = true;
    natsStatus status = natsOptions_Create(&options);
    if (status == NATS_OK)
        status = natsOptions_SetURL(options, url);
    if (status == NATS_OK)
        status = natsOptions_SetSendAsap(options, true);
    if (status == NATS_OK)
        status = natsConnection_Connect(connection, options);
    if (status == NATS_OK)
        status = natsConnection_JetStream(&echo->context, *connection, &js);
    if (status == NATS_OK)
        status =
            js_Subscribe(subscription, echo->context, from, on_message, echo, NULL, &ordered, NULL);
    natsOptions_Destroy(options);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: echo_nats URL FROM-SUBJECT TO-SUBJECT\n", stderr);
        return 2;
    }
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* libnats' threads inherit it */
    struct echo echo = {.to = argv[3]};
    natsConnection *connection = NULL;
    natsSubscription *subscription = NULL;
    natsStatus status = open_echo(argv[1], argv[2], &echo, &connection, &subscription);
    if (status == NATS_OK) {
        int number;
        printf("ready\n");
        fflush(stdout);
        sigwait(&ends, &number);
    } else {
        fprintf(stderr, "echo_nats: %s\n", natsStatus_GetText(status));
    }
    natsSubscription_Destroy(subscription);
    natsConnection_Destroy(connection);
    jsCtx_Destroy(echo.context);
    nats_Close();
    return status == NATS_OK ? 0 : 1;
}
