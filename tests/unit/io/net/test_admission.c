/* Admission: which addresses `allow` lets in, and what `own` means on the machine of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include "core/log.h"
#include "io/net/address.h"
#include "io/net/admission.h"
#include "io/net/allowed.h"

static struct sockaddr_storage host(const char *text)
{
    struct sockaddr_storage storage;
    struct problem problem;
    if (address_resolve_host(text, &storage, &problem) != 0)
        fail_msg("%s: %s", text, problem.text);
    return storage;
}

/* Splits "a, b" into option values, as the configuration does. */
static struct option_values words_of(const char *list)
{
    static struct option_value values[8];
    static char texts[8][64];
    unsigned count = 0;
    for (const char *at = list; *at != '\0'; count++) {
        size_t length = strcspn(at, ", ");
        memcpy(texts[count], at, length);
        texts[count][length] = '\0';
        values[count].text = texts[count];
        at += length + strspn(at + length, ", ");
    }
    return (struct option_values){values, count};
}

static struct admission *open_with(const char *list)
{
    struct ingest_options options = {.allow = words_of(list)};
    struct admission *admission;
    struct problem problem;
    if (admission_open(&options, "test", AUTH_RTP_INPUT, &admission, &problem) != 0)
        fail_msg("%s: %s", list, problem.text);
    return admission;
}

static bool admits(struct admission *admission, const char *from)
{
    enum reject reason = REJECTS;
    struct sockaddr_storage storage = host(from);
    bool admitted = admission_admits(admission, &(struct received){.from = &storage}, &reason);
    assert_true(admitted || reason == REJECT_NOT_ALLOWED);
    return admitted;
}

static void lists(void **state)
{
    (void)state;
    static const struct {
        const char *allow, *in[3], *out[3];
    } cases[] = {
        {"192.0.2.7", {"192.0.2.7", "::ffff:192.0.2.7"}, {"192.0.2.8", "127.0.0.1", "::1"}},
        {"10.0.0.0/8, 2001:db8::/32", {"10.255.1.2", "2001:db8:1::9"}, {"11.0.0.1", "2001:db9::1"}},
        {"any", {"203.0.113.9", "2001:db8::1"}, {NULL}},
        {"0.0.0.0/0", {"203.0.113.9"}, {"2001:db8::1"}},
        {"own, 203.0.113.0/25", {"127.0.0.1", "::1", "203.0.113.9"}, {"203.0.113.129"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct admission *admission = open_with(cases[i].allow);
        for (int round = 0; round < 2; round++) /* remembered senders change nothing */
            for (int j = 0; j < 3; j++) {
                if (cases[i].in[j] != NULL && !admits(admission, cases[i].in[j]))
                    fail_msg("%s refuses %s", cases[i].allow, cases[i].in[j]);
                if (cases[i].out[j] != NULL && admits(admission, cases[i].out[j]))
                    fail_msg("%s admits %s", cases[i].allow, cases[i].out[j]);
            }
        admission_close(admission);
    }
}

/* Whether an interface of this machine has the network of this address (network order). */
static bool in_own_network(uint32_t address)
{
    struct ifaddrs *all;
    bool found = false;
    assert_int_equal(getifaddrs(&all), 0);
    for (struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET)
            continue;
        uint32_t own = ((const struct sockaddr_in *)(const void *)one->ifa_addr)->sin_addr.s_addr;
        uint32_t mask =
            ((const struct sockaddr_in *)(const void *)one->ifa_netmask)->sin_addr.s_addr;
        found = found || ((own ^ address) & mask) == 0;
    }
    freeifaddrs(all);
    return found;
}

/* Without a list: this machine, its networks, and nobody else. */
static void the_default_is_own(void **state)
{
    (void)state;
    struct admission *admission = open_with("");
    assert_true(admits(admission, "127.0.0.1"));
    assert_true(admits(admission, "127.99.0.1"));
    assert_true(admits(admission, "::1"));
    static const char *const samples[] = {"203.0.113.9", "198.51.100.20", "192.0.2.77",
                                          "10.11.12.13", "172.17.0.9",    "192.168.1.5",
                                          "169.254.3.3", "8.8.8.8"};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if (admits(admission, samples[i]) != in_own_network(inet_addr(samples[i])))
            fail_msg("%s", samples[i]);
    struct ifaddrs *all;
    assert_int_equal(getifaddrs(&all), 0);
    for (struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        char text[INET6_ADDRSTRLEN];
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET)
            continue;
        const struct sockaddr_in *v4 = (const void *)one->ifa_addr;
        assert_true(admits(admission, inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text)));
    }
    freeifaddrs(all);
    admission_close(admission);
}

/* `own` of a source that names an interface leaves the networks of the others out, but not this
 * machine's addresses there. */
static void own_of_one_interface(void **state)
{
    (void)state;
    struct ifaddrs *all;
    struct problem problem;
    assert_int_equal(getifaddrs(&all), 0);
    for (struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET ||
            one->ifa_flags & IFF_LOOPBACK)
            continue;
        struct allowed allowed;
        struct sockaddr_storage from = {0};
        memcpy(&from, one->ifa_addr, sizeof(struct sockaddr_in));
        struct sockaddr_storage neighbour = from;
        ((struct sockaddr_in *)(void *)&neighbour)->sin_addr.s_addr ^= htonl(1);
        assert_int_equal(allowed_make(&(struct option_values){0}, "lo", &allowed, &problem), 0);
        assert_true(allowed_contains(&allowed, &from));
        assert_false(allowed_contains(&allowed, &neighbour));
        allowed_free(&allowed);
        assert_int_equal(
            allowed_make(&(struct option_values){0}, one->ifa_name, &allowed, &problem), 0);
        assert_true(allowed_contains(&allowed, &from));
        allowed_free(&allowed);
    }
    freeifaddrs(all);
}

static void printed_as_read(void **state)
{
    (void)state;
    char text[200];
    struct allowed allowed;
    struct problem problem;
    struct option_values words =
        words_of("10.1.0.0/16, 192.0.2.7, 2001:db8::/32, any, 10.1.0.0/16");
    assert_int_equal(allowed_make(&words, NULL, &allowed, &problem), 0);
    assert_string_equal(allowed_print(&allowed, text, sizeof text),
                        "10.1.0.0/16, 192.0.2.7, 2001:db8::/32, any");
    assert_string_equal(allowed_print(&allowed, text, 32), "10.1.0.0/16, 192.0.2.7 …");
    allowed_free(&allowed);
    words = words_of("rig.local");
    assert_int_equal(allowed_make(&words, NULL, &allowed, &problem), ERROR_ADDRESS);
    assert_false(allowed_word("10.0.0.0/33"));
    assert_true(allowed_word("own"));
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(the_default_is_own),
        cmocka_unit_test(own_of_one_interface),
        cmocka_unit_test(printed_as_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
