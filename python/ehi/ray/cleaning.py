"""Removing what no kept manifest names: staging of workers that were cut off, old shards, spool files."""

from __future__ import annotations

import re

from . import manifest as manifests
from . import models, publishing, shard
from .errors import ManifestError
from .names import Options, Uri, whole_number
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
    rf"|{publishing.TOMBSTONES}/{_KEY}\.json\.gz"
    rf"|{BUILDS}/{_NAME}/(plan\.json|spool/{_HASH}\.jsonl\.gz)"
    rf"|{CANDIDATES}/{_NAME}/(trained|shadow|verdict)\.json"
    rf"|{models.FOLDER}/{_HASH}/(DONE\.json|{_KEY}/.+)",
    re.DOTALL,
)


def clean(
    uri: Uri, *, keep: int = 1, scratch: Uri | None = None, storage_options: Options = None
) -> list[str]:
    """Removes what the newest `keep` manifests do not name; returns the names of the removed objects.

    Older manifests are removed too, and so are unfinished builds and candidates of `retrain`. Nothing may be
    building or searching an older state meanwhile: a build under way loses what it has finished. `ManifestError`
    where there is neither a manifest nor an unfinished build, so that a wrong path costs nothing; objects with
    other names than are given here stay. What killed processes have left on this machine, in `scratch` or the
    system's place for temporary files, goes too.
    """
    whole_number("keep", keep)
    storage = connect(uri, storage_options)
    sweep(scratch)
    versions = manifests.versions(storage)
    if not versions and not any(_PLAN.fullmatch(name) for name, _ in storage.list(BUILDS)):
        raise ManifestError("there is no manifest, and no build: this is no set of shards")
    kept = set()
    for version in versions[-keep:]:
        manifest = manifests.read(storage, version)
        kept |= {models.done_name(manifest["model"]["hash"]), *models.names_of_files(manifest["model"])}
        if manifest["statistics"]:
            kept.add(publishing.statistics_name(manifest["statistics"]["sha256"]))
        kept.update(entry["name"] for entry in manifest["tombstones"])
        for entry in manifest["shards"]:
            kept |= {shard.done_name(entry["key"]), shard.terms_name(entry), *shard.names_of_files(entry)}
    folders = (shard.FOLDER, publishing.STATISTICS, publishing.TOMBSTONES, BUILDS, CANDIDATES, models.FOLDER)
    there = (name for folder in folders for name, _ in storage.list(folder))
    removed = [name for name in there if name not in kept and _OWN.fullmatch(name)]
    # Manifests first: none may name what is gone.
    manifests.remove(storage, versions[:-keep])
    # Marks before what they say is there: a `clean` that is cut off must not leave one whose files are gone.
    storage.delete(sorted(removed, key=lambda name: not name.endswith("/DONE.json")))
    return [manifests.name_of(version) for version in versions[:-keep]] + removed + storage.sweep()
