/*
 * Attachment: how the socket of a source hangs on the network. It opens the socket, keeps trying
 * when the interface or the address is not there yet, watches the interface, and joins the
 * multicast group again when the interface was removed and made anew (the kernel forgets the
 * membership, and the new interface has another number).
 *
 *     waiting ──► up ◄──► down          the link
 *                 ▲  └──► gone ──┐      the interface
 *                 └── joined ◄───┘
 *
 * It checks every half a second with two ioctls that neither block nor allocate. What may wait for
 * the kernel or a name server runs on a worker. What has no interface of its own ("*:5004") is not
 * watched, but asked as well whether what it knows of the interfaces is stale.
 *
 * Whoever needs no packets for a while has it leave the group, so that the switch sends none.
 *
 * open runs on a worker, everything else on the loop thread.
 */
#ifndef CONVOLVD_IO_NET_ATTACHMENT_H
#define CONVOLVD_IO_NET_ATTACHMENT_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/error.h"
#include "io/net/socket.h"

struct attachment_options {
    struct socket_receive_options socket; /* its strings outlive the attachment */
    void *context;
    /* WORKER. The interface is there, perhaps for the first time or with other addresses. May be
     * NULL, as `stale` and `attached`. */
    void (*prepare)(void *context);
    /* LOOP, at each check. Whether `prepare` and `attached` are called once more although the
     * interface is still the same one: its addresses may have come after it. */
    bool (*stale)(void *context);
    /* LOOP, after `prepare`. fd: the socket, now the callee's, or -1 when it has it already. */
    void (*attached)(void *context, int fd, uint64_t granted_bytes);
};

enum attachment_state {
    ATTACHMENT_WAITING, /* there is no socket yet */
    ATTACHMENT_UP,
    ATTACHMENT_DOWN, /* the interface has no link */
    ATTACHMENT_GONE, /* there is no such interface any more */
    ATTACHMENT_AWAY, /* it has left the group, as it was told */
};

struct attachment_figures {
    enum attachment_state state;
    char interface[IF_NAMESIZE]; /* empty: none is watched */
    bool group;                  /* the socket has joined a multicast group */
    uint64_t downs, removals;    /* how often the link went down, the interface was removed */
    uint64_t joins;              /* of the group after a removal */
    uint64_t attempts;           /* to open the socket, while waiting */
    char problem[256];           /* waiting: what is missing */
};

struct attachment;

/* Opens the socket: *fd is the caller's; -1: it is not there yet, and `attached` brings it. */
int attachment_open(const struct attachment_options *options, struct attachment **out, int *fd,
                    uint64_t *granted_bytes, struct problem *problem);
/* Takes the address that the source's predecessor has until now, where it has one that overlaps.
 * LOOP, before the predecessor stops. Returns 0 or an error; nothing has changed then. */
int attachment_arm(struct attachment *attachment, struct problem *problem);
void attachment_start(struct attachment *attachment, uv_loop_t *loop);
/* Whether the socket is in its multicast group; it is from the start on. Takes effect half a second
 * later, and has none without a group. */
void attachment_listen(struct attachment *attachment, bool listens);
/* Neither uses the socket nor calls `attached` after this returns. */
void attachment_stop(struct attachment *attachment);
/* Frees it; `closed` is called once, from the loop when it was ever started. */
void attachment_close(struct attachment *attachment, void (*closed)(void *context), void *context);

void attachment_figures(const struct attachment *attachment, struct attachment_figures *figures);
const char *attachment_state_name(enum attachment_state state);

#endif
