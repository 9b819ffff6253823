"""The few operations of librecoverssm.so that the comparison needs, through the C ABI (include/recoverssm/recoverssm.h) by ctypes.

A call object is made once and holds its structs and tensors; running it costs one foreign call.
"""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int32, c_int64, c_size_t, c_void_p, sizeof

import torch

DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.int32: 4, torch.bool: 7}


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("dims", c_int32), ("shape", c_int64 * 4), ("stride", c_int64 * 4),
                ("reserved", c_int64 * 2)]

    def set(self, tensor):
        self.data, self.dtype, self.dims = tensor.data_ptr(), DTYPES[tensor.dtype], tensor.dim()
        for d in range(tensor.dim()):
            self.shape[d], self.stride[d] = tensor.shape[d], tensor.stride(d)


class Rows(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("query_start_loc", Tensor), ("state_indices", Tensor), ("has_initial_state", Tensor),
                ("num_accepted", Tensor), ("token_index", Tensor), ("window_capacity", c_int32), ("null_block_id", c_int32)]


class RuleInputs(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("q", Tensor), ("k", Tensor), ("v", Tensor), ("a", Tensor), ("b", Tensor), ("A_log", Tensor),
                ("dt_bias", Tensor), ("gate", c_int32), ("l2norm", c_int32), ("has_lower_bound", c_int32), ("lower_bound", c_float),
                ("has_scale", c_int32), ("scale", c_float), ("softplus_beta", c_float), ("softplus_threshold", c_float)]


class Records(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("packed", Tensor), ("corrections", Tensor), ("key_gate", Tensor)]


class RuleParams(ctypes.Structure):
    """gated_delta_rule and gated_delta_rule_verify have the same fields; plain rows do not name records."""
    _fields_ = [("struct_size", c_size_t), ("inputs", POINTER(RuleInputs)), ("rows", POINTER(Rows)), ("records", POINTER(Records)),
                ("state", Tensor), ("out", Tensor), ("pending", Tensor)]


class Launch(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("workspace", c_void_p), ("workspace_bytes", c_size_t), ("parallel_run", c_void_p),
                ("parallel_self", c_void_p), ("counters", c_void_p), ("parallel_workers", c_int32), ("target", c_int32)]


class Library:
    def __init__(self, path, threads):
        self.c = ctypes.CDLL(path)
        self.c.recoverssm_last_error.restype = c_char_p
        self.c.recoverssm_version.restype = c_char_p
        self.c.recoverssm_target_name.restype = c_char_p
        self.context = c_void_p()
        self.must(self.c.recoverssm_context_create(threads, byref(self.context)))

    def must(self, status):
        if status != 0:
            raise RuntimeError(self.c.recoverssm_last_error().decode())

    def version(self):
        return self.c.recoverssm_version().decode()

    def target(self):
        resolved = c_int32()
        self.must(self.c.recoverssm_resolve_target(0, byref(resolved)))
        return self.c.recoverssm_target_name(resolved).decode()

    def init(self, struct, name):
        getattr(self.c, f"recoverssm_{name}_init")(byref(struct), c_size_t(sizeof(struct)))
        return struct


class RuleCall:
    """One call of an operation with RuleParams. tensors: q, k, v, a, b, A_log, dt_bias, state, out, offsets, blocks, records or None."""

    def __init__(self, library, op, window, **tensors):
        self.library, self.tensors = library, tensors
        self.inputs = library.init(RuleInputs(), "rule_inputs")
        for name in ("q", "k", "v", "a", "b", "A_log", "dt_bias"):
            getattr(self.inputs, name).set(tensors[name])
        self.rows = library.init(Rows(), "rows")
        self.rows.query_start_loc.set(tensors["offsets"])
        self.rows.state_indices.set(tensors["blocks"])
        self.rows.window_capacity = window
        self.rows.null_block_id = -1  # block 0 is in use
        self.params = library.init(RuleParams(), f"{op}_params")
        self.params.inputs, self.params.rows = ctypes.pointer(self.inputs), ctypes.pointer(self.rows)
        self.params.state.set(tensors["state"])
        self.params.out.set(tensors["out"])
        if tensors.get("records") is not None:
            self.records = library.init(Records(), "records")
            self.records.packed.set(tensors["records"])
            self.params.records = ctypes.pointer(self.records)
        self.launch = library.init(Launch(), "launch")
        library.must(library.c.recoverssm_context_launch(library.context, c_size_t(0), byref(self.launch)))
        bytes_needed = c_size_t()
        library.must(getattr(library.c, f"recoverssm_{op}_workspace_size")(byref(self.params), byref(self.launch), byref(bytes_needed)))
        self.workspace = torch.empty(bytes_needed.value + 64, dtype=torch.uint8)
        self.launch.workspace = (self.workspace.data_ptr() + 63) // 64 * 64
        self.launch.workspace_bytes = bytes_needed.value
        self.function = getattr(library.c, f"recoverssm_{op}_run")
        self.arguments = (byref(self.params), byref(self.launch))

    def __call__(self):
        self.library.must(self.function(*self.arguments))
