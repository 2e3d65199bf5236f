"""Writes the cases that src/ops/*_test.cc reads: one safetensors file an op.

    python -m reference.make_cases OUT_DIR [--seed N] [--random N]

Tensors are named CASE.NAME; __metadata__ has, for each CASE, a JSON object of its scalar
parameters, its seed among them.  README.md lists the names.  Inputs are float32 (or stored
types), results are computed in float64 and rounded to float32 once.
"""
import argparse
import json
import pathlib

import numpy as np

from reference import case_weights, ops, tensors
from reference.activations import ACTIVATIONS

F32 = np.float32
ROWS = [0, 1, 2, 31, 33]
WIDTHS = [1, 31, 32, 33, 64, 257, 1000]


class Cases:
    """The cases of one op, collected and then written."""

    def __init__(self, op, seed):
        self.op, self.seed, self.tensors, self.params = op, seed, {}, {}
        self.rng = np.random.default_rng([seed, *op.encode()])

    def add(self, case, arrays, **params):
        assert case not in self.params, case
        self.params[case] = json.dumps({**params, "seed": self.seed})
        for name, value in arrays.items():
            if isinstance(value, np.ndarray) and value.dtype == np.float64:
                value = value.astype(F32)
            self.tensors[f"{case}.{name}"] = value

    def write(self, directory):
        tensors.save(directory / f"{self.op}.safetensors", self.tensors, self.params)

    def normal(self, *shape, scale=1.0):
        """Normal numbers that float32 holds, as float64."""
        return (self.rng.standard_normal(shape) * scale).astype(F32).astype(np.float64)

    def around_one(self, n):
        """A norm's weight."""
        return (1 + self.normal(n, scale=0.1)).astype(F32).astype(np.float64)

    def some(self, choices):
        return choices[self.rng.integers(len(choices))]


def random_shape(cases, low, high):
    """Sizes low .. high, both included."""
    return tuple(int(v) for v in cases.rng.integers(low, np.array(high) + 1))


def row_shapes(cases, n_random, narrowest=0):
    """Every awkward width and number of rows, then random ones: most are small, since there are
    many; each fortieth is not."""
    shapes = [(3, width) for width in WIDTHS] + [(n, 64) for n in ROWS]
    for i in range(n_random):
        high = (39, 600) if i % 40 == 0 else (4, 41)
        shapes.append(random_shape(cases, (0, narrowest), high))
    return shapes


# ---- rows --------------------------------------------------------------------------------------


def embed(cases, n_random):
    for i in range(n_random):
        kind = cases.some(case_weights.KINDS)
        n, rows, k = random_shape(cases, (0, 1, 1), (4, 5, 2))
        cols = k * case_weights.GROUP.get(kind, random_shape(cases, [1], [33])[0])
        embed_case(cases, f"random{i}", kind, n, rows, cols)
    for kind in case_weights.KINDS:
        cols = case_weights.GROUP.get(kind, 32) * cases.some([1, 2, 3])
        cols = 33 if kind in ("f32", "f16", "bf16") else cols
        for n in (0, 1, 33):
            embed_case(cases, f"{kind}_n{n}", kind, n, 37, cols)


def embed_case(cases, case, kind, n, rows, cols):
    stored, table, params = case_weights.make(cases.rng, kind, rows, cols)
    tokens = cases.rng.integers(0, rows, n).astype(np.int32)
    scale = float(F32(cases.some([1.0, 8.0, 33.941125])))
    out = ops.embed(table, tokens, scale)
    cases.add(case, {**stored, "tokens": tokens, "out": out}, scale=scale, **params)


def add_position_embed(cases, n_random):
    shapes = [(kind, n, 100, cols) for kind in case_weights.FLOATS
              for n, cols in ((0, 32), (1, 1), (31, 33), (33, 64))]
    for _ in range(n_random):
        n, spare, cols = random_shape(cases, (0, 1, 1), (4, 4, 41))
        shapes.append((cases.some(case_weights.FLOATS), n, n + spare, cols))
    for i, (kind, n, rows, cols) in enumerate(shapes):
        stored, table, params = case_weights.make(cases.rng, kind, rows, cols)
        positions = (cases.rng.integers(0, rows - n) + np.arange(n)).astype(np.int32)
        x = cases.normal(n, cols)
        out = ops.add_position_embed(x, table, positions)
        cases.add(f"{i}_{kind}_n{n}", {**stored, "x": x, "positions": positions, "out": out}, **params)


