"""The built page as files: its folder, its content, and writing it to another folder.

The page's language models are in another folder of the package and are added here, so that the
package contains them once. A written site contains each of them a second time, as a script: a page
opened from disk cannot load other files. It also contains ONNX Runtime and the ONNX files, which
work from a server only.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from manyheads.core.errors import ConfigError
from manyheads.web.models import FOLDER, model_files, model_scripts

STATIC = Path(__file__).parent / "static"
"""Folder of the built page, also in the wheel."""
MANIFEST = "manyheads-site.json"
"""In a written site: the list of the files that were written, with their SHA-256."""


def read_bundle(static: Path | None = None, models: Path | None = None) -> dict[str, bytes]:
    """Read the built page: its files by name, such as "index.html" or "assets/page.js".

    Args:
        static: the folder of the built page; None takes `STATIC`.
        models: the folder of the models that it loads; None takes the package's own.

    Raises:
        ConfigError: the page has not been built.
        CheckpointError: a model is missing or damaged.
    """
    static = static or STATIC
    if not (static / "index.html").is_file():
        raise ConfigError(f"page ({static}) is not built yet: run `make page`")
    files = sorted(path for path in static.rglob("*") if path.is_file())
    page = {path.relative_to(static).as_posix(): path.read_bytes() for path in files}
    return page | model_files(models)


def write_site(out: Path, static: Path | None = None, models: Path | None = None) -> list[str]:
    """Write the page as a folder that works at any address, and when opened from disk.

    The folder is made in a temporary place and moved when it is complete. A folder that contains
    anything but an earlier, unchanged site is refused, so no file of the user is lost.

    Args:
        out: the folder to write.
        static: as in `read_bundle`.
        models: as in `read_bundle`.

    Returns:
        the names of the files written, without the manifest.

    Raises:
        ConfigError: the page is not built, or `out` cannot be written or contains other files.
        CheckpointError: a model is missing or damaged.
    """
    bundle = _with_scripts(read_bundle(static, models))
    try:
        place = out.resolve()
        _refuse_others(out, place)
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as folder:
            draft = Path(folder) / "new"
            _write_files(draft, bundle)
            _replace(place, draft, Path(folder) / "old")
    except OSError as error:
        raise ConfigError(
            f"OUT ({out}) cannot be written ({error.strerror or error}): "
            "choose a folder you can write to"
        ) from error
    except (ValueError, RuntimeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"OUT ({str(out)!r}) is not a valid path: choose another folder"
        ) from error
    return list(bundle)


def _with_scripts(bundle: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the bundle, with a script for each file of the models."""
    loaded = {name: data for name, data in bundle.items() if name.startswith(f"{FOLDER}/")}
    return {**bundle, **model_scripts(loaded)}


def _write_files(folder: Path, bundle: Mapping[str, bytes]) -> None:
    for name, content in bundle.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in bundle.items()}
    (folder / MANIFEST).write_text(json.dumps({"files": hashes}, indent=1) + "\n")


def _refuse_others(out: Path, place: Path) -> None:
    if not place.exists():
        return
    if not place.is_dir():
        raise ConfigError(f"OUT ({out}) is a file: choose a folder")
    known = _manifest(place)
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if (name == MANIFEST and known) or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink() or _hash(path) != known.get(name):
            raise ConfigError(
                f"OUT ({out}) contains {name}, which `manyheads site` did not write: "
                "choose a new folder, or move the file away"
            )


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"


def _manifest(place: Path) -> dict[str, str]:
    try:
        files = json.loads((place / MANIFEST).read_text())["files"]
        return {str(name): str(value) for name, value in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _replace(place: Path, draft: Path, old: Path) -> None:
    """Move the draft to its place; an existing folder is kept."""
    if not place.exists():
        os.rename(draft, place)
        return
    old.mkdir()
    moved: list[tuple[Path, Path]] = []
    try:
        for source, target in ((place, old), (draft, place)):
            for path in sorted(source.iterdir()):
                os.rename(path, target / path.name)
                moved.append((path, target / path.name))
    except OSError:
        for before, after in reversed(moved):
            os.rename(after, before)
        raise
    shutil.rmtree(old, ignore_errors=True)
