/*
 * The least a program between two UDP ports can do: recvmmsg, sendmmsg, nothing in between. What
 * the daemon's rate is held against; --trains: with UDP_GRO and UDP_SEGMENT.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/udp.h"

enum { DATAGRAMS = 1024 };

struct gathered {
    struct iovec vectors[DATAGRAMS];
    unsigned count;
    bool overflow;
};

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static void gather(void *context, const uint8_t *datagram, size_t bytes, int64_t receive_ns)
{
    struct gathered *gathered = context;
    (void)receive_ns;
    gathered->overflow |= gathered->count == DATAGRAMS;
    if (gathered->count < DATAGRAMS)
        gathered->vectors[gathered->count++] = (struct iovec){(void *)(uintptr_t)datagram, bytes};
}

int main(int argc, char **argv)
{
    const bool offload = argc == 4 && strcmp(argv[3], "--trains") == 0;
    if (argc != 3 && !offload) {
        fputs("usage: echo_bare LISTEN-PORT TO-PORT [--trains]\n", stderr);
        return 2;
    }
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    const int in = udp_socket((uint16_t)atoi(argv[1]), true, offload);
    const int out = udp_socket((uint16_t)atoi(argv[2]), false, offload);
    struct udp_reader *reader = udp_reader_open(in, offload);
    if (in < 0 || out < 0 || reader == NULL) {
        fprintf(stderr, "echo_bare: %s\n", strerror(errno));
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    static struct gathered gathered;
    while (!stopping && !gathered.overflow) {
        gathered.count = 0;
        udp_read(reader, gather, &gathered);
        udp_send(out, gathered.vectors, gathered.count, 1, offload);
    }
    udp_reader_close(reader);
    return gathered.overflow;
}
