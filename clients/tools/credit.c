/* Credit: see credit.h. */
#include "credit.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"

enum { MAGIC_BYTES = 8, DATAGRAM_BYTES = 16 };

static const char magic[MAGIC_BYTES] = {'C', 'V', 'C', 'R', 'E', 'D', 'I', 'T'};

struct credit {
    int descriptor;
    uint64_t told;
};

static int credit_open(const char *text, bool listens, struct credit **out, struct problem *problem)
{
    *out = NULL;
    struct convolv__address address;
    struct convolv_problem reason;
    if (convolv__resolve(text, listens, &address, &reason) != CONVOLV_OK)
        return problem_set(problem, ERROR_ADDRESS, "credit: %s", reason.text);
    struct credit *credit = calloc(1, sizeof *credit);
    if (credit == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    credit->descriptor = socket(address.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const struct sockaddr *where = (const struct sockaddr *)&address.storage;
    int status = credit->descriptor < 0 ? -1
                 : listens              ? bind(credit->descriptor, where, address.bytes)
                                        : connect(credit->descriptor, where, address.bytes);
    if (status != 0) {
        status = problem_set(problem, ERROR_ADDRESS, "credit: %s: %s", text, strerror(errno));
        credit_close(credit);
        return status;
    }
    *out = credit;
    return 0;
}

int credit_listen(const char *address, struct credit **out, struct problem *problem)
{
    return credit_open(address, true, out, problem);
}

int credit_connect(const char *address, struct credit **out, struct problem *problem)
{
    return credit_open(address, false, out, problem);
}

void credit_close(struct credit *credit)
{
    if (credit == NULL)
        return;
    if (credit->descriptor >= 0)
        close(credit->descriptor);
    free(credit);
}

void credit_tell(struct credit *credit, uint64_t frames)
{
    unsigned char datagram[DATAGRAM_BYTES];
    memcpy(datagram, magic, MAGIC_BYTES);
    for (int i = 0; i < 8; i++)
        datagram[MAGIC_BYTES + i] = (unsigned char)(frames >> (56 - 8 * i));
    credit->told = frames;
    /* A rig that has gone is no error: the count says nothing to anybody then. */
    (void)!send(credit->descriptor, datagram, sizeof datagram, 0);
}

bool credit_wait(struct credit *credit, uint64_t frames, int timeout_ms)
{
    for (;;) {
        unsigned char datagram[DATAGRAM_BYTES + 1];
        ssize_t bytes;
        bool grown = false;
        while ((bytes = recv(credit->descriptor, datagram, sizeof datagram, 0)) >= 0) {
            if (bytes != DATAGRAM_BYTES || memcmp(datagram, magic, MAGIC_BYTES) != 0)
                continue;
            uint64_t told = 0;
            for (int i = 0; i < 8; i++)
                told = told << 8 | datagram[MAGIC_BYTES + i];
            if (told > credit->told) {
                credit->told = told;
                grown = true;
            }
        }
        if (credit->told >= frames)
            return true;
        struct pollfd readable = {.fd = credit->descriptor, .events = POLLIN};
        int ready = poll(&readable, 1, timeout_ms);
        if (ready < 0 || (ready == 0 && !grown))
            return false;
    }
}
