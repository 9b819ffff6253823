"""python -m recoverssm.trace."""

import cases
import pytest
import recoverssm
import torch
from command import replay_by_command
from conftest import ROOT
from recoverssm import ops, trace
from recoverssm.trace.__main__ import main
from recoverssm.trace._summary import rows_of
from recoverssm.trace.replay import replay

GOLDEN = sorted((ROOT / "traces").rglob("*.rst.safetensors"))


def recorded(folder, *calls):
    """The trace files of some calls."""
    with recoverssm.record(folder) as recorder:
        for operation, arguments in calls:
            cases.run(operation, arguments)
    assert len(recorder.files) == len(calls)
    return recorder.files


def test_inspect(tmp_path, capsys):
    (file,) = recorded(tmp_path, cases.make("gated_delta_rule_verify.lazy"))
    assert main(["inspect", str(file)]) == 0
    text = capsys.readouterr().out
    calls = trace.read(file).document["calls"]
    assert "gated_delta_rule_verify" in text and "window rows: 4, lengths [2 3 0 1]" in text and "accepted [" in text
    for name in calls[0]["args"]:
        if calls[0]["args"][name] is not None:
            assert name in text, name


@pytest.mark.parametrize("path", GOLDEN[::7], ids=lambda path: path.name)
def test_inspect_any_trace(path, capsys):
    assert main(["inspect", str(path)]) == 0
    assert trace.read(path).name in capsys.readouterr().out


def test_files_that_are_none(tmp_path, capsys):
    (tmp_path / "x").write_bytes(b"no file")
    assert main(["inspect", str(tmp_path / "x")]) == 2
    assert main(["inspect", str(tmp_path / "y")]) == 2
    assert capsys.readouterr().err.count("recoverssm.trace: ") == 2


PAIRS = {
    "convolutions": ("causal_conv1d", "causal_conv1d_window"),
    "rules": ("gated_delta_rule", "gated_delta_rule_verify"),
    "lazy rules": ("gated_delta_rule", "gated_delta_rule_verify.lazy"),
    "attention": ("gdn_attention (plain rows only)", "gdn_attention.verify (windows only)"),
    "attention, lazy plain rows": ("gdn_attention.plain_lazy", "gdn_attention.verify (windows only)"),
}
LAYER = ("weight", "bias", "A_log", "dt_bias")


def pair(folder, plain, window, **changes):
    """A plain and a window capture of one layer, the second of other rows and pools."""
    one, two = cases.make(plain, 0), cases.make(window, 1, cases.Shape(lengths=(3, 1, 2), blocks=17))
    two[1].update({name: one[1][name] for name in LAYER if name in one[1]}, **changes)
    if "conv" in plain:
        one[1]["line"] = cases.Maker(cases.Shape()).line(two[1]["line"].shape[1])
        one[1]["line_kind"] = two[1]["line_kind"]
    return recorded(folder, one, two)


