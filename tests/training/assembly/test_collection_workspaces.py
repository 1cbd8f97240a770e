"""The memory of an update beside a policy that plays on the same GPU."""

from types import SimpleNamespace

import pytest
from helpers.random_rollouts import random_model

pytest.importorskip("pydantic")

from longstride.training.assembly.plan import update_memory


@pytest.mark.parametrize(("capability", "each"), [((9, 0), 1 << 25), ((8, 0), (1 << 23) + (1 << 17))])
def test_a_policy_that_plays_on_the_gpu_has_two_workspaces_of_its_own(capability, each):
    spec, gpu = random_model("discrete").spec, SimpleNamespace(capability=capability)
    room = {
        where: update_memory(
            spec,
            SimpleNamespace(
                precision="fp32",
                batch_size=64,
                microbatch=64,
                update_threads=1,
                gradient_checkpointing=False,
                collect_on=where,
            ),
            gpu,
            250,
            2,
        )
        for where in ("cpu", "gpu")
    }
    assert room["gpu"].workspace - room["cpu"].workspace == 2 * each
    assert room["gpu"].peak - room["cpu"].peak == 2 * each
