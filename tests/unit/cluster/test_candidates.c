/*
 * The order of the workers that may take a partition: all that hear each other agree, each
 * partition has an order of its own, and who leaves moves only what it was first for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "cluster/candidates.h"

static const int64_t ms = 1000000;

enum { WORKERS = 5, PARTITIONS = 200 };

static struct candidate worker(int i)
{
    struct candidate w = {.identity = 100 + (uint64_t)i, .room = true, .config = "c"};
    snprintf(w.worker, sizeof w.worker, "host%d/gpu%d", i / 2, i % 2);
    return w;
}

static struct candidates opened(int i)
{
    struct candidates c;
    const struct candidate own = worker(i);
    candidates_open(&c, own.worker, own.identity, own.config, 3000 * ms);
    candidates_listen(&c, -3000 * ms);
    candidates_load(&c, 0.5, 0.8);
    return c;
}

/* Each of them has heard the others at time 0. */
static void meet(struct candidates all[WORKERS])
{
    for (int i = 0; i < WORKERS; i++) {
        all[i] = opened(i);
        for (int k = 0; k < WORKERS; k++) {
            const struct candidate other = worker(k);
            assert_true(candidates_heard(&all[i], 0, &other));
        }
    }
}

static struct standing standing(const struct candidates *c, int64_t now_ns, int partition)
{
    char name[16];
    snprintf(name, sizeof name, "rig%d", partition);
    return candidates_standing(c, now_ns, name, "c");
}

static void test_all_agree_and_share(void **state)
{
    (void)state;
    struct candidates all[WORKERS];
    meet(all);
    int firsts[WORKERS] = {0};
    for (int p = 0; p < PARTITIONS; p++) {
        unsigned ranks = 0;
        for (int i = 0; i < WORKERS; i++) {
            const struct standing s = standing(&all[i], 0, p);
            assert_true(s.stands && s.others == WORKERS - 1 && s.strangers == 0);
            assert_int_equal(s.first, s.rank == 0);
            ranks |= 1U << s.rank;
            firsts[i] += s.first;
        }
        assert_int_equal(ranks, (1U << WORKERS) - 1); /* each rank once */
    }
    for (int i = 0; i < WORKERS; i++) /* 40 on average, sigma 5.7 */
        assert_in_range(firsts[i], 15, 65);
}

static void test_who_leaves_moves_only_its_own(void **state)
{
    (void)state;
    struct candidates all[WORKERS];
    meet(all);
    int first[PARTITIONS], second[PARTITIONS];
    for (int p = 0; p < PARTITIONS; p++)
        for (int i = 0; i < WORKERS; i++)
            if (standing(&all[i], 0, p).first)
                first[p] = i;
            else if (standing(&all[i], 0, p).rank == 1)
                second[p] = i;
    /* By a word, by having no room, and by silence. */
    candidates_left(&all[1], worker(0).identity);
    struct candidate full = worker(0);
    full.room = false;
    candidates_heard(&all[2], 0, &full);
    for (int k = 1; k < WORKERS; k++) {
        const struct candidate other = worker(k);
        candidates_heard(&all[3], 2999 * ms, &other);
    }
    for (int p = 0; p < PARTITIONS; p++)
        for (int i = 1; i <= 3; i++) {
            const bool now = standing(&all[i], i == 3 ? 3000 * ms : 0, p).first;
            assert_int_equal(now, (first[p] != 0 ? first[p] : second[p]) == i);
        }
    assert_true(standing(&all[3], 2999 * ms, 0).others == WORKERS - 1);
    assert_true(standing(&all[3], 3000 * ms, 0).others == WORKERS - 2);
}

static void test_no_room_and_other_configurations_do_not_stand(void **state)
{
    (void)state;
    struct candidates all[WORKERS];
    meet(all);
    candidates_load(&all[0], 0.8, 0.8);
    struct candidate other = worker(1);
    snprintf(other.config, sizeof other.config, "another");
    candidates_heard(&all[2], 0, &other);
    for (int p = 0; p < PARTITIONS; p++) {
        assert_false(standing(&all[0], 0, p).stands);
        assert_int_equal(standing(&all[0], 0, p).bar, STANDING_FULL);
        const struct standing s = standing(&all[2], 0, p);
        assert_true(s.strangers == 1 && s.others == WORKERS - 2 && s.rank < WORKERS - 1);
    }
}

