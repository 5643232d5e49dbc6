/*
 * Analysis `location`: builds sources from the hits of another analysis and locates them. This file
 * decides which hits belong together; where they came from is the locator's (locator.h), options
 * are location_options.c's.
 *
 *     hits, in order ──► group ──► locator ──► cluster, load ──► event
 *
 * The first hit opens a group. Within `max dt` one hit of each other sensor joins; the group closes
 * at a later hit, when the analysis of the hits says that none can come (advance), or with the
 * epoch. A hit opens a group only after `first hit discrimination` without a hit. Arrivals are real
 * numbers of frames: frame + pick - delay of the filter, which is the same for all channels.
 *
 * At most one group is open, so sources come in the order of their first hits.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analyses.h"
#include "analysis/clusters.h"
#include "analysis/event_head.h"
#include "analysis/hit.h"
#include "analysis/load_history.h"
#include "analysis/location_options.h"
#include "analysis/locator.h"
#include "analysis/source.h"

_Static_assert((int)SOURCE_HITS_MAX == (int)LOCATOR_ARRIVALS_MAX, "a source's hits are located");

struct member {
    uint32_t channel;
    uint64_t number;
    double arrival_frames; /* after the group's first frame */
    double energy_eu;
};

/* The hits that may come from one source. */
struct group {
    bool open;
    struct analysis_event first; /* of the first hit; points to nothing */
    double peak_db;              /* of it */
    uint32_t flags;              /* of any; NO_PARAMETER: of the first */
    uint32_t count;
    struct member members[SOURCE_HITS_MAX];
};

struct analysis {
    const struct analysis_options *options;
    const struct location_options *own;
    struct locator *locator;
    bool *is_sensor; /* [channels] */
    struct group group;
    bool heard;                 /* a hit in this epoch */
    uint64_t epoch, last_frame; /* of the last hit */
    struct clusters *clusters;  /* NULL: not asked for */
    struct load_history load;
    struct analysis_ledger ledger;
};

/* ---- events ------------------------------------------------------------------------------ */

/* Those of the pick come first; hits of one instant by channel, as they have come. */
static void sort_members(struct group *group)
{
    for (uint32_t i = 1; i < group->count; i++) {
        const struct member moved = group->members[i];
        uint32_t k = i;
        for (; k > 0 && group->members[k - 1].arrival_frames > moved.arrival_frames; k--)
            group->members[k] = group->members[k - 1];
        group->members[k] = moved;
    }
}

static void set_hits(const struct analysis *a, const struct place *place,
                     struct source_event *source)
{
    const struct group *group = &a->group;
    const double us = 1e6 / a->options->stream.rate_hz;
    source->hits = group->count;
    for (uint32_t i = 0; i < SOURCE_HITS_MAX; i++) {
        source->arrivals_us[i] = source->residuals_us[i] = NAN;
        if (i >= group->count)
            continue;
        const struct member *member = &group->members[i];
        source->channels[i] = member->channel + 1;
        source->numbers[i] = member->number;
        source->arrivals_us[i] = (member->arrival_frames - group->members[0].arrival_frames) * us;
        source->residuals_us[i] = place->residuals_s[i] * 1e6;
        source->energy_eu = i == 0 ? member->energy_eu : source->energy_eu + member->energy_eu;
    }
}

static void set_marks(struct analysis *a, const struct place *place, struct source_event *source)
{
    source->load = source->felicity = NAN;
    if (a->own->kaiser && a->group.first.parameter_count > 0) {
        const struct load_mark mark = load_history_put(&a->load, a->group.first.parameters[0]);
        source->load = a->group.first.parameters[0];
        source->felicity = mark.felicity;
        source->kaiser = mark.kaiser;
    }
    if (a->clusters != NULL) {
        const struct cluster *cluster =
            clusters_put(a->clusters, place->x_m, a->own->plane ? place->y_m : 0);
        source->cluster = cluster->number;
        source->cluster_size = cluster->size;
    }
}