def rms_norm(cases, n_random):
    for i, (n, width) in enumerate(row_shapes(cases, n_random, narrowest=1)):
        # Gemma's residual passes float16's range; at 1e-4 the epsilon decides.
        x = cases.normal(n, width, scale=cases.some([1.0, 1.0, 1e-4, 1e5]))
        x[:1] *= i % 2  # a row of zeros in every other case
        weight, eps = cases.around_one(width), cases.some([1e-6, 1e-5])
        out = ops.rms_norm(x, weight, float(F32(eps)))
        cases.add(f"{i}_n{n}_w{width}", {"x": x, "weight": weight, "out": out}, eps=eps)


def layer_norm(cases, n_random):
    for i, (n, width) in enumerate(row_shapes(cases, n_random, narrowest=1)):
        x = cases.normal(n, width, scale=cases.some([1.0, 1e-3])) + cases.some([0.0, 3.0])
        x = x.astype(F32).astype(np.float64)
        x[:1] *= i % 2
        weight, bias = cases.around_one(width), cases.normal(width)
        out = ops.layer_norm(x, weight, bias, float(F32(1e-5)))
        cases.add(f"{i}_n{n}_w{width}", {"x": x, "weight": weight, "bias": bias, "out": out}, eps=1e-5)


def head_rms_norm(cases, n_random):
    shapes = [(n, heads, dim) for n in (0, 1, 3) for heads in (1, 2, 7) for dim in (1, 16, 33, 128)]
    shapes += [random_shape(cases, (0, 1, 1), (3, 5, 41)) for _ in range(n_random)]
    for i, (n, heads, dim) in enumerate(shapes):
        x, weight = cases.normal(n, heads * dim), cases.around_one(dim)
        out = ops.head_rms_norm(x, heads, weight, float(F32(1e-6)))
        cases.add(f"{i}_n{n}_h{heads}_d{dim}", {"x": x, "weight": weight, "out": out},
                  n_heads=heads, head_dim=dim, eps=1e-6)


def add(cases, n_random):
    for i, (n, width) in enumerate(row_shapes(cases, n_random)):
        x, h = cases.normal(n, width, scale=1e3), cases.normal(n, width)
        cases.add(f"{i}_n{n}_w{width}", {"x": x, "h": h, "out": ops.add(x, h)})


def gather_rows(cases, n_random):
    for i, (n, width) in enumerate(row_shapes(cases, n_random)):
        x = cases.normal(max(n, 1), width)
        rows = cases.rng.integers(0, len(x), n).astype(np.int32)
        cases.add(f"{i}_n{n}_w{width}", {"x": x, "rows": rows, "out": ops.gather_rows(x, rows)})


def soft_cap(cases, n_random):
    for i, (n, width) in enumerate(row_shapes(cases, n_random)):
        x = cases.normal(n, width, scale=cases.some([1.0, 60.0, 1e-3]))
        cases.add(f"{i}_n{n}_w{width}", {"x": x, "out": ops.soft_cap(x, 30.0)}, cap=30.0)


