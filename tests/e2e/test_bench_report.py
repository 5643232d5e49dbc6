#!/usr/bin/python3
# parallel: yes
# long: yes, no user of the daemon runs it, and no mutant needs it
"""bench/report.py: what was measured stands in the page, as held or missed by how much, and twice the same."""
import os
import subprocess
import tempfile
import unittest

import convolvd as c

ROWS = """what,shape,ours,peer,ratio,bar,unit,median,spread,error,command
cpu against FFTW overlap-save,N=1024 channels=16 threads=1,400,100,4,>=2.5,Msamples/s,4,3.9…4.1,2e-7,first command
cpu against FFTW overlap-save,N=256 channels=16 threads=1,200,100,2.0,>=2.5,Msamples/s,2,0.2,2e-7,first command
cpu real time,S=65536 L=64 64ch,400,1333,0.3,<=1,us,0.3,0.2…0.4,1e-3,second command
cpu growth against zita,S=1024 L=256 16ch partitioned,10,15,0.66,<=1.5,ns/sample,0.66,0.6…0.7,2e-7,second command
ceiling memory copy,threads=1,10,,1,,GB/s,10,9…11,0,third
ceiling multiply-add,threads=1,100,,1,,Gflop/s,100,99…101,0,third
"""
PAGE = "".join(f"before {name}\n<!-- results: {name} -->\nold {name}\n<!-- end -->\nafter {name}\n"
               for name in ("summary", "machine", "limits", "cpu", "gpu", "daemon", "jack", "ceiling"))


class BenchReport(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def report(self, page=PAGE, rows=ROWS):
        for name, text in (("page.md", page), ("a.csv", rows)):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
        result = subprocess.run(["/usr/bin/python3", os.path.join(c.ROOT, "bench", "report.py"), "--docs", self.path("page.md"),
                                 self.path("a.csv")], capture_output=True, text=True, check=False)
        with open(self.path("page.md"), encoding="utf-8") as file:
            return result.returncode, result.stdout + result.stderr, file.read()

    def line(self, page, *words):
        return next((line for line in page.splitlines() if all(word in line for word in words)), "")

    def test_tables(self):
        code, out, page = self.report()
        self.assertEqual(code, 0, out)
        self.assertNotIn("old ", page)
        for name in ("summary", "limits", "jack"):
            self.assertIn(f"before {name}\n", page)
            self.assertIn(f"after {name}\n", page)
        self.assertEqual(self.line(page, "| cpu against FFTW overlap-save | N=1024"),
                         "| cpu against FFTW overlap-save | N=1024 channels=16 threads=1 | 400 | 100 | Msamples/s | 4 [3.9 … 4.1] "
                         "| >=2.5 | held | 2.0e-07 | 1 |")
        missed = self.line(page, "| cpu against FFTW overlap-save | N=256")
        self.assertIn("2 [1.9 … 2.1]", missed)
        self.assertIn("| missed by 20 % |", missed)
        self.assertIn("**wrong**", self.line(page, "| cpu real time | S=65536"))
        self.assertIn("2. `second command`", page)
        self.assertLess(page.index("| N=256 channels"), page.index("| N=1024 channels"))

    def test_summary(self):
        page = self.report()[2]
        worst = self.line(page, "every shape")
        self.assertIn("| >=2.5 | 2 | missed by 20 % | N=256", worst)
        self.assertIn("| 2.83 | missed by 19 % | all rows |", self.line(page, "geometric mean"))
        self.assertIn("not measured", self.line(page, "bare recvmmsg"))

    def test_limits(self):
        # 512 points: 10·9 + 6 = 96 operations; 400 M of them of 100 G, 3.2 GB of 10.
        page = self.report()[2]
        self.assertIn("| 16 | 1024 | 1 | 400 | 96 | 38.4 | 38 % | 8 | 3.20 | 32 % |", page)

    def test_plots(self):
        _, _, page = self.report()
        drawn = {}
        for name in ("cpu-ratio.svg", "cpu-throughput.svg", "cpu-growth.svg"):
            self.assertIn(f"(performance/{name})", page)
            with open(self.path(os.path.join("performance", name)), "rb") as file:
                drawn[name] = file.read()
            self.assertIn(b"<svg", drawn[name])
            self.assertLess(len(drawn[name]), 200_000)
        self.assertNotIn("gpu-ratio", page)
        first = page
        _, _, page = self.report()
        self.assertEqual(page, first)
        for name, text in drawn.items():
            with open(self.path(os.path.join("performance", name)), "rb") as file:
                self.assertEqual(file.read(), text, name)

    def test_marks(self):
        code, out, page = self.report("<!-- results: weather -->\nold\n<!-- end -->\n")
        self.assertEqual(code, 1)
        self.assertIn("weather", out)
        self.assertIn("old", page)
        self.assertEqual(self.report("<!-- results: cpu -->\nold\n")[0], 1)


if __name__ == "__main__":
    unittest.main()
