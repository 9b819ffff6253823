#!/usr/bin/env python3
"""Fits the polynomials of src/arithmetic/exp_log.h and prints them as hex floats with their error.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install mpmath
    /tmp/venv/bin/python tools/fit_polynomials.py

Each polynomial is the minimax one (Remez exchange on a dense grid, 50 digits) for the error that the function's result sees: relative
error of exp, relative error of log. The coefficients are rounded to fp32 one after the other, highest power first, and after each
rounding the ones still free are fitted again, so that they make up for it. (Lowest first would leave powers that all vanish at 0, for
which the exchange need not converge.) A last search moves coefficients by single units. The error printed is that of the rounded
polynomial evaluated without rounding; what evaluation in fp32 adds is measured by tests/arithmetic over all floats. Takes two minutes.
"""

import struct

from mpmath import mp, mpf

mp.dps = 50
GRID = 1001


def to_fp32(x):
    """x rounded to the nearest fp32. (The detour over double rounds twice, which a fit does not notice.)"""
    return struct.unpack("<f", struct.pack("<f", float(x)))[0]


def hex_fp32(x):
    """A C hexadecimal literal that names an fp32 value exactly."""
    mantissa, exponent = float(x).hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}f"


def evaluate(coefficients, x):
    value = mpf(0)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def remez(points, target, weight, count):
    """The coefficients (lowest first) that minimise max |weight * (target - polynomial)| over the points, and that maximum."""
    unknowns = count + 1
    last = len(points) - 1
    # Chebyshev nodes of the grid to start with.
    nodes = [round(last * (1 - mp.cos(mp.pi * i / (unknowns - 1))) / 2) for i in range(unknowns)]
    best, best_error = None, None
    for _ in range(20):
        system = mp.matrix(unknowns, unknowns)
        right = mp.matrix(unknowns, 1)
        for row, node in enumerate(nodes):
            for power in range(count):
                system[row, power] = weight[node] * points[node] ** power
            system[row, unknowns - 1] = (-1) ** row
            right[row] = weight[node] * target[node]
        solution = mp.lu_solve(system, right)
        coefficients = [solution[i] for i in range(count)]
        error = [w * (t - evaluate(coefficients, x)) for x, t, w in zip(points, target, weight)]
        largest = max(abs(e) for e in error)
        if best is None or largest < best_error:
            best, best_error = coefficients, largest
        # The extremum of each run of equal sign; of more than are needed, the contiguous ones around the largest.
        extrema = []
        for i, e in enumerate(error):
            if extrema and (e >= 0) == (error[extrema[-1]] >= 0):
                if abs(e) > abs(error[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > unknowns:
            extrema.pop(0 if abs(error[extrema[0]]) < abs(error[extrema[-1]]) else -1)
        if len(extrema) < unknowns or extrema == nodes:
            break
        nodes = extrema
    # With coefficients fixed beforehand the exchange may end in a cycle: then the best polynomial seen is taken.
    return best, best_error


def neighbours(x):
    """The fp32 values 1 and 2 units to either side of x."""
    bits = struct.unpack("<I", struct.pack("<f", float(x)))[0]
    return [mpf(struct.unpack("<f", struct.pack("<I", bits + step))[0]) for step in (-2, -1, 1, 2)]


def descend(points, target, weight, coefficients):
    """Moves single coefficients, and pairs of the lowest, by an fp32 unit or two for as long as that lowers the largest error."""

    def largest_error(trial):
        return max(abs(w * (t - evaluate(trial, x))) for x, t, w in zip(points, target, weight))

    best, best_error = list(coefficients), largest_error(coefficients)
    improved = True
    while improved:
        improved = False
        trials = [{i: c} for i in range(len(best)) for c in neighbours(best[i])]
        trials += [{0: c, 1: d} for c in neighbours(best[0]) for d in neighbours(best[1])]
        trials += [{1: c, 2: d} for c in neighbours(best[1]) for d in neighbours(best[2])]
        for moves in trials:
            trial = [moves.get(i, c) for i, c in enumerate(best)]
            error = largest_error(trial)
            if error < best_error:
                best, best_error, improved = trial, error, True
    return best, best_error


def fit(name, low, high, target_of, weight_of, count):
    # An even number of intervals would put a point on 0, where target and weight are 0/0.
    points = [low + (high - low) * (mpf(i) + mpf("0.37")) / GRID for i in range(GRID)]
    target = [target_of(x) for x in points]
    weight = [weight_of(x) for x in points]
    free, ideal = remez(points, target, weight, count)
    rounded = [mpf(0)] * count
    for power in reversed(range(count)):
        rounded[power] = mpf(to_fp32(free[power]))
        rest = [t - evaluate(rounded[power:], x) * x**power for x, t in zip(points, target)]
        if power > 0:
            free, _ = remez(points, rest, weight, power)
    rounded, error = descend(points, target, weight, rounded)
    print(f"{name}: {count} coefficients on [{mp.nstr(low, 8)}, {mp.nstr(high, 8)}]")
    for i, c in enumerate(rounded):
        print(f"  x^{i}  {hex_fp32(c)}")
    print(f"  largest relative error 2^{mp.nstr(mp.log(error, 2), 5)} (2^{mp.nstr(mp.log(ideal, 2), 5)} before rounding the coefficients)")


def print_constants():
    # The high part has so few bits that n * high is exact for every n that occurs (|n| < 256), and n * high + f is what a
    # two-term sum needs; the low part is the rest.
    high = mp.floor(mp.log(2) * 2**15) / 2**15
    print("constants")
    print(f"  log2(e)        {hex_fp32(to_fp32(1 / mp.log(2)))}")
    print(f"  ln 2, fp32     {hex_fp32(to_fp32(mp.log(2)))}  rest {hex_fp32(to_fp32(mp.log(2) - mpf(to_fp32(mp.log(2)))))}")
    print(f"  ln 2, 15 bits  {hex_fp32(high)}  rest {hex_fp32(to_fp32(mp.log(2) - high))}")


def main():
    print_constants()
    # exp(r) = 1 + r + r^2 q(r); a little more than ln2/2 each way, because log2(e) is rounded before the reduction.
    half = mp.log(2) / 2 + mpf(2) ** -15
    fit("exp: q(r) = (exp(r) - 1 - r) / r^2", -half, half, lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: r**2 / mp.exp(r), 5)
    # log(1 + f) = f - f^2/2 + f^3 p(f)
    fit(
        "log: p(f) = (log(1 + f) - f + f^2/2) / f^3",
        mp.sqrt(mpf(1) / 2) - 1,
        mp.sqrt(2) - 1,
        lambda f: (mp.log(1 + f) - f + f**2 / 2) / f**3,
        lambda f: f**3 / mp.log(1 + f),
        9,
    )


if __name__ == "__main__":
    main()
