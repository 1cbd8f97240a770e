"""Names of the formats that a policy is exported in."""

FORMATS = ("safetensors", "onnx", "c")
