"""Gateways that receive one rig by multicast: real nats-server, real multicast on the loopback interface. A gateway beside
them, that nothing happens to, appends a RAW `alone` of the same packets: RAW is held against that and against what the rig
has sent, byte by byte, and LOG against RAW."""
import cluster_world
import convolvd as c
import multicast_rig
from cluster_world import GATEWAY_RTP, RATE, WORKER
from multicast_rig import FIRST, SENDER

GROUP = "239.77.9.2"
LISTENER = GATEWAY_RTP.replace("127.0.0.1:{port}", f"{GROUP}:{{port}}\ninterface = lo").replace("format = f32", "format = f32be") \
    .replace("identity = gateway", "identity = {name}")


class Gateways(multicast_rig.MulticastRig, cluster_world.Cluster):
    """`g` appends RAW, and `h` waits."""
    GROUP = GROUP

    def begin(self, workers="a", keys=""):
        """`keys`: of the stream."""
        self.keys = keys
        self.server()
        self.port = c.free_port()
        self.listen("g")
        self.daemons["g"].wait_said("owns the raw of partition rig")
        self.listen("h")
        self.start("alone", LISTENER.replace("partition = rig", "partition = alone"), port=self.port)
        self.daemons["alone"].wait_said("owns the raw of partition alone")
        self.daemons["h"].wait_said("g appends the raw of partition rig: this gateway waits")
        for name in workers:
            self.start(name, WORKER, "f32be")
        self.send()
        self.wait_frames(RATE // 2)

    def listen(self, name):
        self.start(name, LISTENER.replace("block =", f"{self.keys}block ="), port=self.port)

    def kill(self, name):
        self.daemons[name].process.kill()
        self.daemons[name].process.wait()

    def gateway(self):
        """The one that appends RAW now, by what the gateways' logs say last."""
        def now():
            for name in "gh":
                daemon = self.daemons[name]
                said = [line for line in daemon.output().splitlines() if "the raw of partition rig" in line]
                if daemon.process.poll() is None and said and "from term" in said[-1]:
                    return name
            return None
        return cluster_world.wait_value(now, "a gateway that appends")

    def other(self, name):
        return "h" if name == "g" else "g"

    def wait_holds(self, name, frames=RATE // 2):
        """Until a gateway that waits has kept so much."""
        cluster_world.wait_value(lambda: self.daemons[name].stream("rig")["sinks"][0]["partition"]["repeated_frames"] > frames,
                                 f"{frames} frames kept by {name}")
        self.assertLess(self.daemons[name].stream("rig")["sinks"][0]["pending"], RATE)

    def of_raw(self, partition):
        """The records of its RAW, and its one epoch: the samples' bytes, each frame once, and the time stamp of frame 0."""
        self.partition_name = partition
        records, at, stamps = self.records("raw"), 0, set()
        self.partition_name = "rig"
        data = [record for record in records if record.kind == "data"]
        for record in data:
            self.assertEqual((record.epoch, record.first_missing, record.first), (0, at, at),
                             f"{partition}: record {record.sequence}: frames are lost or doubled, or an epoch begins")
            self.assertTrue(record.flags & SENDER)
            at = record.next
            stamps.add((record.ssrc, (record.timestamp - record.next) % 2 ** 32))
        return records, b"".join(record.samples for record in data), stamps

    def hold_raw(self):
        """Ends the rig: RAW is what the gateway alone has, and what the rig has sent, and LOG what RAW says. Returns RAW's
        records."""
        self.wait_frames(4 * RATE)  # its time stamps have wrapped
        x = self.end_rig()
        for partition in ("rig", "alone"):
            self.partition_name = partition
            cluster_world.wait_value(lambda: (newest := self.newest("raw")) and newest.next >= len(x), f"all of RAW of {partition}")
        raw, got, stamps = self.of_raw("rig")
        _, alone, of_alone = self.of_raw("alone")
        self.assertEqual((stamps, of_alone), ({(7, FIRST % 2 ** 32)},) * 2)
        self.assertEqual(len(got), x.size * 4)
        self.assertEqual(got == alone, True, "not what the gateway beside them has")
        self.assertEqual(got == x.astype(">f4").tobytes(), True, "not what the rig has sent")
        self.assertFalse([each for record in raw for each in record.ranges], "frames are flagged")
        self.wait_frames(len(x) // cluster_world.HOP * cluster_world.HOP)
        self.hold()
        return raw

    def takes(self, raw):
        return sum(record.kind == "take" for record in raw)

    def note(self, what, raw):
        stills = sorted(self.standstills(raw))
        c.note(f"test_cluster_two_gateways: {what}: {len(stills)} standstills, {stills[0]:.2f} to {stills[-1]:.2f} s, "
               f"median {stills[len(stills) // 2]:.2f} s")
        return stills[-1]

    def kill_gateways(self, times):
        for _ in range(times):
            name = self.gateway()
            self.kill(name)
            self.wait_frames(0, more=RATE // 2)
            self.listen(name)
            self.wait_holds(name)
