/* Owed sidecars: see owed.h. */
#include "io/recording/owed.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "io/recording/disk.h"

static void release(struct owed_sidecar *sidecar)
{
    if (sidecar->fd >= 0)
        close(sidecar->fd);
    free(sidecar->recording);
    free(sidecar->text);
}

static void remove_at(struct owed *owed, uint32_t at)
{
    release(&owed->list[at]);
    memmove(&owed->list[at], &owed->list[at + 1], (owed->count - at - 1) * sizeof *owed->list);
    owed->count--;
}

static void leave_to_next_start(const struct owed *owed, const struct owed_sidecar *sidecar)
{
    log_warning("sink %s: the disk does not take the sidecar of %s; it says less than the file "
                "holds, and the next start of this sink completes it",
                owed->sink, sidecar->recording);
}

void owed_forget(struct owed *owed, const char *recording)
{
    for (uint32_t i = owed->count; i-- > 0;)
        if (strcmp(owed->list[i].recording, recording) == 0)
            remove_at(owed, i);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): it takes the text over, and frees it later */
void owed_add(struct owed *owed, const char *recording, char *text, bool sync,
              const struct container_spec *spec, int fd)
{
    struct owed_sidecar added = {
        .recording = strdup(recording), .text = text, .fd = fd, .sync = sync};
    owed_forget(owed, recording); /* releases its lock */
    if (added.fd < 0)
        added.fd = disk_open_unused(recording);
    if (spec != NULL) {
        added.header = true;
        added.spec = *spec;
    }
    if (added.recording == NULL || added.text == NULL) {
        release(&added);
        return;
    }
    if (owed->count == OWED_MAX) {
        leave_to_next_start(owed, &owed->list[0]);
        remove_at(owed, 0);
    }
    owed->list[owed->count++] = added;
}

/* False: the disk does not take it yet. */
static bool write_one(const struct owed *owed, struct owed_sidecar *sidecar)
{
    char path[PATH_MAX];
    struct problem problem;
    uint64_t frames;
    if (access(sidecar->recording, F_OK) != 0 && errno == ENOENT)
        return true; /* somebody has deleted the recording */
    if (sidecar->fd < 0)
        sidecar->fd = disk_open_unused(sidecar->recording);
    if (sidecar->header &&
        (sidecar->fd < 0 || container_repair(sidecar->fd, &sidecar->spec, &frames) != 0))
        return false;
    sidecar->header = false;
    if (snprintf(path, sizeof path, "%s.json", sidecar->recording) >= (int)sizeof path ||
        disk_replace(path, sidecar->text, sidecar->sync, &problem) != 0)
        return false;
    log_notice("sink %s: the disk takes the sidecar of %s now", owed->sink, sidecar->recording);
    return true;
}

bool owed_write(struct owed *owed)
{
    for (uint32_t i = 0; i < owed->count;) {
        if (write_one(owed, &owed->list[i]))
            remove_at(owed, i);
        else
            i++;
    }
    return owed->count == 0;
}

void owed_close(struct owed *owed)
{
    owed_write(owed);
    while (owed->count > 0) {
        leave_to_next_start(owed, &owed->list[0]);
        remove_at(owed, 0);
    }
}
