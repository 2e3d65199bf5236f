"""Cases of sparse attention: which keys a row selects, and attention over a selection, with
values of their own or inside the keys (latent attention)."""
import numpy as np

from reference import ops
from reference.case_attention import PAGE, page_tables, step_rows, storable

F32 = np.float32


def packed(selection, n_words):
    """[n, n_words * 8] bytes of little-endian words, key j in bit j."""
    wide = np.zeros((len(selection), n_words * 64), bool)
    wide[:, : selection.shape[1]] = selection
    return np.packbits(wide, axis=1, bitorder="little")


# ---- select_keys -------------------------------------------------------------------------------


def clear_cut(q, k, weights, positions, n_heads, top_k, scale):
    """Whether float32 sums in any order choose the same keys: at the edge of each row's choice
    scores differ by more than rounding, and no product's sign hangs on it."""
    dim = k.shape[1]
    products = np.matmul(q.reshape(len(q), n_heads, dim), k.T) * scale
    size = np.matmul(np.abs(q).reshape(len(q), n_heads, dim), np.abs(k).T) * scale
    error = (dim + n_heads + 8) * 2.0**-23 * (np.abs(weights)[:, :, None] * size).sum(axis=1)
    scores = (weights[:, :, None] * np.maximum(products, 0)).sum(axis=1)
    if (np.abs(products) <= (dim + 8) * 2.0**-23 * size).any():
        return False
    for t, position in enumerate(positions):
        row = scores[t, : position + 1]
        if len(row) > top_k:
            order = np.argsort(-row, kind="stable")
            last, next_ = order[top_k - 1], order[top_k]
            if row[last] - row[next_] <= error[t, last] + error[t, next_] and row[last] != 0:
                return False
            if row[last] == 0 and row[next_] != 0 and -row[next_] <= error[t, next_]:
                return False
    return True


def whole(cases, *shape):
    """Whole numbers: every product and sum is exact, and many are equal."""
    return cases.rng.integers(-2, 3, shape).astype(np.float64)


def select_case(cases, name, lengths, queries, n_heads, dim, top_k, kv_type="f32", ties=False):
    rng = cases.rng
    tables, n_pages = page_tables(rng, lengths)
    kv_sequences, kv_positions = step_rows(lengths, lengths)
    sequences, positions = step_rows(lengths, queries)
    scale = float(F32(dim**-0.5)) if not ties else 0.5
    make = (lambda *shape: whole(cases, *shape)) if ties else cases.normal
    for _ in range(200):
        q, w = make(len(positions), n_heads * dim), make(len(positions), n_heads)
        k = make(sum(lengths), dim)
        k = k if ties else storable(k, kv_type, 1)
        stored = ops.stored_kv(k, kv_type, 1)
        parts = [(sequences == s, kv_sequences == s) for s, rows in enumerate(queries) if rows > 0]
        if ties or all(clear_cut(q[r], stored[j], w[r], positions[r], n_heads, top_k, scale) for r, j in parts):
            break
    else:
        raise AssertionError(f"{name}: no clear choice in 200 tries")
    n_words = tables.shape[1]
    bits = np.zeros((len(positions), n_words * 8), np.uint8)
    for r, j in parts:
        chosen = ops.select_keys(q[r], stored[j], w[r], positions[r], kv_positions[j], n_heads, top_k, scale)
        bits[r] = packed(chosen, n_words)
    cases.add(name, {"q": q, "k": k, "weights": w, "kv_sequences": kv_sequences, "kv_positions": kv_positions,
                     "sequences": sequences, "positions": positions, "page_tables": tables, "bits": bits},
              n_heads=n_heads, head_dim=dim, top_k=top_k, scale=scale, kv_type=kv_type, n_pages=n_pages)


def select_keys(cases, n_random):
    for length in (1, 63, 64, 65, 130):
        for top_k in (1, 2, 63, 64, 65, 129, 500):
            select_case(cases, f"len{length}_k{top_k}", [length], [min(length, 3)], 2, 8, top_k)
            select_case(cases, f"ties_len{length}_k{top_k}", [length], [min(length, 5)], 2, 8, top_k, ties=True)
    for length, top_k in ((1100, 512), (2050, 1), (2050, 2048)):
        select_case(cases, f"ties_len{length}_k{top_k}", [length], [2], 3, 16, top_k, ties=True)
    select_case(cases, "no_rows", [5], [0], 1, 4, 2)
    for i in range(n_random):
        rng = cases.rng
        large = i % 50 == 0
        lengths = [int(v) for v in rng.integers(1, 150 if large else 12, rng.integers(1, 4))]
        if rng.random() < 0.05:
            lengths[0] += 60  # over a page's end
        queries = [int(rng.integers(0, min(length, 4) + 1)) for length in lengths]
        ties = bool(rng.random() < 0.3)
        select_case(cases, f"random{i}", lengths, queries, int(rng.integers(1, 6)),
                    int(rng.integers(1, 40 if large else 10)), int(rng.integers(1, 60 if large else 8)),
                    cases.some(["f32", "f16", "bf16"] if ties else ["f32", "f16", "bf16", "q8"]), ties)


