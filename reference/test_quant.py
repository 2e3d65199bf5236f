"""quant.py against the specification's vectors and against other programs' values."""
import hashlib
import pathlib

import numpy as np
import pytest

from reference import codebooks, quant, tensors

GOLDEN, _ = tensors.load(
    pathlib.Path(__file__).parents[1] / "tests" / "data" / "quant_golden.safetensors")

# formats.md 10.1: sha256 of the float32 values of the "spec" group, -0 written as +0.
SPEC_SHA256 = {
    "q1_0": "911ddbe94a59729e4cca1d607344ec6408325c9ef9a50f59fa666c1f8048f54e",
    "q2_0": "655cf71eb4e21560e49eac35975e8d6d3f8c9a774506303ff6e705a44aa7034b",
    "q4_0": "6b4d34c0b86a59fe94063569a8e83c03ac6e4fa7306865b37af5882c78e341d9",
    "q4_1": "2989b05fca29fbdbf0e912fd8c2ca7e714e962feeeb43e8e0d83344d0f70e81b",
    "q5_0": "40f978ac28c936d0350dd6048442947411a68b6efd27bd809f90850020824b8c",
    "q5_1": "a632217da4e1560a110685dc828db9d85df781de95f3e3cf82ad337f317dd94b",
    "q8_0": "6ac52ad8982e871448d8cc5585f4b733ee0d21c243b03d32745cb768a5c22131",
    "q2_k": "ba6504c324deb0d66485bdc217d186ada6277834983f8beb9e4afdd83257561a",
    "q3_k": "ec2a62d949e4e6b1f76ccc62d56a01a4727a7e3787ec9353cafa3d68fb602092",
    "q4_k": "75734a869283f27a1e928450cdeec317ea8e3ac85c54fb487325e70076d5a3b6",
    "q5_k": "2ad35ca0f1022e210a484e712794c1317cc1aa4cddd44d3fd4eb501b75cd465c",
    "q6_k": "4fea0c69f7fc56607709c13fd2e3fff548ee79f42307e7ce157847dad6a98b6b",
    "tq1_0": "59de2d20a4109f61095a1bc4d1629ce0e6a2275cc4362820008981af382e63e8",
    "tq2_0": "846d2c1a3a3069ec924ade05821c911b405efaf416932cf28247dd0ddae9a379",
    "iq4_nl": "415605497558dd415f0e806823225adb444855846d0187ca305066ea7c4b2fda",
    "iq4_xs": "d34e03fe81e49acb50acedbd8836465f4917b8184e5a260b08af59aa8979f163",
    "mxfp4": "794964b76d6e4f118162b528844b946a9562ca25f6edfdf2567c6aab904b2fd0",
    "nvfp4": "def5a3375ad3c1e50ac3f5ea05235f1476f54dac0ea8e6b9e3662504f7eb6e47",
    "iq2_xxs": "c769a0932ad2dceb10bdf5d6e2a59729d8e8c573096d9b2fd55492ca3b6a5b36",
    "iq2_xs": "9c8c4a5a7bd12efd1a6e6a2a35ca6669346fb81d9d98769c25095cd11f32ab19",
    "iq2_s": "d7a5af9bb17c6d17f93756de9a3c8dcbafce549ef4b9fe5b843cec1c2258762b",
    "iq3_xxs": "25cfcab8541bd9c5a75f9d938d44450c7917aa90514a626402cbc5c3580fa318",
    "iq3_s": "4c79578936883cf7523e09d0afa8a6d3d478e1b40b6514fc72c7a4220e87d4c3",
    "iq1_s": "d9c5b1ea354ea655fb655a6bad7875f6a174700873c8547ae75205513a88898f",
    "iq1_m": "e8294241f1cd40d26fd511efc8d50b1aa78d4ba74bf4e0b1002ece089774d3ae",
}


def keys(ending):
    return [name.removesuffix(ending) for name in GOLDEN if name.endswith(ending)]


def bits(values):
    return (np.asarray(values, np.float32) + np.float32(0)).tobytes()  # -0 becomes +0


@pytest.mark.parametrize("case", keys(".groups"))
def test_ggml_values_are_exact(case):
    values = quant.dequantize(case.split(".")[0], GOLDEN[case + ".groups"])
    assert bits(values) == bits(GOLDEN[case + ".values"])


@pytest.mark.parametrize("name", SPEC_SHA256)
def test_values_of_the_specification(name):
    values = quant.dequantize(name, GOLDEN[name + ".spec.groups"])
    assert hashlib.sha256(bits(values)).hexdigest() == SPEC_SHA256[name]


def test_every_type_has_cases():
    assert {key.split(".")[0] for key in keys(".groups")} == set(quant.TYPES)
    assert set(SPEC_SHA256) == set(quant.TYPES) - {"q8_1", "q8_k"}


def test_ksigns():
    found = hashlib.sha256(codebooks.ksigns.astype(np.uint8).tobytes()).hexdigest()
    assert found == codebooks.KSIGNS_SHA256


@pytest.mark.parametrize("case", [k for k in keys(".values") if k.startswith("mlx_affine")])
def test_mlx_affine(case):
    _, b, g, scale_type = case.split(".")
    values = quant.mlx_affine(GOLDEN[case + ".weight"], GOLDEN[case + ".scales"],
                              GOLDEN[case + ".biases"], int(b[1:]), int(g[1:]))
    wanted = GOLDEN[case + ".values"]
    if scale_type != "f32":  # the product is exact in float32: one rounding, no choice
        assert bits(values) == bits(wanted)
    # A float32 scale times a code rounds before the bias is added, unless fused.
    np.testing.assert_allclose(values, wanted, rtol=0, atol=2**-23 * np.abs(values).max())


@pytest.mark.parametrize("mode", quant.MLX_FP_MODES)
def test_mlx_fp(mode):
    values = quant.mlx_fp(mode, GOLDEN[f"mlx_{mode}.weight"], GOLDEN[f"mlx_{mode}.scales"])
    assert bits(values) == bits(GOLDEN[f"mlx_{mode}.values"])
