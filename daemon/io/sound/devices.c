/* Sound devices: see devices.h. */
#include "io/sound/devices.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <portaudio.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const api_names[SOUND_APIS] = {
    [SOUND_API_ANY] = "any",
    [SOUND_API_ALSA] = "alsa",
    [SOUND_API_JACK] = "jack",
};

const char *sound_api_name(enum sound_api api)
{
    return (unsigned)api < SOUND_APIS ? api_names[(unsigned)api] : "?";
}

int sound_devices_list(struct sound_device *devices, int capacity)
{
    int count = Pa_GetDeviceCount();
    for (int i = 0; i < count && i < capacity; i++) {
        const PaDeviceInfo *info = Pa_GetDeviceInfo(i);
        const PaHostApiInfo *api = Pa_GetHostApiInfo(info->hostApi);
        struct sound_device *device = &devices[i];
        *device = (struct sound_device){
            .api = api->type == paALSA   ? SOUND_API_ALSA
                   : api->type == paJACK ? SOUND_API_JACK
                                         : SOUND_API_ANY,
            .index = i,
            .inputs = (uint32_t)info->maxInputChannels,
            .outputs = (uint32_t)info->maxOutputChannels,
            .rate_hz = info->defaultSampleRate,
            .input_latency_s = {info->defaultLowInputLatency, info->defaultHighInputLatency},
            .output_latency_s = {info->defaultLowOutputLatency, info->defaultHighOutputLatency},
        };
        snprintf(device->name, sizeof device->name, "%s", info->name);
        snprintf(device->api_name, sizeof device->api_name, "%s", api->name);
    }
    return count > 0 ? count : 0;
}

/* ---- finding ----------------------------------------------------------------------------- */

static bool contains(const char *name, const char *part)
{
    return strcasestr(name, part) != NULL;
}

static bool matches(const char *name, const char *pattern)
{
    return fnmatch(pattern, name, FNM_CASEFOLD) == 0;
}

static bool equals(const char *name, const char *wanted)
{
    return strcmp(name, wanted) == 0;
}

static bool serves(const struct sound_device *device, const struct sound_request *request)
{
    return (request->api == SOUND_API_ANY || request->api == device->api) &&
           (request->capture.channels == 0 || device->inputs > 0) &&
           (request->playback.channels == 0 || device->outputs > 0);
}

static void list_names(const struct sound_device *devices, int count, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s`%s` (%s)", i > 0 ? ", " : "",
                                 devices[i].name, sound_api_name(devices[i].api));
}

int sound_devices_find(const struct sound_device *devices, int count,
                       const struct sound_request *request, struct problem *problem)
{
    static bool (*const ways[])(const char *, const char *) = {equals, matches, contains};
    char names[300];
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        int found = -1, others = 0;
        for (int i = 0; i < count; i++) {
            if (!serves(&devices[i], request) || !ways[way](devices[i].name, request->device))
                continue;
            others += found >= 0;
            found = i;
        }
        if (others > 0) {
            list_names(devices, count, names, sizeof names);
            return problem_set(
                problem, ERROR_ARGUMENT,
                "%d sound devices answer to `%s`; write a whole name, or `host api`: "
                "there are %s",
                others + 1, request->device, names);
        }
        if (found >= 0)
            return found;
    }
    list_names(devices, count, names, sizeof names);
    return problem_set(problem, ERROR_NO_FILE, "no sound device answers to `%s`; there %s %s",
                       request->device, count == 1 ? "is" : "are", count > 0 ? names : "none");
}

/* ---- devices that convert samples -------------------------------------------------------- */

bool sound_device_hardware(const char *name, int *card, int *device)
{
    const char *at = strstr(name, "(hw:");
    if (at == NULL && strncmp(name, "hw:", 3) == 0)
        at = name - 1;
    return at != NULL && sscanf(at + 1, "hw:%d,%d", card, device) == 2;
}

/* A part of a device's name, and what such a device does. */
static const struct {
    const char *part;
    const char *does;
} converting[] = {
    {"dmix", "mixes and resamples what several programs play"},
    {"dsnoop", "shares one converter at a fixed rate"},
    {"plug", "converts rate, format and channels"},
    {"pulse", "is a sound server that resamples and mixes"},
    {"pipewire", "is a sound server that resamples and mixes"},
    {"jack", "goes through a second layer; choose `host api = jack`"},
    {"oss", "converts rate and format"},
    {"samplerate", "resamples"},
    {"speexrate", "resamples"},
    {"lavrate", "resamples"},
    {"upmix", "changes channels"},
    {"vdownmix", "changes channels"},
    {"default", "converts rate, format and channels"},
};

