"""The manifest of the how-to: its frame against the fields of KubeRay's API, its pods against those of Kubernetes."""

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
MANIFEST = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "kuberay.yaml"

TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
GROUP = {"rayStartParams": TEXTS, "template": {"type": "object"}}
COUNT = {"type": "integer", "minimum": 0}
HEAD = {
    "type": "object",
    "additionalProperties": False,
    "required": ["rayStartParams", "template"],
    "properties": {**GROUP, "serviceType": {"type": "string"}, "enableIngress": {"type": "boolean"}},
}
WORKERS = {
    "type": "object",
    "additionalProperties": False,
    "required": ["groupName", "rayStartParams", "template", "minReplicas", "maxReplicas"],
    "properties": {
        **GROUP,
        **dict.fromkeys(("replicas", "minReplicas", "maxReplicas", "numOfHosts"), COUNT),
        "groupName": {"type": "string"},
    },
}
AUTHENTICATION = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "mode": {"enum": ["disabled", "token"]},
        "secretName": {"type": "string"},
        "enableK8sTokenAuth": {"type": "boolean"},
    },
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayCluster"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["headGroupSpec"],
            "properties": {
                "headGroupSpec": HEAD,
                "workerGroupSpecs": {"type": "array", "items": WORKERS},
                "rayVersion": {"type": "string"},
                "enableInTreeAutoscaling": {"type": "boolean"},
                "suspend": {"type": "boolean"},
                "authOptions": AUTHENTICATION,
            },
        },
    },
}
"""Fields of ``raycluster_types.go`` in KubeRay's API v1, as far as they are used here."""


@pytest.fixture(scope="module")
def manifest():
    return yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))


def templates(manifest):
    spec = manifest["spec"]
    return [spec["headGroupSpec"]["template"], *(group["template"] for group in spec["workerGroupSpecs"])]


def test_the_frame_has_the_fields_of_kuberay(manifest):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(manifest, SCHEMA)
    manifest["spec"]["workerGroupSpecs"][0]["replica"] = 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(manifest, SCHEMA)
    del manifest["spec"]["workerGroupSpecs"][0]["replica"]


def test_its_processes_ask_for_a_token(manifest):
    assert manifest["spec"]["authOptions"] == {"mode": "token"}


def test_its_pods_are_those_of_kubernetes(manifest):
    validate = pytest.importorskip("kubernetes_validate")
    for template in templates(manifest):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, **template}
        validate.validate(pod, "1.30", strict=True)
        template["spec"]["containers"][0]["imagee"] = "x"
        with pytest.raises(validate.ValidationError):
            validate.validate(pod, "1.30", strict=True)
        del template["spec"]["containers"][0]["imagee"]


def test_all_pods_have_one_image_and_mount_what_they_declare(manifest):
    pods = [template["spec"] for template in templates(manifest)]
    assert len({pod["containers"][0]["image"] for pod in pods}) == 1
    for pod in pods:
        declared = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == declared
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["spec"]["rayVersion"])
