/*
 * Helper process of a sound card: see helper.h. The main thread finds, opens and watches the device
 * and makes convolvers for direct mode. PortAudio's thread runs on_period, which copies between the
 * device and the rings (or convolves), stores times and flags, and rings the doorbell; it does
 * nothing else.
 */
#include "io/sound/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <jack/jack.h>
#include <jack/thread.h>
#include <math.h>
#include <pa_jack.h>
#include <pa_linux_alsa.h>
#include <poll.h>
#include <portaudio.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/doorbell.h"
#include "io/sound/cycle.h"
#include "io/sound/devices.h"
#include "io/sound/direct.h"
#include "io/sound/ring.h"

enum {
    POLL_MS = 50,     /* between two checks of a running device */
    SILENT_MS = 2000, /* without a callback: the device is lost */
    TERMINATE_S = 2,  /* for PortAudio to close the device; then the process exits anyway */
};

struct helper {
    struct sound_shared *shared;
    PaStream *stream;
    enum sound_api api;
    jack_client_t *jack; /* only reads the server's frame count; NULL: the device is not JACK's */
    struct sound_direct direct;
    uint32_t direct_period; /* frames of a period that `direct` was made for */
    int next_filters;       /* descriptor of changed filters not yet in use; -1: none */
    bool changing;          /* the callback has been offered changed filters */
    /* the callback's thread */
    _Atomic bool thread_known;
    pthread_t thread;
    double last_adc_s, last_now_s;
    struct sound_cycle cycle; /* of JACK; other devices: one callback each */
    uint32_t last_frames;
};

/* ---- the callback ------------------------------------------------------------------------ */

static void count_flags(struct sound_shared *shared, PaStreamCallbackFlags flags)
{
    static const struct {
        PaStreamCallbackFlags flag;
        enum sound_counter counter;
    } counted[] = {
        {paInputOverflow, SOUND_INPUT_OVERFLOW},   {paInputUnderflow, SOUND_INPUT_UNDERFLOW},
        {paOutputOverflow, SOUND_OUTPUT_OVERFLOW}, {paOutputUnderflow, SOUND_OUTPUT_UNDERFLOW},
        {paPrimingOutput, SOUND_PRIMING},
    };
    if (flags == 0)
        return;
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++)
        if (flags & counted[i].flag)
            sound_count_add(shared, counted[i].counter, 1);
}

/*
 * Frames that a device other than JACK lost before this callback. The stream's clock tells, and
 * only when a flag reports a loss: its time is known to a fraction of a period, and the loss is
 * rounded to whole periods.
 */
static uint64_t frames_lost(const struct helper *helper, double now_s, PaStreamCallbackFlags flags)
{
    if (!(flags & (paInputOverflow | paOutputUnderflow)) || helper->last_frames == 0)
        return 0;
    double lost =
        (now_s - helper->last_now_s) * helper->shared->request.rate_hz - helper->last_frames;
    double periods = floor(lost / helper->last_frames + 0.5);
    return periods > 0 ? (uint64_t)periods * helper->last_frames : 0;
}

/* Where the callback is in its cycle. JACK counts frames, so every lost cycle shows. */
static struct sound_cycle_step next_step(struct helper *helper, uint32_t frames, double now_s,
                                         PaStreamCallbackFlags flags, int64_t callback_ns)
{
    if (helper->jack != NULL)
        return sound_cycle_next(&helper->cycle, jack_last_frame_time(helper->jack),
                                jack_get_buffer_size(helper->jack), frames, callback_ns);
    helper->cycle.callback_ns = callback_ns;
    return (struct sound_cycle_step){
        .begins = true, .ends = true, .lost = frames_lost(helper, now_s, flags)};
}

