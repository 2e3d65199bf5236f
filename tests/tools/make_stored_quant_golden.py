"""Writes tests/data/stored_quant_golden.safetensors: checkpoints as other programs quantise
them, and the values of their weights by reference/stored_quant.py.

CASE/NAME is tensor NAME of a case, CASE/=NAME the values of weight NAME, CASE/config its
config.json.  FP8 and E8M0 tensors are stored as U8 and named CASE/NAME:F8_E4M3.
Also the seeds of the fuzz target in tests/corpus/stored_quant, one a scheme.
Run by hand:  python -m tests.tools.make_stored_quant_golden
"""
import json
import pathlib
import struct

import numpy as np

from reference import stored_quant as sq
from reference import tensors

SEED = 20261201
CORPUS = pathlib.Path(__file__).parents[1] / "corpus" / "stored_quant"
OUT = pathlib.Path(__file__).parents[1] / "data" / "stored_quant_golden.safetensors"


def widened(scale):
    """(as stored, as float32)."""
    if isinstance(scale, tensors.Bf16):
        return scale, tensors.from_bf16_bits(scale.bits)
    return scale, np.asarray(scale, np.float32)


def scales_of(rng, shape, kind):
    values = (rng.uniform(0.001, 0.05, shape)).astype(np.float32)
    if kind == "bf16":
        return widened(tensors.Bf16(values))
    return widened(values.astype(np.float16) if kind == "f16" else values)


def words_of(codes, bits, axis, per_word=None):
    """Codes packed along an axis into int32; per_word: whole codes a word, else a stream.
    One code and bit at a time, as unlike the reader as can be."""
    codes = np.moveaxis(np.asarray(codes, np.int64), axis, -1)
    n = codes.shape[-1]
    n_words = -(-n // per_word) if per_word else -(-n * bits // 32)
    words = np.zeros((*codes.shape[:-1], n_words), np.uint32)
    for e in range(n):
        for b in range(bits):
            word, at = (e // per_word, e % per_word * bits + b) if per_word else divmod(
                e * bits + b, 32)
            words[..., word] |= (((codes[..., e] >> b) & 1) << at).astype(np.uint32)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32)


