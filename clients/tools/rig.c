/* One simulated acquisition device: see rig.h. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "npy.h"
#include "wire/format.h"

enum { CHUNK_FRAMES = 16384, RANGES_MAX = 1 << 20 };

/* Frames encoded before the first packet, at most. */
#define PRELOAD_BYTES_MAX (UINT64_C(4) << 30)

struct range {
    uint64_t from, until;
};

struct rig {
    struct rig_options options; /* its strings are the caller's: not used after open */
    char *address;
    struct rig_signal *signal;
    struct convolv_sender *sender;
    struct faults *faults;
    struct random_state random; /* packet sizes and restarts */
    struct sample_format format;
    uint32_t channels, frame_bytes, packet_frames_max;

    /* encoded signal frames [chunk_from, chunk_until) */
    double *values;
    uint8_t *wire;
    uint64_t chunk_frames, chunk_from, chunk_until;
    bool signal_ended;
    uint8_t *datagram;
    size_t datagram_bytes_max;
    struct npy *npy;

    uint64_t frame;       /* next signal frame */
    uint64_t elapsed;     /* next frame of the time line */
    uint32_t next_frames; /* of the next packet */
    uint64_t record_left; /* frames of the running record */
    bool marker;          /* the next packet begins a record */
    unsigned restart_next, skip_next, forgery_next;

    uint64_t restarts, records, skipped_frames;
    struct range *dropped; /* signal frames dropped on purpose or skipped, merged */
    uint64_t dropped_count, dropped_capacity;
    struct rig_place
        record_starts[RIG_PLACES_MAX]; /* signal frame → time line frame, the first few */
};

/* ---- the signal, encoded ----------------------------------------------------------------- */

/* Makes the chunk hold the frames from rig->frame on, as far as there are any. */
static int load_chunk(struct rig *rig, struct problem *problem)
{
    while (rig->frame >= rig->chunk_until && !rig->signal_ended) {
        uint64_t wanted = rig->options.frames - rig->chunk_until;
        if (wanted > rig->chunk_frames)
            wanted = rig->chunk_frames;
        uint64_t read = wanted > 0 ? rig_signal_read(rig->signal, wanted, rig->values) : 0;
        convolv_sender_encode(rig->sender, rig->values, read, rig->wire);
        rig->chunk_from = rig->chunk_until;
        rig->chunk_until += read;
        rig->signal_ended = read < rig->chunk_frames;
        if (rig->npy == NULL || read == 0)
            continue;
        /* What the receiver can know: the codes, not what they were made from. */
        sample_decode_block(&rig->format, rig->wire, read, rig->channels, rig->values);
        if (rig->format.kind != SAMPLE_FLOAT)
            for (uint64_t i = 0; i < read * rig->channels; i++)
                rig->values[i] *= rig->options.full_scale;
        int status = npy_write(rig->npy, rig->chunk_from, read, rig->values, problem);
        if (status != 0)
            return status;
    }
    return 0;
}

/* Decides the size of the next packet; 0 at the end. It ends with its chunk, record or the next
 * place. */
static int plan_packet(struct rig *rig, struct problem *problem)
{
    int status = load_chunk(rig, problem);
    if (status != 0)
        return status;
    uint64_t frames = rig->packet_frames_max, min = rig->options.packet_frames_min;
    if (min > 0 && min < frames)
        frames = min + random_below(&rig->random, (uint32_t)(frames - min + 1));
    uint64_t limits[] = {
        rig->chunk_until - rig->frame,
        rig->options.record_frames > 0 ? rig->record_left : UINT64_MAX,
        rig->restart_next < rig->options.restart_count
            ? rig->options.restarts[rig->restart_next].frame - rig->frame
            : UINT64_MAX,
        rig->skip_next < rig->options.skip_count
            ? rig->options.skips[rig->skip_next].frame - rig->frame
            : UINT64_MAX,
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i] < frames)
            frames = limits[i];
    rig->next_frames = (uint32_t)frames;
    return 0;
}

