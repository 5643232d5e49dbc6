/* Options of the sink rtp: see rtp_sink_options.h. */
#include "io/net/rtp_sink_options.h"

#include <math.h>
#include <string.h>

#include "io/net/key_file.h"
#include "io/net/network_options.h"
#include "io/net/rtp_queue.h"
#include "io/sinks.h"
#include "wire/rtp.h"

const struct option_row rtp_sink_rows[RTP_SINK_ROWS] = {
    {.key = "address",
     .type = OPTION_ADDRESS,
     .required = true,
     OPTION_FIELD(struct rtp_sink_options, address),
     .sentence = "Where packets are sent: a host or multicast group and a port, IPv6 in brackets."},
    {.key = "interface",
     .type = OPTION_TEXT,
     .fallback_words = "the kernel's choice",
     OPTION_FIELD(struct rtp_sink_options, interface),
     .sentence = "The network interface that multicast leaves by."},
    {.key = "payload type",
     .type = OPTION_COUNT,
     .minimum = 0,
     .maximum = 127,
     .fallback = "96",
     OPTION_FIELD(struct rtp_sink_options, payload_type),
     .sentence = "RTP payload type of the packets; 96 to 127 are free to choose."},
    {.key = "ssrc",
     .type = OPTION_UINT32,
     .fallback_words = "random",
     OPTION_FIELD(struct rtp_sink_options, ssrc),
     .sentence = "RTP sender number (SSRC) of the packets, decimal or 0x hexadecimal."},
    {.key = "ttl",
     .type = OPTION_COUNT,
     .minimum = 0,
     .maximum = 255,
     .fallback = "16",
     OPTION_FIELD(struct rtp_sink_options, ttl),
     .sentence = "How many routers a multicast packet may pass."},
    {.key = "mtu",
     .type = OPTION_COUNT,
     .minimum = 256,
     .maximum = 65535,
     .fallback = "1500",
     OPTION_FIELD(struct rtp_sink_options, mtu),
     .sentence = "Largest IP packet in bytes; 9000 where the network carries jumbo frames."},
    {.key = "sdp",
     .type = OPTION_PATH,
     .keyword = "none",
     .fallback_words = "NAME.sdp in the `runtime directory` of [daemon]",
     OPTION_FIELD(struct rtp_sink_options, sdp_path),
     .sentence = "The SDP file that tells players how to receive the stream; none writes none."},
    {.key = "send buffer",
     .type = OPTION_MEMORY,
     .minimum = 4096,
     .maximum = 1073741824.0,
     .fallback = "4 MiB",
     OPTION_FIELD(struct rtp_sink_options, send_buffer_bytes),
     .sentence = "Size asked for the socket's send buffer."},
    KEY_FILE_ROW(struct rtp_sink_options, key,
                 "A file with a secret, 64 hexadecimal digits: packets carry a tag made with it, "
                 "which libconvolv and convolv-tap --key verify; others skip it as padding."),
};

uint32_t rtp_sink_header_bytes(const struct rtp_sink_options *own)
{
    return RTP_RESULT_HEADER_BYTES + (own->key != NULL ? AUTH_TRAILER_BYTES : 0);
}

/* Whether packets go by IPv6, as far as the text shows: a name counts as IPv4. */
static bool is_v6(const struct rtp_sink_options *own)
{
    const struct option_address to = option_address(own->address);
    return memchr(to.host, ':', to.host_bytes) != NULL;
}

static void check_packet(const struct option_check *check, const struct sink_options *options)
{
    const struct rtp_sink_options *own = options->own;
    uint32_t frame_bytes = options->stream.channels * options->format.bytes;
    uint32_t needed = rtp_ip_bytes(is_v6(own), rtp_sink_header_bytes(own), frame_bytes);
    if (needed > own->mtu)
        option_error(
            check, "mtu",
            "sink %s: one frame of %u channels has %u bytes and does not fit packets of %u with "
            "their headers; write mtu = %u or more, or a narrower `format`",
            options->name, options->stream.channels, frame_bytes, own->mtu, needed);
}

