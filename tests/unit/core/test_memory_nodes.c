/*
 * Memory nodes: lists as the kernel writes them, what is bound to which node on machines that are
 * copies of the kernel's files, and the binding of a thread and of memory on this one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/memory_nodes.h"
#include "tests/support/scratch.h"

static struct number_set set_of(const char *list)
{
    struct number_set set;
    assert_true(number_set_parse(list, &set));
    return set;
}

/* ---- lists ------------------------------------------------------------------------------- */

static void lists_are_the_kernels(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        bool valid;
        uint32_t count;
        const char *again; /* NULL: as it was */
    } table[] = {
        {"", true, 0, NULL},
        {"\n", true, 0, ""},
        {"0\n", true, 1, "0"},
        {"0-3", true, 4, NULL},
        {"0-3,8,10-11\n", true, 7, "0-3,8,10-11"},
        {"63,64,127-129", true, 5, "63-64,127-129"},
        {"3,1,2", true, 3, "1-3"},
        {"5-5", true, 1, "5"},
        {"0,", true, 1, "0"},
        {"8190-8191", true, 2, NULL},
        {"8192", false, 0, NULL},
        {"0-8192", false, 0, NULL},
        {"99999999999999999999", false, 0, NULL},
        {"3-1", false, 0, NULL},
        {"-1", false, 0, NULL},
        {"1-", false, 0, NULL},
        {"1 2", false, 0, NULL},
        {"0-3:2/4", false, 0, NULL}, /* the kernel reads this form and writes it nowhere */
        {"f", false, 0, NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct number_set set;
        char text[64];
        print_message("%s\n", table[i].list);
        assert_int_equal(number_set_parse(table[i].list, &set), table[i].valid);
        if (!table[i].valid)
            continue;
        assert_int_equal(number_set_count(&set), table[i].count);
        assert_string_equal(number_set_text(&set, text, sizeof text),
                            table[i].again != NULL ? table[i].again : table[i].list);
    }
}

static void membership(void **state)
{
    (void)state;
    const struct number_set set = set_of("0,64-65,8191");
    static const uint32_t in[] = {0, 64, 65, 8191}, out[] = {1, 63, 66, 8190, 8192, UINT32_MAX};
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++)
        assert_true(number_set_has(&set, in[i]));
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++)
        assert_false(number_set_has(&set, out[i]));
}

/* However short the text, it ends within its bytes and says that something is missing. */
static void a_list_that_does_not_fit(void **state)
{
    (void)state;
    const struct number_set set = set_of("0,2,4,6,8,10-20");
    static const char whole[] = "0,2,4,6,8,10-20";
    for (size_t bytes = 8; bytes < 24; bytes++) {
        char text[24];
        memset(text, '#', sizeof text);
        number_set_text(&set, text, bytes);
        assert_true(strlen(text) < bytes);
        const char *cut = strstr(text, "…");
        if (cut == NULL)
            assert_string_equal(text, whole);
        else
            assert_memory_equal(text, whole, cut - text);
    }
}

/* ---- the decision ------------------------------------------------------------------------ */

