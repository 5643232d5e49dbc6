"""Levels as people write them: the same spellings that the daemon's configuration takes."""

from __future__ import annotations

import re

_PREFIXES = {"": 1.0, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9}
_ACCELERATIONS = {"m/s2": 1.0, "m/s²": 1.0, "m/s^2": 1.0, "g": 9.80665}
# The amplitude of 0 dB: EN 1330-9 for volts, ISO 1683 for the others.
_REFERENCES = {"V": 1e-6, "m/s2": 1e-6, "m/s²": 1e-6, "m/s^2": 1e-6, "g": 1e-6 / 9.80665, "m/s": 1e-9, "Pa": 1e-6, "m": 1e-12, "N": 1e-6}
# Quantities of other kinds, and what cannot be told from them.
_OTHERS = frozenset(("", "%", "°", "deg", "s", "ms", "us", "µs", "μs", "ns", "min", "h", "d", "Hz", "kHz", "MHz", "GHz", "B", "KiB", "MiB",
                     "GiB", "dB", "frames", "frame", "samples"))
_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*", re.ASCII)


def _factor(unit: str, to: str) -> float | None:
    """How many of `to` one `unit` is; None: they are of different kinds."""
    for prefix, size in _PREFIXES.items():
        for other, other_size in _PREFIXES.items():
            if unit.startswith(prefix) and to.startswith(other) and len(unit) > len(prefix) and unit[len(prefix):] == to[len(other):]:
                return size / other_size
    sizes = {prefix + name: size * factor for name, size in _ACCELERATIONS.items() for prefix, factor in _PREFIXES.items()}
    return sizes[unit] / sizes[to] if unit in sizes and to in sizes else 1.0 if unit == to else None


def _reference(unit: str) -> float:
    for name, value in _REFERENCES.items():
        for prefix, size in _PREFIXES.items():
            if unit == prefix + name:
                return value / size
    return 1.0


def _is_unit(unit: str) -> bool:
    return unit not in _OTHERS and re.search(r"[()\s]|^\d", unit) is None


def _written_reference(text: str, unit: str) -> float | None:
    match = re.fullmatch(r"([\d.]+(?:[eE][-+]?\d+)?)?\s*(.*)", text, re.ASCII)
    if match is None or not _is_unit(match[2]):
        return None
    value, factor = float(match[1] or 1), _factor(match[2], unit)
    return value * factor if factor is not None and value > 0 else None


def _decibel_reference(behind: str, unit: str, full: float | None) -> float | None:
    """The amplitude of 0 dB in `unit`, by what stands behind dB."""
    bracketed = re.fullmatch(r"\((.*)\)", behind.strip())
    what = (bracketed[1] if bracketed else behind).strip()
    re_ = re.match(r"re[ .:]+", what, re.IGNORECASE)
    of = what[re_.end():] if re_ else what
    if what == "":
        return None if bracketed else _reference(unit)
    if of.lower() in ("fs", "full scale"):
        return full
    if what.lower() in ("ae", "_ae"):
        volts = _factor("V", unit)
        return None if volts is None else 1e-6 * volts
    # Behind dB without a word between them only volts are usual: dBA and dBm mean other things.
    if re_ or bracketed or _factor(re.sub(r"^[\d.]+\s*", "", of), "V") is not None:
        return _written_reference(of, unit)
    return None


def level(text: str, unit: str, full_scale: float = 0.0) -> float:
    """The amplitude in `unit` of a level as the daemon's configuration takes it; ValueError says what to write.

    full_scale
        That of the channel at the sensor, as `status` gives it; 0: not known, and dBFS, % and FS are refused.

    >>> level("40 dB(AE)", "V")
    0.0001
    >>> level("-20 dBFS", "V", full_scale=10)
    1.0
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number with a unit; write a level, such as 40 dB(AE), 100 uV or -20 dBFS")
    number, behind, share = float(match[1]), match[2], unit in ("", "FS")
    full = full_scale if full_scale > 0 else 1.0 if share else None
    factor: float | None
    if behind == "":
        if number == 0 or not _is_unit(unit) or (share and abs(number) <= 1):
            return number
        raise ValueError(f"{text!r} has no unit; write it in dB or in {unit}")
    if behind.startswith("dB"):
        factor, number = _decibel_reference(behind[2:], unit, full), 10 ** (number / 20)
    elif behind == "%":
        factor = (None if full is None else full / 100) if unit != "%" else 1.0
    elif behind == "FS" and unit != "FS":
        factor = full
    else:
        factor = _factor(behind, unit) if _is_unit(behind) else None
    if factor is None:
        raise ValueError(f"{text!r} is no level of a channel in {unit}; write a level, such as 40 dB, 100 u{unit} or, where its full scale is known, "
                         "-20 dBFS")
    return number * factor