static int on_period(const void *input, void *output, unsigned long count,
                     const PaStreamCallbackTimeInfo *time, PaStreamCallbackFlags flags,
                     void *context)
{
    struct helper *helper = context;
    struct sound_shared *shared = helper->shared;
    int64_t callback_ns = clock_monotonic_ns();
    uint32_t frames = (uint32_t)count, played = 0;
    if (!helper->thread_known) {
        helper->thread = pthread_self();
        helper->thread_known = true;
    }
    count_flags(shared, flags);
    const struct sound_cycle_step step =
        next_step(helper, frames, time->currentTime, flags, callback_ns);
    if (step.begins)
        sound_ring_end(shared); /* a cycle that came shorter than the server announced it */
    if (step.lost > 0)
        sound_ring_lose(shared, step.lost);
    if (shared->request.capture.channels > 0) {
        double adc_s = time->inputBufferAdcTime;
        bool usable = adc_s > 0 && adc_s > helper->last_adc_s;
        if (!usable)
            sound_count_add(shared, SOUND_BAD_TIME, 1);
        helper->last_adc_s = adc_s;
        sound_ring_store(shared, input, frames, helper->cycle.callback_ns, step.behind,
                         callback_ns - (int64_t)((time->currentTime - adc_s) * 1e9), usable);
    }
    if (helper->direct.process != NULL)
        helper->direct.process(helper->direct.context, input, output, frames);
    else if (shared->request.playback.channels > 0)
        played = sound_ring_play(shared, output, frames);
    sound_ring_advance(shared, frames, played, helper->cycle.callback_ns);
    if (step.ends)
        sound_ring_end(shared);
    helper->last_now_s = time->currentTime;
    helper->last_frames = frames;
    if (step.ends)
        doorbell_ring(SOUND_DOORBELL_FD);
    return paContinue;
}

/* ---- state ------------------------------------------------------------------------------- */

static void set_state(const struct helper *helper, enum sound_state state)
{
    char byte = (char)state;
    atomic_store(&helper->shared->state, state);
    ssize_t written = send(SOUND_CONTROL_FD, &byte, 1, MSG_NOSIGNAL);
    (void)written; /* it fails when the daemon is gone; then the control socket ends too */
}

/* Ends the session in this state; returns the exit status. */
static int end(const struct helper *helper, enum sound_state state, const char *text)
{
    snprintf(helper->shared->problem, sizeof helper->shared->problem, "%s", text);
    set_state(helper, state);
    return EXIT_FAILURE;
}

static int end_error(const struct helper *helper, enum sound_state state, const char *what,
                     PaError error)
{
    char text[SOUND_PROBLEM_BYTES];
    const PaHostErrorInfo *host = Pa_GetLastHostErrorInfo();
    bool of_host = error == paUnanticipatedHostError && host != NULL && host->errorText != NULL;
    snprintf(text, sizeof text, "%s: %s", what, of_host ? host->errorText : Pa_GetErrorText(error));
    return end(helper, state, text);
}

/* ---- opening ----------------------------------------------------------------------------- */

static PaSampleFormat portaudio_format(const struct sample_format *format)
{
    if (format->kind == SAMPLE_FLOAT)
        return paFloat32;
    switch (format->bytes) {
    case 1:
        return paUInt8;
    case 2:
        return paInt16;
    case 3:
        return paInt24;
    default:
        return paInt32;
    }
}

/* Why the device cannot do what the request asks for, in `text`; NULL: it can. */
static const char *refusal(const struct helper *helper, const struct sound_device *device,
                           char *text, size_t bytes)
{
    const struct sound_request *request = &helper->shared->request;
    const struct sound_side *sides[] = {&request->capture, &request->playback};
    const char *converts = sound_device_converts(device);
    if (converts != NULL && !request->allow_conversion) {
        snprintf(text, bytes,
                 "`%s` %s: its samples are not what a converter measured; choose a hardware device "
                 "(convolvd --list-devices), or write allow conversion = yes",
                 device->name, converts);
        return text;
    }
    for (int i = 0; i < 2; i++) {
        uint32_t channels = i == 0 ? device->inputs : device->outputs;
        if (sides[i]->channels > 0 && sides[i]->device_channels > channels) {
            snprintf(text, bytes,
                     "`%s` has %u %s channels, and channel %u is asked for; write fewer "
                     "`channels` or another `channel map`",
                     device->name, channels, i == 0 ? "input" : "output",
                     sides[i]->device_channels);
            return text;
        }
        if (device->api == SOUND_API_JACK && sides[i]->channels > 0 &&
            sides[i]->format.kind != SAMPLE_FLOAT && !request->allow_conversion) {
            snprintf(text, bytes, "JACK carries float samples; write format = f32");
            return text;
        }
        if (device->api == SOUND_API_JACK && sides[i]->channels > 0 &&
            fabs(device->rate_hz - request->rate_hz) > 0.5) {
            snprintf(text, bytes, "the JACK server runs at %.15g Hz; write rate = %.15g Hz",
                     device->rate_hz, device->rate_hz);
            return text;
        }
    }
    return NULL;
}

