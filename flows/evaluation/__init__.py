"""The evaluation step: texts, baselines, metrics, pictures."""
