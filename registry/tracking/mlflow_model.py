"""The tokenizer as MLflow loads it: ``mlflow.pyfunc.load_model("models:/news@champion")``.

MLflow copies this file beside the tokenizer's files (models from code: nothing is pickled) and
runs it. Where bpeline is installed, that encodes; elsewhere `tokenizers`, on the version's
``tokenizer.json``, if both were compared when the version was registered. So this file knows
MLflow's base class and these two libraries, nothing else of this project, and is never imported
by it.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel

_IDS = (list, tuple, numpy.ndarray)


class TokenizerModel(PythonModel):  # type: ignore[misc]  # MLflow ships no types
    """Texts in, token ids out; lists of ids in, texts out.

    The parameter ``allowed_special`` names the special tokens that are recognized in texts:
    ``"all"``, ``"none"``, or a JSON list. By default the tokenizer decides, see `Tokenizer.encode`.
    """

    _tokenizer: Any

    def load_context(self, context: Any) -> None:
        """Load the tokenizer that was logged with this file."""
        folder = Path(context.artifacts["tokenizer"])
        found = find_spec("bpeline")
        if found is not None and found.origin is not None:  # a mere folder of that name has none
            from bpeline import Tokenizer

            self._tokenizer = Tokenizer.load(folder, format="bpeline")  # verifies its digest
        else:
            self._tokenizer = _ByTokenizers(folder, context.model_config)
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


class _ByTokenizers:
    """`tokenizers`, which reads a certified ``tokenizer.json`` as bpeline does."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        if not config["tokenizers"]:
            raise ImportError(
                "loading this tokenizer needs bpeline: its export tokenizer.json is missing or was "
                "not compared with tokenizers when it was registered. Install bpeline"
            )
        try:
            import tokenizers
        except ImportError as error:
            raise ImportError(
                f"loading this tokenizer needs bpeline or tokenizers: pip install "
                f"tokenizers=={config['tokenizers']}",
                name="tokenizers",
            ) from error
        self._reader = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._default = config["allowed_special"]
        added = self._reader.get_added_tokens_decoder().values()
        self._special = {token.content for token in added if token.special}

    def encode(self, text: str, allowed_special: Any) -> list[int]:
        allowed = self._default if allowed_special is None else allowed_special
        if isinstance(allowed, frozenset):
            if allowed and allowed != self._special:
                raise MlflowException.invalid_parameter_value(
                    f"allowed_special is {sorted(allowed)}; without bpeline, tokenizers finds all "
                    f'special tokens or none. Pass "all" or "none", or install bpeline'
                )
            allowed = "all" if allowed else "none"
        self._reader.encode_special_tokens = allowed == "none"
        return list(self._reader.encode(text, add_special_tokens=False).ids)

    def decode_batch(self, rows: list[Any]) -> list[str]:
        listed = [[int(one) for one in ids] for ids in rows]
        return list(self._reader.decode_batch(listed, skip_special_tokens=False))


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


set_model(TokenizerModel())
