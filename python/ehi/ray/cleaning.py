"""Removing what no kept manifest names: staging of workers that were cut off, old shards, spool files."""

from __future__ import annotations

import re

from . import manifest as manifests
from . import models, publishing, shard
from .changes import FOLDER as TOMBSTONES
from .errors import ManifestError
from .names import Options, Uri
from .scratch import sweep
from .storage import connect

BUILDS = "builds"
CANDIDATES = "candidates"
_HASH, _KEY, _NAME = "[0-9a-f]{64}", "[0-9a-f]{32}", r"[\w-]+"
_PLAN = re.compile(rf"{BUILDS}/{_NAME}/plan\.json")
# Names that are given here; no other object is removed.
_OWN = re.compile(
    rf"{shard.FOLDER}/{_KEY}/(DONE\.json|{_KEY}\.terms|{_KEY}/.+)"
    rf"|{publishing.STATISTICS}/{_HASH}\.terms"
    rf"|{TOMBSTONES}/{_KEY}\.json\.gz"
    rf"|{BUILDS}/{_NAME}/(plan\.json|spool/{_HASH}\.jsonl\.gz)"
    rf"|{CANDIDATES}/{_NAME}/(trained|shadow|verdict)\.json"
    rf"|{models.FOLDER}/{_HASH}/(DONE\.json|{_KEY}/.+)",
    re.DOTALL,
)


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
    their shards stay. `ManifestError` where there is neither a manifest nor an unfinished build, so that a
    wrong path costs nothing; objects with other names than are given here stay. What killed processes have
    left on this machine, in `scratch` or the system's place for temporary files, goes too.
    """
    if keep < 1:
        raise ValueError("`keep` is at least 1")
    storage = connect(uri, storage_options)
    sweep(scratch)
    versions = manifests.versions(storage)
    if not versions and not any(_PLAN.fullmatch(name) for name, _ in storage.list(BUILDS)):
        raise ManifestError("there is no manifest, and no build: this is no set of shards")
    kept, live_keys = set(), set()
    for version in versions[-keep:]:
        manifest = manifests.read(storage, version)
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
    folders = [shard.FOLDER, publishing.STATISTICS, TOMBSTONES]
    folders += [BUILDS, CANDIDATES, models.FOLDER] if builds else []
    for folder in folders:
        for name, _ in storage.list(folder):
            if name in kept or not _OWN.fullmatch(name):
                continue
            key = name.split("/")[1]
            if not builds and folder == shard.FOLDER and key not in live_keys:
                continue
            removed.append(name)
    # Manifests first: none may name what is gone.
    manifests.remove(storage, versions[:-keep])
    # Marks before what they say is there: a `clean` that is cut off must not leave one whose files are gone.
    storage.delete(sorted(removed, key=lambda name: not name.endswith("/DONE.json")))
    return [manifests.name_of(version) for version in versions[:-keep]] + removed + storage.sweep()
