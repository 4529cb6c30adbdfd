# SPDX-License-Identifier: Apache-2.0
"""The inputs of the router's golden rows: integer hash (splitmix64) to double, one rounding to float32; any language can repeat them."""

from collections.abc import Iterator

import numpy as np

GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)
INF = np.float32(np.inf)


def mix(x: np.ndarray) -> np.ndarray:
    """splitmix64's last steps."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def words(seed: int, count: int) -> np.ndarray:
    """Element i is mix((seed * 2^32 + i + 1) * GOLDEN_RATIO), modulo 2^64."""
    i = np.arange(1, count + 1, dtype=np.uint64) + np.uint64((seed << 32) % (1 << 64))
    with np.errstate(over="ignore"):
        return mix(i * GOLDEN_RATIO)


def uniform(seed: int, count: int) -> np.ndarray:
    """Doubles in [0, 1) of 53 bits."""
    return (words(seed, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def bell(seed: int, count: int) -> np.ndarray:
    """Sum of a word's four 16-bit fields, centred, with 16 low bits of a second word: deviation 1.155."""
    word, total = words(seed, count), np.zeros(count)
    for shift in (0, 16, 32, 48):
        total += ((word >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.float64)
    low = (words(seed + 1000003, count) & np.uint64(0xFFFF)).astype(np.float64) * 2.0**-16
    return (total - 131070.0 + low) * 2.0**-15


def f32(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, dtype=np.float64).astype(np.float32)


def to_bf16(x: np.ndarray) -> np.ndarray:
    """Finite float32 rounded to the nearest bf16, ties to even."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    u = ((u + np.uint64(0x7FFF) + ((u >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)) << np.uint64(16)
    return u.astype(np.uint32).view(np.float32)


NANS = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC12345], np.uint32).view(np.float32)


class Draws:
    """Arrays for one number of experts; each draw has the next seed."""

    def __init__(self, experts: int) -> None:
        self.experts, self.seed = experts, 7 * experts

    def next(self) -> int:
        self.seed += 1
        return self.seed

    def logits(self, rows: int, scale: float) -> np.ndarray:
        return f32(bell(self.next(), rows * self.experts) * scale + 0.0).reshape(rows, self.experts)

    def between(self, rows: int, low: float, high: float) -> np.ndarray:
        return f32(uniform(self.next(), rows * self.experts) * (high - low) + low).reshape(rows, self.experts)

    def unit(self, rows: int) -> np.ndarray:
        return uniform(self.next(), rows * self.experts).reshape(rows, self.experts)

    def bias(self, scale: float) -> np.ndarray:
        return f32(bell(self.next(), self.experts) * scale)


def group(name: str, logits: np.ndarray, bias: np.ndarray, scale: float, **more: object) -> dict:
    return {"name": name, "logits": logits, "bias": bias, "scale": scale, **more}


def ordinary(d: Draws, none: np.ndarray) -> Iterator[dict]:
    factors = [1.0, 1.5, 2.5]
    for j, s in enumerate((0.25, 0.5, 1.0, 2.0, 4.0, 8.0)):
        yield group(f"normal {s}", d.logits(96, s), none, factors[j % 3])
        yield group(f"normal {s}, bias 0.1", d.logits(96, s), d.bias(0.1), factors[(j + 1) % 3])
    for j, s in enumerate((1.0, 3.0)):
        yield group(f"bf16 {s}, bias 0.3", to_bf16(d.logits(128, s)), d.bias(0.3), factors[j])


def edges(d: Draws, none: np.ndarray) -> Iterator[dict]:
    """Around 20, where softplus gives its argument; below -15, where it is lost in 1; ties; huge."""
    x = d.between(96, 19.5, 20.5)
    twenty = np.float32(20)
    near = np.array([twenty, np.nextafter(twenty, INF), np.nextafter(twenty, -INF)], np.float32)
    x[:, ::7] = near[np.arange(x[:, ::7].shape[1]) % 3]
    yield group("around 20", x, none, 1.5)
    yield group("around 20, bias 0.01", d.between(96, 19.9, 20.1), d.bias(0.01), 2.5)
    yield group("-8 to -20", d.between(160, -20, -8), none, 2.5)
    yield group("-8 to -20, bias 0.1", d.between(128, -20, -8), d.bias(0.1), 1.0)
    yield group("-18 to -15", d.between(128, -18, -15), none, 1.5)
    yield group("-104 to -16: zeros and subnormal exponentials", d.between(64, -104, -16), none, 2.5)

    def steps(x: np.ndarray, step: float) -> np.ndarray:
        return f32(np.round(x.astype(np.float64) / step) * step)

    yield group("ties: multiples of 0.5", steps(d.logits(128, 2.0), 0.5), none, 2.5)
    yield group("ties: multiples of 0.25, bias of 0.125", steps(d.logits(128, 2.0), 0.25), steps(d.bias(0.3), 0.125), 1.0)
    yield group("ties: multiples of 2, bias of one", steps(d.logits(96, 4.0), 2.0), f32(np.sign(d.bias(1.0))), 1.5)
    exponents = d.between(96, -38, 38.5).astype(np.float64)
    signs = np.where(d.unit(96) < 0.5, -1.0, 1.0)
    yield group("huge, bias 0.1", f32(np.minimum(10.0**exponents, 3.4e38) * signs), d.bias(0.1), 2.5)
    x = d.logits(32, 1.0)
    x[:, :9] = np.float32(3.4028234e38)
    yield group("a sum that overflows", x, none, 1.5)


def special(d: Draws, none: np.ndarray) -> Iterator[dict]:
    """NaN from one a row to all of them; infinities; equal rows."""
    e = d.experts
    x, order = d.logits(192, 2.0), d.unit(192)
    parts = [1 / e, 3 / e, 0.1, 0.5, (e - 8) / e, (e - 6) / e, (e - 5) / e, (e - 3) / e, (e - 1) / e, 1.0, 0.02, 0.9]
    for t in range(192):
        n = int(round(parts[t % 12] * e))
        x[t, np.argsort(order[t], kind="stable")[:n]] = NANS[(np.arange(n) + t) % 6]
    yield group("NaN", x, none, 2.5)
    yield group("NaN, bias 0.5", x, d.bias(0.5), 1.0)
    x, order = d.logits(128, 2.0), d.unit(128)
    for t in range(128):
        at = np.argsort(order[t], kind="stable")
        plus, minus = [1, 2, 6, 7, 0, 0, 40, e][t % 8], [0, 0, 0, 20, 1, e - 6, 40, 0][t % 8]
        x[t, at[:plus]] = INF
        x[t, at[plus : plus + minus]] = -INF
    yield group("infinities", x, d.bias(0.1), 1.5)
    yield group("all -Inf", np.full((4, e), -INF, np.float32), none, 2.5)
    values = [0.0, -0.0, 1.0, -1.0, 20.0, 21.0, -16.0, -17.0, 5.5, -100.0, 88.0, 89.0, -87.5, -104.0, 1e-40, -1e-40]
    equal = np.repeat(np.array(values, np.float32)[:, None], e, 1)
    yield group("all equal", equal, none, 1.5)
    yield group("all equal, bias 0.1", equal, d.bias(0.1), 2.5)
    x = f32(bell(d.next(), 64 * e) * 1e-3).reshape(64, e)
    x[:, ::3] *= np.float32(1e-36)
    yield group("tiny and subnormal", x, none, 1.0)


def biases(d: Draws, none: np.ndarray) -> Iterator[dict]:
    for finite, scale in ((6, 1.5), (4, 1.5)):
        bias = d.bias(0.1)
        bias[finite:] = -INF
        yield group(f"bias -Inf but for {finite}", d.logits(16, 1.0), bias, scale)
    bias = d.bias(0.1)
    bias[10:20] = np.float32(np.nan)
    bias[30] = INF
    yield group("bias with NaN and Inf", d.logits(16, 1.0), bias, 2.5)
    bias = d.bias(1.0)
    bias *= np.float32(1e6)
    yield group("bias 1e6: weights lost in rounding", d.logits(32, 1.0), bias, 2.5)
    yield group("bias -2: all scores negative", d.logits(32, 1.0), none - np.float32(2), 1.0)


def images(d: Draws) -> Iterator[dict]:
    for lo in (129257, 129264, 0):
        ids = (np.arange(96) % 12 + lo - 3).astype(np.int64)
        ids[-6:] = [-1, 0, 1, (1 << 40) + lo, -(1 << 40) + lo, (1 << 32) + lo + 1]
        logits, bias = d.logits(96, 1.0), d.bias(0.2)
        yield group(f"image bias, sentinel {lo}", logits, bias, 2.5, bias_vl=d.bias(0.2), lo=lo, ids=ids)
    x = d.logits(48, 1.0)
    x[::5] = NANS[0]
    yield group("padding rows", x, d.bias(0.1), 1.5, pad=np.arange(48) % 3 == 1)


def groups(experts: int) -> Iterator[dict]:
    """name, logits [T, E] f32, bias [E] f32, scale; some with bias_vl, lo, ids (int64), pad (bool)."""
    d, none = Draws(experts), np.zeros(experts, np.float32)
    for some in (ordinary, edges, special, biases):
        yield from some(d, none)
    yield from images(d)