static void emit(struct analysis *a, const struct place *place)
{
    const bool plane = a->own->plane;
    const double spread = sqrt(place->xx_m2 * place->yy_m2);
    struct source_event source = {
        .x_mm = place->x_m * 1e3,
        .y_mm = plane ? place->y_m * 1e3 : NAN,
        .origin_us = place->origin_s * 1e6,
        .sigma_x_mm = sqrt(place->xx_m2) * 1e3,
        .sigma_y_mm = plane ? sqrt(place->yy_m2) * 1e3 : NAN,
        .correlation = plane && spread > 0 ? place->xy_m2 / spread : NAN,
        .sigma_origin_us = sqrt(place->origin_variance_s2) * 1e6,
        .lucy_mm = place->lucy_m * 1e3,
        .second_x_mm = place->second_x_m * 1e3,
        .second_y_mm = plane ? place->second_y_m * 1e3 : NAN,
        .peak_db = a->group.peak_db,
    };
    set_hits(a, place, &source);
    set_marks(a, place, &source);
    struct analysis_event event = a->group.first;
    event.kind = ANALYSIS_SOURCE;
    event.ordered = true;
    event.number = ++a->ledger.events[ANALYSIS_SOURCE];
    event.flags = a->group.flags | (place->ambiguous ? ANALYSIS_AMBIGUOUS : 0);
    event.body = &source;
    event.body_bytes = sizeof source;
    a->options->emit(a->options->context, &event);
}

/* ---- groups ------------------------------------------------------------------------------ */

static void close_group(struct analysis *a)
{
    struct group *group = &a->group;
    if (!group->open)
        return;
    group->open = false;
    if (group->count < a->own->least_hits) {
        a->ledger.unused += group->count;
        return;
    }
    sort_members(group);
    struct arrival arrivals[SOURCE_HITS_MAX];
    const double rate = a->options->stream.rate_hz;
    for (uint32_t i = 0; i < group->count; i++)
        arrivals[i] =
            (struct arrival){group->members[i].channel, group->members[i].arrival_frames / rate};
    struct place place;
    if (locator_find(a->locator, arrivals, group->count, &place))
        emit(a, &place);
    else
        a->ledger.unlocated++;
}

static bool has_member(const struct group *group, uint32_t channel)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (group->members[i].channel == channel)
            return true;
    return false;
}

/* Times of members are counted from the arrival of the group's first frame: its delay is left out,
 * as it is in arrival_ns. */
static void add_member(struct analysis *a, const struct analysis_event *event,
                       const struct hit *hit)
{
    struct group *group = &a->group;
    const double pick = isnan(hit->pick_frames) ? 0 : hit->pick_frames;
    group->flags |= event->flags & (ANALYSIS_SATURATED | ANALYSIS_PULSE | ANALYSIS_INCOMPLETE);
    group->members[group->count++] = (struct member){
        .channel = event->channel,
        .number = event->number,
        .arrival_frames = (double)(event->frame - group->first.frame) + pick -
                          (event->delay_frames - group->first.delay_frames),
        .energy_eu = hit->energy_eu,
    };
}

static void open_group(struct analysis *a, const struct analysis_event *event,
                       const struct hit *hit)
{
    a->group = (struct group){.open = true,
                              .first = event_head(event),
                              .peak_db = hit->peak_db,
                              .flags = event->flags & ANALYSIS_NO_PARAMETER};
    add_member(a, event, hit);
}

static void location_put_event(struct analysis *a, const struct analysis_event *event)
{
    assert(event->kind == ANALYSIS_HIT && event->body_bytes >= sizeof(struct hit));
    const struct hit *hit = event->body;
    struct group *group = &a->group;
    if (event->epoch != a->epoch || !a->heard) {
        close_group(a);
        a->heard = false;
        a->epoch = event->epoch;
    }
    if (!a->is_sensor[event->channel]) {
        a->ledger.unused++;
        return;
    }
    assert(!a->heard || event->frame >= a->last_frame);
    if (group->open && event->frame - group->first.frame > a->own->max_dt_frames)
        close_group(a);
    const bool quiet = !a->heard || event->frame - a->last_frame > a->own->silence_frames;
    a->heard = true;
    a->last_frame = event->frame;
    if (group->open && !has_member(group, event->channel) && group->count < SOURCE_HITS_MAX)
        add_member(a, event, hit);
    else if (!group->open && quiet)
        open_group(a, event, hit);
    else
        a->ledger.unused++;
}

static void location_advance(struct analysis *a, uint64_t epoch, uint64_t frame)
{
    const struct group *group = &a->group;
    if (group->open && (epoch != group->first.epoch || frame == UINT64_MAX ||
                        frame > group->first.frame + a->own->max_dt_frames))
        close_group(a);
    if (a->options->advance != NULL)
        a->options->advance(a->options->context, epoch,
                            group->open && group->first.frame < frame ? group->first.frame : frame);
}

/* ---- state and life ---------------------------------------------------------------------- */

enum { STATE_VERSION = 1 };