def check_finite(cases, n_random):
    """status: [1] int32 before; wanted: after, with tag 7."""
    for i in range(n_random):
        n, width = random_shape(cases, (0, 0), (3, 41))
        x = cases.normal(n, width, scale=1e30)
        if x.size and cases.rng.random() < 0.5:
            x.reshape(-1)[cases.rng.integers(x.size)] = cases.some([np.nan, np.inf, -np.inf])
        before = cases.some([-1, -1, 3])
        after = 7 if before < 0 and not ops.check_finite(x) else before
        cases.add(f"random{i}", {"x": x, "status": np.array([before], np.int32),
                                 "wanted": np.array([after], np.int32)}, tag=7)
    for n, width in ((0, 8), (1, 1), (1, 31), (3, 33), (2, 1000)):
        places = {"none": None} | ({"first": 0, "last": n * width - 1} if n else {})
        for place, at in places.items():
            for bad in (np.nan, np.inf, -np.inf):
                for before in (-1, 3):
                    x = cases.normal(n, width, scale=1e30)
                    if at is not None:
                        x.reshape(-1)[at] = bad
                    after = 7 if before < 0 and not ops.check_finite(x) else before
                    cases.add(f"n{n}_w{width}_{place}_{bad}_{before}",
                              {"x": x, "status": np.array([before], np.int32),
                               "wanted": np.array([after], np.int32)}, tag=7)


# ---- matmul ------------------------------------------------------------------------------------


def without_ties(x, run=32):
    """Moves values whose int8 code would hang on rounding (x / d near k + 1/2) to the code, so
    that codes do not depend on whether x / d or x * (1 / d) is formed."""
    codes, d = ops.quantize_rows(x, run)
    d = np.repeat(d, run, axis=-1)
    near = np.abs(np.abs(x - codes * d) - d / 2) < 1e-3 * d
    return np.where(near, codes * d, x).astype(F32).astype(np.float64)


def activations(cases, n, cols):
    x = cases.normal(n, cols)
    if n > 1:
        x[1] = 0  # a row of zeros: every scale is zero
    if n > 2 and cols >= 64:
        x[2, 5] = 300.0  # an outlier, and a group of zeros
        x[2, 32:64] = 0
    return without_ties(x) if cols % 32 == 0 else x


def matmul_case(cases, case, kind, n, rows, cols, with_bias):
    stored, w, params = case_weights.make(cases.rng, kind, rows, cols)
    x = activations(cases, n, cols)
    arrays = {**stored, "x": x}
    bias = None
    if with_bias:
        bias = arrays["bias"] = cases.normal(rows)
    magnitude = 0 if bias is None else np.abs(bias)
    arrays["out_f32"] = ops.matmul(x, w, bias)
    arrays["terms_f32"] = ops.matmul(np.abs(x), np.abs(w)) + magnitude
    if kind not in ("f32", "f16", "bf16"):
        xq = ops.quantized_rows(x)
        arrays["out_auto"] = ops.matmul(xq, w, bias)
        arrays["terms_auto"] = ops.matmul(np.abs(xq), np.abs(w)) + magnitude
    cases.add(case, arrays, with_bias=with_bias, **params)


def matmul(cases, n_random):
    for kind in case_weights.KINDS:
        if kind in case_weights.GROUP:
            group = case_weights.GROUP[kind]
            widths = sorted({group * k for k in (1, 2, 3)} | {k for k in (64, 256, 320, 896) if k % group == 0})
        else:
            widths = [1, 31, 32, 33, 64, 320, 896]
        for i, cols in enumerate(widths):
            n, rows = [(1, 33), (5, 7), (33, 1), (2, 31), (0, 4), (3, 64), (64, 5)][i % 7]
            matmul_case(cases, f"{kind}_k{cols}", kind, n, rows, cols, with_bias=i % 2 == 1)
    for i in range(n_random):
        kind = cases.some(case_weights.KINDS)
        large = i % 40 == 0
        n, rows, k = random_shape(cases, (0, 1, 1), (19, 39, 7) if large else (4, 10, 2))
        cols = k * case_weights.GROUP.get(kind, int(cases.rng.integers(1, 60)))
        matmul_case(cases, f"random{i}_{kind}_k{cols}", kind, n, rows, cols, with_bias=i % 2 == 1)


# ---- activations and rope ----------------------------------------------------------------------


def activation_rows(cases, n, width):
    """Normal values with the ends of float32's exponential among them."""
    x = cases.normal(n, width, scale=3.0)
    extremes = cases.rng.permutation([0.0, -0.0, 100.0, -100.0, -88.0, 1e-20, 30.0, -30.0])
    x.reshape(-1)[: len(extremes)] = extremes[: x.size]
    return x.astype(F32).astype(np.float64)


