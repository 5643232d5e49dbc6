/* Who this daemon is in its cluster: see membership.h. */
#include "service/membership.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "pipeline/pipelines.h"

/* HOST, or HOST/INSTANCE where systemd gave the process a directory of its own name:
 * convolvd@gpu0 has /run/convolvd-gpu0. */
static void default_name(char name[WORKER_NAME])
{
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "convolvd");
    const char *directory = getenv("RUNTIME_DIRECTORY");
    const char *last = directory != NULL ? strrchr(directory, '/') : NULL;
    snprintf(name, WORKER_NAME, "%s%s%.24s", host, last != NULL ? "/" : "",
             last != NULL ? last + 1 : "");
}

void membership_reloaded(const struct config *config, struct cluster *cluster)
{
    snprintf(cluster->config, sizeof cluster->config, "%s", config->shared_hash);
}

static double load(void *context)
{
    const struct process *process = context;
    return process->pipelines != NULL ? pipelines_load(process->pipelines) : 0;
}

int membership_of(struct process *process, struct io_environment *environment,
                  struct cluster *cluster, struct problem *problem)
{
    const struct config *config = process->config;
    const struct config_cluster *from = &config->cluster;
    *cluster = (struct cluster){.servers = from->servers,
                                .credentials = from->credentials,
                                .ca = from->ca,
                                .name = from->name,
                                .lease_ns = from->lease_ns,
                                .capacity = from->capacity};
    if (from->identity != NULL)
        snprintf(cluster->worker, sizeof cluster->worker, "%s", from->identity);
    else
        default_name(cluster->worker);
    membership_reloaded(config, cluster);
    environment->cluster = cluster;
    environment->load = load;
    environment->load_context = process;
    if (getrandom(&cluster->identity, sizeof cluster->identity, 0) !=
        (ssize_t)sizeof cluster->identity)
        return problem_set(problem, ERROR_SYSTEM, "no random numbers: %s", strerror(errno));
    cluster->identity += cluster->identity == 0;
    return 0;
}
