/*
 * The sink `rtp` on a loopback socket: what arrives is parsed and compared, field by field and
 * code by code, with the results that were put; the ledger is compared with what arrived.
 * sendmmsg is replaced here, so that a full socket and refusals come when the test wants them.
 */
#include "tests/support/rtp_sink_world.h"

/* ---- codes ------------------------------------------------------------------------------- */

static double expected_code(double value, double full_scale, unsigned bits, uint64_t *saturated)
{
    double half = ldexp(1, (int)bits - 1);
    double code = nearbyint(value / full_scale * half); /* to nearest even */
    if (code > half - 1 || code < -half) {
        ++*saturated;
        return code < 0 ? -half : half - 1;
    }
    return code;
}

static void test_codes(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        double full_scale;
    } cases[] = {{"L16", 1},     {"L16", 10},   {"L24", 10},
                 {"L24", 0.003}, {"s32be", 10}, {"f32be", 10}};
    enum { FRAMES = 1000, CHANNELS = 3 };
    static float samples[FRAMES * CHANNELS];
    static uint8_t wire[sizeof samples];
    /* Twice: from floats, and from what a device has encoded for it. */
    for (size_t c = 0; c < 2 * sizeof cases / sizeof cases[0]; c++) {
        const size_t i = c / 2;
        struct fixture f;
        open_receiver(&f);
        struct sink_options options = options_of(&f, cases[i].format, CHANNELS);
        options.full_scale = cases[i].full_scale;
        open_sink(&f, &options);
        unsigned bits = options.format.bits;
        bool is_float = options.format.kind == SAMPLE_FLOAT;
        for (int n = 0; n < FRAMES * CHANNELS; n++) /* past both ends, and on the half codes */
            samples[n] = (float)(cases[i].full_scale *
                                 (n % 2 ? 1.1 * sin(n * 0.01) : ldexp(n - 1000.5, 1 - (int)bits)));
        struct result result = result_of(samples, FRAMES, CHANNELS);
        if (c % 2 == 1) {
            result.samples = NULL;
            result.wire = wire;
            result.wire_format = sink_rtp.wire(&options);
            result.saturated =
                sample_encode_block(&result.wire_format.format, samples, FRAMES * CHANNELS,
                                    result.wire_format.factor, wire);
        }
        sink_rtp.put(f.sink, &result);
        sink_rtp.flush(f.sink);
        receive_all(&f);
        uint64_t saturated = 0;
        int n = 0;
        for (int j = 0; j < f.count; j++) {
            const struct rtp_packet *packet = &f.datagrams[j].packet;
            assert_int_equal(packet->payload_bytes % (CHANNELS * options.format.bytes), 0);
            for (size_t at = 0; at < packet->payload_bytes; at += options.format.bytes, n++) {
                double got = sample_decode(&options.format, packet->payload + at);
                double expect = (double)samples[n];
                if (!is_float)
                    expect =
                        expected_code((double)samples[n], cases[i].full_scale, bits, &saturated) /
                        ldexp(1, (int)bits - 1);
                if (got != expect)
                    fail_msg("%s, full scale %g, sample %d (%.9g): %.12g, expected %.12g",
                             cases[i].format, cases[i].full_scale, n, (double)samples[n], got,
                             expect);
            }
        }
        assert_int_equal(n, FRAMES * CHANNELS);
        close_sink(&f, 0);
        assert_int_equal(f.ledger.saturated, saturated);
        assert_true(is_float || saturated > 100);
        assert_int_equal(f.ledger.delivered, FRAMES);
        assert_int_equal(f.ledger.packets, f.count);
        close_fixture(&f);
    }
}

/* ---- headers ----------------------------------------------------------------------------- */

static const struct {
    uint32_t frames, timestamp;
    uint64_t first_frame;
    bool marker;
    unsigned flags, causes, invalid_from, invalid_until;
} headers[] = {
    {100, 0xFFFFFF00u, 1000, true, RTP_EPOCH_START | RTP_INVALID | RTP_ALIGNED,
     1 << INVALID_SETTLING | 1 << INVALID_NETWORK, 0, 40},
    {100, 0xFFFFFF64u, 1100, false, RTP_INVALID | RTP_ALIGNED, 1 << INVALID_LATE, 50, 100},
    {100, 0xFFFFFFC8u, 1200, false, RTP_INVALID | RTP_ALIGNED, 1 << INVALID_LATE, 0, 60},
    {50, 0x0000002Cu, 1300, false, RTP_EPOCH_END | RTP_ALIGNED, 0, 0, 0},
    {40, 0xFFFFFF00u + 700000u, 0, true, RTP_EPOCH_START | RTP_EPOCH_END, 0, 0, 0},
};

