/*
 * What the sink `rtp` says where there are no results: which frames are missing, and that the
 * daemon is alive.
 */
#include "tests/support/rtp_sink_world.h"

/* ---- what is missing before a result -------------------------------------------------------- */

/* Each run is in the first packet behind it, those before the last one in packets without frames;
 * no packet is larger than the MTU, no frame is missing. */
static void test_holes(void **state)
{
    (void)state;
    static float samples[1000];
    static const struct invalid_range ranges[] = {{10, 20, INVALID_SETTLING}, /* not before it */
                                                  {100, 164, INVALID_OVERLOAD},
                                                  {164, 196, INVALID_DEVICE},
                                                  {196, 200, INVALID_OVERLOAD},
                                                  {250, 300, INVALID_NETWORK}};
    for (uint32_t channels = 1; channels <= 61; channels += 60) {
        struct fixture f;
        open_receiver(&f);
        struct sink_options options = options_of(&f, "L16", channels);
        f.own.mtu = channels == 1 ? 500 : 28 + 84 + 122; /* 122 bytes: one frame of 61 */
        open_sink(&f, &options);
        struct result result = result_of(samples, 1000 / channels, channels);
        result.epoch = 7;
        result.first_frame = 200;
        result.flags = RESULT_EPOCH_START | RESULT_EPOCH_END;
        result.invalid = ranges + 1;
        result.invalid_count = 4;
        sink_rtp.put(f.sink, &result);
        sink_rtp.flush(f.sink);
        receive_all(&f);
        uint64_t next = 200;
        for (int i = 0; i < f.count; i++) {
            const struct rtp_result_info *info = &f.datagrams[i].info;
            assert_true(f.datagrams[i].bytes + 28 <= f.own.mtu);
            assert_int_equal(info->first_frame, next);
            next += f.datagrams[i].packet.payload_bytes / 2 / channels;
            assert_int_equal(info->hole_frames,
                             i < 3 ? ranges[1 + i].until - ranges[1 + i].from : 0);
            if (i < 3) {
                assert_int_equal(info->hole_from, ranges[1 + i].from);
                assert_int_equal(info->hole_causes, 1u << ranges[1 + i].cause);
            }
            assert_int_equal(!!(info->flags & RTP_EPOCH_START), i == 0);
            assert_int_equal(!!(info->flags & RTP_EPOCH_END), i == f.count - 1);
            assert_int_equal(f.datagrams[i].packet.payload_bytes == 0,
                             i < 2 || (channels == 61 && i == 2));
        }
        assert_int_equal(next, 200 + result.frames);
        close_sink(&f, 0);
        close_fixture(&f);
    }
}

/* No slot is free for the packet that would say what is missing: the next one says it. */
static void test_a_hole_waits(void **state)
{
    (void)state;
    struct fixture f;
    open_receiver(&f);
    struct sink_options options = options_of(&f, "L16", 1);
    open_sink(&f, &options);
    kernel.allow = 0;
    kernel.error = EAGAIN;
    struct result result = result_of(silence, 4096, 1);
    struct sink_ledger ledger;
    do {
        result.first_frame += result.frames;
        sink_rtp.put(f.sink, &result);
        sink_rtp.flush(f.sink);
        sink_rtp.ledger(f.sink, &ledger);
    } while (drops(&ledger) == 0);
    struct invalid_range range = {result.first_frame + 4096, result.first_frame + 5000,
                                  INVALID_DEVICE};
    result.first_frame += 5000;
    result.invalid = &range;
    result.invalid_count = 1;
    sink_rtp.put(f.sink, &result);
    range = (struct invalid_range){result.first_frame + 4096, result.first_frame + 4196,
                                   INVALID_OVERLOAD};
    result.first_frame += 4196;
    sink_rtp.put(f.sink, &result);
    kernel.allow = -1;
    for (int i = 0; i < 10 && f.rooms == 0; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    receive_all(&f);
    for (int i = 0; i < f.count; i++)
        assert_int_equal(f.datagrams[i].info.hole_frames, 0);
    const uint64_t from = result.first_frame - 4196 - 904;
    result.first_frame += 4096;
    result.invalid_count = 0;
    result.frames = 100;
    const int before = f.count;
    sink_rtp.put(f.sink, &result);
    sink_rtp.flush(f.sink);
    receive_all(&f);
    assert_int_equal(f.count, before + 1);
    const struct rtp_result_info *info = &f.datagrams[before].info;
    assert_int_equal(info->hole_from, from);
    assert_int_equal(info->hole_from + info->hole_frames, result.first_frame - 4096);
    assert_int_equal(info->hole_causes, 1 << INVALID_DEVICE | 1 << INVALID_OVERLOAD);
    close_sink(&f, 0);
    close_fixture(&f);
}

/* ---- gains ------------------------------------------------------------------------------------
 */

/* Gains changed while running: their frame and the flag are in every packet from there on, not
 * before, also in the next epoch and in heartbeats. */
static void test_gains(void **state)
{
    (void)state;
    for (uint32_t channels = 1; channels <= 61; channels += 60) {
        struct fixture f;
        open_receiver(&f);
        struct sink_options options = options_of(&f, "L16", channels);
        f.own.mtu = channels == 1 ? 28 + 84 + 200 : 28 + 84 + 10 * 122;
        open_sink(&f, &options);
        struct result result = result_of(silence, channels == 1 ? 1000 : 40, channels);
        sink_rtp.put(f.sink, &result);
        result.first_frame = result.frames;
        struct result_gains gains = {.changes = 1};
        result.gains = &gains;
        result.gains_from = result.first_frame + 25; /* inside */
        const uint64_t changed = result.gains_from;
        sink_rtp.put(f.sink, &result);
        gains = (struct result_gains){.changes = 2, .configured = true};
        const uint64_t restored = result.gains_from = result.first_frame += result.frames;
        sink_rtp.put(f.sink, &result);
        const uint64_t end = result.first_frame + result.frames;
        result.epoch = 1;
        result.first_frame = result.gains_from = 0;
        sink_rtp.put(f.sink, &result);
        sink_rtp.flush(f.sink);
        receive_all(&f);
        uint64_t next = 0;
        for (int i = 0; i < f.count; i++) {
            const struct rtp_result_info *info = &f.datagrams[i].info;
            const uint64_t frames = f.datagrams[i].packet.payload_bytes / 2 / channels;
            assert_true(f.datagrams[i].bytes + 28 <= f.own.mtu);
            assert_int_equal(info->first_frame, info->epoch == 0 ? next : next - end);
            next += frames;
            const bool now = info->epoch == 0 && next > changed, back = next > restored;
            assert_int_equal(!!(info->flags & RTP_GAIN), now && !back);
            assert_int_equal(info->gain_changes, back ? 2 : now);
            assert_int_equal(info->gain_from, info->epoch == 1 ? 0
                                              : back           ? restored
                                              : now            ? changed
                                                               : 0);
        }
        assert_int_equal(next, end + result.frames);
        close_sink(&f, 0);
        close_fixture(&f);
    }
}

/* ---- heartbeats ----------------------------------------------------------------------------- */

static void run_for(struct fixture *f, int64_t ns)
{
    const int64_t until_ns = clock_monotonic_ns() + ns;
    while (clock_monotonic_ns() < until_ns) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(5000);
    }
}