/* Two nodes of four processors each, and one that holds memory alone. */
static const char *two_sockets(void)
{
    static const char *const folders[] = {
        "sys",
        "sys/devices",
        "sys/devices/system",
        "sys/devices/system/node",
        "sys/devices/system/node/node0",
        "sys/devices/system/node/node1",
        "sys/devices/system/node/node4",
    };
    scratch_clear();
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        scratch_make(folders[i]);
    scratch_write("sys/devices/system/node/online", "0-1,4\n");
    scratch_write("sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
    scratch_write("sys/devices/system/node/node1/cpulist", "2-3,6-7\n");
    scratch_write("sys/devices/system/node/node4/cpulist", "\n");
    return scratch_folder();
}

static const char *one_socket(void)
{
    two_sockets();
    scratch_write("sys/devices/system/node/online", "0\n");
    return scratch_folder();
}

static const char *nothing_told(void)
{
    scratch_clear();
    return scratch_folder();
}

static void each_setting_gets_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *(*machine)(void);
        struct node_setting setting;
        int device_node;
        const char *allowed;
        enum node_reason reason;
        bool bound;
        uint32_t node;
        const char *processors;
    } table[] = {
        /* auto: the node of the device's bus */
        {two_sockets, {NODE_AUTO, 0}, 1, "0-7", NODE_REASON_BOUND, true, 1, "2-3,6-7"},
        {two_sockets, {NODE_AUTO, 0}, 0, "0-7", NODE_REASON_BOUND, true, 0, "0-1,4-5"},
        /* … which a CPU, or an old driver, does not tell */
        {two_sockets, {NODE_AUTO, 0}, -1, "0-7", NODE_REASON_UNKNOWN, false, 0, ""},
        /* … or which is offline */
        {two_sockets, {NODE_AUTO, 0}, 3, "0-7", NODE_REASON_ABSENT, false, 3, ""},
        /* … and which makes no difference where there is one */
        {one_socket, {NODE_AUTO, 0}, 0, "0-7", NODE_REASON_ONE, false, 0, ""},
        {one_socket, {NODE_AUTO, 0}, -1, "0-7", NODE_REASON_ONE, false, 0, ""},
        {nothing_told, {NODE_AUTO, 0}, 0, "0-7", NODE_REASON_ONE, false, 0, ""},
        /* none */
        {two_sockets, {NODE_NONE, 0}, 1, "0-7", NODE_REASON_NONE, false, 0, ""},
        /* a number wins over the device's, on machines with one node, too */
        {two_sockets, {NODE_NUMBER, 0}, 1, "0-7", NODE_REASON_BOUND, true, 0, "0-1,4-5"},
        {two_sockets, {NODE_NUMBER, 1}, -1, "0-7", NODE_REASON_BOUND, true, 1, "2-3,6-7"},
        {one_socket, {NODE_NUMBER, 0}, -1, "0-7", NODE_REASON_BOUND, true, 0, "0-1,4-5"},
        {two_sockets, {NODE_NUMBER, 2}, 1, "0-7", NODE_REASON_ABSENT, false, 2, ""},
        {nothing_told, {NODE_NUMBER, 0}, 0, "0-7", NODE_REASON_ABSENT, false, 0, ""},
        /* what is narrowed stays narrow */
        {two_sockets, {NODE_AUTO, 0}, 1, "1-2,7", NODE_REASON_BOUND, true, 1, "2,7"},
        {two_sockets, {NODE_AUTO, 0}, 1, "3", NODE_REASON_BOUND, true, 1, "3"},
        /* memory alone: no processor of the node is allowed, or it has none */
        {two_sockets, {NODE_AUTO, 0}, 1, "0-1", NODE_REASON_APART, true, 1, ""},
        {two_sockets, {NODE_NUMBER, 4}, -1, "0-7", NODE_REASON_MEMORY, true, 4, ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct node_place place;
        char text[64];
        const struct number_set allowed = set_of(table[i].allowed);
        memset(&place, 0xa5, sizeof place);
        print_message("row %zu\n", i);
        node_choose(table[i].machine(), table[i].setting, table[i].device_node, &allowed, &place);
        assert_int_equal(place.reason, table[i].reason);
        assert_int_equal(place.bound, table[i].bound);
        assert_int_equal(place.node, table[i].node);
        assert_string_equal(number_set_text(&place.processors, text, sizeof text),
                            table[i].processors);
    }
}

static void what_the_machine_tells(void **state)
{
    (void)state;
    struct number_set set;
    char text[64];
    const char *root = two_sockets();
    assert_true(memory_nodes_present(root, &set));
    assert_string_equal(number_set_text(&set, text, sizeof text), "0-1,4");
    assert_true(memory_node_processors(root, 1, &set));
    assert_string_equal(number_set_text(&set, text, sizeof text), "2-3,6-7");
    assert_true(memory_node_processors(root, 4, &set));
    assert_int_equal(number_set_count(&set), 0);
    assert_false(memory_node_processors(root, 2, &set));
    scratch_write("sys/devices/system/node/online", "nonsense\n");
    assert_false(memory_nodes_present(root, &set));
    assert_false(memory_nodes_present("/nowhere", &set));
}

