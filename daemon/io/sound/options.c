/* Options of sound cards: see options.h. The checks do not look for the device, which may appear
 * later; opening it shows whether it can do what the options ask for. */
#include "io/sound/options.h"

#include <inttypes.h>
#include <string.h>

#include "io/rows.h"
#include "io/sources.h"

enum { PERIOD_MIN = 16, PERIOD_MAX = 8192, PERIOD_ELSE = 256, HALF = 2 };

#define FIELD(member) OPTION_FIELD(struct sound_options, member)

static const struct option_choice apis[] = {
    {"any", SOUND_API_ANY}, {"alsa", SOUND_API_ALSA}, {"jack", SOUND_API_JACK}, {NULL, 0}};
static const struct option_choice resamples[] = {
    {"auto", RESAMPLE_AUTO}, {"yes", RESAMPLE_YES}, {"no", RESAMPLE_NO}, {NULL, 0}};

static const char host_api_sentence[] =
    "Which of PortAudio's host APIs the device belongs to, where a name alone could mean several.";

enum { SOURCE_ROW_PERIOD = 3, SOURCE_ROW_ROUND_TRIP = 5 };

const struct option_row sound_source_rows[SOUND_SOURCE_ROWS] = {
    {.key = "card",
     .type = OPTION_TEXT,
     .required = true,
     FIELD(device),
     .sentence = "The sound device, as `convolvd --list-devices` names it: a whole name, a pattern "
                 "with * and ?, or a part of the name that only one device has."},
    {.key = "host api",
     .type = OPTION_CHOICE,
     .fallback = "any",
     .choices = apis,
     FIELD(api),
     .sentence = host_api_sentence},
    {.key = "channel map",
     .type = OPTION_COUNT,
     .list = LIST_COMMA,
     .minimum = 1,
     .maximum = SOUND_CHANNELS_MAX,
     .fallback_words = "1, 2, … up to `channels`",
     FIELD(map),
     .sentence = "The device's input channel, counted from 1, of each channel of the stream."},
    [SOURCE_ROW_PERIOD] = {.key = "device period",
                           .type = OPTION_SPAN,
                           .minimum = PERIOD_MIN,
                           .maximum = PERIOD_MAX,
                           .fallback_words = "`block` when it lies within 16 … 8192 frames, else "
                                             "256; a JACK server has its own",
                           FIELD(period),
                           .sentence = "Frames of one period of an ALSA device: how often it "
                                       "interrupts, and what it adds to the latency."},
    {.key = "duplex",
     .type = OPTION_BOOLEAN,
     .fallback = "no",
     FIELD(duplex),
     .sentence = "Whether capture and playback are opened as one: the sink with the same `card` "
                 "and `duplex = yes` plays in the same callbacks, so that what goes out and what "
                 "comes in share frame numbers."},
    [SOURCE_ROW_ROUND_TRIP] = {.key = "round trip",
                               .type = OPTION_SPAN,
                               .maximum = 1048576,
                               .fallback_words = "what `convolvd --measure-loopback` found for "
                                                 "this card and rate, else 0",
                               FIELD(round_trip),
                               .sentence = "Time from the play of an excitation to its capture, on "
                                           "a duplex card that plays another stream: declared with "
                                           "the filter's delay, and applied with it by `align`."},
    {.key = "allow conversion",
     .type = OPTION_BOOLEAN,
     .fallback = "no",
     FIELD(allow_conversion),
     .sentence =
         "Whether a device may be used that resamples, mixes or converts without saying so "
         "(default, plug, dmix, pulse, pipewire); its samples are not what a converter measured."},
    SOURCE_ROW_MODE,
    SOURCE_ROW_MAX_GAP,
};

enum { SINK_ROW_PERIOD = 3, SINK_ROW_LATENCY };

