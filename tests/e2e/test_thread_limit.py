#!/usr/bin/python3
# timeout: 120
# sanitizers: no, which need threads of their own
# parallel: yes
# takes: 1 s CPU in 2 s
"""Limits that a service manager or a shell sets: the message names the limit."""
import os
import resource
import shutil
import subprocess
import tempfile
import unittest

import convolvd as c

USER = 54329  # nobody else's, since the limit counts all processes of a user

CONFIG = """[stream s]
source = generator
rate = 1 kHz
channels = 1
filter = f
[filter f]
type = identity
"""


class Limits(unittest.TestCase):
    @unittest.skipIf(os.getuid() != 0, "only root may become another user")
    def test_threads(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # the runner's own folder is closed to other users
            path = os.path.join(folder, "convolvd.conf")
            with open(path, "w", encoding="utf-8") as file:
                file.write(CONFIG)
            os.chmod(folder, 0o755)

            def become():
                resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
                os.setgroups([])
                os.setgid(USER)
                os.setuid(USER)
            # The other user may not enter the folder that the build lies in, such as /root.
            program = shutil.copy(os.path.join(c.BUILD, "convolvd"), folder)
            # Without a thread, and with so few that the start gets no further than its helpers.
            for limit in (1, 2, 3, 4):
                done = subprocess.run([program, path], capture_output=True, text=True, check=False, preexec_fn=become,
                                      env={**os.environ, "HOME": folder}, timeout=c.PATIENCE_S)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("raise the limit of processes and threads", done.stderr)
                self.assertNotIn("out of memory", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
