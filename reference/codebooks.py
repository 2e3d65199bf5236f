"""The grids of the iq types: data that define the format, from ggml (MIT licence), kept in
codebooks.npz and checked against the sha256 of each table as ggml stores it."""
import hashlib
import pathlib

import numpy as np

SHA256 = {
    "iq2xxs": "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54",
    "iq2xs": "06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de",
    "iq2s": "e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88",
    "iq3xxs": "46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d",
    "iq3s": "bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f",
    "iq1s": "07540ffc1aeaf6ad4d97e96b0fcc765aae39671d4ae4a27bbd0e796fde167c6a",
}
KSIGNS_SHA256 = "a76742a603f8beca5212ecce0f1f02f11a4887fd2f7c8b15aca0ea3eb3380c31"


def load():
    """name: int64 [entries, 8 or 4], one element a column."""
    tables = {}
    with np.load(pathlib.Path(__file__).with_name("codebooks.npz")) as stored:
        for name, digest in SHA256.items():
            found = hashlib.sha256(stored[name].tobytes()).hexdigest()
            if found != digest:
                raise ValueError(f"codebooks.npz: table {name} has sha256 {found}, wanted {digest}")
            tables[name] = stored[name].astype(np.int64)
    return tables


def make_ksigns():
    """Seven stored sign bits; the eighth makes the number of minus signs even."""
    k = np.arange(128)
    parity = np.array([bin(v).count("1") & 1 for v in k])
    return k | (parity << 7)


_tables = load()
iq2xxs, iq2xs, iq2s = _tables["iq2xxs"], _tables["iq2xs"], _tables["iq2s"]
iq3xxs, iq3s, iq1s = _tables["iq3xxs"], _tables["iq3s"], _tables["iq1s"]
ksigns = make_ksigns()
