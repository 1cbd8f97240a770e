"""Small valid inputs, and changes of them by structure and by bytes, for ``fuzz.py``."""

import copy
import json
import struct
from random import Random

ODD = [None, True, 0, -1, 1, 3, 1e-308, 1e308, 1e18, -0.5, 2**63, 10**40, float("nan"), float("inf")]
ODD += ["", "x", "0", "\x00", "é" * 50, [], {}, [[]], [0], {"task": "A"}, {"x": {}}, ["25:99", "24:00"], "lognormal"]
TOKENS = [
    b"",
    b",",
    b'"',
    b"\n",
    b"\r",
    b"\x00",
    b"\xff\xfe",
    b"NaN",
    b"1e999",
    b"-1",
    b"9999-12-31T23:59:59+14:00",
    b";",
]
TOKENS += [
    b"0001-01-01",
    b"1970-01-01T00:00:00Z",
    b"<event>",
    b"</trace>",
    b'<!DOCTYPE x [<!ENTITY a "a">]>',
    b"&a;",
    b"{",
    b"[",
]
LOG = "case,activity,resource,start,end\n" + "".join(
    f"c{i},{task},r{i % 3},2024-01-0{1 + i % 7}T0{8 + k}:00:00,2024-01-0{1 + i % 7}T0{8 + k}:40:00\n"
    for i in range(12)
    for k, task in enumerate(("open", "close"))
)
EVENT = (
    '<event><string key="concept:name" value="{}"/><string key="org:resource" value="r{}"/>'
    '<date key="start_timestamp" value="2024-01-0{}T0{}:10:00+01:00"/>'
    '<date key="time:timestamp" value="2024-01-0{}T0{}:30:00+01:00"/></event>'
)


def xes() -> bytes:
    """Return a small event log in XES."""

    def event(name: str, i: int, hour: int) -> str:
        return EVENT.format(name, i % 3, 1 + i % 7, hour, 1 + i % 7, hour)

    traces = "".join(
        f'<trace><string key="concept:name" value="c{i}"/>{event("open", i, 8)}{event("close", i + 1, 9)}</trace>'
        for i in range(12)
    )
    return f'<?xml version="1.0"?><log xes.version="1.0">{traces}</log>'.encode()


def ocel() -> bytes:
    """Return a small object-centric event log in JSON."""
    events = [
        {
            "id": f"e{i}{name}",
            "type": name,
            "time": f"2024-01-0{1 + i % 7}T09:{30 + 5 * k}:00Z",
            "attributes": [{"name": "start_timestamp", "value": f"2024-01-0{1 + i % 7}T09:{10 + 5 * k}:00Z"}],
            "relationships": [{"objectId": f"o{i}"}, {"objectId": f"r{i % 3}"}],
        }
        for i in range(12)
        for k, name in enumerate(("open", "close"))
    ]
    things = [{"id": f"o{i}", "type": "orders"} for i in range(12)]
    return json.dumps(
        {"events": events, "objects": things + [{"id": f"r{i}", "type": "employees"} for i in range(3)]}
    ).encode()


def mutate(random: Random, content: bytes, by_bytes: bool = True) -> bytes:
    """Return an input that is not what it was, in one to four places."""
    for _ in range(random.randint(1, 4)):
        change = random.choice([change_json, change_json, change_bytes if by_bytes else change_json])
        content = change(random, content)
    return content


def mutate_values(random: Random, content: bytes) -> bytes:
    """Return another JSON: of hyperparameters, whose bytes no user writes."""
    return mutate(random, content, by_bytes=False)


def change_json(random: Random, content: bytes) -> bytes:
    """Change one value of the JSON before a NUL, or of a safetensors header behind it; bytes where there is none."""
    head, nul, tail = content.partition(b"\0")
    if nul and len(tail) > 8 and random.random() < 0.5:
        size = struct.unpack("<Q", tail[:8])[0]
        header = change_json(random, tail[8 : 8 + size]) if size < len(tail) else tail[8:]
        length = (
            len(header) if random.random() < 0.8 else random.choice([0, 2**63, 2**64 - 1, min(size + 1, 2**64 - 1)])
        )
        return head + nul + struct.pack("<Q", length) + header + tail[8 + size :]
    try:
        data = json.loads(head)
    except (ValueError, RecursionError):
        return change_bytes(random, content)
    holder, key = random.choice(list(places({"": data})))
    what = random.randint(0, 4)
    if what == 0 and isinstance(holder, dict):
        del holder[key]
    elif what == 1 and isinstance(holder, dict):
        holder[random.choice(["x", "rate", "flow", "end", "dtype"])] = copy.deepcopy(random.choice(ODD))
    elif what == 2 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    elif what == 3 and isinstance(holder[key], int | float):
        holder[key] = holder[key] * random.choice([-1, 0, 1e-9, 1e9, 1e30])
    else:
        holder[key] = copy.deepcopy(random.choice(ODD))
    return json.dumps(data.get("") if isinstance(data, dict) and set(data) == {""} else data).encode() + nul + tail


def places(data):
    """Yield every (container, key) of nested lists and dictionaries."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield data, key
        if isinstance(value, dict | list):
            yield from places(value)


def change_bytes(random: Random, content: bytes) -> bytes:
    """Flip, cut, repeat, insert or nest."""
    at, what = random.randint(0, len(content)), random.randint(0, 5)
    until = min(len(content), at + random.choice([1, 2, 8, 64, 1024]))
    if what == 0:
        return content[:at] + bytes(b ^ (1 << random.randint(0, 7)) for b in content[at : at + 1]) + content[at + 1 :]
    if what == 1:
        return content[:at]
    if what == 2:
        return content[:at] + content[at:until] * random.choice([0, 2, 50]) + content[until:]
    if what == 3:
        return content[:at] + b"[" * random.choice([10, 100_000]) + content[at:]
    end = until if what == 4 else at
    return content[:at] + random.choice(TOKENS) + content[end:]
