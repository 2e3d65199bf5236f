"""no_framework.sh bites: programs that link, load or carry a framework are refused."""

import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).parent / "no_framework.sh"


def compile_cc(tmp_path, source, output, *flags):
    (tmp_path / "a.cc").write_text(source)
    subprocess.run(["g++", tmp_path / "a.cc", "-o", tmp_path / output, *flags],
                   check=True, cwd=tmp_path)
    return tmp_path / output


def run(binary):
    return subprocess.run([SCRIPT, binary], capture_output=True, text=True)


def test_a_plain_program_passes(tmp_path):
    done = run(compile_cc(tmp_path, "int main() { return 0; }", "plain"))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("library", ["openblas", "ggml-base", "torch_cpu", "onnxruntime", "mkl_rt"])
def test_a_linked_library_is_found(tmp_path, library):
    compile_cc(tmp_path, "int work() { return 0; }", f"lib{library}.so", "-shared", "-fPIC",
               f"-Wl,-soname,lib{library}.so.0")
    program = compile_cc(tmp_path, "int work(); int main() { return work(); }", "program",
                         "-L.", f"-l{library}")
    done = run(program)
    assert done.returncode == 1
    assert "a linked library names a framework" in done.stdout


@pytest.mark.parametrize("symbol", ["cblas_sgemm", "sgemm_", "ggml_init", "LAPACKE_sgesv"])
def test_a_static_symbol_is_found(tmp_path, symbol):
    done = run(compile_cc(
        tmp_path, f'extern "C" __attribute__((used)) void {symbol}() {{}} int main() {{}}', "static"))
    assert done.returncode == 1
    assert f"a symbol names a framework: {symbol}" in done.stdout


def test_a_name_to_load_later_is_found(tmp_path):
    done = run(compile_cc(
        tmp_path, '#include <cstdio>\nint main() { puts("libopenblas.so.0"); }', "dlopen"))
    assert done.returncode == 1
    assert "a string names a framework" in done.stdout


def test_an_absent_binary_fails(tmp_path):
    assert run(tmp_path / "absent").returncode == 1
