/*
 * Exit statuses of a daemon that has run, beside EXIT_SUCCESS and EXIT_FAILURE. The manual page
 * (report/manual.c) and the unit (systemd/convolvd.service) list them too.
 */
#ifndef CONVOLVD_SERVICE_EXIT_STATUS_H
#define CONVOLVD_SERVICE_EXIT_STATUS_H

enum service_exit {
    /* A stop did not wait for something that hung. The unit counts it as a success. */
    SERVICE_EXIT_CUT = 3,
    /* The run came to its end by itself, and some of its input or results are lost. The unit does
     * not start the daemon again: it would replay the same input for ever. */
    SERVICE_EXIT_LOSSES = 4,
    /* SIGINT (Ctrl-C) stopped a source before the end to which it would have come by itself: 128 +
     * SIGINT, as a shell has it. The unit counts it as a success. */
    SERVICE_EXIT_INTERRUPTED = 130,
};

#endif
