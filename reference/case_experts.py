"""Cases of what a layer with experts does: gates, routing, the experts' matmuls, their sum."""
import numpy as np

from reference import case_weights, ops

F32 = np.float32


def sizes(cases, low, high):
    """Sizes low .. high, both included."""
    return tuple(int(v) for v in cases.rng.integers(low, np.array(high) + 1))


def row_shapes(cases, n_random):
    """(rows, width): the awkward ones, then random ones."""
    fixed = [(n, 33) for n in (0, 1, 2, 8)] + [(3, w) for w in (1, 7, 8, 9, 31, 64, 200, 1000)]
    return fixed + [sizes(cases, (0, 1), (8, 200) if i % 20 == 0 else (4, 40)) for i in range(n_random)]


EXTREMES = np.array([0.0, -0.0, 7.0, -7.0, 90.0, -90.0, -104.0, 1e30, -1e30, 3.4028235e38,
                     -3.4028235e38, 1e-45, -1e-45, 1e-38, -1e-38], F32).astype(np.float64)


def with_extremes(cases, n, width):
    """Normal numbers; one row in two begins with the ends of float32."""
    x = cases.normal(n, width, scale=3.0)
    for row in x[::2]:
        row[: len(EXTREMES)] = EXTREMES[:width]
    return x


# ---- gates -------------------------------------------------------------------------------------


def limited_activation(cases, n_random):
    """gated_activation with gpt-oss's limit (architectures.md 10)."""
    for i, (n, width) in enumerate(row_shapes(cases, n_random)):
        gate_up = np.concatenate([with_extremes(cases, n, width), cases.normal(n, width, scale=4.0)], axis=1)
        gate_up[:, width:] = np.where(cases.rng.random((n, width)) < 0.05, -1e30, gate_up[:, width:])
        gate_up = gate_up.astype(F32).astype(np.float64)
        limit, alpha = cases.some([7.0, 7.0, 0.5, 100.0]), float(F32(cases.some([1.702, 1.702, 1.0, 0.25])))
        out = ops.gated_activation(gate_up, "silu", limit, alpha)
        cases.add(f"{i}_n{n}_w{width}", {"gate_up": gate_up, "out": out}, limit=limit, alpha=alpha)


def add_gated(cases, n_random):
    for i, (n, width) in enumerate(row_shapes(cases, n_random)):
        x, h = cases.normal(n, width), cases.normal(n, width)
        gate = with_extremes(cases, 1, max(n, 1))[:, :n].T.copy()
        cases.add(f"{i}_n{n}_w{width}", {"x": x, "h": h, "gate": gate, "out": ops.add_gated(x, h, gate)})


def multiply_activation(cases, n_random):
    for i, (n, width) in enumerate(row_shapes(cases, n_random)):
        x, gate = cases.normal(n, width), with_extremes(cases, n, width)
        kind = cases.some(["sigmoid", "silu"])
        gate = np.clip(gate, -1e30, 1e30).astype(F32).astype(np.float64)  # the product stays finite
        out = ops.multiply_activation(x, gate, kind)
        cases.add(f"{i}_n{n}_w{width}", {"x": x, "gate": gate, "out": out}, kind=kind)


def copy_columns(cases, n_random):
    """`before` is what out holds first: columns that no head writes keep it."""
    for i in range(n_random):
        n, heads, count, gap_from, gap_to = sizes(cases, (0, 0, 0, 0, 0), (4, 5, 9, 6, 6))
        from_first, to_first, slack = sizes(cases, (0, 0, 0), (5, 5, 4))
        from_step = cases.some([count + gap_from, 0])  # 0: the same columns for every head
        to_step = count + gap_to
        x = cases.normal(n, from_first + max(heads - 1, 0) * from_step + count + slack)
        before = cases.normal(n, to_first + max(heads - 1, 0) * to_step + count + slack)
        out = before.copy()
        for h in range(heads):
            to, at = to_first + h * to_step, from_first + h * from_step
            out[:, to : to + count] = x[:, at : at + count]
        cases.add(f"random{i}", {"x": x, "before": before, "out": out}, n_heads=heads, count=count,
                  from_first=from_first, from_step=from_step, to_first=to_first, to_step=to_step)