/* ---- what happens on the way ------------------------------------------------------------- */

static void note_dropped(struct rig *rig, uint64_t from, uint64_t until)
{
    if (rig->dropped_count > 0 && rig->dropped[rig->dropped_count - 1].until == from) {
        rig->dropped[rig->dropped_count - 1].until = until;
        return;
    }
    if (rig->dropped_count == rig->dropped_capacity) {
        uint64_t capacity = rig->dropped_capacity > 0 ? 2 * rig->dropped_capacity : 64;
        struct range *grown =
            capacity <= RANGES_MAX ? realloc(rig->dropped, capacity * sizeof *grown) : NULL;
        if (grown == NULL)
            return; /* the counts stay exact; the list ends here */
        rig->dropped = grown;
        rig->dropped_capacity = capacity;
    }
    rig->dropped[rig->dropped_count++] = (struct range){from, until};
}

/* What happens between two packets at this signal frame. */
static int between_packets(struct rig *rig, struct problem *problem)
{
    const struct rig_options *options = &rig->options;
    while (rig->restart_next < options->restart_count &&
           options->restarts[rig->restart_next].frame <= rig->frame) {
        rig->restart_next++;
        rig->restarts++;
        uint64_t numbers = random_u64(&rig->random);
        convolv_sender_restart(
            rig->sender, options->sender.ssrc + (uint32_t)rig->restarts * 0x10000u,
            options->sender.framing == CONVOLV_FRAMING_RTP ? (uint16_t)numbers : 0,
            (uint32_t)(numbers >> 32));
    }
    while (rig->skip_next < options->skip_count &&
           options->skips[rig->skip_next].frame <= rig->frame) {
        uint64_t frames = options->skips[rig->skip_next++].frames;
        note_dropped(rig, rig->frame, rig->frame + frames);
        rig->skipped_frames += frames;
        rig->elapsed += frames;
        convolv_sender_skip(rig->sender, (uint32_t)frames);
        for (uint64_t left = frames; left > 0;) { /* acquired by nobody, yet the signal went on */
            int status = load_chunk(rig, problem);
            if (status != 0)
                return status;
            uint64_t now = rig->chunk_until - rig->frame;
            if (now == 0)
                return 0;
            now = now < left ? now : left;
            rig->frame += now;
            left -= now;
        }
    }
    return 0;
}

/* ---- opening ----------------------------------------------------------------------------- */

static int compare_places(const void *a, const void *b)
{
    const struct rig_place *left = a, *right = b;
    return left->frame < right->frame ? -1 : left->frame > right->frame;
}

static int prepare(struct rig *rig, struct problem *problem)
{
    const struct rig_options *options = &rig->options;
    struct convolv_problem reason;
    if (convolv_sender_open(&options->sender, &rig->sender, &reason) != CONVOLV_OK)
        return problem_set(problem, ERROR_ADDRESS, "%s", reason.text);
    /* convolv_sender_open has proven the format. */
    sample_format_parse(options->sender.format, &rig->format);
    if (options->sender.bits != 0) {
        rig->format.bits = (uint8_t)options->sender.bits;
        rig->format.left = options->sender.justify_left && rig->format.bits < 8 * rig->format.bytes;
    }
    rig->frame_bytes = convolv_sender_frame_bytes(rig->sender);
    rig->packet_frames_max = convolv_sender_packet_frames(rig->sender);
    /* A chunk is whole packets, so that cutting the signal into chunks cuts no packet. */
    uint64_t packets = CHUNK_FRAMES / rig->packet_frames_max + 1;
    rig->chunk_frames = packets * rig->packet_frames_max;
    if (options->packet_frames_min > 0)
        rig->chunk_frames *= 16;
    if (options->preload) {
        if (options->frames > PRELOAD_BYTES_MAX / rig->frame_bytes)
            return problem_set(
                problem, ERROR_LIMIT, "--preload: at most %llu frames of %u bytes; give --frames",
                (unsigned long long)(PRELOAD_BYTES_MAX / rig->frame_bytes), rig->frame_bytes);
        rig->chunk_frames = options->frames;
    }
    rig->datagram_bytes_max = CONVOLV_DATAGRAM_MAX;
    rig->values = malloc(rig->chunk_frames * rig->channels * sizeof *rig->values);
    rig->wire = malloc(rig->chunk_frames * rig->frame_bytes);
    rig->datagram = malloc(rig->datagram_bytes_max);
    rig->address = strdup(options->sender.address);
    if (rig->values == NULL || rig->wire == NULL || rig->datagram == NULL || rig->address == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for %llu frames",
                           (unsigned long long)rig->chunk_frames);
    int status = faults_open(&options->faults, rig->sender, &rig->faults, problem);
    if (status == 0 && options->write_path != NULL)
        status = npy_create(options->write_path, rig->channels, &rig->npy, problem);
    if (status == 0)
        status = between_packets(rig, problem); /* what is to happen at frame 0 */
    return status == 0 ? plan_packet(rig, problem) : status;
}