static void check_header(const struct fixture *f, int i)
{
    const struct rtp_packet *packet = &f->datagrams[i].packet;
    const struct rtp_result_info *info = &f->datagrams[i].info;
    if (packet->payload_bytes != headers[i].frames * 8 ||
        packet->header.timestamp != headers[i].timestamp ||
        packet->header.marker != headers[i].marker || info->flags != headers[i].flags ||
        info->first_frame != headers[i].first_frame || info->causes != headers[i].causes ||
        info->invalid_from != headers[i].invalid_from ||
        info->invalid_until != headers[i].invalid_until)
        fail_msg("packet %d: %zu bytes at %u, frame %llu, marker %d, flags %u, causes %u, "
                 "invalid %u to %u",
                 i, packet->payload_bytes, packet->header.timestamp,
                 (unsigned long long)info->first_frame, packet->header.marker, info->flags,
                 info->causes, info->invalid_from, info->invalid_until);
}

/* What all packets of test_headers share. */
static void check_common(const struct fixture *f, int i, int64_t capture_ns)
{
    const struct rtp_packet *packet = &f->datagrams[i].packet;
    const struct rtp_result_info *info = &f->datagrams[i].info;
    assert_int_equal(packet->header.ssrc, 0xC0FFEE);
    assert_int_equal(packet->header.payload_type, 96);
    assert_int_equal(packet->header.sequence,
                     (uint16_t)(f->datagrams[0].packet.header.sequence + i));
    assert_int_equal(info->capture_ns,
                     capture_ns + (i < 4 ? i * 100000 : 0)); /* 1 MHz: 1000 ns a frame */
    assert_int_equal(info->epoch, i < 4 ? 5 : 6);
    assert_int_equal(info->record, 3);
    assert_int_equal(info->clock, CLOCK_SOURCE_DECLARED);
    assert_int_equal(info->clock_error_ns, 12345);
    assert_int_equal(info->delay_half_frames, 63 * 6); /* at the source's rate */
    assert_int_equal(info->decimate, 6);
    assert_int_equal(info->stage_100ns[0], 10000);
    assert_int_equal(info->stage_100ns[1], 20);
    assert_int_equal(info->stage_100ns[2], 3);
    assert_int_equal(info->stage_100ns[3], 400);
    assert_in_range(info->egress_100ns, 50, 50 + 10000000);
}

static void test_headers(void **state)
{
    (void)state;
    struct fixture f;
    open_receiver(&f);
    struct sink_options options = options_of(&f, "L16", 4);
    f.own.mtu = 28 + 84 + 100 * 8 + 7; /* 100 frames, and a part of one */
    options.stream.decimate = 6;
    open_sink(&f, &options);
    static float samples[400 * 4];
    const struct invalid_range ranges[] = {
        {1000, 1030, INVALID_SETTLING}, {1020, 1040, INVALID_NETWORK}, {1150, 1260, INVALID_LATE}};
    struct result result = result_of(samples, 350, 4);
    result.epoch = 5;
    result.record = 3;
    result.first_frame = 1000;
    result.timeline_frame = UINT64_C(0x1FFFFFF00);
    result.flags = RESULT_EPOCH_START | RESULT_EPOCH_END;
    result.invalid = ranges;
    result.invalid_count = 3;
    result.clock = CLOCK_SOURCE_DECLARED;
    result.clock_error_ns = 12345;
    result.delay_frames = 31.5;
    result.aligned = true;
    result.stage_ns[STAGE_ACCUMULATE] = 1000000;
    result.stage_ns[STAGE_INGEST] = 2000;
    result.stage_ns[STAGE_WAIT] = 300;
    result.stage_ns[STAGE_DEVICE] = 40000;
    result.stage_ns[STAGE_EGRESS] = 5000;
    sink_rtp.put(f.sink, &result);
    /* The next epoch, 0.7 s later on the timeline. */
    result.epoch = 6;
    result.first_frame = 0;
    result.timeline_frame += 700000;
    result.frames = 40;
    result.invalid_count = 0;
    result.aligned = false;
    sink_rtp.put(f.sink, &result);
    receive_all(&f);
    assert_int_equal(f.count, 0); /* gathered until the flush */
    check_ledger(&f);
    sink_rtp.flush(f.sink);
    receive_all(&f);

    assert_int_equal(f.count, 5);
    assert_int_equal(kernel.messages, 1);
    for (int i = 0; i < 5; i++) {
        check_header(&f, i);
        check_common(&f, i, result.capture_ns);
    }
    close_sink(&f, 0);
    assert_int_equal(f.ledger.frames, 390);
    assert_int_equal(f.ledger.delivered, 390);
    close_fixture(&f);
}

