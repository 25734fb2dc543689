"""`python -m benchmarks NAME FILE…`: every installed contestant on each file, in fresh processes.

Results are compared before seconds are: who does not find what is promised gets no ratio.
`python -m benchmarks zoo FOLDER` compares alone: tokenizer files, with their own libraries.
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
            raise SystemExit(f"{wrong} read wrongly")
    else:
        _measure(options)


def _measure(options: argparse.Namespace) -> None:
    measurement = MEASUREMENTS[options.what]
    contestants = [one for one in measurement.contestants if one.installed]
    chosen = {measurement.baseline, *(options.only or [one.name for one in contestants])}
    names = [one.name for one in contestants if one.name in chosen]
    ours = {one.name for one in contestants if one.package is None}
    differ = []  # what a peer finds is told, and is no failure of ours
    for result in results_of(measurement, options.files, names, vars(options)):
        print(plain(result))
        print(f"kept in {save(result, options.output)}\n", flush=True)
        found = result["contestants"]
        differ += [name for name in found if name in ours and found[name].get("equal") is False]
    if differ:
        raise SystemExit(f"results differ: {', '.join(differ)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    what = parser.add_subparsers(dest="what", required=True, metavar="NAME")
    what.add_parser("pages", help="write the tables and pictures of README and docs")
    kept = what.add_parser("changes", help="the last results beside those before")
    kept.add_argument("--output", type=Path, default=RESULTS, help="where results are kept")
    bounds = what.add_parser("limits", help="how far hot loops are from what memory allows")
    bounds.add_argument("file", type=Path, help="UTF-8 text, <|endoftext|> between")
    files = what.add_parser("zoo", help="tokenizer files, read by us and by their own libraries")
    files.add_argument("folder", type=Path)
    files.add_argument("--texts", type=Path, nargs="+", default=(), help="UTF-8 text to encode too")
    files.add_argument("--output", type=Path, default=RESULTS, help="where results are kept")
    for measurement in MEASUREMENTS.values():
        about = measurement.about.replace("%", "%%")
        one = what.add_parser(measurement.name, help=about)
        one.add_argument("files", type=Path, nargs="+", help="UTF-8 text, <|endoftext|> between")
        one.add_argument("--vocab-size", type=int, nargs="+", default=None)
        one.add_argument("--threads", type=int, nargs="+", default=None, help="and processors")
        one.add_argument("--megabytes", type=float, nargs="+", default=None, help="of a beginning")
        one.add_argument("--vocabulary", default=None, help="a tokenizer.json with GPT-2's pattern")
        one.add_argument("--rounds", type=int, default=3, help="runs of each, taken in turn")
        names = [contestant.name for contestant in measurement.contestants]
        one.add_argument("--only", nargs="+", choices=names, default=None)
        one.add_argument("--output", type=Path, default=RESULTS, help="where results are kept")
    return parser


if __name__ == "__main__":
    main()
