"""The list of all measurements."""

from __future__ import annotations

from benchmarks.algorithms import ALGORITHMS
from benchmarks.cluster import CLUSTER
from benchmarks.combining import COMBINING
from benchmarks.commands import MANY_FILES, NIGHT, ORCHESTRATION
from benchmarks.counting import GROWTH, STORING
from benchmarks.encoders import ENCODING, LOADING
from benchmarks.evaluating import EVALUATING
from benchmarks.threads import THREADS
from benchmarks.trainers import BY_CORPUS, BY_VOCABULARY, TRAINING
from benchmarks.vocabularies import DROPOUT, PARITY, SUPERWORDS

MEASUREMENTS = {
    one.name: one
    for one in (
        *(TRAINING, ENCODING, LOADING, BY_CORPUS, BY_VOCABULARY, ALGORITHMS, GROWTH, STORING),
        *(CLUSTER, COMBINING, NIGHT, ORCHESTRATION, MANY_FILES, EVALUATING),
        *(SUPERWORDS, PARITY, DROPOUT, THREADS),
    )
}
