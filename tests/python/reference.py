"""The operations in float64 numpy, in another formulation than the library's: the delta rule as products with the matrix
I - beta k k^T, outputs from the state after its update, commits by running the kept tokens again from their inputs."""

from __future__ import annotations

import numpy as np


def wide(x):
    """A tensor or an array in float64."""
    return x.double().numpy() if hasattr(x, "double") else np.asarray(x, np.float64)


def silu(x):
    return x * sigmoid(x)


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def softplus(x):
    return np.logaddexp(0, x)


def decay(a, A_log, dt_bias, lower_bound=None):
    """[tokens, HV] for gdn, [tokens, HV, K] for kda."""
    y = a + dt_bias
    rate = np.exp(A_log).reshape(A_log.shape + (1,) * (a.ndim - 2))
    if lower_bound is None:
        return np.exp(-rate * softplus(y))
    return np.exp(lower_bound * sigmoid(rate * y))


def normalised(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def delta_rule(call, tokens, state):
    """Runs tokens (a slice of local rows) from state [HV, V, K]. Returns outputs [L, HV, V] and the states after each token."""
    get = {name: wide(call[name])[tokens] for name in ("q", "k", "v", "a", "b")}
    ratio = get["v"].shape[1] // get["q"].shape[1]
    q, k = (np.repeat(normalised(get[name]), ratio, axis=1) for name in ("q", "k"))
    q = q * (call.get("scale") or get["q"].shape[-1] ** -0.5)
    gates = [wide(call[name]) for name in ("A_log", "dt_bias")]
    d = decay(get["a"], *gates, call.get("lower_bound"))
    d = d[..., None] if d.ndim == 2 else d
    beta = sigmoid(get["b"])
    identity = np.eye(q.shape[-1])
    outputs, states = [], []
    for t in range(len(q)):
        step = identity - beta[t][:, None, None] * k[t][:, :, None] * k[t][:, None, :]
        state = (state * d[t][:, None, :]) @ step + (beta[t][:, None] * get["v"][t])[:, :, None] * k[t][:, None, :]
        outputs.append(np.einsum("hvk,hk->hv", state, q[t]))
        states.append(state)
    return np.array(outputs).reshape(len(q), *get["v"].shape[1:]), states


def convolve(history, inputs, weight, bias, activation):
    """history [W-1, C], inputs [L, C], weight [C, W] -> [L, C]."""
    W = weight.shape[1]
    line = np.concatenate([history, inputs])
    out = np.stack([np.convolve(line[:, c], weight[c, ::-1], "valid") for c in range(line.shape[1])], 1)[: len(inputs)]
    assert len(line) == len(inputs) + W - 1
    out = out + (0 if bias is None else bias)
    return silu(out) if activation == "silu" else out


def split(qkvz, ba, layout, H, HV, K, V):
    """[n, ...] -> mixed_qkv, z, b, a."""
    n, r = len(qkvz), HV // H
    if layout == "flat":
        q, k, v, z = np.split(qkvz, np.cumsum([H * K, H * K, HV * V]), 1)
        b, a = ba[:, :HV], ba[:, HV:]
    else:
        heads = qkvz.reshape(n, H, 2 * K + 2 * r * V)
        q, k, v, z = (part.reshape(n, H * part.shape[2]) for part in np.split(heads, np.cumsum([K, K, r * V]), 2))
        b, a = (part.reshape(n, HV) for part in np.split(ba.reshape(n, H, 2 * r), 2, 2))
    return np.concatenate([q, k, v], 1), z.reshape(n, HV, V), b, a


def plan(counts, lengths, ids, S, block_table=None, num_computed=None, block_size=None, null=0):
    """Rows (commit_len, final, boundary, boundary_len)."""
    rows = []
    for i, (count, length, source) in enumerate(zip(counts, lengths, ids, strict=True)):
        kept = sorted([0, count, min(length, S)])[1]
        if source <= null or kept == 0:
            rows.append((0, null, null, 0))
        elif block_table is None:
            rows.append((kept, source, null, 0))
        else:
            start = num_computed[i]
            boundaries = [n for n in range(start + 1, start + kept + 1) if n % block_size == 0]
            upto = block_size - start % block_size
            final = block_table[i][-(-(start + kept) // block_size) - 1]
            rows.append((kept, final, block_table[i][boundaries[0] // block_size - 1] if boundaries else null, upto))
    return np.array(rows).reshape(-1, 4)


def short_conv(history, inputs, weight, dilation, rounded):
    """[N, C], [L, C], [C, Kc] -> y [L, C]; rounded: to the activations' dtype and back."""
    line = np.concatenate([history, inputs])
    taps = weight.shape[1]
    out = np.array([sum(weight[:, k] * line[j + dilation * k] for k in range(taps)) for j in range(len(inputs))])
    return rounded(silu(rounded(out.reshape(len(inputs), -1))))
