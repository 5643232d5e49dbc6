/*
 * Internals of libconvolv: errors and addresses, shared by its files and hidden from its users.
 * Names begin with convolv__. No state; any thread.
 */
#ifndef CONVOLV_INTERNAL_H
#define CONVOLV_INTERNAL_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "convolv.h"

/* Fills `problem` (may be NULL) and returns `error`. */
int convolv__problem(struct convolv_problem *problem, enum convolv_error error, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));

/* clang's analyser reads one file at a time; without this it does not know what the function
 * returns. */
#ifdef __clang_analyzer__
#define convolv__problem(problem, error, ...)                                                      \
    (convolv__problem(problem, error, __VA_ARGS__), (int)(error))
#endif

struct convolv__address {
    struct sockaddr_storage storage;
    socklen_t bytes;
    int family; /* AF_INET or AF_INET6 */
};

/* "host:port", "[v6]:port", "*:port" (any address: for receivers). */
int convolv__resolve(const char *text, bool receiver, struct convolv__address *address,
                     struct convolv_problem *problem);

bool convolv__is_multicast(const struct convolv__address *address);

/* Interface number of a name; 0 for NULL or "". */
int convolv__interface(const char *name, unsigned *number, struct convolv_problem *problem);

#endif
