"""The policy in C: no warning, the same as torch, what it refuses; in WebAssembly too."""

import ctypes
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from helpers.exported_policies import POLICIES, exported, steps_of, write_c

from longstride.commands.export.forms import c_compiler, c_form, play_torch
from longstride.commands.export.parity import differences, limit_of
from longstride.policies.export.c_source import c_files
from longstride.policies.export.c_text import number_text
from longstride.policies.export.labels import Label, Labels
from longstride.simulators.spaces import Box

pytestmark = pytest.mark.skipif(c_compiler() is None, reason="no C compiler")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-O2"]


@pytest.mark.parametrize("name", POLICIES)
def test_it_computes_what_torch_does(name, tmp_path):
    """All steps of several episodes, whose state begins anew."""
    spec, params, _ = exported(name)
    steps = steps_of(name)
    reference, play = play_torch(spec, params, steps), c_form(write_c(name, tmp_path), c_compiler(), tmp_path, spec)
    found = differences(spec, steps, reference, {"C": play(steps)}, ("C",))["C"]
    assert found.within(limit_of(reference, steps))
    assert found.outputs < 2e-5


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_it_compiles_without_a_warning(compiler, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    for name in POLICIES:
        source = write_c(name, tmp_path)
        command = [compiler, *STRICT, "-c", str(source), "-o", str(tmp_path / "policy.o")]
        assert (name, subprocess.run(command, capture_output=True, text=True).stderr) == (name, "")
        assert not re.findall(r"#include|malloc", source.read_text())


def test_the_header_belongs_to_it_and_to_cpp(tmp_path):
    write_c("remembering shop", tmp_path)
    (tmp_path / "main.c").write_text('#include "policy.h"\n#include "policy.c"\nint main(void) { return POLICY_OK; }\n')
    subprocess.run([c_compiler(), *STRICT, str(tmp_path / "main.c"), "-o", str(tmp_path / "main")], check=True)
    if shutil.which("c++"):
        (tmp_path / "main.cpp").write_text('#include "policy.h"\nint main() { return policy_act(0, 0, 0, 0, 0); }\n')
        subprocess.run([c_compiler(), "-c", "policy.c"], cwd=tmp_path, check=True)
        subprocess.run(["c++", "-Wall", "-Werror", "main.cpp", "policy.o", "-o", "main"], cwd=tmp_path, check=True)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Return a call of ``policy_act`` of a policy with memory, masks and features, on arrays."""
    folder = tmp_path_factory.mktemp("shop")
    source = write_c("remembering shop", folder)
    library = folder / "policy.so"
    subprocess.run([c_compiler(), "-shared", "-fPIC", "-O2", "-o", str(library), str(source)], check=True)
    function = ctypes.CDLL(str(library)).policy_act

    def act(observation, mask, features, state):
        action = np.full(1, -7, np.int32)
        arrays = [np.asarray(observation, np.float32), mask, np.asarray(features, np.float32), state, action]
        status = function(*(None if a is None else ctypes.c_void_p(a.ctypes.data) for a in arrays))
        return status, int(action[0])

    return act


@pytest.mark.parametrize(
    ("change", "status"),
    [("none", 0), ("nan", 1), ("infinite", 1), ("features", 1), ("mask", 2)],
)
def test_a_refused_step_changes_nothing(shop, change, status):
    observation, features = np.zeros(4, np.float32), np.zeros((4, 2), np.float32)
    mask, state = np.array([True, False, True, True]), np.full(32, 0.5, np.float32)
    if change in ("nan", "infinite"):
        observation[3] = np.nan if change == "nan" else -np.inf
    if change == "features":
        features[1, 1] = np.nan
    if change == "mask":
        mask[:] = False
    found, action = shop(observation, mask, features, state)
    assert found == status
    assert (action == -7) == (status != 0)
    assert (state == 0.5).all() == (status != 0)


@pytest.mark.parametrize("name", ["shop", "choices", "tracker"])
def test_draws_have_the_distribution_of_the_policy(name, tmp_path):
    """Of one observation; a seed repeats its draws."""
    spec, _, contract = exported(name)
    source, library = write_c(name, tmp_path), tmp_path / "policy.so"
    subprocess.run([c_compiler(), *STRICT, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    step, draw = (getattr(ctypes.CDLL(str(library)), function) for function in ("policy_step", "policy_draw"))
    steps, count = steps_of(name), 20_000
    mask = steps.masks[0] if steps.masks.size else None
    features = steps.features[0] if steps.features.size else None
    outputs, is_box = np.zeros(spec.action_space.outputs, np.float32), isinstance(spec.action_space, Box)
    given = [None if a is None else ctypes.c_void_p(a.ctypes.data) for a in (steps.observations[0], mask, features)]
    assert step(*given, None, ctypes.c_void_p(outputs.ctypes.data)) == 0

    def drawn(seed):
        size = outputs.size if is_box else len(spec.action_space.choices)
        actions, random = np.zeros((count, size), np.float32 if is_box else np.int32), ctypes.c_ulonglong(seed)
        for row in actions:
            assert draw(*given, None, ctypes.byref(random), ctypes.c_void_p(row.ctypes.data)) == 0
        return actions

    actions = drawn(1)
    np.testing.assert_array_equal(actions[:100], drawn(1)[:100])
    assert (actions != drawn(2)).any()
    if is_box:
        space, deviations = spec.action_space, contract["distribution"]["standard_deviation"]
        normal = np.random.default_rng(0).standard_normal((count, outputs.size))
        expected = np.clip(space.centre + space.scales * (outputs + deviations * normal), *space.bounds)
        for quantile in (0.05, 0.25, 0.5, 0.75, 0.95):
            found, wanted = (np.quantile(each, quantile, axis=0) for each in (actions, expected))
            np.testing.assert_allclose(found, wanted, atol=0.1 * max(deviations))
        return
    for i, logits in enumerate(np.split(outputs.astype(np.float64), np.cumsum(spec.action_space.choices)[:-1])):
        shares = np.exp(logits - logits.max())
        found = np.bincount(actions[:, i], minlength=len(logits)) / count
        np.testing.assert_allclose(found, shares / shares.sum(), atol=0.02)  # five standard deviations


def test_no_mask_allows_everything(shop):
    observation, features = np.ones(4), np.ones((4, 2))
    states = [np.zeros(32, np.float32) for _ in range(2)]
    assert shop(observation, None, features, states[0]) == shop(observation, np.ones(4, bool), features, states[1])


def test_constants_are_the_parameters_to_the_bit():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    values = [*values[np.isfinite(values)], np.float32(0), np.float32(-0.0), np.float32(3), np.float32(1e-45)]
    for value in values:
        text = number_text(value)
        assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?f", text) and ("." in text or "e" in text)
        assert np.float32(text.removesuffix("f")).tobytes() == np.float32(value).tobytes()


HOSTILE = [
    "x*\\ ; int injected; \\*",
    "..*\\ ..",
    "*/ #error",
    "trailing\\",
    "??/",
    '"; int injected; "',
    "a\nint injected;",
    "\r#error",
    "%s%n",
    "KIND OUTPUTS DEFINES NAMES",
    "Prüfung 審査",
    "\ud800",
]


@pytest.mark.parametrize("name", ["tracker", "remembering shop"])
def test_names_of_users_are_string_literals_alone(name, tmp_path):
    spec, params, _ = exported(name)
    sizes = (spec.observation_size, spec.action_space.outputs, spec.action_features)
    labels = Labels(*(tuple(Label(HOSTILE[i % len(HOSTILE)], "m\\") for i in range(size)) for size in sizes))
    hostile, harmless = c_files(spec, params, labels, "\\*/ #error"), c_files(spec, params, Labels(), "")
    outside = re.sub(r'"(?:[^"\\\n]|\\[0-7]{3})*"', "", hostile.source)
    assert "injected" not in outside and "#error" not in outside and outside.isascii()
    assert len(hostile.header) < len(harmless.header) + 250, "the header has no text of users"
    (tmp_path / "policy.c").write_text(hostile.source)
    command = [c_compiler(), *STRICT, "-trigraphs", "-shared", "-fPIC", "policy.c", "-o", "policy.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "policy.so"))
    assert not hasattr(library, "injected")
    read = (ctypes.c_char_p * spec.observation_size).in_dll(library, "policy_observation_names")
    names = [f"{HOSTILE[i % len(HOSTILE)]} (m\\)" for i in range(spec.observation_size)]
    assert [text.decode() for text in read] == [each.encode("utf-8", "backslashreplace").decode() for each in names]


WASM = [
    "--target=wasm32",
    "-std=c99",
    "-O2",
    "-ffreestanding",
    "-nostdlib",
    "-Wl,--no-entry",
    "-Wl,--export=policy_act",
]
NODE = """
const {readFileSync} = require("fs");
const {sizes, rows} = JSON.parse(readFileSync(0, "utf8"));
const {exports: wasm} = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(process.argv[2])));
const at = wasm.__heap_base.value, view = () => new DataView(wasm.memory.buffer);
const [observation, mask, features, state, action] = sizes.map((_, i) => at + 16384 * i);
wasm.memory.grow(2);
const put = (where, numbers) => numbers.forEach((x, i) => view().setFloat32(where + 4 * i, x, true));
const results = rows.map(row => {
  if (row.begins) put(state, Array(sizes[3]).fill(0));
  put(observation, row.observation); put(features, row.features);
  row.mask.forEach((x, i) => view().setUint8(mask + i, x));
  const status = wasm.policy_act(observation, row.mask.length ? mask : 0, features, state, action);
  const read = i => row.numbers ? view().getFloat32(action + 4 * i, true) : view().getInt32(action + 4 * i, true);
  return [status, ...Array.from({length: sizes[4]}, (_, i) => read(i))];
});
console.log(JSON.stringify(results));
"""


@pytest.mark.skipif(not all(map(shutil.which, ("clang", "wasm-ld", "node"))), reason="needs clang, wasm-ld and node")
@pytest.mark.parametrize("name", ["shop", "remembering choices", "remembering squashed", "attending"])
def test_it_runs_as_webassembly(name, tmp_path):
    spec, params, _ = exported(name)
    steps, module = steps_of(name), tmp_path / "policy.wasm"
    source = write_c(name, tmp_path)
    subprocess.run(["clang", *WASM, "-Wl,--export=__heap_base", "-o", str(module), str(source)], check=True)
    (tmp_path / "run.js").write_text(NODE)
    is_box = isinstance(spec.action_space, Box)
    actions = play_torch(spec, params, steps)[1]
    rows = [
        {"observation": o.tolist(), "mask": m.astype(int).tolist(), "features": f.ravel().tolist(), "begins": bool(b)}
        for o, m, f, b in zip(*steps, strict=True)
    ]
    sizes = [spec.observation_size, steps.masks.shape[1], spec.action_features, spec.state_size, actions.shape[1]]
    task = json.dumps({"sizes": sizes, "rows": [{**row, "numbers": is_box} for row in rows]})
    command = ["node", str(tmp_path / "run.js"), str(module)]
    found = np.array(json.loads(subprocess.run(command, input=task, capture_output=True, text=True, check=True).stdout))
    assert (found[:, 0] == 0).all()
    if is_box:
        np.testing.assert_allclose(found[:, 1:], actions, atol=2e-5)
    else:
        np.testing.assert_array_equal(found[:, 1:], actions)
