/* Clusters: see clusters.h. */
#include "analysis/clusters.h"

#include <math.h>
#include <stddef.h>

static struct cluster *nearest(struct clusters *clusters, double x_m, double y_m)
{
    struct cluster *best = NULL;
    double least = clusters->radius_m;
    for (uint32_t i = 0; i < clusters->count; i++) {
        struct cluster *each = &clusters->list[i];
        const double distance = hypot(each->x_m - x_m, each->y_m - y_m);
        if (distance <= least && (best == NULL || distance < least)) {
            best = each;
            least = distance;
        }
    }
    return best;
}

static struct cluster *least_used(struct clusters *clusters)
{
    struct cluster *least = &clusters->list[0];
    for (uint32_t i = 1; i < clusters->count; i++) {
        struct cluster *each = &clusters->list[i];
        if (each->size < least->size || (each->size == least->size && each->latest < least->latest))
            least = each;
    }
    return least;
}

const struct cluster *clusters_put(struct clusters *clusters, double x_m, double y_m)
{
    struct cluster *cluster = nearest(clusters, x_m, y_m);
    if (cluster == NULL) {
        cluster = clusters->count < CLUSTERS_MAX ? &clusters->list[clusters->count++]
                                                 : least_used(clusters);
        *cluster = (struct cluster){.number = ++clusters->numbers};
    }
    cluster->size++;
    cluster->latest = ++clusters->sources;
    cluster->x_m += (x_m - cluster->x_m) / (double)cluster->size;
    cluster->y_m += (y_m - cluster->y_m) / (double)cluster->size;
    return cluster;
}

bool clusters_walk(struct clusters *clusters, struct codec *codec)
{
    codec_u64(codec, &clusters->numbers);
    codec_u64(codec, &clusters->sources);
    codec_u32(codec, &clusters->count);
    if (clusters->count > CLUSTERS_MAX)
        return false;
    for (uint32_t i = 0; i < clusters->count; i++) {
        struct cluster *each = &clusters->list[i];
        codec_u64(codec, &each->number);
        codec_u64(codec, &each->size);
        codec_u64(codec, &each->latest);
        codec_f64(codec, &each->x_m);
        codec_f64(codec, &each->y_m);
        if (codec_reads(codec) && !(each->size > 0 && isfinite(each->x_m) && isfinite(each->y_m)))
            return false;
    }
    return !codec->failed;
}