static bool read_hardware(const char *name, bool capture, struct sound_hardware *hardware)
{
    int card, device;
    char path[96], text[512];
    if (!sound_device_hardware(name, &card, &device))
        return false;
    snprintf(path, sizeof path, "/proc/asound/card%d/pcm%d%c/sub0/hw_params", card, device,
             capture ? 'c' : 'p');
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0)
        return false;
    text[bytes] = '\0';
    return sound_hardware_parse(text, hardware);
}

/* Records the hardware's parameters as the kernel reports them. Returns why they differ from the
 * request, in `text`; NULL: they agree, or the kernel reports nothing. */
static const char *check_hardware(struct helper *helper, char *text, size_t bytes)
{
    struct sound_obtained *obtained = &helper->shared->obtained;
    const struct sound_request *request = &helper->shared->request;
    if (helper->api == SOUND_API_JACK)
        snprintf(obtained->format, sizeof obtained->format, "32-bit float");
    for (int i = 0; i < 2; i++) {
        const struct sound_side *side = i == 0 ? &request->capture : &request->playback;
        struct sound_hardware hardware;
        if (side->channels == 0 || !read_hardware(obtained->device, i == 0, &hardware))
            continue;
        snprintf(obtained->format, sizeof obtained->format, "%s, %u channels, period %u, buffer %u",
                 hardware.format, hardware.channels, hardware.period_frames,
                 hardware.buffer_frames);
        const char *differs =
            sound_hardware_differs(&hardware, &side->format, request->rate_hz, text, bytes);
        if (differs != NULL && !request->allow_conversion)
            return differs;
    }
    return NULL;
}

static int open_stream(struct helper *helper, const struct sound_device *device, double latency_s)
{
    const struct sound_request *request = &helper->shared->request;
    PaStreamParameters in = {.device = device->index,
                             .channelCount = (int)request->capture.device_channels,
                             .sampleFormat = portaudio_format(&request->capture.format),
                             .suggestedLatency = latency_s};
    PaStreamParameters out = {.device = device->index,
                              .channelCount = (int)request->playback.device_channels,
                              .sampleFormat = portaudio_format(&request->playback.format),
                              .suggestedLatency = latency_s};
    /* With JACK take the server's period: PortAudio would adapt another one and add a period. */
    unsigned long period = device->api == SOUND_API_JACK || request->period_frames == 0
                               ? paFramesPerBufferUnspecified
                               : request->period_frames;
    return Pa_OpenStream(&helper->stream, request->capture.channels > 0 ? &in : NULL,
                         request->playback.channels > 0 ? &out : NULL, request->rate_hz, period,
                         paClipOff | paDitherOff, on_period, helper);
}

/* Returns 0, or the exit status. */
static int open_device(struct helper *helper)
{
    struct sound_device devices[SOUND_DEVICES_MAX];
    const struct sound_request *request = &helper->shared->request;
    struct sound_obtained *obtained = &helper->shared->obtained;
    struct problem problem;
    char text[SOUND_PROBLEM_BYTES];
    int count = sound_devices_list(devices, SOUND_DEVICES_MAX);
    count = count > SOUND_DEVICES_MAX ? SOUND_DEVICES_MAX : count;
    int found = sound_devices_find(devices, count, request, &problem);
    if (found < 0)
        return end(helper, found == ERROR_NO_FILE ? SOUND_ABSENT : SOUND_REFUSED, problem.text);
    const struct sound_device *device = &devices[found];
    helper->api = device->api;
    snprintf(obtained->device, sizeof obtained->device, "%s", device->name);
    snprintf(obtained->api, sizeof obtained->api, "%s", sound_api_name(device->api));
    const char *why = refusal(helper, device, text, sizeof text);
    if (why != NULL)
        return end(helper, SOUND_REFUSED, why);
    /* Three periods in the hardware's buffer. */
    double latency_s =
        3.0 * (request->period_frames > 0 ? request->period_frames : 256) / request->rate_hz;
    PaError error = open_stream(helper, device, latency_s);
    if (error == paInvalidSampleRate || error == paInvalidChannelCount ||
        error == paSampleFormatNotSupported || error == paBadIODeviceCombination)
        return end_error(helper, SOUND_REFUSED, device->name, error);
    if (error != paNoError)
        return end_error(helper, SOUND_ABSENT, device->name, error);
    const PaStreamInfo *info = Pa_GetStreamInfo(helper->stream);
    obtained->rate_hz = info->sampleRate;
    /* PortAudio's latencies of a JACK stream lack the server's own period. */
    bool jack = helper->api == SOUND_API_JACK;
    obtained->input_latency_s = jack ? device->input_latency_s[0] : info->inputLatency;
    obtained->output_latency_s = jack ? device->output_latency_s[0] : info->outputLatency;
    if (fabs(info->sampleRate - request->rate_hz) > 0.5 && !request->allow_conversion) {
        snprintf(text, sizeof text, "`%s` runs at %.15g Hz; write rate = %.15g Hz", device->name,
                 info->sampleRate, info->sampleRate);
        return end(helper, SOUND_REFUSED, text);
    }
    why = check_hardware(helper, text, sizeof text);
    if (why != NULL)
        return end(helper, SOUND_REFUSED, why);
    if (helper->api == SOUND_API_JACK)
        helper->jack = jack_client_open("convolvd-clock", JackNoStartServer, NULL);
    if (helper->api == SOUND_API_ALSA)
        PaAlsa_EnableRealtimeScheduling(helper->stream, 1);
    return 0;
}

