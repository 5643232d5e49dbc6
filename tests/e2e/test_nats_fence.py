#!/usr/bin/python3
# sanitizers: no
# parallel: yes
# takes: 1 s CPU in 4 s
"""What the logs of a cluster rest on: of two writers that follow the same record, one is refused, by the server and by
every replica. The writers sit at different servers and send at once; FENCE_ROUNDS sets how often (docs/cluster.md
has 2000)."""
import json
import os
import unittest

from nats_servers import Client, Servers

ROUNDS = int(os.environ.get("FENCE_ROUNDS", "200"))


def race(servers, rounds, headers):
    """How often both writers' records were stored; headers(last, identity) is the condition."""
    last, identity, both = 0, "", 0
    with Client(servers[0].port) as client:
        client.api("STREAM.DELETE.race", {})
        client.create("race", "race.log", replicas=len(servers.all))
        writers = [Client(server.port) for server in (servers[0], servers[len(servers.all) - 1])]
        for number in range(rounds):
            for who, writer in enumerate(writers):
                writer.publish("race.log", b"x", f"{writer.inbox}.ack",
                               {"Nats-Msg-Id": f"{number}.{who}", **headers(last, identity)})
            won = []
            for who, writer in enumerate(writers):
                answer = json.loads(writer.next(10)[3])
                if "error" not in answer:
                    won.append((answer["seq"], f"{number}.{who}"))
            both += len(won) == 2
            last, identity = max(won)
        assert client.state("race")["messages"] == rounds + both
        for writer in writers:
            writer.close()
    return both


class Fence(unittest.TestCase):
    def hold(self, count):
        with Servers(count) as servers:
            servers.ready()
            self.assertEqual(race(servers, ROUNDS, lambda last, identity: {"Nats-Expected-Last-Sequence": last}), 0)
            # Nobody has an identity in the first round.
            by_identity = race(servers, ROUNDS, lambda last, identity: {"Nats-Expected-Last-Msg-Id": identity} if identity else {})
            self.assertLessEqual(by_identity, 1)
            self.assertEqual(race(servers, ROUNDS, lambda last, identity: {
                "Nats-Expected-Last-Sequence": last, **({"Nats-Expected-Last-Msg-Id": identity} if identity else {})}), 0)

    def test_one_server(self):
        self.hold(1)

    def test_three_servers(self):
        self.hold(3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
