/* How logs are called and kept: see logs.h. */
#include "io/nats/logs.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"

/* A server that restarts reads identities no older than this; link.c relies on half of it. */
static const int64_t duplicate_window_ns = 120 * NS_PER_SECOND;

bool nats_name_valid(const char *name)
{
    size_t length = 0;
    for (; name[length] != '\0'; length++)
        if (!isalnum((unsigned char)name[length]) && name[length] != '_' && name[length] != '-')
            return false;
    return length > 0 && length < NATS_NAME_BYTES && strcmp(name, "presence") != 0;
}

void nats_log_name(const char *cluster, const char *partition, const char *kind,
                   struct nats_log_name *name)
{
    snprintf(name->stream, sizeof name->stream, "%s:%s:%s", cluster, partition, kind);
    snprintf(name->subject, sizeof name->subject, "convolvd.%s.%s.%s", cluster, partition, kind);
}

void nats_owner_subject(const struct nats_log_name *log, uint64_t term,
                        char subject[NATS_SUBJECT_BYTES])
{
    snprintf(subject, NATS_SUBJECT_BYTES, "%.200s.owner.%" PRIu64, log->subject, term);
}

void nats_presence_subject(const char *cluster, const char *worker,
                           char subject[NATS_SUBJECT_BYTES])
{
    const int begin =
        snprintf(subject, NATS_SUBJECT_BYTES, "convolvd.%.100s.presence.%.100s", cluster, worker);
    for (char *at = subject + begin - strnlen(worker, 100); *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && *at != '-')
            *at = '_';
}

void nats_log_request(const struct nats_log_name *log, const struct nats_log_options *options,
                      char request[NATS_REQUEST_BYTES])
{
    const int64_t age_ns = options->age_ns;
    snprintf(request, NATS_REQUEST_BYTES,
             "{\"name\":\"%s\",\"subjects\":[\"%s\"],\"storage\":\"%s\",\"num_replicas\":%u,"
             "\"retention\":\"limits\",\"discard\":\"old\",\"max_bytes\":%" PRId64
             ",\"max_age\":%" PRId64 ",\"max_msgs\":-1,\"max_consumers\":-1,\"max_msg_size\":-1,"
             "\"duplicate_window\":%" PRId64 "}",
             log->stream, log->subject, options->file ? "file" : "memory", options->replicas,
             options->bytes > 0 ? (int64_t)options->bytes : -1, age_ns,
             age_ns > 0 && age_ns < duplicate_window_ns ? age_ns : duplicate_window_ns);
}
