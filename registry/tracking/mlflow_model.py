"""The tokenizer as MLflow loads it: ``mlflow.pyfunc.load_model("models:/news@champion")``.

MLflow copies this file beside the tokenizer's text files and a wheel of the core (models from
code: nothing is pickled) and runs it in processes where bpeline may not be installed. So it knows
MLflow's base class and the core's `Tokenizer`, nothing else of this project, and is never imported
by it. Its errors are ImportErrors, because the project's own are in what cannot be imported.
"""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel

if TYPE_CHECKING:
    from bpeline import Tokenizer

_IDS = (list, tuple, numpy.ndarray)


class TokenizerModel(PythonModel):  # type: ignore[misc]  # MLflow ships no types
    """Texts in, token ids out; lists of ids in, texts out.

    The parameter ``allowed_special`` names the special tokens that are recognized in texts:
    ``"all"``, ``"none"``, or a JSON list. By default the tokenizer decides, see `Tokenizer.encode`.
    """

    _tokenizer: Tokenizer

    def load_context(self, context: Any) -> None:
        """Load the tokenizer that was logged with this file; verifies its digest."""
        if not _is_installed():
            _import_last(Path(context.artifacts["core"]), context.model_config["core_sha256"])
        try:
            from bpeline import Tokenizer

            self._tokenizer = Tokenizer.load(context.artifacts["tokenizer"], format="bpeline")
        except ImportError as error:
            raise _explained(error, context.model_config["packages"]) from None
        # MLflow reads the signature from the type hints of `predict`. When it calls a method with
        # these hints, it replaces a DataFrame by its first column; one without hints gets all.
        self.predict = self._predict_input  # type: ignore[method-assign]

    def predict(
        self, context: Any, model_input: list[str], params: dict[str, Any] | None = None
    ) -> list[list[int]]:
        """Token ids of each text, in order. MLflow refuses anything but a list of texts."""
        allowed = _allowed_special(params or {})
        return [self._tokenizer.encode(text, allowed) for text in model_input]

    def _predict_input(
        self, context: Any, model_input: Any, params: dict[str, Any] | None = None
    ) -> Any:
        """Like `predict`, also for a DataFrame's column; lists of ids are decoded."""
        rows = _rows_of(model_input)
        if isinstance(rows, list) and rows and all(isinstance(ids, _IDS) for ids in rows):
            return self._tokenizer.decode_batch(rows)
        return TokenizerModel.predict(self, context, rows, params)


def _allowed_special(params: dict[str, Any]) -> Any:
    """The parameter as `Tokenizer.encode` takes it. MLflow's parameters are scalars of one type."""
    value = params.get("allowed_special")
    if value in (None, "all", "none"):
        return value
    try:
        names = json.loads(value)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MlflowException.invalid_parameter_value(
            f'allowed_special is {value!r}; expected "all", "none", or a JSON list of special '
            "tokens. Pass {'allowed_special': json.dumps(['<|endoftext|>'])}"
        )
    return frozenset(names)


def _rows_of(model_input: Any) -> Any:
    """The texts or ids of a DataFrame; other input as it is, for MLflow to check."""
    if not hasattr(model_input, "columns"):
        return model_input
    columns = list(model_input.columns)
    if len(columns) == 1:
        return model_input.iloc[:, 0].tolist()
    if columns.count("text") == 1:
        return model_input["text"].tolist()
    raise MlflowException.invalid_parameter_value(
        f"the DataFrame has the columns {columns}; expected one column named text, or a single "
        'column. Pass the column that holds the texts: model.predict(frame["NAME"].tolist())'
    )


def _is_installed() -> bool:
    """Whether there is a bpeline already: an installed one is preferred to the wheel."""
    found = find_spec("bpeline")
    return found is not None and found.origin is not None  # a mere folder of that name has none


def _import_last(wheel: Path, digest: str) -> None:
    """Let Python import from the wheel what it finds nowhere else."""
    content = wheel.read_bytes() if wheel.is_file() else b""
    if hashlib.sha256(content).hexdigest() != digest:
        raise ImportError(
            f"{wheel} is not the file that was stored with this model\n"
            f"accepted is the one with the SHA-256 {digest}\n"
            "install bpeline, which is then used instead, or load another version"
        )
    sys.path.append(str(wheel.resolve()))


def _explained(error: ImportError, packages: list[str]) -> ImportError:
    """The same error, naming all that is missing."""
    missing = [package for package in packages if not _has(_name(package))]
    if missing:
        happened = f"needs {' and '.join(map(_name, missing))}, which is not installed"
        advice = f"pip install {' '.join(missing)}"
    else:
        happened, advice = f"failed: {error}", f"it was stored with {', '.join(packages)}"
    return ImportError(f"loading this tokenizer {happened}: {advice}", name=error.name)


def _name(package: str) -> str:
    return package.partition("==")[0]


def _has(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


set_model(TokenizerModel())
