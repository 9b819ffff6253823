"""Operations of the C ABI (include/recoverssm/recoverssm.h) on torch tensors, on the device that the tensors are on and its current stream."""

import ctypes

import torch

DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.int32: 4, torch.bool: 7}
GATES = {"gdn": 0, "kda": 1}
LINE_ANCHORED, SILU = 2, 1


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("dims", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 4),
        ("stride", ctypes.c_int64 * 4),
        ("reserved", ctypes.c_int64 * 2),
    ]


def struct(name, **fields):
    return type(name, (ctypes.Structure,), {"_fields_": [("struct_size", ctypes.c_size_t), *fields.items()]})


T, P, I32, F32 = Tensor, ctypes.c_void_p, ctypes.c_int32, ctypes.c_float
STRUCTS = {
    "rows": struct("Rows", query_start_loc=T, state_indices=T, has_initial_state=T, num_accepted=T, token_index=T, window_capacity=I32,
                   null_block_id=I32),
    "rule_inputs": struct("RuleInputs", q=T, k=T, v=T, a=T, b=T, A_log=T, dt_bias=T, gate=I32, l2norm=I32, has_lower_bound=I32,
                          lower_bound=F32, has_scale=I32, scale=F32, softplus_beta=F32, softplus_threshold=F32),
    "records": struct("Records", packed=T, corrections=T, key_gate=T),
    "gated_delta_rule_verify_params": struct("Verify", inputs=P, rows=P, records=P, state=T, out=T, pending=T),
    "gated_delta_rule_params": struct("Rule", inputs=P, rows=P, records=P, state=T, out=T, pending=T),
    "causal_conv1d_window_params": struct("Conv", x=T, weight=T, bias=T, out=T, line=T, rows=P, activation=I32, line_kind=I32),
    "launch": struct("Launch", workspace=P, workspace_bytes=ctypes.c_size_t, parallel_run=P, parallel_self=P, counters=P,
                     parallel_workers=I32, target=I32, stream=P, flag=P, backend=I32, reserved=I32),
}  # fmt: skip


def view(tensor):
    """The struct of a torch tensor; None: absent."""
    found = Tensor(dims=-1)
    if tensor is None:
        return found
    found.data, found.dtype, found.dims = tensor.data_ptr(), DTYPES[tensor.dtype], tensor.dim()
    for i, (size, step) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        found.shape[i], found.stride[i] = size, step
    return found


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.recoverssm_last_error.restype = ctypes.c_char_p
        self.c.recoverssm_version.restype = ctypes.c_char_p

    def make(self, name, **values):
        """A struct with its defaults and these values; torch tensors become views, other structs pointers. It keeps what it points to."""
        made = STRUCTS[name]()
        init = getattr(self.c, f"recoverssm_{name}_init")
        init.restype = None
        init(ctypes.byref(made), ctypes.c_size_t(ctypes.sizeof(made)))
        kept = []
        for field, value in values.items():
            kept.append(value)
            if isinstance(value, torch.Tensor):
                value = view(value)
            elif isinstance(value, ctypes.Structure):
                value = ctypes.addressof(value)
            setattr(made, field, value)
        made.kept = kept
        return made

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.c.recoverssm_last_error().decode())

    def call(self, operation, device, **values):
        """Params made once; what comes back launches them on the stream that is current then."""
        params = self.make(f"{operation}_params", **values)
        backend = 1 if device == "cuda" else 0
        launch, size = self.make("launch", backend=backend), ctypes.c_size_t()
        self.check(getattr(self.c, f"recoverssm_{operation}_workspace_size")(ctypes.byref(params), ctypes.byref(launch), ctypes.byref(size)))
        workspace = torch.empty(size.value + 64, dtype=torch.uint8, device=device)
        launch.workspace = (workspace.data_ptr() + 63) // 64 * 64
        launch.workspace_bytes = size.value
        run = getattr(self.c, f"recoverssm_{operation}_run")

        def go():
            launch.stream = torch.cuda.current_stream().cuda_stream if backend else None
            self.check(run(ctypes.byref(params), ctypes.byref(launch)))

        go.kept = (params, launch, workspace)
        return go
