"""One long-lived process of PyTorch; commands as in worker.lua."""
import gc
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch  # noqa: E402

from works import works  # noqa: E402

out = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def answer(line):
    word, _, rest = line.strip().partition(" ")
    global run, clock
    if word == "version":
        return torch.__version__
    if word == "threads":
        torch.set_num_threads(int(rest))
    elif word == "clock":
        clock = time.process_time if rest == "cpu" else time.perf_counter
    elif word == "open":
        if rest not in works:
            raise KeyError("works.py has no such work")
        run = works[rest]()
    elif word == "run":
        start = clock()
        run(int(rest))
        return repr(clock() - start)
    elif word == "close":
        run = None
        gc.collect()
    return "ok"


run, clock = None, time.perf_counter
print("ready", file=out)
for command in sys.stdin:
    try:
        print(answer(command), file=out)
    except Exception as e:  # told to the driver, which goes on with the next work
        print("error", type(e).__name__, str(e).replace("\n", " "), file=out)
