"""Checks whether a policy can play a scenario other than its own."""

from longstride.policies.spec import PolicySpec
from longstride.process.scenario.at_once import without_slots
from longstride.process.simulator import ProcessSimulator

_PARTS = ("observation", "action", "features")


def why_not(spec: PolicySpec, own: ProcessSimulator, other: ProcessSimulator) -> str:
    """Return a sentence why a policy cannot play another scenario; empty if it can.

    A policy that scores descriptions plays any scenario. A policy with an output for each pair needs the same people,
    activities and skills in the same order; hours, times and numbers of cases may differ.

    Args:
        spec: spec of the policy.
        own: simulator of the policy's own scenario.
        other: simulator of the other scenario.
    """
    if spec.scores_actions or all(own.labels[part] == other.labels[part] for part in _PARTS):
        return ""
    family = spec.family.name
    there, here = (set(without_slots(each.scenario).resources) for each in (other, own))
    if there != here:
        names = sorted(there ^ here)
        what = f"the people are others there ({', '.join(names[:3])}{' and more' if len(names) > 3 else ''})"
    else:
        what = "the pairs of people and activities, or what it sees, are others there"
    return (
        f"The policy ({family}) has an output for each pair of person and activity of its own scenario, and {what}: it "
        "has to be trained again, or replaced by one with POLICY_NETWORK = pointer, which plays with any people. Here "
        "heuristics are compared."
    )
