"""From finished shards to a manifest that searches read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import ehi

from . import manifest as manifests
from . import models, shard
from .errors import ManifestError, PublishConflict, ShardsError
from .names import Json, Options, Uri
from .options import whole_number
from .storage import Storage, connect

STATISTICS = "statistics"
# Appends that a manifest knows, so that one that is made again is published once.
APPENDS = 100
# Documents that an error names.
_NAMED = 5
# Leaves that a search visits unless it is asked otherwise.
DEFAULT_BEAM = 16


def publish(uri: Uri, built: Json, *, parent: int | None = None, storage_options: Options = None) -> int:
    """Makes what `build` returned the newest state of the set, in place of what there was; its number.

    `parent` is the number that is newest now, looked up unless given. `PublishConflict` where another
    publisher was first; `ShardsError` where no document was stored.
    """
    storage = connect(uri, storage_options)
    newest = manifests.latest_version(storage)
    if parent is None:
        parent = newest
    elif whole_number("parent", parent, least=0) < newest:
        raise PublishConflict(newest)
    elif parent > newest:
        raise ManifestError(f"there is no manifest {parent}, the newest is {newest}")
    return publish_at(storage, built, parent)


def publish_at(storage: Storage, built: Json, parent: int) -> int:
    """The same, after the manifest `parent`."""
    if not any(entry["rows"] for entry in built["shards"]):
        raise ShardsError(f"nothing is published: no document could be stored{_reasons(built)}")
    shards = [{**entry, "added": parent + 1} for entry in built["shards"]]
    manifest = assemble(storage, built, shards, [])
    # A build that is called again finds that it is done.
    of_build = {"build": built.get("name"), "source": built.get("source")}
    return manifests.publish(storage, {**manifest, **of_build}, parent)


def _reasons(built: Json) -> str:
    refused = built.get("refused") or []
    told = [f"; `{own['id'][:50]}`: {own['reason'][:200]}" for own in refused[:_NAMED]]
    more = len(refused) - len(told)
    return "".join(told) + (f"; and {more} more" if more else "")


def assemble(storage: Storage, base: Json, shards: Sequence[Json], tombstones: Sequence[Json]) -> Json:
    """A manifest of shards, with the sum of the statistics of their words. `base` says what they share."""
    for entry in shards:
        if entry["model"] != base["model"]["hash"]:
            raise ManifestError(
                f"shard {entry['key']} was made with model {entry['model']}, "
                f"the set has {base['model']['hash']}"
            )
    keys = [entry["key"] for entry in shards]
    if len(set(keys)) < len(keys):
        raise ManifestError("a shard is named twice")
    shared = {name: base[name] for name in ("model", "words", "precision", "beam", "alpha")}
    return {
        **shared,
        # As a caller has named them: `append` reads them the same way.
        "columns": base.get("columns"),
        # What was asked of `retrain` to make the model, where it was made by that.
        **({"candidate": base["candidate"]} if "candidate" in base else {}),
        **({"appends": _appends(base, tombstones)} if base.get("appends") else {}),
        "documents": sum(entry["rows"] for entry in shards),
        "shards": shards,
        "tombstones": tombstones,
        "statistics": _statistics(storage, base, shards),
    }


def _appends(base: Json, tombstones: Sequence[Json]) -> list[Json]:
    """Of the appends that a manifest knows those of which it can be told whether their documents are there
    still: without the tombstones that are dropped, it cannot of the older ones.
    """
    left = {entry["name"] for entry in tombstones}
    dropped = [entry["before"] for entry in base.get("tombstones", []) if entry["name"] not in left]
    oldest = max(dropped, default=0)
    known = [own for own in base["appends"] if own["version"] >= oldest]
    return known[-APPENDS:]


def _statistics(storage: Storage, base: Json, shards: Sequence[Json]) -> Json | None:
    """The sum of the statistics of shards' words; that of `base` where it has the same shards."""

    def attempts(of: Sequence[Json]) -> list[str]:
        return sorted(entry["attempt"] for entry in of)

    if "statistics" in base and attempts(base["shards"]) == attempts(shards):
        known: Json | None = base["statistics"]
        return known
    return _sum_terms(storage, shards)


def _sum_terms(storage: Storage, shards: Sequence[Json]) -> Json | None:
    total = None
    for entry in shards:
        own = shard.read_terms(storage, entry)
        if own is not None:
            total = own if total is None else total + own
    if total is None:
        return None
    data = total.to_bytes()
    digest = hashlib.sha256(data).hexdigest()
    # Named by what is in it: whoever is first writes it.
    storage.create(f"{STATISTICS}/{digest}.terms", data)
    return {"sha256": digest, "bytes": len(data), "documents": total.documents}


def change(storage: Storage, make: Callable[[Json], Json | None], attempts: int = 100) -> int:
    """Publishes what `make` makes of the newest manifest, again where another publisher was first."""
    for _ in range(attempts):
        newest = manifests.read(storage)
        changed = make(newest)
        if changed is None:
            return newest["version"]
        try:
            return manifests.publish(storage, changed, newest["version"])
        except PublishConflict:
            continue
    raise ManifestError(f"other publishers were first {attempts} times")


def restore(uri: Uri, version: int, *, storage_options: Options = None) -> int:
    """Publishes what the set was in an earlier state as its newest one; the number of the new manifest.

    `version` is one of `versions`. What was appended, deleted, or changed over to another model since is not in
    it; those states stay, and can be restored in their turn, until `clean`. Other publishers may be at work:
    this state comes after theirs.
    """
    version = whole_number("version", version)
    storage = connect(uri, storage_options)
    earlier = manifests.read(storage, version)
    return change(storage, lambda newest: None if newest["version"] == version else earlier)


def versions(uri: Uri, *, storage_options: Options = None) -> list[int]:
    """Numbers of the manifests that are kept, ascending."""
    return manifests.versions(connect(uri, storage_options))


def fetch_model(storage: Storage, manifest: Json, cache: Uri) -> ehi.Model:
    return models.fetch(storage, manifest["model"], cache)