const struct option_row sound_sink_rows[SOUND_SINK_ROWS] = {
    {.key = "card",
     .type = OPTION_TEXT,
     .required = true,
     FIELD(device),
     .sentence = "The sound device to play on, as `convolvd --list-devices` names it: a whole "
                 "name, a pattern with * and ?, or a part of the name that only one device has."},
    {.key = "host api",
     .type = OPTION_CHOICE,
     .fallback = "any",
     .choices = apis,
     FIELD(api),
     .sentence = host_api_sentence},
    {.key = "channel map",
     .type = OPTION_COUNT,
     .list = LIST_COMMA,
     .minimum = 1,
     .maximum = SOUND_CHANNELS_MAX,
     .fallback_words = "1, 2, … up to the stream's outputs",
     FIELD(map),
     .sentence = "The device's output channel, counted from 1, of each output of the stream; the "
                 "others are silent."},
    [SINK_ROW_PERIOD] = {.key = "device period",
                         .type = OPTION_SPAN,
                         .minimum = PERIOD_MIN,
                         .maximum = PERIOD_MAX,
                         .fallback_words = "as for streams",
                         FIELD(period),
                         .sentence = "Frames of one period of an ALSA device; with `duplex = yes` "
                                     "the stream's."},
    [SINK_ROW_LATENCY] = {.key = "latency",
                          .type = OPTION_SPAN,
                          .minimum = 1,
                          .maximum = 1048576,
                          .fallback_words = "the least that can be kept: one period when `block` "
                                            "divides it; 2 × (block + period) without `duplex`",
                          FIELD(latency),
                          .sentence = "How long after its capture a frame is played on a duplex "
                                      "card, exactly; else how much waits in the buffer."},
    {.key = "duplex",
     .type = OPTION_BOOLEAN,
     .fallback = "no",
     FIELD(duplex),
     .sentence = "Whether the device is the one that a stream with `duplex = yes` captures from, "
                 "opened as one with it."},
    {.key = "resample",
     .type = OPTION_CHOICE,
     .fallback = "auto",
     .choices = resamples,
     FIELD(resample_setting),
     .sentence = "Whether what is played is resampled to follow the stream's clock, so that "
                 "`latency` holds for ever; auto: where source and card have clocks of their own "
                 "(a live or paced source, no `duplex`). Nothing but what is played is ever "
                 "resampled."},
    {.key = "allow conversion",
     .type = OPTION_BOOLEAN,
     .fallback = "no",
     FIELD(allow_conversion),
     .sentence = "Whether a device may be used that resamples, mixes or converts without saying "
                 "so."},
};

/* ---- one section ------------------------------------------------------------------------- */

static bool check_map(const struct option_check *check, const struct option_values *map,
                      uint32_t channels, struct sound_side *side)
{
    side->channels = side->device_channels = channels;
    for (uint32_t c = 0; c < channels; c++)
        side->map[c] = (uint16_t)c;
    if (map->count == 0)
        return true;
    if (map->count != channels) {
        option_error(
            check, "channel map",
            "`channel map` lists %u channels of the device for %u of the stream; write one for "
            "each",
            map->count, channels);
        return false;
    }
    side->device_channels = 0;
    for (uint32_t c = 0; c < channels; c++) {
        side->map[c] = (uint16_t)(map->values[c].integer - 1);
        if (side->map[c] + 1u > side->device_channels)
            side->device_channels = side->map[c] + 1u;
    }
    return true;
}

static bool check_format(const struct option_check *check, const struct sample_format *format)
{
    char name[24];
    bool good = !format->big_endian && (format->kind == SAMPLE_FLOAT ||
                                        (format->kind == SAMPLE_SIGNED && format->bytes > 1) ||
                                        (format->kind == SAMPLE_UNSIGNED && format->bytes == 1));
    if (!good)
        option_error(check, "format",
                     "PortAudio knows u8, s16le, s24le, s32le and f32le, not %s; write the one the "
                     "hardware has",
                     sample_format_name(format, name));
    return good;
}

static bool check_request(const struct option_check *check, const struct daemon_facts *facts,
                          const struct option_row *period_row, double rate_hz,
                          struct sound_options *sound)
{
    struct sound_request *request = &sound->request;
    snprintf(request->client, sizeof request->client, "convolvd-%.40s", check->section);
    if (strlen(sound->device) >= sizeof request->device) {
        option_error(check, "card", "a device's name has at most %zu bytes; write a part of it",
                     sizeof request->device - 1);
        return false;
    }
    snprintf(request->device, sizeof request->device, "%s", sound->device);
    request->api = sound->api;
    request->rate_hz = rate_hz;
    request->allow_conversion = sound->allow_conversion;
    request->verbose = facts->debug;
    uint64_t period = 0;
    bool good = option_frames(check, period_row, sound->period, rate_hz, &period);
    request->period_frames = (uint32_t)period;
    return good;
}

/* Sets the default period, which depends on the block; the checks of both directions call it. */
static void set_period(struct sound_options *sound, uint32_t hop_frames)
{
    bool fits = hop_frames >= PERIOD_MIN && hop_frames <= PERIOD_MAX;
    if (sound->request.period_frames == 0)
        sound->request.period_frames = fits ? hop_frames : PERIOD_ELSE;
}

