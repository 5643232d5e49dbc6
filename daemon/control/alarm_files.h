/*
 * What alarms with `exec = yes` say to the service manager: a file for each raise and each end,
 * STATE/alarms/NAME/NUMBER.json, which a path unit answers by starting convolv-alarm@NAME.service.
 * The daemon starts nothing and needs no right to: whoever handles the files removes them.
 *
 * A worker writes them, one after the other. At most 64 wait in memory, and at most 64 lie in the
 * directory of an alarm: what comes when nobody handles them is dropped, and the log says so.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_ALARM_FILES_H
#define CONVOLVD_CONTROL_ALARM_FILES_H

#include <stdint.h>
#include <uv.h>

struct alarm_files;

/* 0 or ERROR_MEMORY. */
int alarm_files_open(uv_loop_t *loop, struct alarm_files **out);
/* Frees itself once the worker is back; what waits in memory is dropped. NULL is fine. */
void alarm_files_close(struct alarm_files *files);

/* Queues a file for alarm `name` below `state_directory`; `text`, a whole JSON object, is taken
 * over and freed. Files of one alarm are numbered by `realtime_ns`. */
void alarm_files_put(struct alarm_files *files, const char *state_directory, const char *name,
                     int64_t realtime_ns, char *text);

#endif
