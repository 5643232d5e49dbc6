/*
 * Sound devices: which ones PortAudio sees, which one a name or pattern means, and which ones may
 * be measured with. A device that resamples, mixes or converts behind our back gives samples that
 * no converter ever delivered; ALSA has many of them, and they are told by their names and, once
 * open, by what the kernel says of the hardware's parameters.
 *
 * sound_devices_list talks to PortAudio and runs in a helper process or a command; the rest are
 * pure functions over the list, any thread.
 */
#ifndef CONVOLVD_IO_SOUND_DEVICES_H
#define CONVOLVD_IO_SOUND_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/error.h"
#include "io/sound/shared.h"

enum { SOUND_DEVICES_MAX = 256 };

struct sound_device {
    char name[SOUND_NAME_BYTES];
    enum sound_api api; /* SOUND_API_ANY: some other one */
    char api_name[48];
    int index; /* PortAudio's */
    uint32_t inputs, outputs;
    double rate_hz; /* its default */
    uint32_t rates; /* bit i: it takes the i-th of the usual rates; asked by sound_devices_main */
    double input_latency_s[2], output_latency_s[2]; /* low, high */
};

/* "alsa", "jack"; "any". */
const char *sound_api_name(enum sound_api api);

/* PortAudio must be initialised. How many there are; at most `capacity` are filled in. */
int sound_devices_list(struct sound_device *devices, int capacity);

/*
 * The one device with this name; else the one whose name matches the pattern (* ? [a-z], letters'
 * case does not count); else the one whose name contains it. Devices without the channels asked
 * for do not come into question. Returns its place in the list, ERROR_NO_FILE when there is none
 * (yet), or ERROR_ARGUMENT when several answer to it; the problem lists what there is.
 */
int sound_devices_find(const struct sound_device *devices, int count,
                       const struct sound_request *request, struct problem *problem);

/* Why the device may change samples without saying so; NULL when it does not. */
const char *sound_device_converts(const struct sound_device *device);

/* "hw:1,0" within an ALSA device's name: card and device of the hardware; false when it has none.
 */
bool sound_device_hardware(const char *name, int *card, int *device);

/* What the kernel says of a running ALSA device: /proc/asound/cardN/pcmND[cp]/sub0/hw_params. */
struct sound_hardware {
    char format[24]; /* "S32_LE" */
    double rate_hz;
    uint32_t channels, period_frames, buffer_frames;
};
bool sound_hardware_parse(const char *text, struct sound_hardware *hardware);

/* Why samples of this format do not come through unchanged; NULL: they do. `text` holds what is
 * returned. */
const char *sound_hardware_differs(const struct sound_hardware *hardware,
                                   const struct sample_format *format, double rate_hz, char *text,
                                   size_t bytes);

/* The list for people. */
void sound_devices_print(const struct sound_device *devices, int count, FILE *out);
/* Asks PortAudio and prints to stdout, in a process of its own (the program with a hidden
 * argument): PortAudio's assertions end it when ALSA's configuration is not to its liking. 0 or
 * ERROR_SYSTEM. */
int sound_devices_ask(void);
/* What that process does. What ALSA and JACK say about devices that are not there is kept from
 * stderr. */
#define SOUND_DEVICES_ARGUMENT "--sound-devices"
_Noreturn void sound_devices_main(void);

#endif
