"""Trace files and buffers: every bit through reading, writing, numpy and DLPack."""

import ml_dtypes
import numpy as np
import pytest
import recoverssm
import safetensors
import safetensors.numpy
import torch
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from recoverssm import trace

FILES = sorted((ROOT / "traces").rglob("*.rst.safetensors"))


@pytest.mark.parametrize("path", FILES[::9], ids=lambda path: path.name)
def test_written_again_it_is_the_same(path, tmp_path):
    first = trace.read(path)
    first.write(tmp_path / "copy.rst.safetensors")
    second = trace.read(tmp_path / "copy.rst.safetensors")
    assert second.document == first.document
    assert set(second.tensors) == set(first.tensors)
    for name, tensor in first.tensors.items():
        assert tensor.dtype == second.tensors[name].dtype and tensor.tobytes() == second.tensors[name].tobytes()


def buffer_of(dtype: str, data: bytes) -> trace.Buffer:
    return trace.Buffer(np.frombuffer(bytearray(data), trace.DTYPES[dtype]))


@given(st.sampled_from(["BF16", "F16", "F32", "F64", "I32", "I64", "U8"]), st.binary(min_size=8, max_size=64))
def test_dlpack_keeps_every_bit_and_shares_memory(dtype, data):
    data = data[: len(data) // 8 * 8]
    buffer = buffer_of(dtype, data)
    tensor = torch.from_dlpack(buffer)
    assert tensor.view(torch.uint8).numpy().tobytes() == data  # NaN payloads, -0.0 and subnormals too
    tensor.view(torch.uint8).fill_(1)
    assert buffer.array.tobytes() == b"\1" * len(data)
    name = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64", "I32": "int32", "I64": "int64", "U8": "uint8"}
    assert tensor.dtype == getattr(torch, name[dtype])


def test_dlpack_of_flags_copies_and_other_devices():
    flags = trace.Buffer(np.array([True, False, True]))
    assert torch.from_dlpack(flags).tolist() == [True, False, True]
    array = np.from_dlpack(trace.Buffer(np.arange(3, dtype=np.int32)))
    assert array.tolist() == [0, 1, 2]
    with pytest.raises(BufferError):
        flags.__dlpack__(dl_device=(2, 0))
    empty = torch.from_dlpack(trace.Buffer(np.zeros(0, ml_dtypes.bfloat16)))
    assert empty.shape == (0,) and empty.dtype == torch.bfloat16


def test_views_are_strided_and_share_memory():
    buffers = {"x": trace.Buffer(np.arange(24, dtype=np.float32))}
    got = trace.view(buffers, {"buffer": "x", "offset": 1, "shape": [2, 3], "strides": [12, 2]})
    assert got.tolist() == [[1, 3, 5], [13, 15, 17]]
    got[1, 2] = -1
    assert buffers["x"].array[17] == -1
    assert trace.view(buffers, {"buffer": "x", "offset": 24, "shape": [0, 3], "strides": [3, 1]}).shape == (0, 3)


def test_initial_contents():
    about = {
        "a": {"dtype": "BF16", "elements": 3, "init": {"fill": 7.0}},
        "b": {"dtype": "F32", "elements": 2, "init": {"bytes": 255}},
        "c": {"dtype": "I32", "elements": 2, "init": "c.init"},
        "d": {"dtype": "I32", "elements": 2, "init": "c.init"},
    }
    recorded = trace.Trace({"name": "n", "buffers": about, "calls": []}, {"c.init": np.array([1, 2], np.int32)})
    buffers = recorded.buffers()
    assert buffers["a"].array.tolist() == [7, 7, 7]
    assert buffers["b"].array.view(np.uint32).tolist() == [2**32 - 1] * 2
    buffers["c"].array[0] = 9
    assert buffers["d"].array.tolist() == [1, 2] and recorded.buffers()["c"].array.tolist() == [1, 2]


def test_files_that_are_no_traces(tmp_path):
    path = tmp_path / "x.rst.safetensors"
    path.write_bytes(safetensors.numpy.save({}, {"format": "pt"}))
    with pytest.raises(trace.Malformed, match="recoverssm_trace"):
        trace.read(path)
    path.write_bytes(safetensors.numpy.save({}, {"recoverssm_trace": "1", "document": "{"}))
    with pytest.raises(trace.Malformed, match="document"):
        trace.read(path)
    path.write_bytes(safetensors.numpy.save({}, {"recoverssm_trace": "1", "document": "{}"}))
    with pytest.raises(trace.Malformed, match="has no name"):
        trace.read(path)
    path.write_bytes(b"no file")
    with pytest.raises(safetensors.SafetensorError):
        trace.read(path)
    with pytest.raises(recoverssm.InvalidArgument, match="complex"):
        trace.Trace({"name": "", "buffers": {}, "calls": []}, {"z": np.zeros(2, complex)}).write(path)
