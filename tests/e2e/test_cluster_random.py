#!/usr/bin/python3
# long: yes, faults take seconds each; what it guards in check is test_cluster
# timeout: 1500
# parallel: waiting, servers elect leaders, by clocks of seconds
# takes: 39 s CPU in 94 s
"""Faults at random on three servers, a gateway and three workers, each on a host of its own: workers are killed,
stopped and cut off; servers are killed, stopped, put into lame-duck mode, given the state of some seconds ago,
parted from the other servers, and cut off from everybody; the gateway is cut off. Whatever the order, lost = doubled =
wrong = 0, and one worker that nobody disturbs computes the same bytes with the same chain.

CONVOLVD_TEST_FAULT_SECONDS: how long [60]; make cluster-faults has ten minutes. CONVOLVD_TEST_FAULT_SEED: of the
schedule [1]; 0 draws one. The seed and each fault are printed."""
import heapq
import os
import random
import shutil
import signal
import sys
import time
import unittest

import cluster_hosts
import convolvd as c
from cluster_hosts import SERVERS, WORKERS
from cluster_world import GATEWAY, RATE, WORKER

SECONDS = float(os.environ.get("CONVOLVD_TEST_FAULT_SECONDS", "60"))
SEED = int(os.environ.get("CONVOLVD_TEST_FAULT_SEED", "1")) or random.SystemRandom().randrange(1, 1 << 31)
STANDSTILL_S = 20  # the longest between two records; an election takes 4 to 9 s, and a fault may fall into it
SETTLE_S = 20  # from the end of a fault of one server to the next one: their logs have leaders again


class Random(cluster_hosts.Hosts):
    def setUp(self):
        super().setUp()
        self.healed = 0
        self.later, self.count, self.random = [], {}, random.Random(SEED)

    # ---- faults: each returns what undoes it --------------------------------------------------

    def process_killed(self, name):
        self.daemons[name].kill()
        return lambda: self.start(name, WORKER)

    def process_stopped(self, name):
        self.daemons[name].process.send_signal(signal.SIGSTOP)
        return lambda: self.daemons[name].process.send_signal(signal.SIGCONT)

    def host_cut_off(self, name):
        self.cut_off(name)
        return lambda: self.connect(name)

    def server_killed(self, name):
        self.server_of(name).kill()
        return lambda: self.server_of(name).start(wait=False)

    def server_stopped(self, name):
        self.server_of(name).signal(signal.SIGSTOP)
        return lambda: self.server_of(name).signal(signal.SIGCONT)

    def lame_duck(self, name):
        self.server_of(name).process.send_signal(signal.SIGUSR2)
        return lambda: (self.server_of(name).stop(), self.server_of(name).start(wait=False))

    def back_with_old_data(self, name):
        """Its state of now, when it comes back."""
        server, store = self.server_of(name), os.path.join(self.servers.folder, name)
        server.signal(signal.SIGTERM)
        shutil.copytree(store, f"{store}.before")
        server.start(wait=False)

        def back():
            server.kill()
            shutil.rmtree(store)
            os.rename(f"{store}.before", store)
            server.start(wait=False)
        return back

    def parted(self, name):
        """From the other servers; daemons still reach it."""
        self.cut_off(name, (cluster_hosts.ROUTES,))
        return lambda: self.connect(name)

    FAULTS = (("worker killed", process_killed, WORKERS, 6), ("worker stopped", process_stopped, WORKERS, 6),
              ("worker cut off", host_cut_off, WORKERS, 6), ("gateway cut off", host_cut_off, ("gateway",), 6),
              ("server killed", server_killed, SERVERS, 5), ("server stopped", server_stopped, SERVERS, 5),
              ("lame duck", lame_duck, SERVERS, 5), ("back with old data", back_with_old_data, SERVERS, 5),
              ("server parted", parted, SERVERS, 8), ("server cut off", host_cut_off, SERVERS, 5))

    # ---- the schedule -------------------------------------------------------------------------

    def free(self, name, now):
        """Whether a fault of this one leaves two servers, one worker."""
        if name in SERVERS:
            return not self.faulty & set(SERVERS) and now > self.healed
        return name not in self.faulty and (name not in WORKERS or len(self.faulty & set(WORKERS)) < len(WORKERS) - 1)

    def undo(self, until):
        while self.later and self.later[0][0] <= until:
            at, name, back = heapq.heappop(self.later)
            time.sleep(max(0, at - time.monotonic()))
            back()
            self.faulty.discard(name)
            if name in SERVERS:
                self.healed = time.monotonic() + SETTLE_S

    def disturb(self):
        began = now = time.monotonic()
        while now - began < SECONDS:
            what, fault, names, longest = self.random.choice(self.FAULTS)
            name, seconds = self.random.choice(names), self.random.uniform(0.2, longest)
            pause = self.random.uniform(0.5, 3)
            if self.free(name, now):
                print(f"{now - began:6.1f} s  {what}: {name}, {seconds:.1f} s", file=sys.stderr, flush=True)
                self.count[what] = self.count.get(what, 0) + 1
                self.faulty.add(name)
                back = fault(self, name)
                heapq.heappush(self.later, (time.monotonic() + seconds, name, back))
                self.undo(time.monotonic() + pause)
                time.sleep(pause)
            else:
                self.undo(now + 0.2)
            now = time.monotonic()
        self.undo(float("inf"))

    def test_whatever_happens(self):
        print(f"seed {SEED}, {SECONDS:.0f} s", file=sys.stderr, flush=True)
        self.start("gateway", GATEWAY)
        for name in WORKERS:
            self.start(name, WORKER)
        self.wait_frames(RATE)
        self.disturb()
        for server in self.servers.all:
            server.wait(30)
        self.wait_frames(0, more=2 * RATE)
        log = self.end_of_input()
        data = [record for record in log if record.kind == "data"]
        still = max((after.appended_ns - before.appended_ns) / 1e9 for before, after in zip(data, data[1:]))
        takes = sum(record.kind == "take" for record in log)
        c.note(f"test_cluster_random: seed {SEED}, {SECONDS:.0f} s, {sum(self.count.values())} faults ("
               + ", ".join(f"{count} × {what}" for what, count in sorted(self.count.items()))
               + f"): {takes} takes, {data[-1].next} frames, longest standstill {still:.2f} s")
        self.compare_with_an_undisturbed_run(log)
        undisturbed = [record for record in self.records("log") if record.kind == "data"][-1]
        self.assertEqual((undisturbed.next, undisturbed.chain), (data[-1].next, data[-1].chain))
        self.hold_bar(still, STANDSTILL_S)


if __name__ == "__main__":
    unittest.main()
