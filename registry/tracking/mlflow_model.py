"""The model code that MLflow runs for ``mlflow.pyfunc.load_model``.

MLflow stores a copy of this file with the tokenizer (models from code: nothing is pickled). It
encodes with bpeline if installed, else with `tokenizers` on the certified ``tokenizer.json``. It
must not import other modules of this project.
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
    """Encode texts to token ids, or decode lists of ids to texts.

    The parameter ``allowed_special`` sets the special tokens that are recognized in texts:
    ``"all"``, ``"none"``, or a JSON list; the default is that of `Tokenizer.encode`.
    """

    _tokenizer: Any

    def load_context(self, context: Any) -> None:
        """Load the tokenizer that is stored with this file."""
        folder = Path(context.artifacts["tokenizer"])
        spec = find_spec("bpeline")
        if spec is not None and spec.origin is not None:  # a plain folder has no origin
            from bpeline import Tokenizer

            self._tokenizer = Tokenizer.load(folder, format="bpeline")  # verifies its digest
        else:
            self._tokenizer = _ByTokenizers(folder, context.model_config)
        # MLflow needs the type hints of `predict` for the signature, but would then pass only the
        # first column of a DataFrame; a method without hints gets all columns.
        self.predict = self._predict_input  # type: ignore[method-assign]

    def predict(
        self, context: Any, model_input: list[str], params: dict[str, Any] | None = None
    ) -> list[list[int]]:
        """Return the token ids of each text, in order."""
        allowed = _allowed_special(params or {})
        return [self._tokenizer.encode(text, allowed) for text in model_input]

    def _predict_input(
        self, context: Any, model_input: Any, params: dict[str, Any] | None = None
    ) -> Any:
        """Like `predict`, but accepts DataFrames and decodes lists of ids."""
        rows = _rows_of(model_input)
        if isinstance(rows, list) and rows and all(isinstance(ids, _IDS) for ids in rows):
            return self._tokenizer.decode_batch(rows)
        return TokenizerModel.predict(self, context, rows, params)


class _ByTokenizers:
    """Encode and decode with `tokenizers` and a certified ``tokenizer.json``."""

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
        listed = [[int(id_) for id_ in ids] for ids in rows]
        return list(self._reader.decode_batch(listed, skip_special_tokens=False))


def _allowed_special(params: dict[str, Any]) -> Any:
    """Parse the parameter for `Tokenizer.encode`; MLflow's parameters are scalars."""
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
    """Return the texts or ids of a DataFrame; other input unchanged."""
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