/* ---- direct mode ------------------------------------------------------------------------- */

/* Maps packed filters; NULL when there are none. */
static void *map_filters(int fd, size_t *bytes)
{
    struct stat status;
    *bytes = 0;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
        return NULL;
    void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
    *bytes = (size_t)status.st_size;
    return memory == MAP_FAILED ? NULL : memory;
}

/* Gives this thread the callback's priority while it measures: real time where JACK's threads have
 * it. */
static void set_priority(const struct helper *helper, bool real_time)
{
    int priority = helper->jack != NULL && jack_is_realtime(helper->jack)
                       ? jack_client_real_time_priority(helper->jack)
                       : -1;
    struct sched_param param = {.sched_priority = real_time ? priority : 0};
    if (priority > 0)
        pthread_setschedparam(pthread_self(), real_time ? SCHED_FIFO : SCHED_OTHER, &param);
}

/* Returns 0, or the exit status. */
static int prepare_direct(struct helper *helper)
{
    struct sound_obtained *obtained = &helper->shared->obtained;
    const struct sound_request *request = &helper->shared->request;
    struct sound_direct_times times = {0};
    struct problem problem;
    size_t bytes;
    void *filters = map_filters(SOUND_FILTER_FD, &bytes);
    if (filters == NULL)
        return 0;
    uint32_t period =
        helper->jack != NULL ? jack_get_buffer_size(helper->jack) : request->period_frames;
    helper->direct_period = period;
    set_priority(helper, true);
    int error =
        sound_direct_make(filters, bytes, request, period, &helper->direct, &times, &problem);
    set_priority(helper, false);
    munmap(filters, bytes);
    obtained->direct_median_ns = times.median_ns;
    obtained->direct_worst_ns = times.worst_ns;
    obtained->direct_period_ns = times.period_ns;
    return error == 0 ? 0 : end(helper, SOUND_REFUSED, problem.text);
}

/* At every poll: makes a convolver from changed filters, at normal priority, and offers it to the
 * callback. Refuses filters that are too slow; then the old ones stay in use. */
static void change_filters(struct helper *helper)
{
    struct sound_shared *shared = helper->shared;
    struct sound_direct next = {0};
    struct sound_direct_times times;
    struct problem problem;
    size_t bytes;
    if (helper->direct.process == NULL || !sound_direct_settled(&helper->direct))
        return;
    if (helper->changing)
        sound_count_add(shared, SOUND_FILTERS_CHANGED, 1);
    helper->changing = false;
    if (helper->next_filters < 0)
        return;
    void *filters = map_filters(helper->next_filters, &bytes);
    int error = filters == NULL ? problem_set(&problem, ERROR_MEMORY,
                                              "no memory for the filters of direct mode")
                                : sound_direct_make(filters, bytes, &shared->request,
                                                    helper->direct_period, &next, &times, &problem);
    if (filters != NULL)
        munmap(filters, bytes);
    close(helper->next_filters);
    helper->next_filters = -1;
    if (error < 0) {
        snprintf(shared->problem, sizeof shared->problem, "%s", problem.text);
        sound_count_add(shared, SOUND_FILTERS_REFUSED, 1);
        return;
    }
    shared->obtained.direct_median_ns = times.median_ns;
    shared->obtained.direct_worst_ns = times.worst_ns;
    sound_direct_offer(&helper->direct, &next);
    helper->changing = true;
}

/* ---- running ----------------------------------------------------------------------------- */

