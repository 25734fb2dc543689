"""The tokenizer as MLflow loads it: ``mlflow.pyfunc.load_model("models:/news@champion")``.

MLflow copies this file beside the tokenizer's text files and the source of ``tokenizer_core``
(models from code: nothing is pickled) and runs it in processes where bpeline is not installed.
So it knows MLflow's base class and ``tokenizer_core``, nothing else of this project, and is never
imported by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel

if TYPE_CHECKING:
    from bpeline.tokenizer_core.tokenizer import Tokenizer


class TokenizerModel(PythonModel):  # type: ignore[misc]  # MLflow ships no types
    """Texts in, token ids out; special tokens in the texts are ordinary text."""

    _tokenizer: Tokenizer

    def load_context(self, context: Any) -> None:
        """Load the tokenizer that was logged with this file; verifies its digest."""
        from bpeline.tokenizer_core.tokenizer import Tokenizer

        self._tokenizer = Tokenizer.load(context.artifacts["tokenizer"], format="bpeline")

    def predict(
        self, context: Any, model_input: list[str], params: dict[str, Any] | None = None
    ) -> list[list[int]]:
        """Token ids of each text, in order. MLflow refuses anything but a list of texts."""
        return [self._tokenizer.encode(text) for text in model_input]


set_model(TokenizerModel())
