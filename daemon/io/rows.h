/*
 * Option rows that drivers of several folders have, so that a key means the same in each of them.
 * Each macro is one element of a driver's table of rows; their fields are those of struct
 * source_options.
 */
#ifndef CONVOLVD_IO_ROWS_H
#define CONVOLVD_IO_ROWS_H

#include "core/option.h"
#include "io/source.h"

extern const struct option_choice source_modes[], source_paces[], sink_contents[];

#define SOURCE_ROW_MODE                                                                            \
    {                                                                                              \
        .key = "mode", .type = OPTION_CHOICE, .fallback = "continuous", .choices = source_modes,   \
        .common = true, OPTION_FIELD(struct source_options, mode),                                 \
        .sentence = "continuous: one endless signal; record (rtp and udp-seq): a marker bit or a " \
                    "jump begins a new record of a transient recorder, convolved alone with its "  \
                    "tail; direct (a duplex sound card that plays this stream): convolved by the " \
                    "processor inside the card's own callback, which adds no frame, refused "      \
                    "where the worst case measured is not below half a period."                    \
    }

#define SOURCE_ROW_PACE                                                                            \
    {                                                                                              \
        .key = "pace", .type = OPTION_CHOICE, .fallback = "realtime", .choices = source_paces,     \
        .common = true, OPTION_FIELD(struct source_options, paced),                                \
        .sentence = "realtime: frames come at the stream's rate; fast: as quickly as they can be " \
                    "processed, without loss."                                                     \
    }

#define SOURCE_ROW_PATH(type_, member_)                                                            \
    {                                                                                              \
        .key = "path", .type = OPTION_PATH, .required = true, OPTION_FIELD(type_, member_),        \
        .sentence = "The recording to read: WAV, W64, RF64, FLAC, AIFF, CAF or AU; with source = " \
                    "tradb the "                                                                   \
                    ".tradb."                                                                      \
    }

#define SINK_ROW_PATH(type_, member_)                                                              \
    {                                                                                              \
        .key = "path", .type = OPTION_PATH, .required = true, OPTION_FIELD(type_, member_),        \
        .sentence = "The file to write; one that exists is not overwritten, the new one gets a "   \
                    "number. With `rotate` the name gets the time of its first frame; with type "  \
                    "= vallen it is that of the .pridb, and the .tradb and the .trfdb get the "    \
                    "same one."                                                                    \
    }

#define SINK_ROW_RECORD(type_, member_)                                                            \
    {                                                                                              \
        .key = "record", .type = OPTION_CHOICE, .fallback = "output", .choices = sink_contents,    \
        OPTION_FIELD(type_, member_),                                                              \
        .sentence = "What is recorded or appended: the stream's output, or its raw input as it "   \
                    "came."                                                                        \
    }

#define SINK_ROW_FLUSH(type_, member_)                                                             \
    {                                                                                              \
        .key = "flush", .type = OPTION_TIME, .minimum = 0.01, .maximum = 3600, .fallback = "1 s",  \
        OPTION_FIELD(type_, member_),                                                              \
        .sentence = "How often the file is made readable up to its last frame or event, should "   \
                    "the daemon be killed."                                                        \
    }

#define SINK_SENTENCE_MIN_FREE                                                                     \
    "Writing pauses while less than this is free on the disk, and resumes by itself; what comes "  \
    "meanwhile is dropped and counted."

/* Of every sink of events, whose fields are those of struct event_sink_options. */
#define EVENT_SINK_ROW_QUEUE                                                                       \
    {                                                                                              \
        .key = "queue", .type = OPTION_MEMORY, .minimum = 65536, .maximum = 17179869184.0,         \
        .fallback = "64 MiB", .common = true,                                                      \
        OPTION_FIELD(struct event_sink_options, queue_bytes), .sentence = SINK_SENTENCE_QUEUE      \
    }

#define SINK_SENTENCE_QUEUE                                                                        \
    "Memory between processing and the disk or the pipe. While that is slow, a source that can "   \
    "wait does; what a live one sends and does not fit is dropped and counted."

#define SINK_ROW_QUEUE(type_, member_)                                                             \
    {                                                                                              \
        .key = "queue", .type = OPTION_MEMORY, .minimum = 65536, .maximum = 17179869184.0,         \
        .fallback = "64 MiB", OPTION_FIELD(type_, member_), .sentence = SINK_SENTENCE_QUEUE        \
    }

#define SOURCE_ROW_MAX_GAP                                                                         \
    {                                                                                              \
        .key = "max gap", .type = OPTION_TIME, .minimum = 0, .maximum = 3600, .fallback = "1 s",   \
        .common = true, OPTION_FIELD(struct source_options, max_gap_ns),                           \
        .sentence = "The longest loss that is filled with zeros and flagged; a longer jump "       \
                    "begins a new epoch."                                                          \
    }

#endif
