"""Access to NVML where every answer may be missing: no package, no driver, no such function, no permission."""

import re
from typing import Any


def nvml() -> Any | None:
    """Return pynvml, ready to be asked, or None without the package or the driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def ask(api: Any | None, question: str, *arguments: Any) -> Any | None:
    """Return NVML's answer; None without NVML, without an argument, or where it does not know."""
    if api is None or None in arguments:
        return None
    try:
        return getattr(api, question)(*arguments)
    except (api.NVMLError, AttributeError):
        return None


def uuid_of(properties: Any) -> str:
    """Return the UUID of torch's device, without the prefix that NVML puts before it; empty if torch has none."""
    return re.sub(r"^(GPU|MIG)-", "", str(getattr(properties, "uuid", "")))


def handle_of(api: Any | None, properties: Any) -> Any | None:
    """Return NVML's handle of torch's device: by UUID, as CUDA_VISIBLE_DEVICES and CUDA's order change the index."""
    uuid = uuid_of(properties)
    if not uuid:
        return None
    names = (f"{kind}-{uuid}" for kind in ("GPU", "MIG"))
    return next((handle for name in names if (handle := ask(api, "nvmlDeviceGetHandleByUUID", name))), None)


def driver_gpu_names(api: Any | None) -> list[str]:
    """Return the names of all GPUs that NVML lists, hidden by CUDA_VISIBLE_DEVICES or not."""
    handles = (ask(api, "nvmlDeviceGetHandleByIndex", i) for i in range(ask(api, "nvmlDeviceGetCount") or 0))
    names = (ask(api, "nvmlDeviceGetName", handle) for handle in handles)
    return [name for name in names if name]
