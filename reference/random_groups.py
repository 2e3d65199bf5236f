"""Random groups of a ggml type with legal scales."""
import numpy as np

from reference import quant

# Byte offsets of the float16 scales of a group.
F16_FIELDS = {
    "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "q8_1": [0],
    "q2_k": [80, 82], "q3_k": [108], "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208],
    "iq2_xxs": [0], "iq2_xs": [0], "iq2_s": [0], "iq3_xxs": [0], "iq3_s": [0], "iq1_s": [0],
    "iq4_nl": [0], "iq4_xs": [0], "tq1_0": [52], "tq2_0": [64], "q1_0": [0], "q2_0": [0],
}


def random_f16(rng, n, awkward):
    """Weight-like scales; awkward: with zeros, subnormals, the largest, in random places."""
    if not awkward:
        return (rng.standard_normal(n) / 64).astype(np.float16)
    values = (rng.standard_normal(n) * np.exp2(rng.integers(-12, 2, n))).astype(np.float16)
    awkward = np.array([0.0, -0.0, 2**-24, -(2**-15), 65504.0, -1.0], np.float16)
    values[: min(n, len(awkward))] = awkward[: min(n, len(awkward))]
    return rng.permutation(values)


def random_groups(rng, name, n, awkward=True):
    """Random bytes with scales that are legal (finite); n groups of the type `name`."""
    groups = rng.integers(0, 256, (n, quant.TYPES[name][1]), dtype=np.uint8)
    for at in F16_FIELDS.get(name, []):
        groups[:, at : at + 2] = random_f16(rng, n, awkward).view(np.uint8).reshape(n, 2)
    if name == "q8_k":
        d = (rng.standard_normal(n) / 64).astype(np.float32)
        groups[:, 0:4] = d.view(np.uint8).reshape(n, 4)
    if name == "iq1_m":
        d = random_f16(rng, n, awkward).view(np.uint16)
        for k in range(4):
            groups[:, 49 + 2 * k] = (groups[:, 49 + 2 * k] & 15) | ((d >> (4 * k)) & 15) << 4
    if name == "mxfp4":
        groups[:, 0] = rng.integers(100, 140, n) if awkward else rng.integers(116, 126, n)
        if awkward:
            groups[:4, 0] = [0, 1, 127, 252]
    return groups
