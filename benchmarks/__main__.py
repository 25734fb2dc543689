"""`python -m benchmarks NAME FILE…`: run each installed contestant on each file.

Results are compared first; contestants with other results get no ratio.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import limits, pages, zoo
from benchmarks.measurements import MEASUREMENTS
from benchmarks.results import RESULTS, changes, save
from benchmarks.runner import results_of
from benchmarks.tables import plain, table_of


def main() -> None:
    options = _parser().parse_args()
    if options.what == "pages":
        pages.write()
    elif options.what == "changes":
        for name in MEASUREMENTS:
            if rows := changes(name, options.output):
                headings = ("dates", "case", "who", "CPU s before", "CPU s", "share")
                print("\n".join([name, *table_of(headings, rows).lines(), ""]))
    elif options.what == "limits":
        limits.measure(options.file)
    elif options.what == "zoo":
        if wrong := zoo.measure(options.folder, options.texts, options.output):
            raise SystemExit(f"{wrong} files read wrongly")
    else:
        _measure(options)


def _measure(options: argparse.Namespace) -> None:
    measurement = MEASUREMENTS[options.what]
    contestants = [contestant for contestant in measurement.contestants if contestant.installed]
    chosen = {
        measurement.baseline,
        *(options.only or [contestant.name for contestant in contestants]),
    }
    names = [contestant.name for contestant in contestants if contestant.name in chosen]
    ours = {contestant.name for contestant in contestants if contestant.package is None}
    differ = []  # only our own contestants; other libraries may differ
    for result in results_of(measurement, options.files, names, vars(options)):
        print(plain(result))
        print(f"saved in {save(result, options.output)}\n", flush=True)
        outcomes = result["contestants"]
        differ += [
            name for name in outcomes if name in ours and outcomes[name].get("equal") is False
        ]
    if differ:
        raise SystemExit(f"results differ: {', '.join(differ)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    what = parser.add_subparsers(dest="what", required=True, metavar="NAME")
    what.add_parser("pages", help="write the tables and pictures of README and docs")
    comparison = what.add_parser("changes", help="compare the last results with those before")
    comparison.add_argument("--output", type=Path, default=RESULTS, help="folder of results")
    bounds = what.add_parser("limits", help="compare hot loops with the limits of memory")
    bounds.add_argument("file", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    files = what.add_parser("zoo", help="compare tokenizer files with their own libraries")
    files.add_argument("folder", type=Path)
    files.add_argument("--texts", type=Path, nargs="+", default=(), help="UTF-8 text to encode too")
    files.add_argument("--output", type=Path, default=RESULTS, help="folder of results")
    for measurement in MEASUREMENTS.values():
        about = measurement.about.replace("%", "%%")
        command = what.add_parser(measurement.name, help=about)
        command.add_argument("files", type=Path, nargs="+", help="UTF-8 text with <|endoftext|>")
        command.add_argument("--vocab-size", type=int, nargs="+", default=None)
        command.add_argument("--threads", type=int, nargs="+", default=None, help="and CPU cores")
        command.add_argument("--megabytes", type=float, nargs="+", default=None, help="MB to use")
        command.add_argument("--vocabulary", default=None, help="tokenizer.json, GPT-2's pattern")
        command.add_argument("--rounds", type=int, default=3, help="runs of each, interleaved")
        names = [contestant.name for contestant in measurement.contestants]
        command.add_argument("--only", nargs="+", choices=names, default=None)
        command.add_argument("--output", type=Path, default=RESULTS, help="folder of results")
    return parser


if __name__ == "__main__":
    main()
