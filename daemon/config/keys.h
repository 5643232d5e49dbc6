/*
 * Sections and keys of the configuration by number: what its own code names a key by. Keys of
 * drivers have no number here; the schema finds them by name.
 */
#ifndef CONVOLVD_CONFIG_KEYS_H
#define CONVOLVD_CONFIG_KEYS_H

#include <stdbool.h>

enum section_kind {
    SECTION_DAEMON,
    SECTION_DEVICE,
    SECTION_STREAM,
    SECTION_FILTER,
    SECTION_SINK,
    SECTION_OSC,
    SECTION_CLUSTER,
    SECTION_ALARM,
    SECTION_ANALYSIS,
    SECTIONS,
};

/* `word` begins the heading; named sections are written [word NAME]. */
struct schema_section {
    const char *word;
    bool named;
    const char *type_key; /* the key that decides which others apply; NULL: none */
    const char *sentence;
};

extern const struct schema_section schema_sections[SECTIONS];

/* The rows of the configuration itself; those of a section stand together. */
enum schema_id {
    /* [daemon] */
    KEY_LOG_LEVEL,
    KEY_RUNTIME_DIRECTORY,
    KEY_STATE_DIRECTORY,
    KEY_STATUS_ON_EXIT,
    KEY_STATUS_FILE,
    KEY_DRAIN_TIMEOUT,
    KEY_PREPARE_TIMEOUT,
    /* [device] */
    KEY_DEVICE,
    KEY_THREADS,
    KEY_LOOPS,
    KEY_NODE,
    KEY_KERNELS,
    KEY_CACHE,
    KEY_BATCHES,
    KEY_DEPTH,
    KEY_BATCH_DEADLINE,
    KEY_SELF_CHECK,
    KEY_INPUT_MEMORY,
    KEY_SPECTRUM_MEMORY,
    KEY_STATE_MEMORY,
    KEY_BATCH_MEMORY,
    /* [stream] */
    KEY_SOURCE,
    KEY_RATE,
    KEY_CHANNELS,
    KEY_FORMAT,
    KEY_BITS,
    KEY_JUSTIFY,
    KEY_FULL_SCALE,
    KEY_SENSITIVITY,
    KEY_OFFSET,
    KEY_PREAMP,
    KEY_UNIT,
    KEY_BLOCK,
    KEY_BATCH_BLOCKS,
    KEY_IDLE_FLUSH,
    KEY_LATENCY,
    KEY_DEADLINE,
    KEY_PRIORITY,
    KEY_BUFFER,
    KEY_FILTER,
    KEY_BANK,
    KEY_ROUTE,
    KEY_OUTPUT,
    KEY_TAIL,
    KEY_ALIGN,
    KEY_EXCITATION,
    KEY_EXCITATION_PERIOD,
    KEY_DECIMATE,
    KEY_STREAM_DEVICE,
    KEY_VARIANT,
    KEY_FFT,
    KEY_UNUSED,
    KEY_FLAT_LINE,
    KEY_NOISE_FLOOR,
    /* [filter] */
    KEY_TYPE,
    KEY_METHOD,
    KEY_LOW,
    KEY_HIGH,
    KEY_CUTOFF,
    KEY_TRANSITION,
    KEY_ATTENUATION,
    KEY_RIPPLE,
    KEY_TAPS,
    KEY_ANALYTIC,
    KEY_FILTER_PATH,
    KEY_DELAY,
    KEY_NORMALISE,
    KEY_WINDOW,
    KEY_TAPER,
    KEY_START,
    KEY_STOP,
    KEY_FILTER_LENGTH,
    KEY_CYCLES,
    KEY_CODE,
    KEY_ORDER,
    KEY_PAIR,
    KEY_CARRIER,
    KEY_CHIP_RATE,
    KEY_CYCLES_PER_CHIP,
    KEY_GAIN,
    KEY_INVERT,
    KEY_SPACING,
    KEY_VELOCITY_LOW,
    KEY_VELOCITY_HIGH,
    KEY_FAN,
    KEY_PADDING,
    /* [sink] */
    KEY_SINK_TYPE,
    KEY_SINK_STREAM,
    KEY_SINK_ANALYSIS,
    KEY_SINK_FORMAT,
    KEY_SINK_FULL_SCALE,
    /* [osc] */
    KEY_OSC_ADDRESS,
    KEY_OSC_TCP_ADDRESS,
    KEY_OSC_ALLOW,
    KEY_OSC_TRUST,
    KEY_OSC_CONTROL,
    KEY_OSC_LEASE,
    KEY_OSC_TCP_TIMEOUT,
    KEY_OSC_TCP_IDLE,
    KEY_OSC_RECEIVE_BUFFER,
    /* [cluster] */
    KEY_CLUSTER_SERVERS,
    KEY_CLUSTER_NAME,
    KEY_CLUSTER_IDENTITY,
    KEY_CLUSTER_LEASE,
    KEY_CLUSTER_CAPACITY,
    KEY_CLUSTER_CREDENTIALS,
    KEY_CLUSTER_CA,
    /* [alarm] */
    KEY_QUANTITY,
    KEY_ALARM_STREAM,
    KEY_ALARM_ANALYSIS,
    KEY_ALARM_CHANNEL,
    KEY_ABOVE,
    KEY_BELOW,
    KEY_WITHIN,
    KEY_FOR,
    KEY_HOLD,
    KEY_HYSTERESIS,
    KEY_EXEC,
    /* [analysis] */
    KEY_ANALYSIS_TYPE,
    KEY_ANALYSIS_STREAM,
    KEY_ANALYSIS_ANALYSIS,
    KEY_ANALYSIS_KEEP,
    KEY_ANALYSIS_PARAMETERS,
    KEY_ANALYSIS_PARAMETER_AGE,
    KEY_ANALYSIS_BUFFER,
    KEYS,
};

#endif
