/*
 * The SDP text of a stream that is sent: one line for each fact, RFC 8866's where it has one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "io/net/sdp.h"
#include "io/net/socket.h"

static void test_sdp(void **state)
{
    (void)state;
    static const struct {
        const char *to, *format, *lines[6];
        double rate_hz;
        uint32_t channels, payload_type, ttl;
    } cases[] = {
        {"239.1.2.3:5004",
         "L24",
         {"c=IN IP4 239.1.2.3/16\r\n", "m=audio 5004 RTP/AVP 97\r\n",
          "a=rtpmap:97 L24/192000/4\r\n", "a=extmap:1 urn:ietf:params:rtp-hdrext:ntp-64\r\n",
          "v=0\r\no=- 77 1 IN IP4 192.0.2.9\r\n", "a=ptime:1\r\n"},
         192000,
         4,
         97,
         16},
        {"[ff15::1]:6000",
         "L16",
         {"c=IN IP6 ff15::1\r\n", "m=audio 6000 RTP/AVP 11\r\n", "a=rtpmap:11 L16/44100/1\r\n"},
         44100,
         1,
         11,
         16},
        {"192.0.2.1:5004",
         "f32be",
         {"c=IN IP4 192.0.2.1\r\n", "a=rtpmap:96 f32be/5000000/16\r\n",
          "a=x-convolvd-rate:5000000.5\r\n", "a=x-convolvd-full-scale:10\r\n",
          "a=x-convolvd-decimation:1\r\n"},
         5000000.5,
         16,
         96,
         0},
        {"192.0.2.1:5004",
         "s32be",
         {"a=rtpmap:96 s32be/8000/1\r\n", "s=a b\r\nc="},
         8000,
         1,
         96,
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sdp_media media = {
            .name = "a\nb",
            .ttl = cases[i].ttl,
            .payload_type = cases[i].payload_type,
            .rate_hz = cases[i].rate_hz,
            .channels = cases[i].channels,
            .packet_frames = (uint32_t)(cases[i].rate_hz / 1000),
            .session = 77,
            .full_scale = 10,
        };
        struct problem problem;
        assert_int_equal(address_resolve(cases[i].to, false, &media.to, &problem), 0);
        assert_int_equal(address_resolve_host("192.0.2.9", &media.from, &problem), 0);
        assert_int_equal(sample_format_parse(cases[i].format, &media.format), 0);
        char text[SDP_BYTES];
        size_t bytes = sdp_build(&media, text);
        assert_int_equal(bytes, strlen(text));
        for (int j = 0; j < 6 && cases[i].lines[j] != NULL; j++) {
            if (strstr(text, cases[i].lines[j]) == NULL)
                fail_msg("expected %sin:\n%s", cases[i].lines[j], text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sdp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