int sound_source_check(const struct option_check *check, const struct daemon_facts *facts,
                       struct source_options *options)
{
    struct sound_options *sound = options->own;
    const double rate_hz = options->rate_hz;
    if (!check_format(check, &options->format) ||
        !check_request(check, facts, &sound_source_rows[SOURCE_ROW_PERIOD], rate_hz, sound) ||
        !check_map(check, &sound->map, options->channels, &sound->request.capture))
        return ERROR_CONFIG;
    sound->request.capture.format = options->format;
    sound->direct_mode = options->mode == MODE_DIRECT;
    if (options->mode == MODE_RECORD) {
        option_error(check, "mode",
                     "a sound card sends no records; write mode = continuous or direct");
        return ERROR_CONFIG;
    }
    sound->round_trip_given = sound->round_trip != NULL;
    if (!option_frames(check, &sound_source_rows[SOURCE_ROW_ROUND_TRIP], sound->round_trip, rate_hz,
                       &sound->round_trip_frames))
        return ERROR_CONFIG;
    sound->proven = true;
    return 0;
}

void sound_sink_check(const struct option_check *check, const struct daemon_facts *facts,
                      const struct stream_facts *stream, struct sink_options *options)
{
    struct sound_options *sound = options->own;
    const double rate_hz = stream->output_rate_hz;
    if (!check_format(check, &options->format) ||
        !check_request(check, facts, &sound_sink_rows[SINK_ROW_PERIOD], rate_hz, sound) ||
        !option_frames(check, &sound_sink_rows[SINK_ROW_LATENCY], sound->latency, rate_hz,
                       &sound->latency_frames) ||
        !check_map(check, &sound->map, stream->output_floats, &sound->request.playback))
        return;
    sound->request.playback.format = options->format;
    sound->proven = true;
}

/* ---- both ends of a card ----------------------------------------------------------------- */

static struct sound_options *sound_of(const struct source_section *section)
{
    struct sound_options *sound =
        section->driver == &source_portaudio ? section->options->own : NULL;
    return sound != NULL && sound->proven ? sound : NULL;
}

static bool same_device(const struct sound_request *a, const struct sound_request *b)
{
    return strcmp(a->device, b->device) == 0 && a->api == b->api;
}

/* The stream that captures from the sink's duplex card; NULL after reporting an error. */
static const struct source_section *find_capture(const struct driver_sections *all,
                                                 const struct sink_section *section,
                                                 const struct sound_options *sound)
{
    /* Prefer the stream that the sink plays; other streams may capture from the same device (JACK).
     */
    const struct source_section *played = section->stream, *found = NULL;
    const struct sound_options *own = sound_of(played);
    if (own != NULL && own->duplex && same_device(&own->request, &sound->request))
        found = played;
    for (uint32_t s = 0; found != played && s < all->source_count; s++) {
        const struct sound_options *other = sound_of(&all->sources[s]);
        if (other == NULL || !other->duplex || !same_device(&other->request, &sound->request))
            continue;
        if (found != NULL) {
            option_error(
                &section->check, "duplex",
                "streams %s and %s both capture from `%s` with duplex = yes; leave it to one",
                found->check.section, all->sources[s].check.section, sound->request.device);
            return NULL;
        }
        found = &all->sources[s];
    }
    if (found == NULL)
        option_error(&section->check, "duplex",
                     "no stream captures from `%s` with duplex = yes; write `source = portaudio`, "
                     "the same card and host api, and duplex = yes in the stream that does, or "
                     "duplex = no here",
                     sound->request.device);
    else if (sound_of(found)->request.playback.channels > 0) {
        option_error(&section->check, "duplex",
                     "another sink plays on `%s` with duplex = yes already; a card has one",
                     sound->request.device);
        found = NULL;
    }
    return found;
}

/* Adds the playback side to the options of the stream that captures from the sink's duplex card and
 * returns them; NULL after reporting an error. */