/* Of a result's packets those are marked that hold partial frames. */
static void test_partial_frames_are_marked(void **state)
{
    (void)state;
    struct fixture f;
    open_receiver(&f);
    struct sink_options options = options_of(&f, "L16", 1);
    f.own.mtu = 28 + 84 + 100 * 2;
    open_sink(&f, &options);
    static float samples[400];
    struct result result = result_of(samples, 400, 1);
    result.first_frame = 1000;
    result.partial_from = 1250;
    result.partial_until = 1301;
    sink_rtp.put(f.sink, &result);
    sink_rtp.flush(f.sink);
    receive_all(&f);
    assert_int_equal(f.count, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal((f.datagrams[i].info.flags & RTP_PARTIAL) != 0, i == 2 || i == 3);
    close_sink(&f, 0);
    close_fixture(&f);
}

/* An epoch that ends with no more frames is still told. */
static void test_end_without_frames(void **state)
{
    (void)state;
    struct fixture f;
    open_receiver(&f);
    struct sink_options options = options_of(&f, "L16", 1);
    open_sink(&f, &options);
    struct result result = result_of(NULL, 0, 1);
    result.flags = RESULT_EPOCH_END;
    sink_rtp.put(f.sink, &result);
    sink_rtp.flush(f.sink);
    receive_all(&f);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.datagrams[0].packet.payload_bytes, 0);
    assert_int_equal(f.datagrams[0].info.flags, RTP_EPOCH_END);
    close_sink(&f, 0);
    close_fixture(&f);
}

/* ---- drops ------------------------------------------------------------------------------- */

static void test_refused_packets_are_unreachable(void **state)
{
    (void)state;
    struct fixture f;
    open_receiver(&f);
    struct sink_options options = options_of(&f, "L16", 1);
    open_sink(&f, &options);
    close(f.fd);
    for (int i = 0; i < 10; i++) {
        struct result result = result_of(silence, 2048, 1);
        sink_rtp.put(f.sink, &result);
        sink_rtp.flush(f.sink);
        check_ledger(&f);
    }
    /* A receiver comes: what follows arrives, though one packet tells of the refusals before. */
    uint64_t granted;
    struct problem problem;
    struct socket_receive_options again = {
        .stream = "test", .address = f.address, .buffer_bytes = 1 << 20};
    assert_int_equal(socket_open_receive(&again, &f.fd, &granted, NULL, &problem), 0);
    struct sink_ledger before;
    sink_rtp.ledger(f.sink, &before);
    assert_true(before.dropped[DROP_UNREACHABLE] > 0);
    assert_int_equal(drops(&before), before.dropped[DROP_UNREACHABLE]);
    struct result result = result_of(silence, 2048, 1);
    sink_rtp.put(f.sink, &result);
    sink_rtp.flush(f.sink);
    receive_all(&f);
    uint64_t arrived = 0;
    for (int i = 0; i < f.count; i++)
        arrived += f.datagrams[i].packet.payload_bytes / 2;
    close_sink(&f, 0);
    assert_int_equal(f.ledger.delivered - before.delivered, arrived);
    assert_true(arrived >= 1000);
    close_fixture(&f);
}

static void test_each_refusal_has_its_name(void **state)
{
    (void)state;
    static const struct {
        int error;
        enum drop drop;
    } refusals[] = {{ECONNREFUSED, DROP_UNREACHABLE}, {EHOSTUNREACH, DROP_UNREACHABLE},
                    {ENETUNREACH, DROP_UNREACHABLE},  {ENETDOWN, DROP_UNREACHABLE},
                    {EPERM, DROP_UNREACHABLE},        {EMSGSIZE, DROP_SOCKET},
                    {ENOBUFS, DROP_SOCKET},           {EIO, DROP_SOCKET}};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct fixture f;
        open_receiver(&f);
        struct sink_options options = options_of(&f, "L16", 1);
        open_sink(&f, &options);
        struct result result = result_of(silence, 4096, 1); /* 6 packets of up to 694 frames */
        sink_rtp.put(f.sink, &result);
        kernel.allow = 2;
        kernel.error = refusals[i].error;
        sink_rtp.flush(f.sink);
        close_sink(&f, 0);
        if (f.ledger.dropped[refusals[i].drop] != f.ledger.frames - f.ledger.delivered ||
            f.ledger.packets != 2)
            fail_msg("%s: %llu dropped as %s, %llu packets sent", strerror(refusals[i].error),
                     (unsigned long long)f.ledger.dropped[refusals[i].drop],
                     drop_name(refusals[i].drop), (unsigned long long)f.ledger.packets);
        close_fixture(&f);
    }
}

