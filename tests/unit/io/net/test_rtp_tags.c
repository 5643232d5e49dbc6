/* Tags of the sink `rtp`: libconvolv verifies them, others skip them as padding. */
#include "tests/support/rtp_sink_world.h"

#include <sys/stat.h>

#include "convolv.h"

/* Packets carry a tag that libconvolv verifies and that others skip as padding. */
static void test_tags(void **state)
{
    (void)state;
    enum { FRAMES = 2000, CHANNELS = 2 };
    static const char secret[] =
        "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf\n";
    char path[256];
    uint8_t key[CONVOLV_KEY_BYTES];
    struct fixture f;
    struct convolv_problem problem;
    struct convolv_receiver *receivers[3]; /* with the key, without, with another */
    snprintf(path, sizeof path, "%s", scratch_write("key", secret));
    chmod(path, 0600);
    assert_int_equal(convolv_key_read(path, key, &problem), CONVOLV_OK);
    open_receiver(&f);
    struct sink_options options = options_of(&f, "f32be", CHANNELS);
    f.own.key = path;
    f.own.mtu = 500; /* many packets */
    open_sink(&f, &options);
    struct result result = result_of(silence, FRAMES, CHANNELS);
    sink_rtp.start(f.sink); /* with a heartbeat */
    sink_rtp.put(f.sink, &result);
    sink_rtp.flush(f.sink);
    receive_all(&f);
    for (int i = 0; i < 3; i++) {
        struct convolv_receiver_options wanted;
        convolv_receiver_defaults(&wanted);
        wanted.channels = CHANNELS;
        key[0] ^= i == 2;
        wanted.key = i == 1 ? NULL : key;
        assert_int_equal(convolv_receiver_open(&wanted, &receivers[i], &problem), CONVOLV_OK);
    }
    uint64_t frames = 0;
    for (int n = 0; n < f.count; n++) {
        struct convolv_block block;
        struct datagram *d = &f.datagrams[n];
        assert_true(d->bytes + 28 <= 500);
        for (int i = 0; i < 3; i++)
            assert_int_equal(convolv_receiver_feed(receivers[i], d->data, d->bytes, 0, &block),
                             i < 2 && n > 0);
        /* Twice, and with one sample changed. */
        assert_int_equal(convolv_receiver_feed(receivers[0], d->data, d->bytes, 0, &block), 0);
        d->data[RTP_RESULT_HEADER_BYTES] ^= 1;
        assert_int_equal(convolv_receiver_feed(receivers[0], d->data, d->bytes, 0, &block), 0);
        frames += d->packet.payload_bytes / (CHANNELS * sizeof(float));
    }
    assert_int_equal(frames, FRAMES);
    struct convolv_receiver_ledger ledger;
    convolv_receiver_ledger(receivers[0], &ledger);
    assert_int_equal(ledger.heartbeats, 1);
    assert_int_equal(ledger.accepted, f.count - (int)ledger.heartbeats);
    assert_int_equal(ledger.frames, FRAMES);
    assert_int_equal(ledger.rejected[CONVOLV_REJECT_REPLAY], f.count);
    assert_int_equal(ledger.rejected[CONVOLV_REJECT_AUTH], f.count);
    convolv_receiver_ledger(receivers[2], &ledger);
    assert_int_equal(ledger.rejected[CONVOLV_REJECT_AUTH], f.count);
    for (int i = 0; i < 3; i++)
        convolv_receiver_close(receivers[i]);
    close_sink(&f, 0);
    close_fixture(&f);
    chmod(path, 0604);
    assert_int_equal(convolv_key_read(path, key, &problem), CONVOLV_ERROR_FILE);
    assert_non_null(strstr(problem.text, "chmod 600"));
    scratch_clear();
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