static void test_a_restarted_worker_keeps_its_place_and_a_full_table_says_so(void **state)
{
    (void)state;
    struct candidates c = opened(0);
    struct candidate w = worker(1);
    assert_true(candidates_heard(&c, 0, &w));
    w.identity = 999;
    assert_true(candidates_heard(&c, 1 * ms, &w));
    assert_int_equal(standing(&c, 2 * ms, 0).others, 1);
    for (int i = 1; i < CANDIDATES_MAX; i++) {
        snprintf(w.worker, sizeof w.worker, "w%d", i);
        w.identity = 1000 + (uint64_t)i;
        assert_true(candidates_heard(&c, 2 * ms, &w));
    }
    snprintf(w.worker, sizeof w.worker, "one too many");
    assert_false(candidates_heard(&c, 3000 * ms, &w)); /* the first was last heard at 1 ms */
    assert_true(candidates_heard(&c, 3001 * ms, &w));
}

/* A configuration holds as long as a worker with it is there; then the log is another one's. */
static void test_another_configuration_waits_for_the_last_of_the_log_s(void **state)
{
    (void)state;
    struct candidates c;
    struct candidate last = worker(1);
    candidates_open(&c, "new", 7, "new configuration", 3000 * ms);
    candidates_load(&c, 0, 0.8);
    candidates_listen(&c, 0);
    assert_true(candidates_standing(&c, 0, "rig", "").stands);
    assert_true(candidates_standing(&c, 0, "rig", "new configuration").stands);
    assert_int_equal(candidates_standing(&c, 2999 * ms, "rig", "c").bar, STANDING_LISTENS);
    assert_true(candidates_standing(&c, 3000 * ms, "rig", "c").stands); /* nobody is there */
    candidates_heard(&c, 3000 * ms, &last);
    assert_int_equal(candidates_standing(&c, 5999 * ms, "rig", "c").bar, STANDING_DIFFERS);
    assert_true(candidates_standing(&c, 5999 * ms, "rig", "of nobody").stands);
    assert_null(candidates_find(&c, 5999 * ms, last.worker)); /* none to hand over to */
    assert_true(candidates_standing(&c, 6000 * ms, "rig", "c").stands);
}

static void test_who_is_second_hands_over_after_10_s_one_in_2_s(void **state)
{
    (void)state;
    struct candidates all[WORKERS];
    struct candidate_turn turns[PARTITIONS] = {0};
    meet(all);
    int64_t last_ns = 0;
    int handed = 0, wanted = 0;
    for (int p = 0; p < PARTITIONS; p++)
        wanted += standing(&all[0], 0, p).rank > 0;
    for (int64_t now = 0; now < 600000 * ms; now += 100 * ms) {
        for (int k = 1; k < WORKERS; k++) {
            const struct candidate other = worker(k);
            candidates_heard(&all[0], now, &other);
        }
        for (int p = 0; p < PARTITIONS; p++) {
            const struct standing s = standing(&all[0], now, p);
            const char *to =
                candidates_hand_over(&all[0], &turns[p], now, &s, turns[p].second_ns >= 0);
            if (to == NULL)
                continue;
            assert_string_equal(to, s.best);
            assert_true(now >= (handed == 0 ? 10000 * ms : last_ns + 2000 * ms));
            turns[p].second_ns = -1; /* it owns it no more */
            last_ns = now;
            handed++;
        }
    }
    assert_int_equal(handed, wanted);
    assert_true(last_ns <= 10000 * ms + wanted * 2000 * ms);
    /* Who comes before only now and then gets nothing. */
    struct candidate_turn turn = {0};
    struct standing first = {.first = true}, second = {.best = "b"};
    for (int64_t now = 700000 * ms; now < 760000 * ms; now += 100 * ms)
        assert_null(candidates_hand_over(&all[0], &turn, now,
                                         now % (9000 * ms) == 0 ? &first : &second, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_agree_and_share),
        cmocka_unit_test(test_who_leaves_moves_only_its_own),
        cmocka_unit_test(test_no_room_and_other_configurations_do_not_stand),
        cmocka_unit_test(test_a_restarted_worker_keeps_its_place_and_a_full_table_says_so),
        cmocka_unit_test(test_another_configuration_waits_for_the_last_of_the_log_s),
        cmocka_unit_test(test_who_is_second_hands_over_after_10_s_one_in_2_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
