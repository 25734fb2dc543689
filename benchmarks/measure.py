"""Measures one trainer in this process and prints one line of JSON, for `benchmarks`."""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
from pathlib import Path

from benchmarks.contestants import CONTESTANTS


def main() -> None:
    name, path, vocab_size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    training = CONTESTANTS[name](path, vocab_size)
    process_seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    merges = hashlib.sha256(repr(training.merges).encode()).hexdigest()
    print(
        json.dumps(
            {
                "name": name,
                "phases": training.phases,
                "seconds": sum(training.phases.values()),
                "process_seconds": process_seconds,
                "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                "peak_megabytes": after.ru_maxrss / 1024,
                "merges": len(training.merges),
                "merges_digest": merges,
            }
        )
    )


if __name__ == "__main__":
    main()