static struct sound_options *join_capture(const struct driver_sections *all,
                                          const struct sink_section *section,
                                          const struct sound_options *sound)
{
    const struct source_section *capture = find_capture(all, section, sound);
    if (capture == NULL)
        return NULL;
    const struct stream_facts *played = &section->stream->facts;
    if (capture->options->rate_hz != played->output_rate_hz) {
        option_error(&section->check, "duplex",
                     "stream %s captures at %.15g Hz and stream %s is played at %.15g Hz; a duplex "
                     "card has one rate",
                     capture->check.section, capture->options->rate_hz, played->name,
                     played->output_rate_hz);
        return NULL;
    }
    struct sound_options *both = sound_of(capture);
    both->request.playback = sound->request.playback;
    both->request.allow_conversion |= sound->request.allow_conversion;
    both->own = capture == section->stream;
    both->latency_frames = sound->latency_frames;
    return both;
}

void sound_sink_check_all(const struct driver_sections *all, uint32_t self)
{
    const struct sink_section *section = &all->sinks[self];
    const struct sound_options *written = section->options->own;
    struct sound_options *sound = section->options->own;
    if (section->broken || !sound->proven)
        return;
    if (sound->duplex)
        sound = join_capture(all, section, sound);
    if (sound == NULL)
        return;
    const struct stream_facts *played = &section->stream->facts;
    /* auto: resample when source and card have different clocks. A source that waits for room
     * follows the card's clock. */
    const enum sound_resample setting = written->resample_setting;
    if (setting == RESAMPLE_YES && sound->duplex)
        option_error(&section->check, "resample",
                     "a duplex card has one clock, and its frame numbers would lose their meaning; "
                     "write resample = no");
    sound->resample = setting == RESAMPLE_YES || (setting == RESAMPLE_AUTO && !sound->duplex &&
                                                  (played->live || played->paced));
    sound->hop_frames = (played->hop_frames + played->decimate - 1) / played->decimate;
    sound->request.playback_frames = sound->latency_frames + 8 * (uint64_t)sound->hop_frames +
                                     (uint64_t)(played->output_rate_hz / HALF);
    set_period(sound, sound->hop_frames);
    section->options->own = sound;
}

/* Direct mode plays only what the same callback captured, without delay. */
static void check_direct(const struct source_section *section, const struct sound_options *sound)
{
    const char *why = NULL;
    if (!sound->own || sound->request.playback.channels == 0)
        why = "plays what it has captured: write duplex = yes here, and a [sink] with type = "
              "portaudio, the same card and duplex = yes for this stream";
    else if (section->facts.aligned)
        why = "cannot play before it has captured; leave `align` out";
    else if (sound->latency_frames > 0)
        why = "adds no frame; leave `latency` out of its sink";
    if (why != NULL)
        option_error(&section->check, "mode", "`mode = direct` %s", why);
}

void sound_source_check_all(const struct driver_sections *all, uint32_t self)
{
    const struct source_section *section = &all->sources[self];
    struct sound_options *sound = sound_of(section);
    if (sound == NULL)
        return;
    set_period(sound, section->facts.hop_frames);
    if (sound->direct_mode)
        check_direct(section, sound);
    else if (sound->duplex && sound->request.playback.channels == 0)
        option_warning(&section->check, "duplex",
                       "no sink plays on `%s` with duplex = yes: stream %s captures alone",
                       sound->request.device, section->check.section);
}

/* ---- reports ----------------------------------------------------------------------------- */

const char *sound_source_describe(const struct source_options *options, char *text, size_t bytes)
{
    const struct sound_options *sound = options->own;
    snprintf(text, bytes, " card `%s`", sound->request.device);
    return text;
}

/* A JACK server's period is known only once it is open. */
void sound_source_report(const struct source_options *options, FILE *out)
{
    const struct sound_options *sound = options->own;
    uint32_t period = sound->request.period_frames;
    fprintf(out,
            "  sound card       one period of capture: %u frames = %.3g ms, or what a JACK server "
            "has\n",
            period, 1e3 * period / sound->request.rate_hz);
}

void sound_sink_report(const struct sink_options *options, double bytes_per_second, FILE *out)
{
    (void)bytes_per_second;
    const struct sound_options *sound = options->own;
    char format[24];
    fprintf(out, "sound card `%s`, %u channels, %s\n", sound->request.device,
            sound->request.playback.channels, sample_format_name(&options->format, format));
    if (sound->latency_frames > 0)
        fprintf(out, "%19splayed %" PRIu64 " frames = %.3g ms later\n", "", sound->latency_frames,
                1e3 * (double)sound->latency_frames / sound->request.rate_hz);
    else
        fprintf(out, "%19splayed %s later\n", "",
                sound->duplex && sound->own ? "one block and what its end waits for a period's"
                                            : "two blocks and two periods");
}