/* Where the kernel does not cut messages, everything arrives all the same, packet by packet. */
static void test_without_segments(void **state)
{
    (void)state;
    static const int errors[] = {0, EIO, EINVAL, EMSGSIZE, EOPNOTSUPP};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct fixture f;
        open_receiver(&f);
        struct sink_options options = options_of(&f, "L16", 1);
        open_sink(&f, &options);
        kernel.messages_error = errors[i];
        enum { RESULTS = 300 }; /* more packets than the ring takes at once */
        for (int n = 0; n < RESULTS; n++) {
            struct result result = result_of(silence, 4096 - (uint32_t)n, 1);
            sink_rtp.put(f.sink, &result);
            if (n % 100 == 99)
                sink_rtp.flush(f.sink);
        }
        receive_all(&f);
        close_sink(&f, 0);
        assert_int_equal(f.ledger.delivered, RESULTS * 4096 - RESULTS * (RESULTS - 1) / 2);
        assert_int_equal(f.ledger.packets, f.count);
        assert_true((kernel.messages > 0) == (errors[i] == 0));
        for (int n = 1; n < f.count; n++)
            assert_int_equal(f.datagrams[n].packet.header.sequence,
                             (uint16_t)(f.datagrams[0].packet.header.sequence + n));
        close_fixture(&f);
    }
}