static void a_loop_goes_where_all_its_devices_are(void **state)
{
    (void)state;
    const struct node_place none = {0}, zero = {.bound = true}, one = {.bound = true, .node = 1};
    const struct {
        const struct node_place *places[3];
        uint32_t count;
        const struct node_place *shared;
        bool mixed;
    } table[] = {
        {{NULL}, 0, NULL, false},
        {{&none}, 1, NULL, false},
        {{&one}, 1, &one, false},
        {{&one, &none}, 2, &one, false}, /* a CPU that stands by has none */
        {{&none, &zero, &zero}, 3, &zero, false},
        {{&zero, &one}, 2, NULL, true},
        {{&one, &none, &zero}, 3, NULL, true},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        bool mixed;
        const struct node_place *shared = node_shared(table[i].places, table[i].count, &mixed);
        assert_ptr_equal(shared, table[i].shared);
        assert_int_equal(mixed, table[i].mixed);
    }
}

/* ---- binding ----------------------------------------------------------------------------- */

static void a_thread_runs_where_it_is_told(void **state)
{
    (void)state;
    struct number_set before, narrow = {0}, after;
    assert_true(processors_allowed(&before));
    uint32_t last = 0;
    for (uint32_t i = 0; i < NUMBER_SET_BITS; i++)
        last = number_set_has(&before, i) ? i : last;
    narrow.words[last / 64] = UINT64_C(1) << last % 64;
    assert_int_equal(thread_run_on(pthread_self(), &narrow), 0);
    assert_true(processors_allowed(&after));
    assert_memory_equal(&after, &narrow, sizeof after);
    assert_int_equal(thread_run_on(pthread_self(), &before), 0);
    assert_int_equal(thread_run_on(pthread_self(), &(struct number_set){{0}}), EINVAL);
}

/* The policy of the pages there; -1: the kernel has none. */
static int policy_at(void *at)
{
    int policy = -1;
    syscall(SYS_get_mempolicy, &policy, NULL, 0UL, at, (unsigned long)MPOL_F_ADDR);
    return policy;
}

static void memory_comes_from_the_node(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    struct number_set nodes;
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    if (!memory_nodes_present("", &nodes) || !number_set_has(&nodes, 0) || policy_at(memory) < 0)
        skip();
    assert_int_equal(policy_at(memory), MPOL_DEFAULT);
    assert_int_equal(memory_prefer_node(memory, BYTES, 1023), EINVAL);
    assert_int_equal(memory_prefer_node(memory, BYTES, 1024), EINVAL);
    assert_int_equal(policy_at(memory), MPOL_DEFAULT);
    assert_int_equal(memory_prefer_node(memory, BYTES, 0), 0);
    assert_int_equal(policy_at(memory), MPOL_PREFERRED);
    memset(memory, 1, BYTES);
    int node = -1;
    syscall(SYS_get_mempolicy, &node, NULL, 0UL, memory,
            (unsigned long)(MPOL_F_ADDR | MPOL_F_NODE));
    assert_int_equal(node, 0);
    munmap(memory, BYTES);
}

static void a_policy_of_the_process_stays(void **state)
{
    (void)state;
    enum { BYTES = 1 << 16 };
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    unsigned long node = 1;
    if (syscall(SYS_set_mempolicy, MPOL_BIND, &node, 64UL) != 0)
        skip();
    assert_int_equal(memory_prefer_node(memory, BYTES, 0), EEXIST);
    assert_int_equal(syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0UL), 0);
    assert_int_equal(memory_prefer_node(memory, BYTES, 0), 0);
    munmap(memory, BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_the_kernels),
        cmocka_unit_test(membership),
        cmocka_unit_test(a_list_that_does_not_fit),
        cmocka_unit_test(each_setting_gets_its_place),
        cmocka_unit_test(what_the_machine_tells),
        cmocka_unit_test(a_loop_goes_where_all_its_devices_are),
        cmocka_unit_test(a_thread_runs_where_it_is_told),
        cmocka_unit_test(memory_comes_from_the_node),
        cmocka_unit_test(a_policy_of_the_process_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