/* An idle sink sends at least one a second, which repeats the number of the newest packet. */
static void test_heartbeats(void **state)
{
    (void)state;
    struct fixture f;
    open_receiver(&f);
    struct sink_options options = options_of(&f, "L16", 1);
    open_sink(&f, &options);
    sink_rtp.start(f.sink);
    receive_all(&f);
    assert_int_equal(f.count, 1); /* before the first result */
    struct result result = result_of(silence, 100, 1);
    result.epoch = 3;
    result.first_frame = 500;
    result.timeline_frame = 12345;
    sink_rtp.put(f.sink, &result);
    sink_rtp.flush(f.sink);
    const int64_t begun_ns = clock_realtime_ns();
    run_for(&f, 1000 * NS_PER_MS);
    receive_all(&f);
    assert_int_equal(f.count, 3);
    const struct datagram *sent = &f.datagrams[1];
    for (int i = 0; i < 3; i += 2) {
        const struct datagram *d = &f.datagrams[i];
        assert_true(rtp_is_heartbeat(&d->packet, &d->info));
        assert_int_equal(d->packet.header.payload_type, 95);
        assert_int_equal(d->packet.header.ssrc, 0xC0FFEE);
        assert_false(d->packet.header.marker);
        assert_int_equal(d->info.flags, RTP_HEARTBEAT);
        assert_int_equal(d->packet.header.sequence,
                         (uint16_t)(sent->packet.header.sequence - (i == 0)));
    }
    const struct datagram *beat = &f.datagrams[2];
    assert_int_equal(beat->packet.header.timestamp, 12345);
    assert_int_equal(beat->info.epoch, 3);
    assert_int_equal(beat->info.first_frame, 600);
    assert_in_range(beat->info.capture_ns, begun_ns, clock_realtime_ns());
    close_sink(&f, 0);
    assert_int_equal(f.ledger.packets, 1);
    close_fixture(&f);
}

/* Nobody listens when the heartbeat comes: the first packet after it is sent all the same. */
static void test_a_heartbeat_costs_no_packet(void **state)
{
    (void)state;
    struct fixture f;
    open_receiver(&f);
    struct sink_options options = options_of(&f, "L16", 1);
    open_sink(&f, &options);
    const uint16_t port = socket_port(f.fd);
    close(f.fd);
    sink_rtp.start(f.sink);
    uint64_t granted;
    struct problem problem;
    struct socket_receive_options again = {
        .stream = "test", .address = f.address, .buffer_bytes = 1 << 20};
    assert_int_equal(socket_open_receive(&again, &f.fd, &granted, NULL, &problem), 0);
    assert_int_equal(socket_port(f.fd), port);
    struct result result = result_of(silence, 100, 1);
    sink_rtp.put(f.sink, &result);
    sink_rtp.flush(f.sink);
    receive_all(&f);
    close_sink(&f, 0);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.ledger.delivered, 100);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_a_hole_waits),
        cmocka_unit_test(test_gains),
        cmocka_unit_test(test_heartbeats),
        cmocka_unit_test(test_a_heartbeat_costs_no_packet),
    };
    return cmocka_run_group_tests_name("rtp_silence", tests, NULL, NULL);
}
