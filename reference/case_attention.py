"""Cases of kv_append and attention: sequences on shuffled pages."""
import dataclasses

import numpy as np

from reference import ops, tensors

F32 = np.float32
PAGE = ops.PAGE_TOKENS


@dataclasses.dataclass
class Shape:
    lengths: list  # tokens of each sequence
    queries: list  # of each, the last so many are rows of the step
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 16
    value_dim: int = 16
    window: int = 0
    softcap: float = 0.0
    sinks: bool = False
    kv_type: str = "f32"
    sharp: float = 1.0  # larger: the softmax leans on few keys


def page_tables(rng, lengths):
    """[n_sequences, max_pages] int32 with pages in random order, one page never used and -1
    where a sequence has no page; and the number of pages."""
    counts = [-(-length // PAGE) for length in lengths]
    n_pages = sum(counts) + 1
    order = rng.permutation(n_pages).astype(np.int32)
    tables, at = np.full((len(lengths), max(counts, default=0) + 1), -1, np.int32), 0
    for s, count in enumerate(counts):
        tables[s, :count] = order[at : at + count]
        at += count
    return tables, n_pages


def storable(x, kv_type, n_kv_heads):
    """Rows whose q8 codes do not hang on how x / d is rounded."""
    if kv_type != "q8" or x.size == 0:
        return x
    run = x.shape[1] // n_kv_heads
    codes, d = ops.quantize_rows(x, run)
    d = np.repeat(d, run, axis=1)
    near = np.abs(np.abs(x - codes * d) - d / 2) < 1e-3 * d
    return np.where(near, codes * d, x).astype(F32).astype(np.float64)


def step_rows(lengths, queries):
    """sequences and positions of the last `queries` tokens of each sequence."""
    sequences = np.concatenate([np.full(q, s) for s, q in enumerate(queries)] + [[]]).astype(np.int32)
    positions = np.concatenate(
        [np.arange(length - q, length) for length, q in zip(lengths, queries)] + [[]]).astype(np.int32)
    return sequences, positions


def attention_case(cases, name, shape):
    rng = cases.rng
    tables, n_pages = page_tables(rng, shape.lengths)
    kv_sequences, kv_positions = step_rows(shape.lengths, shape.lengths)
    sequences, positions = step_rows(shape.lengths, shape.queries)
    total, n = len(kv_positions), len(positions)
    k = storable(cases.normal(total, shape.n_kv_heads * shape.head_dim), shape.kv_type, shape.n_kv_heads)
    v = storable(cases.normal(total, shape.n_kv_heads * shape.value_dim), shape.kv_type, shape.n_kv_heads)
    q = cases.normal(n, shape.n_heads * shape.head_dim, scale=shape.sharp)
    sinks = cases.normal(shape.n_heads) if shape.sinks else None
    scale = float(F32(shape.head_dim**-0.5))
    stored_k = ops.stored_kv(k, shape.kv_type, shape.n_kv_heads)
    stored_v = ops.stored_kv(v, shape.kv_type, shape.n_kv_heads)
    out = np.zeros((n, shape.n_heads * shape.value_dim))
    for s in range(len(shape.lengths)):
        rows, keys = sequences == s, kv_sequences == s
        if rows.any():
            out[rows] = ops.attention(
                q[rows], stored_k[keys], stored_v[keys], positions[rows], kv_positions[keys],
                shape.n_heads, shape.n_kv_heads, scale, shape.window, shape.softcap, sinks)
    arrays = {"k": k, "v": v, "kv_sequences": kv_sequences, "kv_positions": kv_positions, "q": q,
              "sequences": sequences, "positions": positions, "page_tables": tables, "out": out}
    if sinks is not None:
        arrays["sinks"] = sinks
    cases.add(name, arrays, n_heads=shape.n_heads, n_kv_heads=shape.n_kv_heads,
              head_dim=shape.head_dim, value_dim=shape.value_dim, scale=scale, window=shape.window,
              softcap=shape.softcap, kv_type=shape.kv_type, n_pages=n_pages)


def fixed_shapes():
    # A token alone, a page short of, at and past full, and the split at 1,024 keys.
    for length in (1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129):
        yield f"len{length}", Shape([length], [min(length, 3)])
    for length in (1023, 1024, 1025, 2050):
        yield f"len{length}", Shape([length], [2], n_kv_heads=1, n_heads=2)
    yield "prompt_whole", Shape([130], [130])
    yield "prompt_over_a_split", Shape([1030], [9], head_dim=8, value_dim=8)
    yield "no_rows", Shape([5], [0])
    yield "three_sequences", Shape([1, 64, 200], [1, 1, 70])
    yield "idle_sequence", Shape([10, 70], [0, 2])
    for heads, kv_heads in ((1, 1), (3, 1), (7, 7), (14, 2), (9, 3), (5, 5), (16, 1)):
        yield f"heads{heads}_{kv_heads}", Shape([70], [5], n_heads=heads, n_kv_heads=kv_heads)
    for dim in (1, 8, 24, 33, 64, 80, 128, 256):
        yield f"dim{dim}", Shape([67], [3], head_dim=dim, value_dim=dim)
    yield "value_dim", Shape([67], [3], head_dim=24, value_dim=16)
    for window in (1, 2, 16, 63, 64, 65, 1000):
        yield f"window{window}", Shape([200], [140], window=window)
    yield "window_past_a_split", Shape([1100], [80], window=50, n_heads=2, n_kv_heads=1)
    yield "sinks", Shape([70], [70], sinks=True)
    yield "sinks_window", Shape([100], [100], sinks=True, window=16)
    yield "softcap", Shape([70], [9], softcap=5.0)
    yield "sharp", Shape([300], [9], sharp=30.0)
    yield "sharp_over_splits", Shape([2100], [3], sharp=30.0, n_heads=2, n_kv_heads=1)
    for kv_type in ("f16", "bf16", "q8"):
        for length in (1, 64, 65, 200):
            yield f"{kv_type}_len{length}", Shape([length], [min(length, 5)], kv_type=kv_type)
        yield f"{kv_type}_odd", Shape([67, 3], [3, 1], 9, 3, 24, 33, kv_type=kv_type)
        yield f"{kv_type}_window", Shape([150], [100], window=16, kv_type=kv_type, n_heads=14)


def attention(cases, n_random):
    for name, shape in fixed_shapes():
        attention_case(cases, name, shape)
    for i in range(n_random):
        limits = (260, 70, 97) if i % 100 == 0 else (9, 4, 14)  # small, since there are many
        attention_case(cases, f"random{i}", random_shape(cases, *limits))


def random_shape(cases, longest, most_queries, widest):
    rng = cases.rng
    lengths = [int(v) for v in rng.integers(1, longest, rng.integers(1, 4))]
    if rng.random() < 0.05:
        lengths[0] += 60  # over a page's end
    kv_heads = int(rng.integers(1, 4))
    return Shape(
        lengths, [int(rng.integers(0, min(length, most_queries) + 1)) for length in lengths],
        kv_heads * int(rng.integers(1, 4)), kv_heads, int(rng.integers(1, widest)),
        int(rng.integers(1, widest)), window=cases.some([0, 0, int(rng.integers(1, longest))]),
        softcap=cases.some([0.0, 0.0, 20.0]), sinks=cases.some([False, False, True]),
        kv_type=cases.some(["f32", "f32", "f16", "bf16", "q8"]))


# ---- kv_append ---------------------------------------------------------------------------------


def page_bytes(x, kv_type, run):
    """(bytes of the values, float32 scales or None) of rows [.., run]"""
    if kv_type == "f32":
        return x.astype("<f4"), None
    if kv_type == "f16":
        return x.astype("<f2"), None
    if kv_type == "bf16":
        return tensors.to_bf16_bits(x).reshape(x.shape), None
    codes, d = ops.quantize_rows(x, run)
    return codes.astype(np.int8), d.astype("<f4")


def kv_append(cases, n_random):
    """pages: U8 [n_pages, page_bytes] in the layout of KvPages in ops.h, zero where nothing was
    written (the untouched slots must stay zero)."""
    for kv_type in ("f32", "f16", "bf16", "q8"):
        for i, (lengths, queries) in enumerate([([1], [1]), ([64], [64]), ([65], [2]), ([128], [1]),
                                                ([3, 130], [1, 67]), ([9], [0]), ([64, 1], [1, 1])]):
            sizes = [(1, 16, 16), (2, 24, 16), (3, 33, 7)][len(cases.params) % 3]
            kv_append_case(cases, f"{kv_type}_{i}", kv_type, lengths, queries, *sizes)
    rng = cases.rng
    for i in range(n_random):
        length = int(rng.integers(1, 90))
        sizes = (int(v) for v in rng.integers(1, [3, 6, 6]))
        kv_append_case(cases, f"random{i}", cases.some(["f32", "f16", "bf16", "q8"]), [length],
                       [int(rng.integers(0, min(length, 6) + 1))], *sizes)


def kv_append_case(cases, name, kv_type, lengths, queries, heads, key_dim, value_dim):
    tables, n_pages = page_tables(cases.rng, lengths)
    sequences, positions = step_rows(lengths, queries)
    n = len(positions)
    rows, parts = {}, []
    for which, dim in (("k", key_dim), ("v", value_dim)):
        rows[which] = storable(cases.normal(n, heads * dim), kv_type, heads)
        values, scales = page_bytes(rows[which].reshape(n, heads, dim), kv_type, dim)
        parts.append((values, np.zeros((n_pages, heads, PAGE, dim), values.dtype)))
        rows[which + "_scales"] = scales
    if kv_type == "q8":
        for which in ("k", "v"):
            scales = rows[which + "_scales"].reshape(n, heads)
            parts.append((scales, np.zeros((n_pages, heads, PAGE), "<f4")))
    for values, pages in parts:
        for t in range(n):
            page = tables[sequences[t], positions[t] // PAGE]
            pages[page, :, positions[t] % PAGE] = values[t]
    pages = np.concatenate(
        [np.ascontiguousarray(p).view(np.uint8).reshape(n_pages, -1) for _, p in parts], axis=1)
    cases.add(name, {"k": rows["k"], "v": rows["v"], "sequences": sequences, "positions": positions,
                     "page_tables": tables, "pages": pages},
              n_kv_heads=heads, key_dim=key_dim, value_dim=value_dim, kv_type=kv_type, n_pages=n_pages)


OPS = [kv_append, attention]
