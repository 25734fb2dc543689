"""Where the packages lie: the three folders at the top level are installed below ``bpeline``.

Everything else of the distribution stands in pyproject.toml.
"""

from setuptools import find_packages, setup

FOLDERS = ("tokenizer_core", "registry", "flows")

setup(
    packages=[
        "bpeline",
        *(
            f"bpeline.{package}"
            for folder in FOLDERS
            for package in find_packages(include=[folder, f"{folder}.*"])
        ),
    ],
    package_dir={f"bpeline.{folder}": folder for folder in FOLDERS},
)
