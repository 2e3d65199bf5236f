"""Cases of short_conv and gated_delta: sequences from their start, by the step form."""
import numpy as np

from reference import ops

F32 = np.float32
DIMS = [1, 7, 16, 33, 128]
LENGTHS = [0, 1, 2, 63, 64, 65, 127, 128, 129, 200]


def layout(key_heads, ratio, key_dim, value_dim, kernel=4):
    return dict(n_key_heads=key_heads, n_value_heads=key_heads * ratio, key_dim=key_dim,
                value_dim=value_dim, conv_kernel=kernel)


def channels(shape):
    return 2 * shape["n_key_heads"] * shape["key_dim"] + shape["n_value_heads"] * shape["value_dim"]


def random_layout(rng):
    key_heads, ratio, key_dim, value_dim, kernel = (int(v) for v in rng.integers(1, [3, 4, 10, 10, 6]))
    return layout(key_heads, ratio, key_dim, value_dim, kernel)


def random_lengths(rng):
    """Mostly a few tokens; now and then over a page's end."""
    if rng.random() < 0.01:
        return [int(rng.integers(60, 135))]
    return [int(v) for v in rng.integers(0, 8, rng.integers(1, 3))]


def by_sequence(lengths, compute):
    """compute(rows) of each sequence, one after the other."""
    ends = np.cumsum(lengths)
    return np.concatenate([compute(slice(end - n, end)) for n, end in zip(lengths, ends)])


# ---- short_conv --------------------------------------------------------------------------------


def short_conv_case(cases, name, shape, lengths):
    n, width = sum(lengths), channels(shape)
    x, weight = cases.normal(n, width), cases.normal(width, shape["conv_kernel"])
    out = by_sequence(lengths, lambda rows: ops.short_conv(x[rows], weight))
    # What roundings of the sum are relative to: silu's slope is at most 1.1.
    terms = by_sequence(lengths, lambda rows: term_sizes(x[rows], weight))
    cases.add(name, {"x": x, "weight": weight, "lengths": np.array(lengths, np.int32), "out": out,
                     "terms": terms}, **shape)


def term_sizes(x, weight):
    kernel = weight.shape[1]
    rows = np.concatenate([np.zeros((kernel - 1, x.shape[1])), np.abs(x)])
    return sum(rows[j : j + len(x)] * np.abs(weight[:, j]) for j in range(kernel))


def short_conv(cases, n_random):
    for kernel in (1, 2, 3, 4, 5):
        for lengths in ([0], [1], [2], [63], [64], [65], [130], [3, 70, 1]):
            case = f"k{kernel}_" + "_".join(map(str, lengths))
            short_conv_case(cases, case, layout(2, 1, 7, 3, kernel), lengths)
    for width in (1, 33, 128):
        short_conv_case(cases, f"d{width}", layout(1, 3, width, width), [67])
    for i in range(n_random):
        short_conv_case(cases, f"random{i}", random_layout(cases.rng), random_lengths(cases.rng))


# ---- gated_delta -------------------------------------------------------------------------------

# decay and the spread of a + dt_bias.  `resets`: now and then a token forgets all.
DECAYS = {"none": (-1e-4, 0.1), "mild": (-0.5, 1.0), "strong": (-10.0, 20.0), "resets": (-10.0, 0.1)}


def gated_delta_case(cases, name, shape, lengths, tiled=False, decays="mild", betas=1.0):
    rng, n, heads = cases.rng, sum(lengths), shape["n_value_heads"]
    decay, spread = DECAYS[decays]
    qkv, b = cases.normal(n, channels(shape)), cases.normal(n, heads, scale=betas)
    a, dt_bias = cases.normal(n, heads, scale=spread), cases.normal(heads)
    if decays == "resets":
        a -= 5.0
        a[rng.random(a.shape) < 0.03] = 650.0  # g = -6500
        a = a.astype(F32).astype(np.float64)
    decay = (decay * np.exp(cases.normal(heads, scale=0.3))).astype(F32).astype(np.float64)
    out = by_sequence(lengths, lambda rows: ops.gated_delta(
        qkv[rows], b[rows], a[rows], decay, dt_bias, shape["n_key_heads"], heads, shape["key_dim"],
        shape["value_dim"], tiled_value_heads=tiled))
    cases.add(name, {"qkv": qkv, "b": b, "a": a, "decay": decay, "dt_bias": dt_bias,
                     "lengths": np.array(lengths, np.int32), "out": out},
              tiled_value_heads=tiled, **shape)


def gated_delta(cases, n_random):
    for length in LENGTHS:
        gated_delta_case(cases, f"len{length}", layout(1, 2, 16, 7), [length])
    for key_dim in DIMS:
        for value_dim in DIMS:
            gated_delta_case(cases, f"d{key_dim}_{value_dim}", layout(1, 1, key_dim, value_dim), [67])
    for ratio in (1, 2, 3):
        for tiled in (False, True):
            gated_delta_case(cases, f"ratio{ratio}_{tiled}", layout(3, ratio, 7, 5), [70, 3], tiled)
    for decays in DECAYS:
        for betas in (1.0, 40.0):  # 40: every beta next to 0 or 1
            for key_dim, value_dim in ((16, 33), (64, 64)):
                gated_delta_case(cases, f"{decays}_{betas}_d{key_dim}",
                                 layout(1, 2, key_dim, value_dim), [200], decays=decays, betas=betas)
    gated_delta_case(cases, "sequences", layout(2, 2, 8, 8), [1, 64, 0, 130, 65, 2])
    for i in range(n_random):
        gated_delta_case(
            cases, f"random{i}", random_layout(cases.rng), random_lengths(cases.rng),
            tiled=cases.some([False, True]), decays=cases.some(list(DECAYS)),
            betas=cases.some([1.0, 1.0, 40.0]))


OPS = [short_conv, gated_delta]