/* Waits up to timeout_ms (-1: for ever) for a message of the daemon and takes it: *started is true
 * for the byte that starts the device; changed filters go to next_filters. Returns false when the
 * daemon has closed its end. */
static bool receive_control(struct helper *helper, int timeout_ms, bool *started)
{
    struct pollfd control = {.fd = SOUND_CONTROL_FD, .events = POLLIN};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } with;
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &with, .msg_controllen = sizeof with};
    *started = false;
    if (poll(&control, 1, timeout_ms) <= 0)
        return true;
    ssize_t bytes = recvmsg(SOUND_CONTROL_FD, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = bytes == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    *started = bytes == 1 && head == NULL;
    if (head != NULL && head->cmsg_type == SCM_RIGHTS) {
        if (helper->next_filters >= 0) /* newer filters replace those not yet in use */
            close(helper->next_filters);
        memcpy(&helper->next_filters, CMSG_DATA(head), sizeof helper->next_filters);
    }
    return bytes > 0 || (bytes < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Stores the priority of the callback's thread once that is known. */
static void read_priority(struct helper *helper)
{
    struct sound_obtained *obtained = &helper->shared->obtained;
    struct sched_param param;
    int policy;
    if (atomic_load_explicit(&obtained->policy, memory_order_relaxed) >= 0 ||
        !helper->thread_known || pthread_getschedparam(helper->thread, &policy, &param) != 0)
        return;
    obtained->priority = param.sched_priority;
    atomic_store_explicit(&obtained->policy, policy, memory_order_release);
}

static int run(struct helper *helper)
{
    bool started = false;
    while (!started)
        if (!receive_control(helper, -1, &started))
            return EXIT_SUCCESS;
    PaError error = Pa_StartStream(helper->stream);
    if (error != paNoError)
        return end_error(helper, SOUND_LOST, "the device does not start", error);
    set_state(helper, SOUND_RUNNING);
    uint64_t seen = 0;
    int64_t seen_ns = clock_monotonic_ns();
    while (receive_control(helper, POLL_MS, &started)) {
        change_filters(helper);
        uint64_t callbacks = sound_count(helper->shared, SOUND_CALLBACKS);
        int64_t now_ns = clock_monotonic_ns();
        read_priority(helper);
        if (callbacks != seen)
            seen_ns = now_ns;
        seen = callbacks;
        if (Pa_IsStreamActive(helper->stream) != 1)
            return end(helper, SOUND_LOST, "the device has gone away");
        if (now_ns - seen_ns > SILENT_MS * NS_PER_MS)
            return end(helper, SOUND_LOST, "the device has fallen silent");
    }
    return EXIT_SUCCESS;
}

static struct sound_shared *map_memory(void)
{
    struct stat status;
    if (fstat(SOUND_MEMORY_FD, &status) != 0 ||
        (size_t)status.st_size < sizeof(struct sound_shared))
        return NULL;
    void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_POPULATE, SOUND_MEMORY_FD, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* The daemon handles the signals of the terminal and the service manager; it closes the control
 * socket when it stops. */
static void ignore_signals(void)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        signal(ignored[i], SIG_IGN);
}

/* ALSA and JACK write messages to stderr for every device that is absent. */
static void silence_libraries(void)
{
    int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null_fd >= 0)
        dup2(null_fd, STDERR_FILENO);
}

int sound_helper_main(void)
{
    struct helper helper = {.shared = map_memory(), .next_filters = -1};
    if (helper.shared == NULL)
        return EXIT_FAILURE;
    ignore_signals();
    prctl(PR_SET_NAME, "convolvd-sound");
    if (!helper.shared->request.verbose)
        silence_libraries();
    PaJack_SetClientName(helper.shared->request.client);
    PaError error = Pa_Initialize();
    if (error != paNoError)
        return end_error(&helper, SOUND_ABSENT, "PortAudio does not start", error);
    int status = open_device(&helper);
    if (status == 0)
        status = prepare_direct(&helper);
    if (status == 0) {
        set_state(&helper, SOUND_OPEN);
        status = run(&helper);
    }
    /* Exit even if Pa_Terminate waits for a server that is gone. */
    alarm(TERMINATE_S);
    signal(SIGALRM, SIG_DFL);
    if (status == EXIT_SUCCESS) {
        Pa_Terminate(); /* closes the stream: the callback no longer runs */
        sound_direct_free(&helper.direct);
    }
    _exit(status);
}