int rig_open(const struct rig_options *options, struct rig_signal *signal, struct rig **out,
             struct problem *problem)
{
    *out = NULL;
    struct rig *rig = calloc(1, sizeof *rig);
    if (rig == NULL) {
        rig_signal_close(signal);
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    }
    rig->options = *options;
    rig->signal = signal;
    rig->channels = rig_signal_channels(signal);
    rig->random.state = options->faults.seed ^ UINT64_C(0x5bd1e995);
    rig->record_left = options->record_frames;
    rig->marker = options->record_frames > 0;
    rig->records = options->record_frames > 0;
    qsort(rig->options.restarts, options->restart_count, sizeof *rig->options.restarts,
          compare_places);
    qsort(rig->options.skips, options->skip_count, sizeof *rig->options.skips, compare_places);
    qsort(rig->options.forgeries, options->forgery_count, sizeof *rig->options.forgeries,
          compare_places);
    int status = prepare(rig, problem);
    if (status != 0) {
        rig_close(rig);
        return status;
    }
    *out = rig;
    return 0;
}

void rig_close(struct rig *rig)
{
    if (rig == NULL)
        return;
    if (rig->faults != NULL)
        faults_finish(rig->faults);
    faults_close(rig->faults);
    convolv_sender_close(rig->sender);
    rig_signal_close(rig->signal);
    npy_close(rig->npy, NULL);
    free(rig->values);
    free(rig->wire);
    free(rig->datagram);
    free(rig->dropped);
    free(rig->address);
    free(rig);
}

/* ---- running ----------------------------------------------------------------------------- */

bool rig_finished(const struct rig *rig)
{
    return rig->next_frames == 0;
}

uint64_t rig_next_frame(const struct rig *rig)
{
    return rig->elapsed + rig->next_frames;
}

uint64_t rig_frames(const struct rig *rig)
{
    return rig->frame;
}