def rope_within(cases, n_random):
    """rope of dimensions that do not begin a head (latent attention's queries)."""
    for i in range(n_random):
        n, heads, pairs, first, rest = sizes(cases, (0, 1, 1, 1, 0), (4, 4, 9, 20, 9))
        pairing = ["half_split", "interleaved"][i % 2]
        x = cases.normal(n, heads * (first + 2 * pairs + rest))
        positions = cases.rng.integers(0, 5000) + np.arange(n)
        table = ops.rope_table(positions, ops.inv_freq_default(10000.0, 2 * pairs))
        table = table.astype(F32).astype(np.float64)
        out = ops.rope(x, table, heads, pairing, first)
        cases.add(f"random{i}", {"x": x, "cos_sin": table, "out": out}, n_heads=heads, first=first,
                  head_dim=first + 2 * pairs + rest, rotary_dims=2 * pairs, pairing=pairing)


# ---- routing -----------------------------------------------------------------------------------


def router_logits(cases, n, n_experts):
    """Of every temper: mild, sharp, with ties, all equal, with -inf."""
    kind = cases.some(["normal", "normal", "sharp", "ties", "equal", "minus_inf"])
    logits = cases.normal(n, n_experts, scale={"normal": 1.5, "sharp": 60.0}.get(kind, 2.0))
    if kind == "ties":
        logits = np.round(logits)
    if kind == "equal":
        logits[:] = cases.some([0.0, -3.5, 80.0])
    if kind == "minus_inf":  # one stays
        logits = np.where(cases.rng.random(logits.shape) < 0.5, -np.inf, logits)
        logits[:, cases.rng.integers(n_experts)] = 1.25
    return kind, logits


def route_case(cases, name, n, n_experts, n_used, score, n_groups=1, n_groups_used=1, with_bias=False,
               **params):
    kind, logits = router_logits(cases, n, n_experts)
    arrays, bias = {"logits": logits}, None
    if with_bias:
        bias = cases.normal(n_experts)
        bias = np.round(bias * 2) / 2 if kind in ("ties", "equal") else bias
        arrays["bias"] = bias
    with np.errstate(invalid="ignore"):  # nothing but -inf chosen: the weights are NaN
        experts, weights = ops.route(logits, n_used, score, bias, n_groups, n_groups_used, **params)
    cases.add(f"{name}_{kind}", {**arrays, "experts": experts, "weights": weights}, n_experts=n_experts,
              n_used=n_used, score=score, n_groups=n_groups, n_groups_used=n_groups_used, **params)


def route(cases, n_random):
    for score in ("softmax", "softmax_chosen", "sigmoid"):
        for n_experts, n_used in ((1, 1), (8, 8), (128, 8), (256, 8), (512, 10), (33, 4)):
            for i in range(4):
                route_case(cases, f"{score}_e{n_experts}_{i}", 3, n_experts, n_used, score, normalise=i % 2 == 1)
    for i in range(6):  # deepseek_v3
        route_case(cases, f"deepseek_{i}", 5, 256, 8, "sigmoid", 8, 4, True, normalise=True,
                   normalise_eps=1e-20, scale=2.5)
    for i in range(n_random):
        n, n_groups, size = sizes(cases, (0, 1, 1), (8, 5, 9))
        n_groups = cases.some([1, n_groups])
        groups_used, = sizes(cases, [1], [n_groups])
        used, = sizes(cases, [1], [min(groups_used * size, 8)])
        route_case(cases, f"random{i}", n, n_groups * size, used,
                   cases.some(["softmax", "softmax_chosen", "sigmoid"]), n_groups, groups_used,
                   bool(cases.rng.integers(2)), normalise=bool(cases.rng.integers(2)),
                   normalise_eps=cases.some([0.0, 1e-20]), scale=float(F32(cases.some([1.0, 2.5, 1.5]))))


