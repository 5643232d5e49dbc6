/*
 * What all of libconvolv uses: errors, names of enumerators, and addresses. No state; any thread.
 */
#include "convolv.h"

#include <netdb.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#undef convolv__problem /* see internal.h */

#ifndef CONVOLVD_VERSION
#define CONVOLVD_VERSION "0"
#endif

enum { HOST_BYTES = 256, PORT_BYTES = 8 };

const char *convolv_version(void)
{
    return CONVOLVD_VERSION;
}

const char *convolv_error_sentence(int error)
{
    switch (error) {
    case CONVOLV_OK:
        return "no error";
#define X(name, value, sentence)                                                                   \
    case value:                                                                                    \
        return sentence;
        CONVOLV_ERROR_TABLE(X)
#undef X
    default:
        return "unknown error";
    }
}

const char *convolv_stage_name(enum convolv_stage stage)
{
    static const char *const names[] = {
#define X(name, text) [CONVOLV_STAGE_##name] = text,
        CONVOLV_STAGE_TABLE(X)
#undef X
    };
    return (unsigned)stage < CONVOLV_STAGES ? names[stage] : "?";
}

const char *convolv_cause_name(enum convolv_cause cause)
{
    static const char *const names[] = {
#define X(name, text) [CONVOLV_CAUSE_##name] = text,
        CONVOLV_CAUSE_TABLE(X)
#undef X
    };
    return (unsigned)cause < CONVOLV_CAUSES ? names[cause] : "?";
}

const char *convolv_reject_name(enum convolv_reject reject)
{
    static const char *const names[] = {
#define X(name, text) [CONVOLV_REJECT_##name] = text,
        CONVOLV_REJECT_TABLE(X)
#undef X
    };
    return (unsigned)reject < CONVOLV_REJECTS ? names[reject] : "?";
}

int convolv_framing_parse(const char *name, enum convolv_framing *framing)
{
    static const struct {
        const char *name;
        enum convolv_framing framing;
    } table[] = {
        {"rtp", CONVOLV_FRAMING_RTP},
        {"udp", CONVOLV_FRAMING_UDP},
        {"udp-seq", CONVOLV_FRAMING_UDP_SEQUENCE},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(name, table[i].name) == 0) {
            *framing = table[i].framing;
            return CONVOLV_OK;
        }
    return CONVOLV_ERROR_ARGUMENT;
}

int convolv__problem(struct convolv_problem *problem, enum convolv_error error, const char *format,
                     ...)
{
    if (problem != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(problem->text, sizeof problem->text, format, arguments);
        va_end(arguments);
        problem->error = error;
    }
    return error;
}

/* Splits HOST:PORT at the last colon, without the brackets of IPv6. False for any other form. */
static bool split_address(const char *text, char host[HOST_BYTES], char port[PORT_BYTES])
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text)
        return false;
    size_t host_bytes = (size_t)(colon - text), port_bytes = strlen(colon + 1);
    bool bracketed = text[0] == '[' && colon[-1] == ']';
    if (bracketed) {
        text++;
        host_bytes -= 2;
    } else if (memchr(text, ':', host_bytes) != NULL) {
        return false; /* IPv6 without brackets: its port would be ambiguous */
    }
    if (host_bytes == 0 || host_bytes >= HOST_BYTES || port_bytes == 0 || port_bytes >= PORT_BYTES)
        return false;
    memcpy(host, text, host_bytes);
    host[host_bytes] = '\0';
    memcpy(port, colon + 1, port_bytes + 1);
    return true;
}

int convolv__resolve(const char *text, bool receiver, struct convolv__address *address,
                     struct convolv_problem *problem)
{
    char host[HOST_BYTES], port[PORT_BYTES];
    if (text == NULL || !split_address(text, host, port))
        return convolv__problem(problem, CONVOLV_ERROR_ADDRESS,
                                "'%s' is not an address: write HOST:PORT, or [HOST]:PORT for IPv6",
                                text == NULL ? "" : text);
    bool any = strcmp(host, "*") == 0;
    if (any && !receiver)
        return convolv__problem(problem, CONVOLV_ERROR_ADDRESS,
                                "'%s': a destination needs a host, as in 127.0.0.1:%s", text, port);
    struct addrinfo hints = {
        .ai_family = any ? AF_INET : AF_UNSPEC,
        .ai_socktype = SOCK_DGRAM,
        .ai_flags = AI_NUMERICSERV | (receiver ? AI_PASSIVE : 0),
    };
    struct addrinfo *found = NULL;
    int status = getaddrinfo(any ? NULL : host, port, &hints, &found);
    if (status != 0)
        return convolv__problem(problem, CONVOLV_ERROR_ADDRESS, "'%s': %s", text,
                                gai_strerror(status));
    *address = (struct convolv__address){.bytes = found->ai_addrlen, .family = found->ai_family};
    memcpy(&address->storage, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return CONVOLV_OK;
}

bool convolv__is_multicast(const struct convolv__address *address)
{
    if (address->family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, &address->storage, sizeof v4);
        return IN_MULTICAST(ntohl(v4.sin_addr.s_addr));
    }
    struct sockaddr_in6 v6;
    memcpy(&v6, &address->storage, sizeof v6);
    return IN6_IS_ADDR_MULTICAST(&v6.sin6_addr);
}

int convolv__interface(const char *name, unsigned *number, struct convolv_problem *problem)
{
    *number = 0;
    if (name == NULL || name[0] == '\0')
        return CONVOLV_OK;
    *number = if_nametoindex(name);
    if (*number == 0)
        return convolv__problem(problem, CONVOLV_ERROR_ADDRESS,
                                "no network interface is called '%s': `ip link` lists them", name);
    return CONVOLV_OK;
}