@pytest.mark.parametrize("name", PAIRS)
def test_merge(name, tmp_path, capsys):
    plain, window = pair(tmp_path / "captures", *PAIRS[name])
    out = tmp_path / "merged.rst.safetensors"
    assert main(["merge", str(plain), str(window), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "OTHER" not in printed and "plain out" in printed and "window out" in printed
    merged = trace.read(out)
    assert replay(merged)["ok"]
    replay_by_command([out], calls=len(merged.document["calls"]))
    if "attention" in name:
        args = merged.document["calls"][0]["args"]
        assert len(merged.document["calls"]) == 1 and args["plain"] and args["windows"]
    blocks = [set(rows.blocks[rows.lengths > 0]) for call in merged.document["calls"] for rows in rows_of(call, merged.buffers())]
    assert all(blocks) and not blocks[0] & blocks[1]
    # The windows' part is looked at: other drafts give other bits than the capture's.
    merged.tensors["expected0"] = merged.tensors["expected0"] * 2 + 1
    assert not replay(merged)["ok"]


def test_what_cannot_be_merged(tmp_path, capsys):
    plain, window = pair(tmp_path, *PAIRS["rules"], A_log=torch.zeros(2))
    assert main(["merge", str(plain), str(window)]) == 2
    assert main(["merge", str(window), str(plain)]) == 2
    text = capsys.readouterr().err
    assert "A_log: other in the two captures" in text and "gated_delta_rule_verify and gated_delta_rule" in text


@pytest.mark.parametrize("layout", ["flat", "interleaved"])
@pytest.mark.parametrize("name", ["split_projections", "gdn_attention.verify"])
def test_repack(name, layout, tmp_path, capsys):
    operation, arguments = cases.make(name, shape=cases.Shape(H=2, HV=4))
    (file,) = recorded(tmp_path / "captures", (operation, arguments | {"layout": layout}))
    out = tmp_path / "out.rst.safetensors"
    assert main(["repack", str(file), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "OTHER" not in text and "qkvz there and back" in text and "z" in text
    args = trace.read(out).document["calls"][0]["args"]
    assert args["layout"] != layout
    assert trace.read(out).tensors[f"call.qkvz.{args['layout']}.init"].tobytes() != arguments["qkvz"].numpy().tobytes()
    replay_by_command([out])


def test_repack_needs_projections(tmp_path, capsys):
    (file,) = recorded(tmp_path, cases.make("commit"))
    assert main(["repack", str(file)]) == 2
    assert "no call with projections" in capsys.readouterr().err


DIFFERED = ["causal_conv1d", "causal_conv1d_window", "gated_delta_rule", "gated_delta_rule_verify", "gated_delta_rule_verify.kda"]
DIFFERED += ["gdn_attention (plain rows only)", "gdn_attention.verify"]


@pytest.mark.parametrize("change", [{}, {"scale": 0.5}, {"l2norm": False, "scale": None}], ids=str)
@pytest.mark.parametrize("name", DIFFERED)
def test_diff(name, change, tmp_path, capsys):
    pytest.importorskip("transformers", reason="diff needs transformers")
    if "conv" in name and change:
        pytest.skip("convolutions have no scale and no norm")
    operation, arguments = cases.make(name)
    if "l2norm" in change:
        arguments.update({part: arguments[part] * 0.3 for part in ("q", "k") if part in arguments})
    (file,) = recorded(tmp_path, (operation, arguments | change))
    code = main(["diff", str(file), "--atol", "1e-4", "--rtol", "1e-4"])
    text = capsys.readouterr().out
    assert code == 0, text
    kinds = {line.split()[0] for line in text.splitlines()[1:]}
    assert kinds == ({"plain", "window"} if name == "gdn_attention.verify" else {"window" if "window" in name or "verify" in name else "plain"})
    # A wrong figure in what the operation reads is another result than transformers': the comparison can fail.
    one = trace.read(file)
    summary = diff_of(one, name)
    assert not summary.ok and any(each.far for each in summary.classes.values())


def diff_of(one, name):
    """The difference where the operation ran with another input than the recomputation."""
    from recoverssm.trace import _diff

    original = _diff.execute

    def disturbed(of):
        changed = trace.Trace(of.document, {key: array + (array.dtype.kind == "f") * array for key, array in of.tensors.items()})
        return original(changed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_diff, "execute", disturbed)
        return _diff.diff([one])


def test_diff_sums_up_and_says_what_it_left_out(tmp_path, capsys):
    pytest.importorskip("transformers", reason="diff needs transformers")
    names = ["commit", "gated_delta_rule_verify", "commit_plan", "gated_delta_rule.lazy"]
    _, plan = cases.make("commit_plan")
    plan["num_accepted"] = torch.tensor([1, 3, 0, 1], dtype=torch.int32)
    files = recorded(tmp_path, *(("commit_plan", plan) if name == "commit_plan" else cases.make(name) for name in names))
    assert main(["diff", *map(str, files)]) == 0
    text = capsys.readouterr().out
    assert "left out: 1 x commit: transformers has no such function" in text and "(lazy)" in text
    lines = {tuple(line.split()[:2]): line.split()[-1] for line in text.splitlines() if line.startswith("window")}
    assert lines[("window", "2")] == "1..1" and lines[("window", "3")] == "3..3"
    assert main(["diff", str(files[0])]) == 1  # nothing was recomputed


def test_diff_takes_accepted_counts_from_the_commit_behind_a_window(tmp_path, capsys):
    pytest.importorskip("transformers", reason="diff needs transformers")
    maker = cases.Maker(cases.Shape(lengths=(2, 3)))
    verify = {**maker.rule(), "records": maker.records(), "window_capacity": 3}
    group = maker.commit_group()
    group.state_indices = group.final_indices = verify["state_indices"]
    group.boundary_indices, group.boundary_len = torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    group.commit_len = torch.tensor([1, 2], dtype=torch.int32)
    layer = ops.Layer(state=verify["state"], records=verify["records"])
    commit = {"groups": [group], "layers": [layer], "window_capacity": 3}
    files = recorded(tmp_path, ("gated_delta_rule_verify", verify), ("commit", commit))
    assert main(["diff", *map(str, files)]) == 0
    lines = {tuple(line.split()[:2]): line.split()[-1] for line in capsys.readouterr().out.splitlines() if line.startswith("window")}
    assert lines == {("window", "2"): "1..1", ("window", "3"): "2..2"}


@pytest.mark.parametrize("ending", ["svg", "png"])
@pytest.mark.parametrize("name", ["gdn_attention.verify", "commit", "align_advance", "gated_delta_rule_verify.lazy"])
def test_plot(name, ending, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="plot needs matplotlib")
    (file,) = recorded(tmp_path / "captures", cases.make(name))
    out = tmp_path / f"figure.{ending}"
    assert main(["plot", str(file), str(out)]) == 0
    data = out.read_bytes()
    assert len(data) > 5000 and (data.startswith(b"\x89PNG") if ending == "png" else b"<svg" in data)
    assert main(["plot", str(file), str(tmp_path / "figure.txt")]) == 2
    assert main(["plot", str(file), str(out), "--call", "1"]) == 2
    assert "ends in .svg or .png" in capsys.readouterr().err
