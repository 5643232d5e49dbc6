/* [cluster] of the configuration: its servers, and who this daemon is in it. */
#include "config/internal.h"

#include <string.h>

int build_cluster(struct build *build)
{
    const struct raw_section *section = raw_find(build->raw, SECTION_CLUSTER, "");
    struct config_cluster *cluster = &build->config->cluster;
    const struct option_value *identity = value_of(section, KEY_CLUSTER_IDENTITY);
    const struct option_value *credentials = value_of(section, KEY_CLUSTER_CREDENTIALS);
    const struct option_value *ca = value_of(section, KEY_CLUSTER_CA);
    cluster->servers = value_of(section, KEY_CLUSTER_SERVERS)->text;
    cluster->name = value_of(section, KEY_CLUSTER_NAME)->text;
    if (strchr(cluster->name, '.') != NULL)
        config_error(build->errors, place_of(section, KEY_CLUSTER_NAME),
                     "`name = %s`: a dot separates the parts of a subject; write letters, digits, "
                     "_ and - only",
                     cluster->name);
    cluster->identity = identity != NULL ? identity->text : NULL;
    cluster->lease_ns = value_of(section, KEY_CLUSTER_LEASE)->integer;
    cluster->capacity = value_of(section, KEY_CLUSTER_CAPACITY)->number;
    if (credentials != NULL) {
        cluster->credentials =
            build_path(build, credentials->text, place_of(section, KEY_CLUSTER_CREDENTIALS));
        if (cluster->credentials == NULL)
            return ERROR_MEMORY;
    }
    if (ca != NULL) {
        cluster->ca = build_path(build, ca->text, place_of(section, KEY_CLUSTER_CA));
        if (cluster->ca == NULL)
            return ERROR_MEMORY;
    }
    return 0;
}