def activation(cases, n_random):
    for kind in ACTIVATIONS:
        for i, (n, width) in enumerate(row_shapes(cases, -(-n_random // len(ACTIVATIONS)))):
            x = activation_rows(cases, n, width)
            cases.add(f"{kind}_{i}_n{n}_w{width}", {"x": x, "out": ops.activation(x, kind)}, kind=kind)


def gated_activation(cases, n_random):
    for kind in ACTIVATIONS:
        for i, (n, width) in enumerate(row_shapes(cases, -(-n_random // len(ACTIVATIONS)))):
            gate_up = np.concatenate([activation_rows(cases, n, width), cases.normal(n, width)], axis=1)
            cases.add(f"{kind}_{i}_n{n}_w{width}",
                      {"gate_up": gate_up, "out": ops.gated_activation(gate_up, kind)}, kind=kind)


def rope_frequencies(cases, rotary_dims):
    inv = ops.inv_freq_default(cases.some([10000.0, 500000.0, 1e6]), rotary_dims)
    return cases.some([inv, ops.inv_freq_linear(inv, 8.0), ops.inv_freq_llama3(inv, 8.0, 1.0, 4.0, 8192)])


def rope_table(cases, n_random):
    starts = [0, 1, 62, 63, 64, 1000, 4095, 16383, 131071]
    shapes = [(first, [1, 3, 0, 33][i % 4], rotary_dims) for i, first in enumerate(starts)
              for rotary_dims in (2, 16, 64, 128)]
    for _ in range(n_random):
        first, n, pairs = random_shape(cases, (0, 0, 1), (131071, 4, 40))
        shapes.append((first, n, 2 * pairs))
    for i, (first, n, rotary_dims) in enumerate(shapes):
        inv = rope_frequencies(cases, rotary_dims)
        positions = (first + np.arange(n)).astype(np.int32)
        factor = float(F32(cases.some([1.0, 1.3465736])))
        out = ops.rope_table(positions, inv, factor)
        cases.add(f"{i}_p{first}_r{rotary_dims}",
                  {"positions": positions, "inv_freq": inv, "out": out}, factor=factor)


def rope(cases, n_random):
    shapes = [(n, heads, dim, part) for n in (0, 1, 33) for heads in (1, 3, 14)
              for dim, part in ((2, 2), (16, 16), (64, 64), (64, 16), (80, 32), (33, 6))]
    for _ in range(n_random):
        n, heads, pairs, rest = random_shape(cases, (0, 1, 1, 0), (3, 4, 20, 20))
        shapes.append((n, heads, 2 * pairs + rest, 2 * pairs))
    for i, (n, heads, dim, part) in enumerate(shapes):
        pairing = ["half_split", "interleaved"][i % 2]
        x = cases.normal(n, heads * dim)
        table = ops.rope_table(cases.rng.integers(0, 5000) + np.arange(n), rope_frequencies(cases, part))
        table = table.astype(F32).astype(np.float64)
        out = ops.rope(x, table, heads, pairing)
        cases.add(f"{i}_n{n}_h{heads}_d{dim}_r{part}", {"x": x, "cos_sin": table, "out": out},
                  n_heads=heads, head_dim=dim, rotary_dims=part, pairing=pairing)


OPS = [embed, add_position_embed, rms_norm, layer_norm, head_rms_norm, add, gather_rows, soft_cap,
       check_finite, matmul, activation, gated_activation, rope_table, rope]


def main():
    from reference import case_attention, case_experts, case_recurrent, case_sampling, case_sparse

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out_dir", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--random", type=int, default=1000, help="random shapes an op, beside the fixed ones")
    args = parser.parse_args()
    args.out_dir.mkdir(parents=True, exist_ok=True)
    for make in OPS + case_attention.OPS + case_experts.OPS + case_recurrent.OPS + case_sampling.OPS + case_sparse.OPS:
        cases = Cases(make.__name__, args.seed)
        make(cases, args.random)
        cases.write(args.out_dir)
    print(f"op cases in {args.out_dir}, seed {args.seed}")


if __name__ == "__main__":
    main()