/* A full socket: packets wait, then are dropped, then go on in order. */
static void test_full_socket(void **state)
{
    (void)state;
    struct fixture f;
    open_receiver(&f);
    struct sink_options options = options_of(&f, "L16", 1);
    open_sink(&f, &options);
    assert_true(sink_rtp.room(f.sink) > 0);
    kernel.allow = 3;
    kernel.error = EAGAIN;
    struct result result = result_of(silence, 4096, 1);
    sink_rtp.put(f.sink, &result);
    sink_rtp.flush(f.sink);
    assert_int_equal(sink_rtp.room(f.sink), 0);
    struct sink_ledger ledger;
    sink_rtp.ledger(f.sink, &ledger);
    assert_int_equal(ledger.packets, 3);
    assert_int_equal(drops(&ledger), 0);
    check_ledger(&f);
    /* Nothing is tried while the socket is full. */
    int calls = kernel.calls;
    uint64_t put = 1;
    do {
        sink_rtp.put(f.sink, &result);
        sink_rtp.flush(f.sink);
        put++;
        check_ledger(&f);
        sink_rtp.ledger(f.sink, &ledger);
    } while (drops(&ledger) == 0 && put < 10000);
    assert_int_equal(kernel.calls, calls);
    assert_true(put < 10000);
    assert_int_equal(drops(&ledger), ledger.dropped[DROP_SOCKET]);
    kernel.allow = -1;
    assert_int_equal(f.rooms, 0);
    for (int i = 0; i < 10 && f.rooms == 0; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    assert_int_equal(f.rooms, 1);
    assert_true(sink_rtp.room(f.sink) > 0);
    check_ledger(&f);
    receive_all(&f);
    for (int i = 1; i < f.count; i++)
        assert_int_equal(f.datagrams[i].packet.header.sequence,
                         (uint16_t)(f.datagrams[0].packet.header.sequence + i));
    /* The next one shows how many packets were dropped. */
    int before = f.count;
    sink_rtp.put(f.sink, &result);
    sink_rtp.flush(f.sink);
    receive_all(&f);
    uint16_t lost = (uint16_t)(f.datagrams[before].packet.header.sequence -
                               f.datagrams[before - 1].packet.header.sequence - 1);
    uint64_t arrived = 0;
    for (int i = 0; i < f.count; i++)
        arrived += f.datagrams[i].packet.payload_bytes / 2;
    close_sink(&f, 0);
    assert_true(lost > 0);
    assert_int_equal(f.ledger.delivered, arrived);
    assert_int_equal(f.ledger.frames, (put + 1) * 4096);
    close_fixture(&f);
}

static void test_close_waits_for_its_deadline(void **state)
{
    (void)state;
    for (int freed = 0; freed < 2; freed++) {
        struct fixture f;
        open_receiver(&f);
        struct sink_options options = options_of(&f, "L16", 1);
        open_sink(&f, &options);
        kernel.allow = 1;
        kernel.error = EAGAIN;
        struct result result = result_of(silence, 4096, 1);
        sink_rtp.put(f.sink, &result);
        sink_rtp.flush(f.sink);
        kernel.allow = freed ? -1 : 0;
        int64_t before_ns = clock_monotonic_ns();
        close_sink(&f, 50 * NS_PER_MS);
        if (freed) {
            assert_int_equal(f.ledger.delivered, 4096);
        } else {
            assert_true(f.ledger.dropped[DROP_STOPPED] > 0);
            assert_true(clock_monotonic_ns() - before_ns >= 49 * NS_PER_MS);
        }
        close_fixture(&f);
    }
}

static void test_what_cannot_be_opened(void **state)
{
    (void)state;
    static const struct {
        const char *format, *address, *sdp, *expect;
        uint32_t channels, mtu;
    } refusals[] = {
        {"s16le", NULL, NULL, "write s16, s24, s32 or f32", 1, 1500},
        {"u8", NULL, NULL, "write s16, s24, s32 or f32", 1, 1500},
        {"f32be", NULL, NULL, "write mtu = 4208 or more", 1024, 1500},
        {"L16", "*:5004", NULL, "names no receiver", 1, 1500},
        {"L16", NULL, "/nonexistent/x.sdp", "SDP file /nonexistent/x.sdp", 1, 1500},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct fixture f;
        open_receiver(&f);
        struct sink_options options = options_of(&f, refusals[i].format, refusals[i].channels);
        f.own.mtu = refusals[i].mtu;
        f.own.sdp_path = refusals[i].sdp;
        if (refusals[i].address != NULL)
            f.own.address = refusals[i].address;
        struct problem problem;
        assert_true(sink_rtp.open(&options, &(struct io_environment){.loop = &f.loop}, &f.sink,
                                  &problem) < 0);
        if (strstr(problem.text, refusals[i].expect) == NULL)
            fail_msg("expected '%s' in: %s", refusals[i].expect, problem.text);
        close_fixture(&f);
    }
}

/* ---- SDP --------------------------------------------------------------------------------- */

static void test_sdp_of_a_sink(void **state)
{
    (void)state;
    struct fixture f;
    const char *path = scratch_path("out.sdp");
    char expect[64], text[SDP_BYTES] = "";
    open_receiver(&f);
    struct sink_options options = options_of(&f, "L16", 2);
    f.own.sdp_path = path;
    open_sink(&f, &options);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    snprintf(expect, sizeof expect, "m=audio %u RTP/AVP 96\r\n", socket_port(f.fd));
    assert_non_null(strstr(text, expect));
    assert_non_null(strstr(text, "o=- "));
    assert_non_null(strstr(text, "IN IP4 127.0.0.1"));
    close_sink(&f, 0);
    close_fixture(&f);
    assert_int_equal(scratch_count(), 0); /* nor was anything left beside it */
}

/* The file is there as long as the sink; that of a sink in its place stays. */
static void test_sdp_of_another_stays(void **state)
{
    (void)state;
    struct fixture f;
    const char *path = scratch_path("out.sdp"), *theirs = scratch_path("theirs");
    open_receiver(&f);
    struct sink_options options = options_of(&f, "L16", 2);
    f.own.sdp_path = path;
    open_sink(&f, &options);
    FILE *file = fopen(theirs, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(rename(theirs, path), 0);
    close_sink(&f, 0);
    close_fixture(&f);
    assert_int_equal(scratch_count(), 1);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_partial_frames_are_marked),
        cmocka_unit_test(test_end_without_frames),
        cmocka_unit_test(test_refused_packets_are_unreachable),
        cmocka_unit_test(test_each_refusal_has_its_name),
        cmocka_unit_test(test_without_segments),
        cmocka_unit_test(test_full_socket),
        cmocka_unit_test(test_close_waits_for_its_deadline),
        cmocka_unit_test(test_what_cannot_be_opened),
        cmocka_unit_test(test_sdp_of_a_sink),
        cmocka_unit_test(test_sdp_of_another_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