int rig_step(struct rig *rig, struct problem *problem)
{
    const struct rig_options *options = &rig->options;
    if (rig->marker && rig->records <= RIG_PLACES_MAX)
        rig->record_starts[rig->records - 1] = (struct rig_place){rig->frame, rig->elapsed};
    const uint8_t *wire = rig->wire + (rig->frame - rig->chunk_from) * rig->frame_bytes;
    int bytes = convolv_sender_build(rig->sender, wire, rig->next_frames, rig->marker,
                                     rig->datagram, rig->datagram_bytes_max);
    if (bytes < 0)
        return problem_set(problem, ERROR_ARGUMENT, "a packet of %u frames could not be built",
                           rig->next_frames);
    if (!faults_offer(rig->faults, rig->datagram, (size_t)bytes, rig->next_frames))
        note_dropped(rig, rig->frame, rig->frame + rig->next_frames);
    rig->marker = false;
    rig->frame += rig->next_frames;
    rig->elapsed += rig->next_frames;
    while (rig->forgery_next < options->forgery_count &&
           options->forgeries[rig->forgery_next].frame <= rig->frame)
        faults_forge(rig->faults, rig->datagram, (size_t)bytes,
                     (uint32_t)options->forgeries[rig->forgery_next++].frames);
    if (options->record_frames > 0 && (rig->record_left -= rig->next_frames) == 0) {
        rig->record_left = options->record_frames;
        rig->elapsed += options->pause_frames;
        convolv_sender_skip(rig->sender, (uint32_t)options->pause_frames);
        rig->marker = true;
    }
    int status = between_packets(rig, problem);
    if (status == 0)
        status = plan_packet(rig, problem);
    if (status == 0 && rig->marker)
        rig->records += rig->next_frames > 0;
    return status;
}

void rig_flush(struct rig *rig)
{
    convolv_sender_flush(rig->sender);
}

void rig_release(struct rig *rig)
{
    faults_finish(rig->faults);
    convolv_sender_flush(rig->sender);
}

int rig_finish(struct rig *rig, struct problem *problem)
{
    rig_release(rig);
    struct npy *npy = rig->npy;
    rig->npy = NULL;
    struct problem later;
    const int status = npy_shorten(npy, rig->frame, problem); /* a rig that was ended early */
    const int closed = npy_close(npy, status == 0 ? problem : &later);
    return status != 0 ? status : closed;
}

/* ---- ledger ------------------------------------------------------------------------------ */

static json_t *count(uint64_t value)
{
    return json_integer((json_int_t)value);
}

json_t *rig_ledger_json(const struct rig *rig)
{
    struct convolv_sender_ledger sent;
    struct faults_ledger faults;
    convolv_sender_ledger(rig->sender, &sent);
    faults_ledger(rig->faults, &faults);
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"frames", rig->frame}, /* signal frames passed, skipped ones included */
        {"frames_built", sent.frames_built},
        {"elapsed_frames", rig->elapsed}, /* with pauses */
        {"datagrams_built", sent.built},  /* = datagrams_gone + datagrams_dropped */
        {"datagrams_gone", faults.gone},
        {"datagrams_dropped", faults.dropped},
        {"frames_dropped", faults.dropped_frames},
        {"duplicated", faults.duplicated},
        {"reordered", faults.reordered},
        {"wrong_ssrc", faults.wrong_ssrc},
        {"garbage", faults.garbage},
        {"forged", faults.forged},
        {"restarts", rig->restarts},
        {"records", rig->records},
        {"skipped_frames", rig->skipped_frames},
        {"datagrams_sent",
         sent.datagrams}, /* taken by the kernel: gone + duplicated + the extra ones */
        {"bytes_sent", sent.bytes},
        {"failed", sent.failed},
        {"refused", sent.refused},
        {"saturated", sent.saturated},
        {"packet_frames", rig->packet_frames_max},
        {"ssrc", rig->options.sender.ssrc},
        {"channels", rig->channels},
    };
    json_t *object = json_object();
    json_object_set_new(object, "address", json_string(rig->address));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_object_set_new(object, counts[i].name, count(counts[i].value));
    json_t *dropped = json_array();
    for (uint64_t i = 0; i < rig->dropped_count; i++)
        json_array_append_new(dropped, json_pack("[I,I]", (json_int_t)rig->dropped[i].from,
                                                 (json_int_t)rig->dropped[i].until));
    json_object_set_new(object, "missing", dropped);
    json_t *records = json_array();
    for (uint64_t i = 0; i < rig->records && i < RIG_PLACES_MAX; i++)
        json_array_append_new(records, json_pack("[I,I]", (json_int_t)rig->record_starts[i].frame,
                                                 (json_int_t)rig->record_starts[i].frames));
    json_object_set_new(object, "record_starts", records);
    return object;
}