static bool walk_group(struct analysis *a, struct codec *codec)
{
    struct group *group = &a->group;
    codec_bool(codec, &group->open);
    if (!event_head_walk(&group->first, codec))
        return false;
    codec_f64(codec, &group->peak_db);
    codec_u32(codec, &group->flags);
    codec_u32(codec, &group->count);
    if (group->count > SOURCE_HITS_MAX || (group->open && group->count == 0))
        return false;
    for (uint32_t i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        codec_u32(codec, &member->channel);
        codec_u64(codec, &member->number);
        codec_f64(codec, &member->arrival_frames);
        codec_f64(codec, &member->energy_eu);
        if (member->channel >= a->options->stream.channels || !a->is_sensor[member->channel])
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (group->members[k].channel == member->channel)
                return false;
    }
    return true;
}

static bool location_walk(struct analysis *a, struct codec *codec)
{
    uint32_t version = STATE_VERSION, channels = a->options->stream.channels;
    codec_u32(codec, &version);
    codec_u32(codec, &channels);
    if (version != STATE_VERSION || channels != a->options->stream.channels ||
        !walk_group(a, codec))
        return false;
    codec_bool(codec, &a->heard);
    codec_u64(codec, &a->epoch);
    codec_u64(codec, &a->last_frame);
    load_history_walk(&a->load, codec);
    codec_u64(codec, &a->ledger.events[ANALYSIS_SOURCE]);
    codec_u64(codec, &a->ledger.unlocated);
    codec_u64(codec, &a->ledger.unused);
    return (a->clusters == NULL || clusters_walk(a->clusters, codec)) && !codec->failed;
}

static void location_ledger(const struct analysis *a, struct analysis_ledger *ledger)
{
    *ledger = a->ledger;
}

static void location_close(struct analysis *a)
{
    if (a == NULL)
        return;
    locator_close(a->locator);
    free(a->is_sensor);
    free(a->clusters);
    free(a);
}

static int location_open(const struct analysis_options *options, struct analysis **out,
                         struct problem *problem)
{
    const struct location_options *own = options->own;
    const uint32_t channels = options->stream.channels;
    int status = ERROR_MEMORY;
    struct analysis *a = calloc(1, sizeof *a);
    struct point *sensors = calloc(channels, sizeof *sensors);
    if (a == NULL || sensors == NULL)
        goto no_memory;
    a->options = options;
    a->own = own;
    a->load = load_history_start(own->load_drop);
    a->is_sensor = calloc(channels, sizeof *a->is_sensor);
    a->clusters = own->cluster_radius != NULL ? calloc(1, sizeof *a->clusters) : NULL;
    if (a->is_sensor == NULL || (own->cluster_radius != NULL && a->clusters == NULL))
        goto no_memory;
    if (a->clusters != NULL)
        a->clusters->radius_m = own->cluster_radius->number;
    location_sensors(own, channels, sensors);
    for (uint32_t c = 0; c < channels; c++)
        a->is_sensor[c] = sensors[c].coordinates > 0;
    struct locator_spec spec = location_locator(options);
    spec.sensors = sensors;
    status = locator_open(&spec, &a->locator, problem);
    free(sensors);
    if (status == 0) {
        *out = a;
        return 0;
    }
    location_close(a);
    return problem_prefix(problem, status, "analysis %s", options->name);

no_memory:
    free(sensors);
    location_close(a);
    return problem_set(problem, status, "analysis %s: out of memory", options->name);
}

static uint64_t location_memory(const struct analysis_options *options)
{
    const struct location_options *own = options->own;
    const struct locator_spec spec = location_locator(options);
    return sizeof(struct analysis) + options->stream.channels * sizeof(bool) +
           locator_memory(&spec) + (own->cluster_radius != NULL ? sizeof(struct clusters) : 0);
}

static const struct analysis_field *location_fields(const struct analysis_options *options,
                                                    uint32_t *count)
{
    const struct location_options *own = options->own;
    *count = own->field_count;
    return own->fields;
}

const struct analysis_ops analysis_location = {
    .name = "location",
    .sentence = "where the hits of several sensors came from, on a plane or a line",
    .of_events = true,
    .takes = ANALYSIS_HIT,
    .emits = ANALYSIS_SOURCE,
    .options = location_rows,
    .option_count = LOCATION_ROWS,
    .options_bytes = sizeof(struct location_options),
    .check = location_check,
    .report = location_report,
    .describe = location_describe,
    .memory = location_memory,
    .fields = location_fields,
    .open = location_open,
    .put_event = location_put_event,
    .advance = location_advance,
    .ledger = location_ledger,
    .walk = location_walk,
    .close = location_close,
};