class Cases:
    def __init__(self):
        self.rng = np.random.default_rng(SEED)
        self.out = {}

    def add(self, case, quantization, stored, values):
        config = {"model_type": "x"}
        if quantization is not None:
            config["quantization_config"] = quantization
        text = np.frombuffer(json.dumps(config).encode(), np.uint8)
        self.out[f"{case}/config"] = text
        for name, value in stored.items():
            self.out[f"{case}/{name}"] = value
        for name, value in values.items():
            assert value.dtype == np.float32 and np.isfinite(value).all(), case
            self.out[f"{case}/={name}"] = np.ascontiguousarray(value)

    # ---- FP8 --------------------------------------------------------------------------

    def fp8_codes(self, shape):
        codes = self.rng.integers(0, 256, shape).astype(np.uint8)
        codes[(codes & 127) == 127] = 0x7E
        return codes

    def fp8(self, case, shape, block, kind, scale_shape=None, name="weight_scale_inv",
            stated=True, extra=None):
        codes = self.fp8_codes(shape)
        grid = (*shape[:-2], -(-shape[-2] // block[0]), -(-shape[-1] // block[1]))
        if kind == "e8m0":
            stored = self.rng.integers(118, 124, grid).astype(np.uint8)
            wide, suffix = sq.e8m0(stored), ":F8_E8M0"
        else:
            (stored, wide), suffix = scales_of(self.rng, grid, kind), ""
        values = sq.fp8(codes, wide, block)
        if scale_shape is not None:
            stored = (tensors.Bf16(wide.reshape(scale_shape)) if kind == "bf16"
                      else stored.reshape(scale_shape))
        quantization = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"}
        if stated:
            quantization["weight_block_size"] = list(block)
        self.add(case, quantization,
                 {"m.weight:F8_E4M3": codes, f"m.{name}{suffix}": stored, **(extra or {})},
                 {"m.weight": values})

    def all_fp8(self):
        self.fp8("fp8_grid_f32", (40, 72), (16, 32), "f32")
        self.fp8("fp8_grid_odd_bf16", (33, 50), (7, 5), "bf16")
        self.fp8("fp8_grid_128_e8m0", (130, 150), (128, 128), "e8m0")
        self.fp8("fp8_grid_wider_f32", (20, 48), (128, 128), "f32")
        self.fp8("fp8_rows_of_32_e8m0", (9, 96), (1, 32), "e8m0")
        self.fp8("fp8_stack_grid", (3, 20, 24), (8, 16), "f32")
        whole = {"stated": False, "name": "weight_scale"}
        self.fp8("fp8_tensor_scalar", (12, 40), (12, 40), "f32", (), **whole)
        self.fp8("fp8_tensor_one_bf16", (12, 33), (12, 33), "bf16", (1,), **whole,
                 extra={"m.input_scale": np.ones(1, np.float32)})
        self.fp8("fp8_channel", (12, 40), (1, 40), "f32", (12, 1), **whole)
        self.fp8("fp8_channel_flat", (12, 40), (1, 40), "f16", (12,), **whole)
        self.fp8("fp8_stack_tensor", (3, 12, 40), (12, 40), "f32", (3,), **whole)
        self.fp8("fp8_stack_channel", (3, 12, 40), (1, 40), "f32", (3, 12, 1), **whole)

    # ---- GPTQ and AWQ -----------------------------------------------------------------

    def gptq(self, case, bits, group, n_in=96, n_out=32, version=1, kind="f16", order=None,
             symmetric=False, stated=True):
        n_groups = 1 if group == -1 else -(-n_in // group)
        codes = self.rng.integers(0, 1 << bits, (n_in, n_out))
        zeros = self.rng.integers(0, 1 << bits, (n_groups, n_out))  # as stored
        if symmetric:
            zeros[:] = (1 << (bits - 1)) - (version == 1)
        stored, wide = scales_of(self.rng, (n_groups, n_out), kind)
        qweight, qzeros = words_of(codes, bits, 0), words_of(zeros, bits, 1)
        g_idx = None
        if order is not None:
            g_idx = (np.arange(n_in) // (n_in if group == -1 else group)).astype(np.int32)
            if order == "random":
                self.rng.shuffle(g_idx)
        quantization = {"quant_method": "gptq", "bits": bits, "group_size": group,
                        "desc_act": order == "random", "sym": symmetric}
        if stated:
            quantization["checkpoint_format"] = "gptq" if version == 1 else "gptq_v2"
        values = sq.gptq(qweight, qzeros, wide, bits, version, g_idx)
        tensors_of = {"m.qweight": qweight, "m.qzeros": qzeros, "m.scales": stored}
        if g_idx is not None:
            tensors_of["m.g_idx"] = g_idx
        self.add(case, quantization, tensors_of, {"m.weight": values})

    def all_gptq(self):
        for bits in (2, 3, 4, 8):
            self.gptq(f"gptq_{bits}_v1", bits, 32)
            self.gptq(f"gptq_{bits}_v2_act_order", bits, 32, version=2, order="random")
            self.gptq(f"gptq_{bits}_one_group", bits, -1, order="plain")
        self.gptq("gptq_4_group_16_bf16", 4, 16, kind="bf16")
        self.gptq("gptq_4_f32", 4, 32, kind="f32")
        self.gptq("gptq_4_last_group_shorter", 4, 40, order="plain")
        self.gptq("gptq_4_v1_not_recorded", 4, 32, symmetric=True, stated=False)
        self.gptq("gptq_4_v2_not_recorded", 4, 32, version=2, symmetric=True, stated=False)
        self.gptq("gptq_8_v2_not_recorded", 8, 32, version=2, symmetric=True, stated=False)

    def awq(self, case, group, n_in=96, n_out=40, names=("bits", "group_size")):
        n_groups = 1 if group == -1 else n_in // group
        codes = self.rng.integers(0, 16, (n_in, n_out))
        zeros = self.rng.integers(0, 16, (n_groups, n_out))
        stored, wide = scales_of(self.rng, (n_groups, n_out), "f16")

        def packed(values):  # formats.md 5.3: column j sits in this nibble
            nibble = np.array([0, 4, 1, 5, 2, 6, 3, 7])
            order = np.empty((values.shape[0], values.shape[1] // 8, 8), np.int64)
            order[:, :, nibble] = values.reshape(order.shape)
            return words_of(order.reshape(values.shape), 4, 1)

        qweight, qzeros = packed(codes), packed(zeros)
        values = sq.awq(qweight, qzeros, wide)
        assert (values == wide[np.arange(n_in) // (n_in // n_groups)].T
                * (codes - zeros[np.arange(n_in) // (n_in // n_groups)]).T).all()
        self.add(case, {"quant_method": "awq", names[0]: 4, names[1]: group,
                        "zero_point": True, "version": "GEMM"},
                 {"m.qweight": qweight, "m.qzeros": qzeros, "m.scales": stored},
                 {"m.weight": values})

    # ---- MXFP4 and compressed-tensors -------------------------------------------------

    def mxfp4(self):
        blocks = self.rng.integers(0, 256, (3, 10, 2, 16)).astype(np.uint8)
        scales = self.rng.integers(118, 124, (3, 10, 2)).astype(np.uint8)
        scales[0, 0] = [0, 254]
        blocks[0, 0, 1] = 0x21  # 1.0 and 0.5 under 2^127
        self.add("mxfp4_experts", {"quant_method": "mxfp4", "modules_to_not_convert":
                                   ["model.layers.*.self_attn", "lm_head"]},
                 {"m.gate_up_proj_blocks": blocks, "m.gate_up_proj_scales": scales},
                 {"m.gate_up_proj": sq.mxfp4(blocks, scales)})

    def packed(self, case, bits, group, symmetric=True, kind="bf16", lead=(), n_out=20,
               n_in=96, old=False, order=False):
        n_groups = 1 if group in (None, "tensor") else n_in // group
        shape = (*lead, n_out, n_in)
        codes = self.rng.integers(0, 1 << bits, shape)
        scale_shape = (1,) if group == "tensor" else (*lead, n_out, n_groups)
        stored, wide = scales_of(self.rng, scale_shape, kind)
        if group == "tensor":
            wide = np.broadcast_to(wide, (n_out, 1))
        per_word = 32 // bits if old else None
        unpack = sq.padded if old else sq.stream
        out = {"m.weight_packed": words_of(codes, bits, len(lead) + 1, per_word),
               "m.weight_scale": stored, "m.weight_shape": np.array(shape, np.int64)}
        zeros = g_idx = None
        if not symmetric:
            zeros = words_of(self.rng.integers(0, 1 << bits, (*lead, n_out, n_groups)), bits,
                             len(lead), per_word)
            out["m.weight_zero_point"] = zeros
        if order:
            g_idx = (np.arange(n_in) // group).astype(np.int32)
            self.rng.shuffle(g_idx)
            out["m.weight_g_idx"] = g_idx
        strategy = {None: "channel", "tensor": "tensor"}.get(group, "group")
        weights = {"num_bits": bits, "type": "int", "symmetric": symmetric,
                   "strategy": strategy,
                   "group_size": group if strategy == "group" else None}
        self.add(case, compressed("pack-quantized", weights), out,
                 {"m.weight": sq.compressed_packed(out["m.weight_packed"], wide, bits, n_in,
                                                   zeros, g_idx, unpack)})

    def plain_int(self, case, symmetric):
        codes = self.rng.integers(-128, 128, (20, 64)).astype(np.int8)
        stored, wide = scales_of(self.rng, (20, 1), "f32")
        out = {"m.weight": codes, "m.weight_scale": stored}
        zeros = None
        if not symmetric:
            zeros = self.rng.integers(-128, 128, (20, 1)).astype(np.int8)
            out["m.weight_zero_point"] = zeros
        weights = {"num_bits": 8, "type": "int", "symmetric": symmetric, "strategy": "channel"}
        wide_zeros = None if zeros is None else zeros.astype(np.int64)
        self.add(case, compressed("int-quantized", weights), out,
                 {"m.weight": sq.compressed_int(codes.astype(np.int64), wide, wide_zeros)})

    def float_quantized(self):
        codes = self.fp8_codes((24, 40))
        for case, shape, block, extra in [
                ("ct_float_channel", (24, 1), (1, 40), {"strategy": "channel"}),
                ("ct_float_grid", (3, 3), (8, 16), {"strategy": "block",
                                                    "block_structure": [8, 16]}),
                ("ct_float_tensor", (1,), (24, 40), {"strategy": "tensor"})]:
            stored, wide = scales_of(self.rng, shape, "bf16")
            weights = {"num_bits": 8, "type": "float", "symmetric": True, **extra}
            self.add(case, compressed("float-quantized", weights),
                     {"m.weight:F8_E4M3": codes, "m.weight_scale": stored},
                     {"m.weight": sq.fp8(codes, np.reshape(wide, (*shape, 1)[:2]), block)})

    def all_compressed(self):
        for bits in (2, 3, 4, 5, 6, 7, 8):
            self.packed(f"ct_pack_{bits}", bits, 32)
            self.packed(f"ct_pack_{bits}_zeros", bits, 32, symmetric=False, kind="f16")
        for bits in (3, 5, 6, 7):
            self.packed(f"ct_pack_{bits}_old", bits, 32, symmetric=False, old=True)
        self.packed("ct_pack_4_channel", 4, None, kind="f32")
        self.packed("ct_pack_8_tensor", 8, "tensor")
        self.packed("ct_pack_4_odd_width", 4, None, n_in=50, n_out=11)
        self.packed("ct_pack_4_stack", 4, 32, symmetric=False, lead=(3,), n_out=12)
        self.packed("ct_pack_4_act_order", 4, 32, symmetric=False, order=True)
        self.plain_int("ct_int", True)
        self.plain_int("ct_int_zeros", False)
        self.float_quantized()


def compressed(form, weights):
    return {"quant_method": "compressed-tensors", "format": form,
            "quantization_status": "compressed", "ignore": ["lm_head", "re:.*gate$"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


SEEDS = ["fp8_grid_odd_bf16", "fp8_rows_of_32_e8m0", "fp8_stack_channel", "gptq_3_v1",
         "gptq_4_v2_act_order", "awq_gemm", "mxfp4_experts", "ct_pack_5_old", "ct_pack_4_stack",
         "ct_pack_4_act_order", "ct_int_zeros", "ct_float_grid"]


def write_seed(out, case):
    """u32 length of the config, the config, a safetensors file."""
    header, data = {}, b""
    for name, value in out.items():
        if not name.startswith(case + "/") or "/=" in name or name.endswith("/config"):
            continue
        kind, raw = ("BF16", value.bits) if isinstance(value, tensors.Bf16) else (
            tensors.NAMES[np.asarray(value).dtype], np.asarray(value))
        name, _, stated = name.removeprefix(case + "/").partition(":")
        begin = len(data)
        data += np.ascontiguousarray(raw).tobytes()
        header[name] = {"dtype": stated or kind, "shape": list(raw.shape),
                        "data_offsets": [begin, len(data)]}
    config, text = out[case + "/config"].tobytes(), json.dumps(header).encode()
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / case).write_bytes(struct.pack("<I", len(config)) + config
                                + struct.pack("<Q", len(text)) + text + data)


def main():
    cases = Cases()
    cases.all_fp8()
    cases.all_gptq()
    cases.awq("awq_gemm", 32)
    cases.awq("awq_gemm_one_group", -1, names=("w_bit", "q_group_size"))
    cases.awq("awq_gemm_group_8", 8, n_in=40)
    cases.mxfp4()
    cases.all_compressed()
    tensors.save(OUT, cases.out)
    for case in SEEDS:
        write_seed(cases.out, case)
    n = sum(name.endswith("/config") for name in cases.out)
    print(f"seed {SEED}: {n} cases, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
