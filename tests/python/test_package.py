"""The installed package without tensors: info, sizes, windows, what the libraries need, the documents' snippets."""

import re
import shutil
import subprocess
import sys
from importlib import metadata, resources

import numpy as np
import pytest
import recoverssm
from conftest import ROOT


def test_info_and_version():
    info = recoverssm.info()
    assert info.version == recoverssm.__version__ == metadata.version("recoverssm")
    assert info.targets[-1] == "portable"
    assert info.torch and not info.torch_missing


def test_sizes():
    sizes = recoverssm.sizes(H=16, HV=48, K=128, V=128, W=4, S=4)
    assert sizes.state == 3145728 and sizes.records == 197376
    channels = 2 * 16 * 128 + 48 * 128
    assert sizes.line_rolled == (3 + 3) * channels * 2 and sizes.line_anchored == (3 + 4) * channels * 2
    assert sizes.page_rolled == sizes.state + sizes.records + sizes.line_rolled
    assert sizes.snapshots == 4 * sizes.state + sizes.line_rolled
    kda = recoverssm.sizes(H=2, HV=2, K=8, V=4, S=3, gate="kda", activation="f32", state="bf16")
    assert kda.state == 2 * 4 * 8 * 2 and kda.records == 2 * 3 * (4 * 4 + 2 * 8 * 4)


@pytest.mark.parametrize("change", [{"HV": 5}, {"S": 0}, {"gate": "rnn"}, {"activation": "i32"}, {"K": 2**40}])
def test_sizes_of_no_geometry(change):
    with pytest.raises(recoverssm.InvalidArgument, match="sizes"):
        recoverssm.sizes(**{"H": 2, "HV": 4, "K": 8, "V": 8} | change)


def test_map_windows():
    windows = recoverssm.map_windows([-1, 3, 0, -1, -1], [True, False, False, False, False], [7, 4, 1, 1, 0])
    assert windows.rows.tolist() == [1, 2, 3] and windows.rows.dtype == np.int32 and not windows.identity
    assert recoverssm.map_windows([1, 0], [False, False], [2, 1]).identity
    with pytest.raises(recoverssm.OutOfRange):
        recoverssm.map_windows([-2], [False], [1])
    with pytest.raises(recoverssm.InvalidArgument):
        recoverssm.map_windows([1, 2], [False], [1])


def test_files_of_the_package():
    files = {path.name for path in resources.files("recoverssm").iterdir()}
    assert {"py.typed", "librecoverssm.so", "librecoverssm_torch.so"} <= files
    wheel = metadata.distribution("recoverssm").read_text("WHEEL")
    assert "Tag: py3-none-linux_x86_64" in wheel


@pytest.mark.parametrize("name", ["librecoverssm.so", "librecoverssm_torch.so"])
def test_what_a_library_needs(name):
    """The C and C++ runtimes, Highway from beside it, and libtorch_cpu: no Python, no other part of torch."""
    if not shutil.which("readelf") or not shutil.which("nm"):
        pytest.skip("no readelf, no nm")
    path = str(resources.files("recoverssm") / name)
    dynamic = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    system = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"}
    expected = {"libtorch_cpu.so"} if "torch" in name else set()
    assert needed - system - {"libhwy.so.1"} == expected
    if "libhwy.so.1" in needed:
        assert (resources.files("recoverssm") / "libhwy.so.1").is_file()
        assert "[$ORIGIN]" in dynamic
    symbols = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout
    assert not re.search(r" _?Py[A-Z_]", symbols)
    assert not re.search(r" U .*(c10|N2at)", symbols), "a C++ symbol of torch is not of its stable ABI"


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Block())
"""


def without_torch(code: str) -> str:
    command = [sys.executable, "-c", BLOCKED + code]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_without_torch():
    code = """
import recoverssm
from recoverssm import trace
assert "torch" not in sys.modules
recorded = trace.read("traces/golden/verify_basic.k128v128.fp16_stbf16.rst.safetensors")
buffers = recorded.buffers()
print(recoverssm.info().version, recoverssm.sizes(H=1, HV=1, K=8, V=8).state, len(buffers))
print(sorted(str(buffer.array.dtype) for buffer in buffers.values()))
try:
    recoverssm.ops
except ImportError as error:
    print(error)
try:
    import recoverssm.trace.replay
except ImportError as error:
    print(error)
"""
    lines = without_torch(code).splitlines()
    assert lines[0].startswith(f"{recoverssm.__version__} 256 ")
    assert "bfloat16" in lines[1]
    assert lines[2] == lines[3] == "recoverssm.ops needs PyTorch 2.10 or later, which is not installed"


def test_a_package_built_without_torch_says_so(tmp_path):
    package = shutil.copytree(str(resources.files("recoverssm")), tmp_path / "recoverssm")
    (package / "librecoverssm_torch.so").unlink()
    about = package / "_build.py"
    about.write_text(about.read_text() + 'TORCH_VERSION, TORCH_MISSING = "", "no torch package was there to build against"\n')
    code = """
import recoverssm
print(recoverssm.info().torch_missing)
try:
    recoverssm.ops
except ImportError as error:
    print(error)
"""
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path).stdout.splitlines()
    assert lines[0] == "no torch package was there to build against"
    assert "without its PyTorch operations: no torch package was there" in lines[1] and "--no-build-isolation" in lines[1]


def test_import_does_not_import_torch():
    code = "import sys, recoverssm, recoverssm.trace; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_snippets_of_the_document():
    """docs/python.md: all of its Python, in one process, in order, from the repository's root; and what its comments say is printed."""
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)
    assert len(snippets) >= 2
    command = [sys.executable, "-c", "\n".join(snippets)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0, result.stderr
    assert "197376" in result.stdout
    assert "invalid_argument commit_plan: state_indices: dtype i64, expected i32" in result.stdout


def test_every_operation_has_a_text():
    from recoverssm import ops

    for name in ops.OPERATIONS:
        text = getattr(ops, name).__doc__
        assert text and ("ritten" in text or "copies" in text), name
