"""stored_quant.py against the specification's literals (formats.md 10.5) and PyPI gguf."""
import gguf
import numpy as np

from reference import stored_quant as sq

WORD = np.array([[0x76543210]], np.uint32).view(np.int32)


def test_e4m3_literals():
    wanted = {0x00: 0, 0x01: 2**-9, 0x08: 2**-6, 0x38: 1, 0x40: 2, 0x7E: 448, 0xBF: -1.875}
    assert {code: float(sq.E4M3[code]) for code in wanted} == wanted


def test_e8m0_literals():
    assert sq.e8m0([0, 127, 254]).tolist() == [2.0**-127, 1.0, 2.0**127]


def test_awq_word():
    assert sq.awq_columns(WORD).tolist() == [[0, 4, 1, 5, 2, 6, 3, 7]]


def test_gptq_word():
    assert sq.stream(WORD, 4, 8, axis=0).ravel().tolist() == list(range(8))


def test_gptq_versions_and_g_idx():
    scales = np.array([[0.5] * 8], np.float32)
    eights = np.array([[0x77777777]], np.uint32).view(np.int32)  # symmetric, version 1
    for version, zero in ((1, 8), (2, 7)):
        values = sq.gptq(np.repeat(WORD, 8, axis=1), eights, scales, 4, version)
        assert values[0].tolist() == [0.5 * (q - zero) for q in range(8)]
    fifteens = np.array([[-1]], np.int32)  # (15 + 1) mod 16
    assert sq.gptq(np.repeat(WORD, 8, axis=1), fifteens, scales, 4, 1)[0, 3] == 1.5
    two = np.array([[1.0] * 8, [10.0] * 8], np.float32)
    values = sq.gptq(np.repeat(WORD, 8, axis=1), np.zeros((2, 1), np.int32), two, 4, 2,
                     [1, 0, 0, 1, 0, 0, 0, 1])
    assert values[0].tolist() == [0, 1, 2, 30, 4, 5, 6, 70]


def test_fp8_rectangles():
    ones = np.full((3, 5), 0x38, np.uint8)
    scale = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert sq.fp8(ones, scale, (2, 2)).tolist() == [
        [0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]


def test_mxfp4_equals_ggmls():
    """Shuffled into ggml's order (low nibbles first, then high ones), gguf gives the same."""
    rng = np.random.default_rng(7)
    blocks = rng.integers(0, 256, (40, 16)).astype(np.uint8)
    scales = rng.integers(100, 140, 40).astype(np.uint8)
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(40, 32)
    rows = np.concatenate([scales[:, None], codes[:, :16] | codes[:, 16:] << 4], axis=1)
    wanted = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType.MXFP4)
    assert (sq.mxfp4(blocks, scales).reshape(40, 32) == wanted).all()


def test_packed_generations():
    codes = np.arange(12) % 8  # three bits: 10 in a padded word, 10 2/3 in a dense one
    dense = sum(int(c) << (3 * i) for i, c in enumerate(codes))
    dense = np.array([[dense & 0xFFFFFFFF, dense >> 32]], np.uint32)
    old = np.array([[sum(int(c) << (3 * i) for i, c in enumerate(codes[:10])),
                     int(codes[10]) | int(codes[11]) << 3]], np.uint32)
    assert sq.stream(dense, 3, 12, axis=1)[0].tolist() == codes.tolist()
    assert sq.padded(old, 3, 12, axis=1)[0].tolist() == codes.tolist()
    values = sq.compressed_packed(dense, np.ones((1, 1), np.float32), 3, 12)
    assert values[0].tolist() == (codes - 4).tolist()