void rtp_sink_check(const struct option_check *check, const struct daemon_facts *facts,
                    const struct stream_facts *stream, struct sink_options *options)
{
    (void)stream;
    struct rtp_sink_options *own = options->own;
    const struct option_address to = option_address(own->address);
    own->ssrc_set = option_given(check, "ssrc");
    if (to.port == 0 || (to.host_bytes == 1 && to.host[0] == '*'))
        option_error(check, "address",
                     "`address = %s` is no destination; write a host or group and a port, as in "
                     "239.1.2.3:5004",
                     own->address);
    if (own->sdp_path != NULL && strcmp(own->sdp_path, "none") == 0) {
        own->sdp_path = NULL;
    } else if (own->sdp_path == NULL && facts->runtime_directory != NULL) {
        snprintf(own->sdp_default, sizeof own->sdp_default, "%s/%s.sdp", facts->runtime_directory,
                 options->name);
        own->sdp_path = own->sdp_default;
    }
    network_check_group(check, own->address, own->interface, "sends to");
    network_check_payload_type(check, own->payload_type, &options->format, options->stream.rate_hz,
                               options->stream.channels);
    check_packet(check, options);
    key_file_check(check, own->key);
}

static const char *address_of(const struct sink_section *section)
{
    const struct rtp_sink_options *own =
        section->driver == &sink_rtp ? section->options->own : NULL;
    return own != NULL ? own->address : NULL;
}

/* The source behind a stream: its own, or that of the first stream of its chain. */
static const struct source_section *source_behind(const struct driver_sections *all,
                                                  const struct source_section *stream)
{
    for (uint32_t steps = 0; stream != NULL && stream->facts.upstream != NULL; steps++) {
        const struct source_section *before = NULL;
        for (uint32_t s = 0; s < all->source_count && steps < all->source_count; s++)
            if (all->sources[s].facts.name != NULL &&
                strcmp(all->sources[s].facts.name, stream->facts.upstream) == 0)
                before = &all->sources[s];
        stream = before;
    }
    return stream;
}

/* Two sinks must not send to one address, nor to one that a stream receives from. */
void rtp_sink_check_all(const struct driver_sections *all, uint32_t self)
{
    const struct sink_section *section = &all->sinks[self];
    const char *to = address_of(section);
    if (to == NULL)
        return;
    for (uint32_t i = 0; i < self; i++) {
        const char *other = address_of(&all->sinks[i]);
        if (other == NULL || !network_same_place(to, other, false))
            continue;
        option_error(&section->check, "address",
                     "sinks %s and %s have one destination, `%s`; write another address or port "
                     "for one of them",
                     all->sinks[i].check.section, section->check.section, to);
        break;
    }
    const struct source_section *behind = source_behind(all, section->stream);
    for (uint32_t s = 0; s < all->source_count; s++) {
        const struct network_options *from = network_options_of(&all->sources[s]);
        if (from == NULL || from->address == NULL || !network_reaches(to, from->address))
            continue;
        if (behind != NULL && behind == &all->sources[s])
            option_error(&section->check, "address",
                         "sink %s sends to `%s`, where stream %s receives: its results would come "
                         "back as its input; write another address or port",
                         section->check.section, to, behind->check.section);
        else
            option_warning(&section->check, "address",
                           "sink %s sends to the address that stream %s receives from; write "
                           "source = stream %s there for a chain, or another address",
                           section->check.section, all->sources[s].check.section,
                           section->stream != NULL ? section->stream->facts.name : "NAME");
    }
}

void rtp_sink_report(const struct sink_options *options, double bytes_per_second, FILE *out)
{
    const struct rtp_sink_options *own = options->own;
    char format[24];
    fprintf(out, "RTP to %s, %s, payload type %u\n", own->address,
            sample_format_name(&options->format, format), own->payload_type);
    if (own->key != NULL)
        fprintf(out, "                   tags made with %s\n", own->key);
    sink_report_bytes(bytes_per_second, " with headers", out);
    sink_report_full_scale(options, out);
}

/* Each block ends with a packet of its own, so that no frame waits for the next. */
struct sink_load rtp_sink_load(const struct sink_options *options, double block_frames)
{
    const struct rtp_sink_options *own = options->own;
    uint32_t frame_bytes = options->stream.channels * options->format.bytes;
    uint32_t frames =
        rtp_payload_bytes(is_v6(own), rtp_sink_header_bytes(own), own->mtu) / frame_bytes;
    return (struct sink_load){
        .packets = ceil(block_frames / frames),
        .header_bytes = rtp_ip_bytes(is_v6(own), rtp_sink_header_bytes(own), 0),
    };
}

uint64_t rtp_sink_memory(const struct sink_options *options)
{
    (void)options;
    return rtp_queue_memory();
}
