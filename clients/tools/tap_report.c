/* What a tap has seen: see tap_report.h. */
#include "tap_report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/histogram.h"

/* Lists end here; counts stay exact. */
enum { LIST_MAX = 1 << 20 };

/* Rows of the latency table after the stages. */
enum { ROW_SUM = CONVOLV_STAGES, ROW_ARRIVAL, ROWS };

struct epoch_seen {
    uint32_t epoch, record;
    uint64_t first_frame, end_frame, frames;
    uint64_t timestamp; /* extended, of first_frame */
    int64_t capture_ns;
    bool start, end, marker;
};

struct range {
    uint32_t epoch;
    uint16_t causes;
    uint64_t from, until;
};

struct gain_seen {
    uint32_t epoch, changes;
    uint64_t from;
    bool differs;
};

struct list {
    void *items;
    uint64_t count, capacity;
    size_t item_bytes;
};

struct report {
    double rate_hz;
    struct list epochs;  /* struct epoch_seen */
    struct list invalid; /* struct range, merged */
    struct list holes;   /* struct range: missing, as the daemon reported them */
    struct list gains;   /* struct gain_seen */
    uint64_t tail_frames, unexpected_frames, ended;
    uint64_t partial_packets;
    uint64_t late_blocks; /* invalid ranges of late packets are not in order */
    double delay_frames;
    uint32_t decimate;
    bool aligned;
    uint8_t clock;
    uint32_t clock_error_ns; /* largest */
    bool described;
    struct histogram rows[ROWS];
};

/* A new last item, zeroed; NULL when the list is full. */
static void *list_add(struct list *list)
{
    if (list->count == list->capacity) {
        uint64_t capacity = list->capacity > 0 ? 2 * list->capacity : 16;
        void *grown =
            capacity <= LIST_MAX ? realloc(list->items, capacity * list->item_bytes) : NULL;
        if (grown == NULL)
            return NULL;
        list->items = grown;
        list->capacity = capacity;
    }
    return (char *)list->items + list->count++ * list->item_bytes;
}

struct report *report_open(double rate_hz)
{
    struct report *report = calloc(1, sizeof *report);
    if (report == NULL)
        return NULL;
    report->rate_hz = rate_hz;
    report->epochs.item_bytes = sizeof(struct epoch_seen);
    report->invalid.item_bytes = report->holes.item_bytes = sizeof(struct range);
    report->gains.item_bytes = sizeof(struct gain_seen);
    return report;
}

void report_close(struct report *report)
{
    if (report == NULL)
        return;
    free(report->epochs.items);
    free(report->invalid.items);
    free(report->holes.items);
    free(report->gains.items);
    free(report);
}

static void note_epoch(struct report *report, const struct convolv_block *block)
{
    struct epoch_seen *seen = NULL, *all = report->epochs.items;
    for (uint64_t i = report->epochs.count; i-- > 0 && seen == NULL;) {
        if (all[i].epoch == block->epoch)
            seen = &all[i];
        if (report->epochs.count - i == 4)
            break; /* late packets reach back no further */
    }
    if (seen == NULL) {
        seen = list_add(&report->epochs);
        if (seen == NULL)
            return;
        *seen = (struct epoch_seen){
            .epoch = block->epoch,
            .record = block->record,
            .first_frame = block->first_frame,
            .timestamp = block->timestamp,
            .capture_ns = block->capture_ns,
            .marker = block->marker,
        };
    }
    if (block->first_frame < seen->first_frame) {
        seen->first_frame = block->first_frame;
        seen->timestamp = block->timestamp;
        seen->capture_ns = block->capture_ns;
        seen->marker = block->marker;
    }
    if (block->first_frame + block->frames > seen->end_frame)
        seen->end_frame = block->first_frame + block->frames;
    seen->frames += block->frames;
    seen->start = seen->start || block->epoch_start;
    if (block->epoch_end && !seen->end) {
        seen->end = true;
        report->ended++;
    }
}

static void note_invalid(struct report *report, const struct convolv_block *block)
{
    uint32_t frames = block->invalid_until - block->invalid_from;
    if (frames == 0)
        return;
    const uint16_t expected = 1u << CONVOLV_CAUSE_SETTLING | 1u << CONVOLV_CAUSE_TAIL;
    if (block->causes & (1u << CONVOLV_CAUSE_TAIL))
        report->tail_frames += frames;
    if (block->causes & ~expected)
        report->unexpected_frames += frames;
    uint64_t from = block->first_frame + block->invalid_from;
    struct range *last = report->invalid.count > 0
                             ? (struct range *)report->invalid.items + report->invalid.count - 1
                             : NULL;
    if (last != NULL && last->epoch == block->epoch && last->causes == block->causes &&
        last->until == from) {
        last->until = from + frames;
        return;
    }
    struct range *range = list_add(&report->invalid);
    if (range != NULL)
        *range = (struct range){block->epoch, block->causes, from, from + frames};
}

