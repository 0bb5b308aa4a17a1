import json
import os
import pathlib
import time


def is_available():
    """Returns whether the launcher set a rank."""
    return "RANK" in os.environ


def is_initialized():
    return True


def broadcast_object_list(objects, src=0):
    """Broadcasts through the file that HARPE_TEST_BROADCAST names."""
    path = pathlib.Path(os.environ["HARPE_TEST_BROADCAST"])
    if int(os.environ["RANK"]) == src:
        new = path.with_suffix(".new")
        new.write_text(json.dumps(objects))
        new.rename(path)
        return
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    objects[:] = json.loads(path.read_text())
