"""Cases of sample: the distribution that a row of logits must be drawn from.

`probabilities` sums to one; where it is 0 no draw may ever land.  Greedy cases (temperature 0)
have `wanted`, one token a row, and no probabilities.
"""
import numpy as np

from reference import ops

SETTINGS = {
    "plain": dict(temperature=1.0),
    "cold": dict(temperature=0.3),
    "hot": dict(temperature=2.0),
    "top_k": dict(temperature=1.0, top_k=3),
    "top_k_one": dict(temperature=1.0, top_k=1),
    "top_k_past_vocabulary": dict(temperature=1.0, top_k=1000000),
    "top_p": dict(temperature=1.0, top_p=0.7),
    "top_p_tiny": dict(temperature=1.0, top_p=1e-6),
    "min_p": dict(temperature=1.0, min_p=0.2),
    "min_p_one": dict(temperature=1.0, min_p=1.0),
    "all_filters": dict(temperature=0.8, top_k=8, top_p=0.9, min_p=0.05),
    "repeat": dict(temperature=1.0, repeat_penalty=1.8),
    "presence": dict(temperature=1.0, presence_penalty=1.5),
    "frequency": dict(temperature=1.0, frequency_penalty=0.7),
    "everything": dict(temperature=0.7, top_k=10, top_p=0.95, min_p=0.02, repeat_penalty=1.2,
                       presence_penalty=0.4, frequency_penalty=0.3),
}
PENALTIES = ["repeat_penalty", "presence_penalty", "frequency_penalty"]


def history(rng, vocab):
    seen = (rng.random(vocab) < 0.3).astype(np.uint8)
    counts = (rng.integers(0, 4, vocab) * (rng.random(vocab) < 0.4)).astype(np.int32)
    return seen, counts


def clear_of_edges(logits, settings, bias, seen, counts):
    """Whether no filter decides by less than float32 can tell apart."""
    penalties = {k: v for k, v in settings.items() if k in PENALTIES}
    filters = {k: v for k, v in settings.items() if k not in PENALTIES}
    x = ops.penalized(logits, seen, counts, **penalties) + bias
    exact = ops.sampling_distribution(x, **filters)
    for nudge in (-1e-4, 1e-4):
        moved = dict(filters)
        for name in ("top_p", "min_p"):
            if 0 < moved.get(name, 0) < 1:
                moved[name] *= 1 + nudge
        if ((ops.sampling_distribution(x, **moved) > 0) != (exact > 0)).any():
            return None
    return exact


def sample(cases, n_random):
    rng = cases.rng
    for name, settings in SETTINGS.items():
        for vocab in (1, 2, 33, 320):
            sample_case(cases, f"{name}_v{vocab}", vocab, settings, 20000 if vocab <= 33 else 5000)
    for i in range(n_random // 2):
        vocab = int(rng.integers(1, 25))
        sample_case(cases, f"random{i}", vocab, random_settings(cases, vocab), 60)
    greedy(cases, n_random - n_random // 2)


def sample_case(cases, name, vocab, settings, n_draws):
    rng, probabilities = cases.rng, None
    while probabilities is None:
        logits = cases.normal(vocab, scale=2.0)
        seen, counts = history(rng, vocab)
        bias = cases.normal(vocab) * (rng.random(vocab) < 0.2)
        probabilities = clear_of_edges(logits, settings, bias, seen, counts)
    cases.add(name, {"logits": logits[None], "prompt_seen": seen, "answer_counts": counts,
                     "bias": bias, "probabilities": probabilities}, n_draws=n_draws, **settings)


def random_settings(cases, vocab):
    """Each filter and penalty by chance."""
    rng = cases.rng
    settings = dict(temperature=cases.some([0.3, 1.0, 1.0, 2.0]))
    chances = dict(top_k=int(rng.integers(1, vocab + 2)), top_p=round(rng.uniform(0.05, 0.99), 3),
                   min_p=round(rng.uniform(0.01, 0.9), 3), repeat_penalty=round(rng.uniform(0.7, 1.8), 3),
                   presence_penalty=round(rng.uniform(-1, 1), 3),
                   frequency_penalty=round(rng.uniform(-1, 1), 3))
    return settings | {name: value for name, value in chances.items() if rng.random() < 0.4}


def greedy(cases, n_random):
    """The lowest index of the largest logit; ties at both ends and across a vector's width."""
    for i in range(n_random):
        n, vocab = (int(v) for v in cases.rng.integers([0, 1], [4, 42]))
        # Few different values: most rows have ties.
        logits = cases.rng.integers(-3, 3, (n, vocab)) / 4 + cases.normal(n, vocab) * cases.some([0, 1])
        logits = logits.astype(np.float32)
        wanted = np.array([ops.argmax(row) for row in logits], np.int32)
        cases.add(f"greedy_random{i}", {"logits": logits, "wanted": wanted}, temperature=0.0)
    for vocab in (1, 2, 31, 32, 33, 320, 1000):
        logits = cases.normal(5, vocab)
        logits[1, :] = 0.25
        logits[2, [vocab // 2, vocab - 1]] = 9.0
        logits[3, [0, vocab - 1]] = 9.0
        logits[4] = -np.abs(logits[4]) - 1e30
        wanted = np.array([ops.argmax(row) for row in logits.astype(np.float32)], np.int32)
        cases.add(f"greedy_v{vocab}", {"logits": logits, "wanted": wanted}, temperature=0.0)


OPS = [sample]
