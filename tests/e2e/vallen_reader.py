"""An independent reader of .pridb, .tradb and .trfdb: plain sqlite3 and soundfile, written from the
specification of the formats alone (docs/analysis.md, "Files"). It shares no code and no constant with the
daemon, uses the tables and never the views, and can read while somebody writes.
"""
import contextlib
import io
import sqlite3

import numpy as np
import soundfile

PARAMETRIC, HIT, STATUS, LABEL, DATE_TIME, SECTION = range(1, 7)


class File:
    def __init__(self, path, prefix):
        self.path, self.prefix = path, prefix
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        self.db.row_factory = sqlite3.Row

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.db.close()

    @contextlib.contextmanager
    def snapshot(self):
        """What is read inside belongs together: the file as the first read finds it, whoever writes meanwhile."""
        self.db.execute("BEGIN")
        try:
            yield
        finally:
            self.db.execute("COMMIT")

    def rows(self, sql, *values):
        return [dict(row) for row in self.db.execute(sql, values)]

    def info(self):
        return {row["Key"]: row["Value"] for row in self.rows(f"SELECT * FROM {self.prefix}_globalinfo")}

    def time_base(self):
        return float(self.info()["TimeBase"])

    def whole(self):
        """Whether SQLite finds the file in order."""
        return self.db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


class Pridb(File):
    def __init__(self, path):
        super().__init__(path, "ae")

    def sets(self, after=0):
        """Sets behind a SetID, in order; levels in volts, times in seconds."""
        with self.snapshot():
            base = self.time_base()
            params = {row["ID"]: row for row in self.rows("SELECT * FROM ae_params")}
            markers = {row["SetID"]: row for row in self.rows("SELECT * FROM ae_markers WHERE SetID > ?", after)}
            data = self.rows("SELECT * FROM ae_data WHERE SetID > ? ORDER BY SetID", after)
        result = []
        for row in data:
            scale = params.get(row["ParamID"])
            one = {"id": row["SetID"], "type": row["SetType"], "time": row["Time"] / base, "ticks": row["Time"],
                   "channel": row["Chan"], "status": row["Status"], "trai": row["TRAI"], "counts": row["Counts"]}

            def value(column, unit):
                return None if row[column] is None else row[column] * unit
            if scale is not None and row["SetType"] in (HIT, STATUS):
                micro = scale["ADC_µV"] * 1e-6
                one.update(threshold=value("Thr", micro), amplitude=value("Amp", micro),
                           rise=value("RiseT", 1 / base), duration=value("Dur", 1 / base),
                           energy=value("Eny", scale["ADC_TE"]), strength=value("SS", scale["ADC_SS"]),
                           rms=value("RMS", 0.0065536 * micro))
            if row["SetID"] in markers:
                one.update(number=markers[row["SetID"]]["Number"], text=markers[row["SetID"]]["Data"])
            result.append(one)
        return result

    def hits(self, after=0):
        return [one for one in self.sets(after) if one["type"] == HIT]


class Tradb(File):
    def __init__(self, path):
        super().__init__(path, "tr")

    def records(self, after=0):
        """Records behind a TRAI, in order; samples in volts, `start` in seconds: of the first sample."""
        with self.snapshot():
            base = self.time_base()
            steps = {row["ID"]: row["TR_mV"] / 1000 for row in self.rows("SELECT * FROM tr_params")}
            data = self.rows("SELECT * FROM tr_data WHERE TRAI > ? ORDER BY TRAI", after)
        result = []
        for row in data:
            if row["DataFormat"] == 0:
                codes = np.frombuffer(row["Data"], "<i2")
            else:
                assert row["DataFormat"] == 2, row["DataFormat"]
                codes, _ = soundfile.read(io.BytesIO(row["Data"]), dtype="int16")  # its rate means nothing
            assert len(codes) == row["Samples"], (len(codes), row["Samples"])
            result.append({"trai": row["TRAI"], "channel": row["Chan"], "time": row["Time"] / base, "ticks": row["Time"],
                           "rate": row["SampleRate"], "pretrigger": row["Pretrigger"], "status": row["Status"],
                           "start": row["Time"] / base - row["Pretrigger"] / row["SampleRate"],
                           "codes": codes, "samples": codes * steps[row["ParamID"]]})
        return result


class Trfdb(File):
    def __init__(self, path):
        super().__init__(path, "trf")

    def features(self):
        return {row.pop("TRAI"): row for row in self.rows("SELECT * FROM trf_data ORDER BY TRAI")}

    def units(self):
        return {row["field"]: row["Unit"] for row in self.rows("SELECT * FROM trf_fieldinfo")}
