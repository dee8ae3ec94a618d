"""Removing what no kept manifest names: staging of workers that were cut off, old shards, spool files."""

from __future__ import annotations

from . import manifest as manifests
from . import models, publishing, shard
from .changes import FOLDER as TOMBSTONES
from .names import Options, Uri
from .scratch import sweep
from .storage import connect

BUILDS = "builds"
CANDIDATES = "candidates"


def clean(
    uri: Uri,
    *,
    keep: int = 1,
    builds: bool = True,
    scratch: Uri | None = None,
    storage_options: Options = None,
) -> list[str]:
    """Removes what the newest `keep` manifests do not name; returns the names of the removed objects.

    Older manifests are removed too. Nothing may be building or searching an older state meanwhile: a build
    under way loses what it has finished. With `builds=False` unfinished builds, candidates of `retrain` and
    their shards stay. What killed processes have left on this machine, in `scratch` or the system's place for
    temporary files, goes too.
    """
    if keep < 1:
        raise ValueError("`keep` is at least 1")
    storage = connect(uri, storage_options)
    sweep(scratch)
    kept_versions = publishing.versions(uri, storage_options=storage_options)[-keep:]
    kept, live_keys = set(), set()
    for version in kept_versions:
        manifest = manifests.read(storage, version)
        kept.add(manifests.name_of(version))
        model = manifest["model"]
        prefix = f"{models.FOLDER}/{model['hash']}"
        kept.add(f"{prefix}/DONE.json")
        kept.update(f"{prefix}/{model['attempt']}/{file['name']}" for file in model["files"])
        if manifest["statistics"]:
            kept.add(f"{publishing.STATISTICS}/{manifest['statistics']['sha256']}.terms")
        kept.update(entry["name"] for entry in manifest["tombstones"])
        for entry in manifest["shards"]:
            live_keys.add(entry["key"])
            kept.add(shard.done_name(entry["key"]))
            kept.add(shard.terms_name(entry))
            kept.update(shard.names_of_files(entry))
    removed = []
    folders = [manifests.FOLDER, shard.FOLDER, publishing.STATISTICS, TOMBSTONES]
    folders += [BUILDS, CANDIDATES, models.FOLDER] if builds else []
    for folder in folders:
        for name, _ in storage.list(folder):
            key = name.split("/")[1]
            if name in kept or (not builds and folder == shard.FOLDER and key not in live_keys):
                continue
            removed.append(name)
    # Manifests first: none may name what is gone.
    removed.sort(key=lambda name: not name.startswith(manifests.FOLDER + "/"))
    storage.delete(removed)
    return removed + storage.sweep()