/* The gains of the block are listed when they, or the epoch, are new. */
static void note_gains(struct report *report, const struct convolv_block *block)
{
    const struct gain_seen *last =
        report->gains.count > 0
            ? (const struct gain_seen *)report->gains.items + report->gains.count - 1
            : NULL;
    if (block->gain_changes == 0 ||
        (last != NULL && last->changes == block->gain_changes && last->epoch == block->epoch))
        return;
    struct gain_seen *seen = list_add(&report->gains);
    if (seen != NULL)
        *seen = (struct gain_seen){block->epoch, block->gain_changes, block->gain_from,
                                   block->gain_differs};
}

void report_put(struct report *report, const struct convolv_block *block)
{
    note_epoch(report, block);
    note_invalid(report, block);
    note_gains(report, block);
    if (block->hole_from < block->hole_until) {
        struct range *hole = list_add(&report->holes);
        if (hole != NULL)
            *hole = (struct range){block->epoch, block->hole_causes, block->hole_from,
                                   block->hole_until};
    }
    if (!block->described || block->frames == 0)
        return;
    report->described = true;
    report->delay_frames = block->delay_frames;
    report->decimate = block->decimate;
    report->aligned = block->aligned;
    report->partial_packets += block->partial;
    report->clock = block->clock;
    if (block->clock_error_ns > report->clock_error_ns)
        report->clock_error_ns = block->clock_error_ns;
    int64_t sum_ns = 0;
    for (int i = 0; i < CONVOLV_STAGES; i++) {
        histogram_record(&report->rows[i], block->stage_ns[i]);
        sum_ns += block->stage_ns[i];
    }
    histogram_record(&report->rows[ROW_SUM], sum_ns);
    /* From the packet's last frame at the converter to this machine's kernel. */
    int64_t last_ns = block->capture_ns + (int64_t)((double)block->frames / report->rate_hz * 1e9);
    histogram_record(&report->rows[ROW_ARRIVAL], block->receive_ns - last_ns);
}

uint64_t report_input_frames(const struct report *report,
                             const struct convolv_receiver_ledger *ledger)
{
    return ledger->frames + ledger->frames_lost - report->tail_frames;
}

uint64_t report_epochs_ended(const struct report *report)
{
    return report->ended;
}

uint64_t report_invalid_unexpected(const struct report *report)
{
    return report->unexpected_frames;
}

/* ---- printing ---------------------------------------------------------------------------- */

static const char *row_name(int row)
{
    return row < CONVOLV_STAGES ? convolv_stage_name((enum convolv_stage)row)
           : row == ROW_SUM     ? "all stages"
                                : "arrival - capture";
}

static const struct {
    const char *name;
    double quantile;
} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};

enum { QUANTILES = sizeof quantiles / sizeof *quantiles };

void report_print(const struct report *report, const struct convolv_receiver_ledger *ledger,
                  FILE *out)
{
    if (report->described) {
        fprintf(out, "\n%-18s", "latency [us]");
        for (int q = 0; q < QUANTILES; q++)
            fprintf(out, "%12s", quantiles[q].name);
        fprintf(out, "%12s\n", "max");
        for (int row = 0; row < ROWS; row++) {
            fprintf(out, "%-18s", row_name(row));
            for (int q = 0; q < QUANTILES; q++)
                fprintf(out, "%12.1f",
                        (double)histogram_quantile(&report->rows[row], quantiles[q].quantile) /
                            1e3);
            fprintf(out, "%12.1f\n", (double)report->rows[row].max_ns / 1e3);
        }
        fprintf(out, "filter delay      %g frames = %.1f us%s\n", report->delay_frames,
                report->delay_frames / report->rate_hz * 1e6, report->aligned ? ", applied" : "");
        if (report->decimate > 1)
            fprintf(out,
                    "decimation        frame m is the source's frame %" PRIu32 " m, at %.10g Hz\n",
                    report->decimate, report->rate_hz);
    }
    fprintf(out,
            "\nframes %" PRIu64 ", lost %" PRIu64 ", invalid %" PRIu64 " (%" PRIu64
            " not by settling or tail), epochs %" PRIu64 "\n",
            ledger->frames, ledger->frames_lost, ledger->frames_invalid, report->unexpected_frames,
            ledger->epochs);
    const struct gain_seen *gains = report->gains.items;
    for (uint64_t i = 0; i < report->gains.count; i++)
        fprintf(out, "gains or mutes %s from frame %" PRIu64 " of epoch %" PRIu32 " on\n",
                gains[i].differs ? "differ from the configuration" : "are as configured again",
                gains[i].from, gains[i].epoch);
    if (ledger->frames_shed > 0)
        fprintf(out, "the daemon could not compute %" PRIu64 " frames, in %" PRIu64 " runs\n",
                ledger->frames_shed, report->holes.count);
    fprintf(out, "datagrams %" PRIu64 " = %" PRIu64 " accepted", ledger->datagrams,
            ledger->accepted);
    if (ledger->heartbeats > 0)
        fprintf(out, " + %" PRIu64 " heartbeats", ledger->heartbeats);
    for (int i = 0; i < CONVOLV_REJECTS; i++)
        if (ledger->rejected[i] > 0)
            fprintf(out, " + %" PRIu64 " %s", ledger->rejected[i],
                    convolv_reject_name((enum convolv_reject)i));
    fprintf(out, "; lost %" PRIu64 ", reordered %" PRIu64 ", dropped by this socket %" PRIu64 "\n",
            ledger->lost, ledger->reordered, ledger->kernel_drops);
}

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *latency_json(const struct report *report)
{
    json_t *latency = json_object();
    for (int row = 0; row < ROWS; row++) {
        json_t *values = json_object();
        for (int q = 0; q < QUANTILES; q++)
            json_object_set_new(
                values, quantiles[q].name,
                json_integer(histogram_quantile(&report->rows[row], quantiles[q].quantile)));
        json_object_set_new(values, "max", json_integer(report->rows[row].max_ns));
        json_object_set_new(latency, row_name(row), values);
    }
    return latency;
}

