"""What parts of a report may do: end well, fail, crash, never end. It imports no torch, so that it starts at once."""

import os
import signal
import subprocess
import sys
import time


def measure(task, what):
    task.keep({"kept": what})
    if what == "fails":
        raise ValueError("no luck\nand more")
    if what == "crashes":
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "never ends":
        sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
        children = [subprocess.Popen(sleep, start_new_session=new) for new in (False, True)]
        task.keep({"children": [child.pid for child in children]})
        time.sleep(600)
    count = task.directory.parent / "count"
    count.write_text(count.read_text() + "|" if count.exists() else "|")
    return {"runs": len(count.read_text()), "device": task.device, "problem": "half of it" if what == "half" else ""}


def lines(figures):
    if figures.get("kept") == "no table":
        raise KeyError("missing")
    return [f"{name}: {value}" for name, value in figures.items()]
