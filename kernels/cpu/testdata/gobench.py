"""Lines of Go's benchmark format, which benchstat reads (benchmarks/README.md beside the package)."""

import os
import re


def name(kind, threads, **parts):
    """A benchmark's name: kind and key=value parts, such as BenchmarkBlock/model=x/impl=torch-2."""
    return f"Benchmark{kind}/" + "/".join(f"{key}={str(value).replace(' ', '_')}" for key, value in parts.items()) + f"-{threads}"


def line(name, clock, busy, amount=0, unit="GFLOP/s", peak=0, **more):
    """A result: seconds of the clock and of the processors for amount operations or bytes, and the share of a core's peak, by the
    processors' seconds."""
    values = {"ns/op": f"{1e9 * clock:.0f}", "cpu-ns/op": f"{1e9 * busy:.0f}"}
    if amount:
        values[unit] = f"{amount / clock / 1e9:.4g}"
    if amount and peak:
        values["%peak"] = f"{100 * amount / busy / 1e9 / peak:.4g}"
    values |= {key: f"{value:.3g}" for key, value in more.items()}
    return f"{name} 1 " + " ".join(f"{value} {unit}" for unit, value in values.items())


def parse(text):
    """The results of a text: a name's parts and the values by unit."""
    for words in map(str.split, text.splitlines()):
        if words and words[0].startswith("Benchmark") and len(words) >= 4:
            parts = dict(part.split("=", 1) for part in re.sub(r"-\d+$", "", words[0]).split("/")[1:] if "=" in part)
            yield parts, {unit: float(value) for value, unit in zip(words[2::2], words[3::2])}


def load():
    """A line that benchstat skips."""
    return f"# load {os.getloadavg()[0]:.1f}"