static json_t *epochs_json(const struct report *report)
{
    json_t *epochs = json_array();
    const struct epoch_seen *all = report->epochs.items;
    for (uint64_t i = 0; i < report->epochs.count; i++)
        json_array_append_new(
            epochs,
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:b}", "epoch",
                      (json_int_t)all[i].epoch, "record", (json_int_t)all[i].record, "first_frame",
                      (json_int_t)all[i].first_frame, "end_frame", (json_int_t)all[i].end_frame,
                      "frames", (json_int_t)all[i].frames, "timestamp",
                      (json_int_t)all[i].timestamp, "capture_ns", (json_int_t)all[i].capture_ns,
                      "start", all[i].start, "end", all[i].end, "marker", all[i].marker));
    return epochs;
}

static json_t *ranges_json(const struct list *list)
{
    json_t *ranges = json_array();
    const struct range *all = list->items;
    for (uint64_t i = 0; i < list->count; i++) {
        json_t *causes = json_array();
        for (int cause = 0; cause < CONVOLV_CAUSES; cause++)
            if (all[i].causes & (1u << cause))
                json_array_append_new(causes,
                                      json_string(convolv_cause_name((enum convolv_cause)cause)));
        json_array_append_new(ranges,
                              json_pack("{s:I, s:I, s:I, s:o}", "epoch", (json_int_t)all[i].epoch,
                                        "from", (json_int_t)all[i].from, "until",
                                        (json_int_t)all[i].until, "causes", causes));
    }
    return ranges;
}

static json_t *gains_json(const struct report *report)
{
    json_t *list = json_array();
    const struct gain_seen *all = report->gains.items;
    for (uint64_t i = 0; i < report->gains.count; i++)
        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:I, s:b}", "epoch", (json_int_t)all[i].epoch,
                                        "from", (json_int_t)all[i].from, "changes",
                                        (json_int_t)all[i].changes, "differs", all[i].differs));
    return list;
}

json_t *report_json(const struct report *report, const struct convolv_receiver_ledger *ledger)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"datagrams", ledger->datagrams},
        {"accepted", ledger->accepted},
        {"heartbeats", ledger->heartbeats},
        {"kernel_drops", ledger->kernel_drops},
        {"lost", ledger->lost},
        {"reordered", ledger->reordered},
        {"senders", ledger->senders},
        {"frames", ledger->frames},
        {"frames_lost", ledger->frames_lost},
        {"frames_invalid", ledger->frames_invalid},
        {"frames_invalid_unexpected", report->unexpected_frames},
        {"frames_tail", report->tail_frames},
        {"partial_packets", report->partial_packets},
        {"frames_shed", ledger->frames_shed},
        {"undescribed", ledger->undescribed},
        {"receive_buffer_bytes", ledger->receive_buffer_bytes},
        {"clock", report->clock},
    };
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_object_set_new(object, counts[i].name, number(counts[i].value));
    json_object_set_new(object, "clock_error_ns",
                        report->clock_error_ns != UINT32_MAX ? number(report->clock_error_ns)
                                                             : json_null());
    json_t *rejected = json_object();
    for (int i = 0; i < CONVOLV_REJECTS; i++)
        json_object_set_new(rejected, convolv_reject_name((enum convolv_reject)i),
                            number(ledger->rejected[i]));
    json_object_set_new(object, "rejected", rejected);
    json_object_set_new(object, "delay_frames", json_real(report->delay_frames));
    json_object_set_new(object, "decimation", json_integer(report->decimate));
    json_object_set_new(object, "aligned", json_boolean(report->aligned));
    json_object_set_new(object, "epochs", epochs_json(report));
    json_object_set_new(object, "invalid", ranges_json(&report->invalid));
    json_object_set_new(object, "gains", gains_json(report));
    json_object_set_new(object, "holes", ranges_json(&report->holes));
    json_object_set_new(object, "latency_ns", latency_json(report));
    return object;
}