const char *sound_device_converts(const struct sound_device *device)
{
    int card, number;
    if (device->api == SOUND_API_JACK)
        return NULL;
    if (sound_device_hardware(device->name, &card, &number))
        return NULL;
    for (size_t i = 0; i < sizeof converting / sizeof converting[0]; i++)
        if (contains(device->name, converting[i].part))
            return converting[i].does;
    /* surround51, front, iec958 …: defined in asound.conf, with plugins of unknown effect. */
    return "is a name of the ALSA configuration and no hardware device (hw:CARD,DEVICE)";
}

/* ---- hardware parameters ----------------------------------------------------------------- */

bool sound_hardware_parse(const char *text, struct sound_hardware *hardware)
{
    *hardware = (struct sound_hardware){0};
    for (const char *line = text; line != NULL && *line != '\0';) {
        unsigned number;
        double rate;
        if (sscanf(line, "format: %23s", hardware->format) != 1 &&
            sscanf(line, "channels: %u", &number) == 1)
            hardware->channels = number;
        else if (sscanf(line, "rate: %lf", &rate) == 1)
            hardware->rate_hz = rate;
        else if (sscanf(line, "period_size: %u", &number) == 1)
            hardware->period_frames = number;
        else if (sscanf(line, "buffer_size: %u", &number) == 1)
            hardware->buffer_frames = number;
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return hardware->format[0] != '\0' && hardware->rate_hz > 0;
}

const char *sound_hardware_differs(const struct sound_hardware *hardware,
                                   const struct sample_format *format, double rate_hz, char *text,
                                   size_t bytes)
{
    static const struct {
        const char *hardware, *ours;
    } same[] = {
        {"U8", "u8"},        {"S16_LE", "s16"}, {"S16_BE", "s16"}, {"S24_3LE", "s24"},
        {"S24_3BE", "s24"},  {"S32_LE", "s32"}, {"S32_BE", "s32"}, {"FLOAT_LE", "f32"},
        {"FLOAT_BE", "f32"}, {"S24_LE", "s32"}, {"S24_BE", "s32"},
    };
    char name[24];
    sample_format_name(format, name);
    const char *native = NULL;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (strcmp(hardware->format, same[i].hardware) == 0)
            native = same[i].ours;
    if (native != NULL && strncmp(name, native, strlen(native)) != 0) {
        snprintf(text, bytes,
                 "the hardware's samples are %s, not %s; write format = %s, which carries them "
                 "unchanged",
                 hardware->format, name, native);
        return text;
    }
    if (hardware->rate_hz < rate_hz - 0.5 || hardware->rate_hz > rate_hz + 0.5) {
        snprintf(text, bytes,
                 "the hardware runs at %.15g Hz, not at %.15g Hz; write rate = %.15g Hz",
                 hardware->rate_hz, rate_hz, hardware->rate_hz);
        return text;
    }
    return NULL;
}

/* ---- the list ---------------------------------------------------------------------------- */

static void print_latency(FILE *out, const char *what, const double latency_s[2])
{
    fprintf(out, ", %s latency %.1f … %.1f ms", what, 1e3 * latency_s[0], 1e3 * latency_s[1]);
}

/* The usual rates, and a device's default behind them: those at which it opens are listed. */
static const double rates_hz[] = {8000,  11025, 16000, 22050,  32000,  44100,
                                  48000, 88200, 96000, 176400, 192000, 384000};
enum { RATES = sizeof rates_hz / sizeof rates_hz[0] };

static double rate_at(const struct sound_device *device, int i)
{
    return i < RATES ? rates_hz[i] : device->rate_hz;
}

static void print_rates(FILE *out, const struct sound_device *device, uint32_t rates)
{
    bool listed = false;
    for (int i = 0; i <= RATES; i++) {
        if (!(rates >> i & 1))
            continue;
        fprintf(out, "%s%.15g", listed ? ", " : "", rate_at(device, i));
        listed = true;
    }
    fprintf(out, "%s", listed ? " Hz" : "no rate opens now (does another program use it?)");
}

/* Both directions together where they open at the same rates. */
static void print_all_rates(FILE *out, const struct sound_device *device)
{
    const uint32_t in = device->input_rates, playback = device->output_rates;
    if (device->inputs == 0 || device->outputs == 0 || in == playback) {
        print_rates(out, device, device->inputs > 0 ? in : playback);
        return;
    }
    fprintf(out, "in at ");
    print_rates(out, device, in);
    fprintf(out, ", out at ");
    print_rates(out, device, playback);
}

static void print_devices(const struct sound_device *devices, int count, FILE *out)
{
    for (int i = 0; i < count; i++) {
        const struct sound_device *device = &devices[i];
        const char *converts = sound_device_converts(device);
        fprintf(out, "sound: %s\n   %s, %u in, %u out", device->name, device->api_name,
                device->inputs, device->outputs);
        if (converts != NULL) {
            fprintf(out, "\n   not for measurement, refused: %s\n", converts);
            continue;
        }
        fprintf(out, ", ");
        print_all_rates(out, device);
        if (device->inputs > 0)
            print_latency(out, "input", device->input_latency_s);
        if (device->outputs > 0)
            print_latency(out, "output", device->output_latency_s);
        fputc('\n', out);
    }
}

/* What Pa_IsFormatSupported calls supported need not open; what opens does. */
static bool opens(const PaStreamParameters *in, const PaStreamParameters *out, double rate_hz)
{
    PaStream *stream = NULL;
    if (Pa_IsFormatSupported(in, out, rate_hz) != paFormatIsSupported ||
        Pa_OpenStream(&stream, in, out, rate_hz, paFramesPerBufferUnspecified, paNoFlag, NULL,
                      NULL) != paNoError)
        return false;
    Pa_CloseStream(stream);
    return true;
}

static uint32_t open_rates(const struct sound_device *device, bool input)
{
    const PaStreamParameters parameters = {
        .device = device->index,
        .channelCount = (int)(input ? device->inputs : device->outputs),
        .sampleFormat = paFloat32,
        .suggestedLatency = input ? device->input_latency_s[1] : device->output_latency_s[1],
    };
    uint32_t rates = 0;
    bool usual = false;
    for (int i = 0; parameters.channelCount > 0 && i <= RATES; i++) {
        const double rate_hz = rate_at(device, i);
        usual = usual || (i < RATES && rate_hz == device->rate_hz);
        if ((i < RATES || !usual) &&
            opens(input ? &parameters : NULL, input ? NULL : &parameters, rate_hz))
            rates |= 1u << i;
    }
    return rates;
}

void sound_devices_main(void)
{
    struct sound_device devices[SOUND_DEVICES_MAX];
    int stderr_fd = dup(STDERR_FILENO), null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    fflush(stderr);
    if (null_fd >= 0)
        dup2(null_fd, STDERR_FILENO);
    int count = 0;
    PaError error = Pa_Initialize();
    if (error == paNoError) {
        count = sound_devices_list(devices, SOUND_DEVICES_MAX);
        count = count < SOUND_DEVICES_MAX ? count : SOUND_DEVICES_MAX;
        for (int i = 0; i < count; i++)
            if (sound_device_converts(&devices[i]) == NULL) {
                devices[i].input_rates = open_rates(&devices[i], true);
                devices[i].output_rates = open_rates(&devices[i], false);
            }
        Pa_Terminate();
    }
    if (stderr_fd >= 0) {
        dup2(stderr_fd, STDERR_FILENO);
        close(stderr_fd);
    }
    if (null_fd >= 0)
        close(null_fd);
    print_devices(devices, count, stdout);
    if (count == 0)
        printf("sound: no device: no ALSA hardware, and no JACK server is running%s%s\n",
               error == paNoError ? "" : ": ", error == paNoError ? "" : Pa_GetErrorText(error));
    /* Run no exit handlers of the libraries, and let no leak checker see what they leave behind. */
    _exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

int sound_devices_print(void)
{
    char name[] = "convolvd", argument[] = SOUND_DEVICES_ARGUMENT;
    char *const arguments[] = {name, argument, NULL};
    pid_t child;
    int status = 0;
    fflush(stdout);
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) != 0 ||
        waitpid(child, &status, 0) != child)
        return ERROR_SYSTEM;
    if (WIFSIGNALED(status))
        printf("sound: PortAudio ended with signal %d (%s) while it looked: ALSA's configuration "
               "($ALSA_CONFIG_PATH, /etc/asound.conf, ~/.asoundrc) defines devices that it cannot "
               "take\n",
               WTERMSIG(status), strsignal(WTERMSIG(status)));
    return 0;
}
