"""What an import of the package brings along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(code: str, package: Path) -> str:
    """Returns the output of a fresh interpreter."""
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(package.parent)!r})\n{code}",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_import_brings_nothing_but_the_standard_library(package: Path) -> None:
    code = """
before = set(sys.modules)
import harpe, harpe.client, harpe.hooks, harpe.streams, harpe.torch_pipelining
import harpe.megatron, harpe.deepspeed
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(new - set(sys.stdlib_module_names) - {"harpe"}))
"""
    assert run(code, package) == "[]"


def test_an_import_does_not_load_the_built_module(package: Path) -> None:
    code = "import harpe; print('harpe._client' in sys.modules, 'ssl' in sys.modules)"
    assert run(code, package).startswith("False")


def test_without_the_built_module_the_server_can_be_asked(package: Path) -> None:
    code = """
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "harpe._client":
            raise ImportError("not built")
sys.meta_path.insert(0, Refuse())
import harpe
print(harpe.Server("http://10.0.0.1:7787").url)
try:
    harpe.start()
except ImportError as error:
    print("pip install" in str(error))
"""
    assert run(code, package).split() == ["http://10.0.0.1:7787", "True"]


def test_all_names_are_there(package: Path) -> None:
    code = """
import harpe
print([name for name in harpe.__all__ if getattr(harpe, name, None) is None])
print(set(harpe.__all__) <= set(dir(harpe)), harpe.__version__.count("."))
try:
    harpe.nonsense
except AttributeError as error:
    print(error)
"""
    assert run(code, package).splitlines() == [
        "[]",
        "True 2",
        "module 'harpe' has no attribute 'nonsense'",
    ]