# ---- attention over a selection ----------------------------------------------------------------


def random_selection(cases, positions, n_keys, window):
    """Every density, whole pages left out among them; each row keeps a key that it may see."""
    rng = cases.rng
    selection = rng.random((len(positions), n_keys)) < cases.some([0.02, 0.3, 0.9, 1.0])
    for page in range(0, n_keys, PAGE):
        selection[rng.random(len(positions)) < 0.3, page : page + PAGE] = False
    for t, p in enumerate(positions):
        first = max(0, p - window + 1) if window else 0
        selection[t, rng.integers(first, p + 1)] = True
    return selection


def sparse_case(cases, name, lengths, queries, n_heads, n_kv_heads, dim, value_dim, selected=True,
                values_in_keys=False, kv_type="f32", window=0, sharp=1.0):
    tables, n_pages = page_tables(cases.rng, lengths)
    kv_sequences, kv_positions = step_rows(lengths, lengths)
    sequences, positions = step_rows(lengths, queries)
    total, n = len(kv_positions), len(positions)
    k = storable(cases.normal(total, n_kv_heads * dim), kv_type, n_kv_heads)
    stored_k = ops.stored_kv(k, kv_type, n_kv_heads)
    arrays = {"k": k}
    if values_in_keys:
        stored_v = ops.heads_of(stored_k, n_kv_heads)[:, :, :value_dim].reshape(total, -1)
    else:
        arrays["v"] = storable(cases.normal(total, n_kv_heads * value_dim), kv_type, n_kv_heads)
        stored_v = ops.stored_kv(arrays["v"], kv_type, n_kv_heads)
    q = cases.normal(n, n_heads * dim, scale=sharp)
    scale = float(F32(dim**-0.5))
    out = np.zeros((n, n_heads * value_dim))
    bits = np.zeros((n, tables.shape[1] * 8), np.uint8)
    for s in range(len(lengths)):
        rows, keys = sequences == s, kv_sequences == s
        selection = random_selection(cases, positions[rows], lengths[s], window) if selected else None
        if selected:
            bits[rows] = packed(selection, tables.shape[1])
        if rows.any():
            out[rows] = ops.attention(q[rows], stored_k[keys], stored_v[keys], positions[rows], kv_positions[keys],
                                      n_heads, n_kv_heads, scale, window, selection=selection)
    arrays |= {"bits": bits} if selected else {}
    cases.add(name, arrays | {"kv_sequences": kv_sequences, "kv_positions": kv_positions, "q": q, "out": out,
                              "sequences": sequences, "positions": positions, "page_tables": tables},
              n_heads=n_heads, n_kv_heads=n_kv_heads, head_dim=dim, value_dim=value_dim, scale=scale,
              window=window, kv_type=kv_type, n_pages=n_pages, values_in_keys=values_in_keys)


def sparse_attention(cases, n_random):
    for kv_type in ("f32", "f16", "bf16", "q8"):
        for inside in (False, True):
            name = f"{kv_type}_{'latent' if inside else 'apart'}"
            sparse_case(cases, f"{name}_dense", [67, 130], [2, 5], 6, 1, 24, 16, False, inside, kv_type)
            sparse_case(cases, f"{name}_sparse", [200, 64, 1], [9, 3, 1], 6, 1, 24, 16, True, inside, kv_type)
            sparse_case(cases, f"{name}_heads", [130], [5], 6, 3, 33, 17, True, inside, kv_type)
            sparse_case(cases, f"{name}_splits", [2100], [2], 2, 1, 8, 8, True, inside, kv_type, sharp=5.0)
    sparse_case(cases, "latent_576_512", [70], [2], 4, 1, 576, 512, True, True, "f16")
    for i in range(n_random):
        rng = cases.rng
        large = i % 50 == 0
        lengths = [int(v) for v in rng.integers(1, 150 if large else 10, rng.integers(1, 4))]
        if rng.random() < 0.05:
            lengths[0] += 60
        kv_heads, group, dim = (int(v) for v in rng.integers(1, [4, 4, 60 if large else 12]))
        sparse_case(cases, f"random{i}", lengths, [int(rng.integers(0, min(length, 4) + 1)) for length in lengths],
                    kv_heads * group, kv_heads, dim, int(rng.integers(1, dim + 1)), bool(rng.random() < 0.8),
                    bool(rng.integers(2)), cases.some(["f32", "f16", "bf16", "q8"]),
                    cases.some([0, 0, int(rng.integers(1, 12))]))


OPS = [select_keys, sparse_attention]
