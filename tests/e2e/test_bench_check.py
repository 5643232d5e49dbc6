#!/usr/bin/python3
# parallel: yes
"""bench/check.py: a bar is held by the worst of its rows, missed by one that is slow, wrong or not there."""
import os
import subprocess
import tempfile
import unittest

import convolvd as c

HEAD = "what,shape,ours,peer,ratio,bar,unit,median,spread,error,command\n"
GROUP = [("daemon against echo", 1.0), ("daemon against FFTW program", 1.3), ("daemon against GNU Radio", 3.0)]


class BenchCheck(unittest.TestCase):
    def check(self, rows, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.csv")
            with open(path, "w", encoding="utf-8") as file:
                file.write(HEAD)
                for what, shape, ratio, error in rows:
                    file.write(f"{what},{shape},1,1,{ratio},,x,{ratio},,{error},again\n")
            result = subprocess.run(["/usr/bin/python3", os.path.join(c.ROOT, "bench", "check.py"), *arguments, path],
                                    capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr

    def rows(self, **ratios):
        whole = [(what, "f32", bar + 0.01, 1e-7) for what, bar in GROUP] + [(what, "f32", 0.99, 0) for what in ("daemon p99", "daemon p99.9")]
        return [(what, shape, ratios.get(what.split()[-1], ratio), error) for what, shape, ratio, error in whole]

    def test_held(self):
        code, out = self.check(self.rows(), "--group", "daemon")
        self.assertEqual(code, 0, out)
        self.assertIn("5 held, 0 missed", out)

    def test_one_missed(self):
        for name, ratio in (("echo", 0.99), ("Radio", 2.99), ("p99", 1.01), ("p99.9", 1.01)):
            code, out = self.check(self.rows(**{name: ratio}), "--group", "daemon")
            self.assertEqual(code, 1, out)
            self.assertIn("4 held, 1 missed", out)

    def test_the_worst_shape_counts(self):
        code, out = self.check(self.rows() + [("daemon against echo", "L16", 0.5, 0)], "--group", "daemon")
        self.assertEqual(code, 1, out)
        self.assertIn("L16", out)

    def test_measured_again(self):
        self.assertEqual(self.check(self.rows(echo=0.5) + self.rows(), "--group", "daemon")[0], 0)

    def test_a_wrong_result_is_no_result(self):
        rows = self.rows()
        rows[0] = rows[0][:3] + (1e-3,)
        code, out = self.check(rows, "--group", "daemon")
        self.assertEqual(code, 1, out)
        self.assertIn("error 1.0e-03", out)

    def test_a_missing_row_fails(self):
        code, out = self.check(self.rows()[1:], "--group", "daemon")
        self.assertEqual(code, 1, out)
        self.assertIn("MISSING  daemon against echo", out)

    def test_groups(self):
        code, out = self.check(self.rows())
        self.assertEqual(code, 0, out)
        self.assertIn("nothing  of the group gpu", out)
        self.assertEqual(self.check(self.rows(), "--group", "gpu")[0], 1)
        self.assertEqual(self.check([])[0], 1)

    def test_a_bar_of_zero(self):
        """What must not be more than nothing has no share of it to be away."""
        for ratio, code in ((0, 0), (64, 1)):
            rows = [("jack delay", "64", ratio, 0), ("jack channels", "256", 2.2, 0)]
            got, out = self.check(rows, "--group", "jack")
            self.assertEqual(got, code, out)
            self.assertIn(f"({ratio:+g})", out)

    def test_geometric_mean(self):
        what = "cpu against FFTW overlap-save"
        for ratios, held in (((2.6, 4.8), True), ((2.6, 4.6), False), ((2.4, 9.0), True)):
            _, out = self.check([(what, f"N={i}", ratio, 1e-7) for i, ratio in enumerate(ratios)], "--group", "cpu")
            line = next(line for line in out.splitlines() if "geometric" in line)
            self.assertEqual(line.startswith("held"), held, out)


if __name__ == "__main__":
    unittest.main()