# ---- experts -----------------------------------------------------------------------------------

KINDS = case_weights.FLOATS + ["q8_0", "q4_0", "q5_0", "mxfp4", "iq4_nl"]
WIDE_KINDS = ["q4_k", "q6_k", "q3_k"]  # groups of 256


def random_routing(cases, n, n_experts, n_used):
    """Distinct ascending experts for each row; some experts are never chosen."""
    alive = cases.rng.permutation(n_experts)[: max(n_used, int(n_experts * 0.7))]
    rows = [np.sort(cases.rng.permutation(alive)[:n_used]) for _ in range(n)]
    return np.array(rows, np.int32).reshape(n, n_used)


def activations(cases, n, n_cols):
    """Rows whose int8 codes do not hang on how x / d is rounded; one of zeros."""
    from reference.make_cases import activations

    return activations(cases, n, n_cols)


def expert_case(cases, name, kind, n, n_experts, n_used, n_rows, n_cols):
    stored, w, params = case_weights.make(cases.rng, kind, n_experts * n_rows, n_cols)
    matrices = w.reshape(n_experts, n_rows, n_cols)
    experts = random_routing(cases, n, n_experts, n_used)
    x = activations(cases, n * cases.some([1, n_used]), n_cols)
    arrays = {**stored, "x": x, "experts": experts}
    biases = None
    if cases.rng.integers(2):
        biases = arrays["bias"] = cases.normal(n_experts, n_rows)
    size = None if biases is None else np.abs(biases)
    arrays["out_f32"] = ops.expert_matmul(x, matrices, experts, biases)
    arrays["terms_f32"] = ops.expert_matmul(np.abs(x), np.abs(matrices), experts, size)
    if kind not in case_weights.FLOATS:
        xq = ops.quantized_rows(x)
        arrays["out_auto"] = ops.expert_matmul(xq, matrices, experts, biases)
        arrays["terms_auto"] = ops.expert_matmul(np.abs(xq), np.abs(matrices), experts, size)
    params |= {"n_rows": n_rows}
    cases.add(name, arrays, n_experts=n_experts, n_used=n_used, **params)


def expert_matmul(cases, n_random):
    for kind in KINDS + WIDE_KINDS:
        cols = case_weights.GROUP.get(kind, 33)
        for n, used in ((0, 2), (1, 2), (9, 3), (1, 6)):
            expert_case(cases, f"{kind}_n{n}_u{used}", kind, n, 6, used, 17, cols)
    for i in range(n_random):
        large = i % 50 == 0
        kind = cases.some(KINDS + WIDE_KINDS if large else KINDS)
        n, n_experts, n_rows, k = sizes(cases, (0, 1, 1, 1), (8, 9, 40, 3) if large else (4, 5, 10, 1))
        cols = k * case_weights.GROUP.get(kind, sizes(cases, [1], [66 if large else 24])[0])
        used, = sizes(cases, [1], [min(n_experts, 4)])
        expert_case(cases, f"random{i}_{kind}", kind, n, n_experts, used, n_rows, cols)


def combine_experts(cases, n_random):
    for i, (n, width) in enumerate(row_shapes(cases, n_random)):
        n_used, = sizes(cases, [1], [8 if i % 10 == 0 else 3])
        y, weights = cases.normal(n * n_used, width), np.abs(cases.normal(n, n_used))
        weights[:1] = 0
        cases.add(f"{i}_n{n}_w{width}", {"y": y, "weights": weights, "out": ops.combine_experts(y, weights),
                                         "terms": ops.combine_experts(np.abs(y), weights)}, n_used=n_used)


OPS = [limited_activation, add_gated, multiply_activation, copy_columns, rope_within, route, expert_matmul,
       combine_experts]
