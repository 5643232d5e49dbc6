/*
 * Sound devices: lists the devices that PortAudio knows, finds the one that a name or pattern
 * means, and tells which are fit for measurements. Many ALSA devices resample, mix or convert
 * without saying so and deliver samples that no converter measured. Their names give them away, and
 * once a device is open, the hardware parameters that the kernel reports.
 *
 * sound_devices_list calls PortAudio and runs only in a helper process or in the process of
 * sound_devices_main; the other functions work on its list, on any thread.
 */
#ifndef CONVOLVD_IO_SOUND_DEVICES_H
#define CONVOLVD_IO_SOUND_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "io/sound/shared.h"

enum { SOUND_DEVICES_MAX = 256 };

struct sound_device {
    char name[SOUND_NAME_BYTES];
    enum sound_api api; /* SOUND_API_ANY: neither ALSA nor JACK */
    char api_name[48];
    int index;                          /* PortAudio's */
    uint32_t inputs, outputs;           /* channels */
    double rate_hz;                     /* its default */
    uint32_t input_rates, output_rates; /* bit i: it opens at rate i of devices.c; set by
                                           sound_devices_main, 0 for one that converts */
    double input_latency_s[2], output_latency_s[2]; /* low, high */
};

/* "alsa", "jack" or "any". */
const char *sound_api_name(enum sound_api api);

/* Fills in at most `capacity` devices and returns how many there are. PortAudio must be
 * initialised. */
int sound_devices_list(struct sound_device *devices, int capacity);

/*
 * Finds the device of a request among those with the host API and directions it asks for: the one
 * with this name; else the one whose name matches it as a pattern (* ? [a-z], in any case); else
 * the one whose name contains it. Returns its index in the list, ERROR_NO_FILE when none matches,
 * or ERROR_ARGUMENT when several do; the problem lists the devices.
 */
int sound_devices_find(const struct sound_device *devices, int count,
                       const struct sound_request *request, struct problem *problem);

/* What the device does that may change samples, as a verb phrase; NULL when it changes none. */
const char *sound_device_converts(const struct sound_device *device);

/* Finds "hw:1,0" in an ALSA device's name: card and device of the hardware. Returns false when the
 * name has none. */
bool sound_device_hardware(const char *name, int *card, int *device);

/* Hardware parameters of a running ALSA device: /proc/asound/cardN/pcmND[cp]/sub0/hw_params. */
struct sound_hardware {
    char format[24]; /* "S32_LE" */
    double rate_hz;
    uint32_t channels, period_frames, buffer_frames;
};
/* Parses that file. Returns false when it lacks the format or the rate. */
bool sound_hardware_parse(const char *text, struct sound_hardware *hardware);

/* Why the hardware does not carry samples of this format and rate unchanged, in `text`; NULL: it
 * does. */
const char *sound_hardware_differs(const struct sound_hardware *hardware,
                                   const struct sample_format *format, double rate_hz, char *text,
                                   size_t bytes);

/* Prints the list to stdout. A process of its own (the program with a hidden argument) calls
 * PortAudio, whose assertions abort it on some ALSA configurations. Returns 0 or ERROR_SYSTEM. */
int sound_devices_print(void);
/* Runs that process. Keeps the messages of ALSA and JACK about absent devices from stderr. */
#define SOUND_DEVICES_ARGUMENT "--sound-devices"
_Noreturn void sound_devices_main(void);

#endif
