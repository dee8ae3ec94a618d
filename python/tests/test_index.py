"""The store: what goes in comes out, and mistakes are told."""

import json
import multiprocessing
import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import ehi
from places import MODEL, ROOT


def test_documents_come_back_as_they_were(filled, documents):
    assert len(filled) == 200 and documents[0]["id"] in filled and "none" not in filled
    assert filled.get(documents[3]["id"]) == documents[3]
    assert filled.get([documents[3]["id"], "none"]) == [documents[3], None]
    assert sorted(filled, key=lambda d: d["metadata"]["place"]) == documents
    assert [d["id"] for d in filled.page(limit=2)] == sorted(d["id"] for d in documents)[:2]


def test_lines_of_datasets_are_documents(empty):
    assert empty.add([{"_id": "a", "title": None, "text": "A text.", "metadata": None}])["inserted"] == 1
    assert empty.get("a") == {"id": "a", "title": "", "text": "A text.", "metadata": None}


def test_a_title_finds_its_document(filled, documents):
    result = filled.search(documents[7]["title"], k=3)
    assert result[0].id == documents[7]["id"] and result[-1].id == result.ids[2] and len(result[:2]) == 2
    assert result.scores.dtype == np.float32 and list(result.scores) == sorted(result.scores, reverse=True)
    assert result[0].metadata == {"place": 7} and result[0].title == documents[7]["title"]
    assert result[0].as_dict()["text"] == documents[7]["text"]
    assert result.stats["documents_visited"] > 0 and result.ranked_by["mode"] == "hybrid"
    with pytest.raises(IndexError):
        result[3]


def test_many_questions_are_searched_as_one_is(filled, documents):
    titles = [document["title"] for document in documents[:20]]
    together = filled.search(titles, k=5, exact=True)
    assert [result.ids for result in together] == [
        filled.search(title, k=5, exact=True).ids for title in titles
    ]


def test_embeddings_are_those_of_the_encoder(filled, documents):
    encoder = ehi.Encoder(MODEL, precision="int8")
    titles = [document["title"] for document in documents[:3]]
    rows = encoder.encode_query(titles)
    assert rows.shape == (3, encoder.dim) and rows.dtype == np.float32
    by_text = filled.search(titles[0], k=5, exact=True, encoder="full", mode="dense")
    by_row = filled.search(rows[0], k=5, exact=True, mode="dense")
    assert by_text.ids == by_row.ids
    assert [each.ids for each in filled.search(rows, k=5, exact=True, mode="dense")][0] == by_row.ids
    assert filled.search(rows[0].astype(np.float16), k=1, mode="dense").ids == by_row.ids[:1]
    # Rows that are not side by side.
    assert (
        filled.search(np.repeat(rows, 2, axis=1)[:, ::2][0], k=5, exact=True, mode="dense").ids == by_row.ids
    )
    assert filled.search(rows[0].astype(np.float64), k=5, exact=True, mode="dense").ids == by_row.ids
    with pytest.raises(ehi.InputError, match="384"):
        filled.search(rows[0][:10])


def test_filters_and_modes(filled, documents):
    few = filled.search("cells", k=50, filter={"place": {"$lt": 10}})
    assert {hit.metadata["place"] for hit in few} <= set(range(10)) and len(few) == 10
    assert filled.search("cells", filter='{"place": 4}').ids == [documents[4]["id"]]
    for mode in ("best", "dense", "lexical", "hybrid"):
        assert len(filled.search("cells in mice", mode=mode)) == 10
    assert filled.search("cells in mice", alpha=0.3).ranked_by == {
        "mode": "hybrid",
        "alpha": pytest.approx(0.3),
    }
    with pytest.raises(ehi.FilterError):
        filled.search("cells", filter={"place": {"$less": 1}})
    none = filled.search("cells", filter={"place": "4"})
    assert len(none) == 0 and "holds numbers" in none.notes[0]
    assert few.notes == [] and few.signs["required"] == [] and not few.signs["ignored"]
    for mode in ("best", "lexical", "hybrid"):
        signed = filled.search("mice +cells -nothing", mode=mode)
        assert signed.signs["required"] == ["cells"] and signed.signs["excluded"] == ["nothing"]
        assert signed.ids and all("cell" in (hit.title + hit.text).lower() for hit in signed)
    assert filled.search("+cells", mode="dense").signs["ignored"]
    assert filled.search("cells at -20 degrees").signs["as_text"] == ["-20"]
    with pytest.raises(ehi.InputError, match="known are best, dense, lexical, hybrid"):
        filled.search("cells", mode="both")
    with pytest.raises(ehi.InputError, match="exclude each other"):
        filled.search("cells", alpha=0.5, rrf=60)
    with pytest.raises(ehi.InputError) as caught:
        filled.search("cells", beam=3, exact=True)
    assert caught.value.kind


def test_adding_replacing_deleting(empty):
    summary = empty.add(["a", "b"], ["one text", "another"], titles=["A", "B"], metadata=[{"x": 1}, None])
    assert summary["inserted"] == 2
    assert empty.add([{"id": "a", "text": "replaced"}])["replaced"] == 1
    assert empty.get("a") == {"id": "a", "title": "", "text": "replaced", "metadata": None}
    assert empty.delete(["a", "none"]) == 1 and len(empty) == 1
    rows = np.eye(2, 384, dtype=np.float16)
    assert empty.add_vectors(["v", "w"], rows, titles=["V", "W"])["inserted"] == 2
    assert empty.search(rows[0].astype(np.float32), k=1, mode="dense").ids == ["v"]
    for refused in (
        lambda: empty.add(["a"], ["x", "y"]),
        lambda: empty.add([{"text": "no id"}], all_or_none=True),
        lambda: empty.add([{"id": "c", "body": "x"}], all_or_none=True),
        lambda: empty.add_vectors(["v"], rows),
    ):
        with pytest.raises(ValueError):
            refused()
    for refused in (
        lambda: empty.add("abc", ["x"]),
        lambda: empty.add(["c"], titles=["x"]),
    ):
        with pytest.raises(TypeError):
            refused()
    assert sorted(document["id"] for document in empty) == ["b", "v", "w"]


MIXED = [1, 1.0, "1", True, None, [1, "a", "a"], {"of": 2}, "2024-01-05T12:00:00+02:00"]


def test_counts_ids_and_facets_are_those_of_the_documents_that_pass(empty):
    """Partly from the lists of values, partly from the documents that are not flushed."""
    for number, value in enumerate(MIXED):
        empty.add([{"id": f"m{number}", "text": "a text", "metadata": {"of": value, "by": {"name": "x"}}}])
        if number == 3:
            empty.flush()
    empty.add(["n"], ["a text"])
    assert [empty.count(filter={"of": 1}), empty.count('{"of": 9}')] == [3, 0]
    assert empty.count() == empty.count({}) == 9
    assert empty.ids() == [f"m{number}" for number in range(8)] + ["n"]
    assert empty.ids({"of": None}) == ["m4", "n"] and empty.ids({"of": True}) == ["m3"]
    found = empty.facets(["of", "by.name", "none"], most=2)
    assert list(found) == ["of", "by.name", "none"]
    of, by, none = found.values()
    assert [(repr(own["value"]), own["documents"]) for own in of["values"]] == [("1", 3), ("None", 1)]
    assert (of["distinct"], of["missing"], of["range"]) == (6, 1, [1, 1])
    assert by == {"values": [{"value": "x", "documents": 8}], "distinct": 1, "missing": 1, "range": None}
    assert none == {"values": [], "distinct": 0, "missing": 9, "range": None}
    values = empty.facets("of", {"$ids": ["m2", "m3", "m7"]})["of"]["values"]
    assert [own["value"] for own in values] == [True, "1", "2024-01-05T10:00:00Z"]
    assert empty.facets("of", most=0)["of"]["values"] == [] and empty.facets([]) == {}
    for call in (empty.count, empty.ids, lambda filter: empty.facets("of", filter), empty.scoped):
        with pytest.raises(ehi.FilterError):
            call({"of": {"$no": 1}})
    for call in (lambda: empty.facets(None), lambda: empty.facets([1])):
        with pytest.raises(TypeError):
            call()


def test_documents_are_deleted_by_ids_or_by_a_filter(empty):
    ids = [f"d{number}" for number in range(10)]
    empty.add(ids, ["a text"] * 10, metadata=[{"n": number} for number in range(10)])
    for given in ({}, {"ids": "d1", "filter": {}}, {"ids": None}, {"filter": None}):
        with pytest.raises(TypeError, match="give either `ids` or `filter`"):
            empty.delete(**given)
    with pytest.raises(ehi.FilterError):
        empty.delete(filter={"n": {"$no": 1}})
    assert len(empty) == 10
    assert empty.delete(filter={"n": {"$gte": 7}}) == 3 and empty.ids() == ids[:7]
    assert empty.delete(ids="d0") == 1 and empty.delete(ids=["d1", "d9"]) == 1 and empty.delete([]) == 0
    assert empty.delete(filter='{"n": 77}') == 0 and empty.delete(filter={}) == 5 and len(empty) == 0


def test_documents_that_no_longer_pass_are_left_out_of_an_iteration(empty):
    ids = [f"d{number:03}" for number in range(600)]
    rows = np.eye(600, 384, dtype=np.float32) + 1
    empty.add_vectors(ids, rows, ids, metadata=[{"n": number % 2} for number in range(600)])
    odd = empty.iter(filter={"n": 1})
    first = next(odd)
    assert first["id"] == "d001"
    # Behind the pages read so far.
    empty.delete(["d597", "d000"])
    empty.add(["d599", "d595", "e"], ["a", "b", "came later"], metadata=[{"n": 0}, {"n": 1}, {"n": 1}])
    rest = list(odd)
    expected = [id for id in ids[3::2] if id not in ("d597", "d599")]
    assert [own["id"] for own in rest] == expected and rest[-1]["text"] == "b"
    assert list(odd) == [] and [own["id"] for own in empty.iter({"n": 1})] == ["d001", *expected, "e"]
    with pytest.raises(ehi.FilterError):
        empty.iter({"n": {"$no": 1}})


def test_hits_come_in_groups(filled, documents, empty):
    texts = ["mice and cells", "cells in mice", "cells", "a text of mice"]
    empty.add(list("abcd"), texts, metadata=[{"of": 1}, {"of": 1.0}, {"of": "x"}, None])
    for options, per_group in (({}, 1), ({"per_group": 2}, 2)):
        (result,) = empty.search(["cells in mice"], k=3, group_by="of", **options)
        groups = {}
        for hit in result:
            groups.setdefault(hit.id if hit.group is None else hit.group, []).append(hit.id)
            assert hit.as_dict()["group"] == hit.group
        assert groups.keys() == {1, "x", "d"} and len(groups[1]) == per_group
        assert result.request["group_by"] == "of" and result.request["per_group"] == per_group
    assert filled.search("cells", k=1)[0].group is None
    vector = ehi.Encoder(MODEL, precision="int8").encode_query("cells")
    assert filled.search(vector, k=2, group_by="place")[1].group in range(200)
    with pytest.raises(ehi.InputError, match="per_group"):
        empty.search("cells", per_group=2)
    with pytest.raises(ehi.InputError, match="group_by"):
        empty.explain("cells", group_by="of")


def test_a_scope_has_its_documents_alone(empty):
    both = {"a": ["a1", "a2", "a3"], "b": ["b1", "b2"]}
    for tenant, ids in both.items():
        metadata = [{"tenant": tenant, "n": n} for n in range(len(ids))]
        empty.add(ids, [f"cells of {id}" for id in ids], metadata=metadata)
    own = empty.scoped({"tenant": "b"})
    assert own.ids() == both["b"] and own.count() == 2 and own.count({"n": {"$lt": 1}}) == 1
    assert sorted(own.search("cells", k=10).ids) == both["b"]
    one, other = own.search(["cells of a1", "cells"], k=5, filter={"$ids": ["a1", "b1"]}, mode="lexical")
    assert one.ids == other.ids == ["b1"]
    vector = ehi.Encoder(MODEL, precision="int8").encode_query("cells")
    assert sorted(own.search(vector, k=5, exact=True).ids) == both["b"]
    assert [len(result) for result in own.search(np.stack([vector] * 3), k=1)] == [1, 1, 1]
    assert own.get("a1") is None and [each and each["id"] for each in own.get(["b1", "a1"])] == ["b1", None]
    facets = own.facets(["tenant", "n"])
    assert [each["value"] for each in facets["tenant"]["values"]] == ["b"] and facets["n"]["range"] == [0, 1]
    assert own.delete(["a1", "b1"]) == 1 and own.delete(filter={"tenant": "a"}) == 0
    with pytest.raises(TypeError, match="give either `ids` or `filter`"):
        own.delete()
    with pytest.raises(ValueError, match="`parallel` is for one question"):
        own.search(["a", "b"], parallel=True)
    assert own.delete(filter={}) == 1 and own.count() == 0 and empty.ids() == both["a"]
    empty.close()
    with pytest.raises(ehi.InputError, match="is closed"):
        own.count()


def test_one_writer_and_any_number_of_readers(tmp_path):
    with ehi.Index.create(tmp_path / "index", MODEL, precision="int8") as index:
        with pytest.raises(ehi.LockedError):
            ehi.Index.open(tmp_path / "index")
        reader = ehi.Index.open(tmp_path / "index", read_only=True)
        index.add(["a"], ["a text"])
        index.flush()
        assert len(reader) == 0 and reader.refresh() and len(reader) == 1
        with pytest.raises(ehi.Error):
            reader.add(["b"], ["x"])
    index.close()
    with pytest.raises(ehi.InputError, match="closed"):
        index.search("x")
    with ehi.Index.open(str(tmp_path / "index")) as again:
        assert again.search("a text").ids == ["a"] and again.verify()["sound"]
        again.snapshot(tmp_path / "copy")
    assert ehi.Index.open(tmp_path / "copy", read_only=True).get("a")["text"] == "a text"
    with pytest.raises(ehi.StoreError):
        ehi.Index.open(tmp_path / "nowhere")
    with pytest.raises(ehi.ModelError):
        ehi.Index.create(tmp_path / "other", tmp_path)


def test_an_open_index_is_not_pickled(filled):
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(filled)
    assert pickle.loads(pickle.dumps(filled.path)) == pathlib.Path(filled.path)


def child(index, answers):
    try:
        index.search("x")
        answers.put("searched")
    except ehi.Error as error:
        answers.put(str(error))


def test_a_forked_child_is_told(filled):
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=child, args=(filled, answers))
    process.start()
    answer = answers.get(timeout=30)
    process.join()
    assert "process" in answer, answer


def test_progress_may_cancel_or_raise(empty, documents):
    heard = []
    empty.add(documents[:20], progress=lambda stage, done, total: heard.append((stage, done, total)))
    assert heard[-1] == ("insert", 20, 20)
    with pytest.raises(ehi.CancelledError):
        empty.verify(progress=lambda *_: False)

    def fails(*_):
        raise RuntimeError("from the callback")

    with pytest.raises(RuntimeError, match="from the callback"):
        empty.verify(progress=fails)
    with pytest.raises(RuntimeError) as raised:
        empty.add(documents[20:24], progress=fails)
    assert "documents of the call" in str(raised.value.__cause__)
    with pytest.raises(ehi.CancelledError, match="cancelled after . documents of the call"):
        empty.add(documents[24:28], progress=lambda *_: False)
    empty.compact()


def test_two_threads_search_while_one_writes(empty, documents):
    empty.add(documents[:50])
    failures = []

    def searches():
        try:
            for document in documents[:50]:
                assert empty.search(document["title"], k=3).ids
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=searches) for _ in range(2)]
    for thread in threads:
        thread.start()
    empty.add(documents[50:80])
    for thread in threads:
        thread.join()
    assert not failures and len(empty) == 80


def test_ctrl_c_ends_a_long_call(tmp_path, documents):
    program = textwrap.dedent(
        f"""
        import ehi, sys
        index = ehi.Index.create({str(tmp_path / "index")!r}, {str(MODEL)!r})
        texts = ["a text of some words " * 20 + str(place) for place in range(20000)]
        print("ready", flush=True)
        try:
            index.add([str(place) for place in range(len(texts))], texts)
        except KeyboardInterrupt as error:
            print(error.__cause__)
            print("stored", len(index), flush=True)
            index.close()
            sys.exit(7)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 7, out
    stored = int(out.split()[-1])
    assert f"cancelled after {stored} documents of the call" in out
    with ehi.Index.open(tmp_path / "index", read_only=True) as index:
        assert len(index) == stored < 20000


def test_judgments_and_what_is_told(empty, documents):
    empty.add(documents[:30])
    pairs = [(document["title"], document["id"]) for document in documents[:5]]
    assert empty.judge(pairs)["added"] == 5
    # Of two the last is stored, and none if one is bad.
    again = empty.judge([(*pairs[0], 2), (*pairs[0], 0)])
    assert (again["replaced"], again["repeated"]) == (1, 1)
    late = {"question": "late?", "id": "x", "time": int(time.time()) + 100_000}
    with pytest.raises(ehi.InputError, match="at most a day ahead"):
        empty.judge([("early?", "x"), late])
    moved = empty.explain(pairs[0][0], k=3)["moved"]
    assert [(own["id"], own["judged"]["grade"]) for own in moved] == [(pairs[0][1], 0)]
    hit = empty.search(pairs[1][0], k=1)[0]
    assert hit.id == pairs[1][1] and hit.judged["moved"] == 1.5
    assert len(empty.judgments()) == 5 and empty.forget(pairs[:2]) == 2
    assert empty.forget(question=pairs[2][0]) == 1 and empty.forget(before=1e9) == 0
    assert empty.forget(before=time.time() + 60) == 2 and empty.judgments() == []
    for given in ({}, {"pairs": pairs, "before": 1.0}, {"question": "a", "before": 1.0}):
        with pytest.raises(ValueError, match="give one of"):
            empty.forget(**given)
    assert empty.half_life is None
    empty.half_life = 0.5
    assert empty.half_life == 0.5 and empty.judgments() == []
    with pytest.raises(ehi.InputError, match="above 0"):
        empty.half_life = 0
    with pytest.raises(ValueError, match="`half_life`"):
        empty.half_life = -1
    empty.half_life = None
    assert empty.half_life is None
    empty.log_questions(True)
    empty.search("is this kept?")
    assert [each["question"] for each in empty.logged_questions()] == ["is this kept?"]
    assert empty.stats()["documents"] == 30 and empty.health() and empty.leaves()
    explained = empty.explain(documents[0]["title"], k=3, against_exact=True)
    assert explained["hits"][0]["id"] == documents[0]["id"]
    fused = empty.fuse()
    assert fused["fusion"] is None and "40" in fused["sentence"]


def test_what_made_the_embeddings_is_told(empty, tmp_path):
    assert empty.stats()["encoded_by"] == []
    empty.add([{"id": "a", "text": "Tea steeps for three minutes."}])
    assert empty.stats()["encoded_by"] == ["int8"]
    empty.close()
    with ehi.Index.open(tmp_path / "index") as index:
        index.add([{"id": "c", "text": "Coffee is ground first."}])
        assert index.stats()["encoded_by"] == ["int8"]
    with ehi.Index.open(tmp_path / "index", precision="f32") as index:
        index.add([{"id": "b", "text": "Tea steeps for three minutes."}])
        assert index.stats()["encoded_by"] == ["f32", "int8"]
        hits = index.search("Tea steeps for three minutes.", k=2)
        assert all(-1 <= score <= 1 for score in hits.scores) and max(hits.scores) > 0.98


def test_a_question_that_is_a_document_does_not_find_itself(empty, tmp_path):
    texts = {"a1": "We should ban cars in cities.", "a2": "Cars in cities bring jobs, do not ban them."}
    empty.add([{"id": id, "text": text} for id, text in texts.items()])
    empty.flush()
    for name, known in [("arguments", False), ("ArguAna", True)]:
        data = tmp_path / name
        (data / "qrels").mkdir(parents=True)
        lines = [json.dumps({"_id": id, "text": text}) for id, text in texts.items()]
        (data / "corpus.jsonl").write_text("\n".join(lines))
        (data / "queries.jsonl").write_text(lines[0])
        (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na1\ta2\t1\n")
        report = ehi.evaluate(empty, data)
        assert report["ignores_identical_ids"] is known
        assert report["exact"]["mrr@10"] == (1.0 if known else 0.5)
        other = ehi.evaluate(empty, data, ignore_identical_ids=not known)
        assert other["exact"]["mrr@10"] == (0.5 if known else 1.0)


def test_an_index_has_passages_by_default(tmp_path):
    text = "word " * 500 + "Galileo discovered four moons of Jupiter."
    with ehi.Index.create(tmp_path / "default", MODEL, precision="int8") as index:
        index.add(["long"], [text])
        assert index.stats()["passages"] == {"tokens": 200, "overlap": 40}
        vector = index.search("moons of jupiter", k=1)[0]
        assert "Jupiter" in text[slice(vector.passages[0]["start"], vector.passages[0]["end"])]
    with ehi.Index.create(tmp_path / "whole", MODEL, precision="int8", passages=False) as index:
        with pytest.warns(UserWarning, match="longer than the model reads: 1"):
            index.add(["long"], [text])
        assert index.stats()["passages"] is None and index.search("moons", k=1)[0].passages == []


def test_long_documents_have_passages(tmp_path):
    text = "\n\n".join(f"Paragraph {place} is about nothing. " * 8 for place in range(6))
    text += "\n\nThe moons of Jupiter were seen by Galileo in 1610. " * 3
    with ehi.Index.create(tmp_path / "index", MODEL, precision="int8", passages=(64, 8)) as index:
        assert index.add(["long", "other"], [text, "A text about tea."])["inserted"] == 2
        (hit,) = index.search("who discovered moons of jupiter?", k=1, passages=2)
        best = hit.passages[0]
        part = text.encode()[best["start"] : best["end"]].decode()
        assert hit.id == "long" and "Jupiter" in part and len(hit.passages) == 2
    with pytest.raises(ehi.InputError):
        ehi.Index.create(tmp_path / "bad", MODEL, passages=(2, 8))


def test_a_reranker_orders_the_hits(filled, documents):
    folder = ROOT / "tests" / "fixtures" / "rerankers" / "6.2" / "identity"
    reranker = ehi.Reranker(folder)
    scores = reranker.score("cells in mice", [document["text"] for document in documents[:3]])
    assert scores.shape == (3,) and scores.dtype == np.float32
    plain = filled.search("cells in mice", k=5)
    assert plain.request == {"k": 5, "mode": "best", "recall": 0.95}
    with pytest.raises(TypeError, match="unknown keyword `kk`"):
        filled.search("cells in mice", kk=5)
    part = plain[0].snippet("cells in mice", 60)
    text = plain[0].text.encode()[part["start"] : part["end"]].decode()
    assert part["text"] == text and len(text.encode()) <= 60
    again = filled.search("cells in mice", k=5, reranker=reranker, rerank_depth=5)
    assert sorted(again.ids) == sorted(plain.ids) and plain[0].rerank_score is None
    order = [hit.rerank_score for hit in again]
    assert order == sorted(order, reverse=True) == again.rerank_scores.tolist()
    assert np.isnan(plain.rerank_scores).all()
    several = filled.search(["cells in mice", "-cells"], k=7, reranker=reranker, rerank_depth=5)
    assert several[0].rerank_scores[:5].tolist() == order and np.isnan(several[0].rerank_scores[5:]).all()


def test_metadata_are_dictionaries(filled):
    before = len(filled)
    with pytest.raises(TypeError, match="metadata"):
        filled.add(["a1", "a2"], ["b", "c"], metadata={"year": 3})
    summary = filled.add(["a1", "a2"], ["b", "c"], metadata=["year", 3])
    assert [own["error"] for own in summary["refused"]] == [
        f"metadata must be a dictionary, not {kind}" for kind in ("str", "int")
    ]
    assert len(filled) == before


def test_a_reranker_is_trained(filled, documents, tmp_path):
    folder = ROOT / "tests" / "fixtures" / "rerankers" / "6.2" / "identity"
    pairs = [(f"{document['title']}?", document["id"]) for document in documents]
    given = {"documents": documents, "pairs": pairs, "dev_fraction": 0.3}
    config = {"epochs": 1, "negatives": 1, "max_tokens": 32, "depth": 5}
    told = []
    reranker, report = ehi.train_reranker(
        folder, tmp_path / "out", **given, index=filled, config=config, progress=lambda *at: told.append(at)
    )
    assert told and report["config"]["epochs"] == 1 and report["verdict"]["sentence"]
    assert report["documents"] == len(documents) and report["train_queries"] > report["dev_queries"] > 20
    scores = reranker.score("cells in mice", ["a text", "another"])
    _, alike = ehi.train_reranker(folder, tmp_path / "alike", pairs=pairs, dev_fraction=0.3, index=filled, config=config)
    assert alike["train_queries"] == report["train_queries"]
    assert (ehi.Reranker(tmp_path / "out").score("cells in mice", ["a text", "another"]) == scores).all()
    with pytest.raises(ehi.ModelError):
        ehi.train_reranker(folder, tmp_path / "out", **given, config=config)
    with pytest.raises(ValueError, match="epoch"):
        ehi.train_reranker(folder, tmp_path / "new", **given, config={"epoch": 1})
    with pytest.raises(ehi.TrainError):
        ehi.train_reranker(folder, tmp_path / "new", **given, config={"epochs": 0})
    with pytest.raises(ValueError, match="data"):
        ehi.train_reranker(folder, tmp_path / "new", documents=documents)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("model", [7, None, ["models"]])
def test_what_is_no_model_is_named(model, tmp_path):
    expected = "a model must be an ehi.Model, the path of a folder or a Sentence"
    for call in (ehi.Model, ehi.Encoder):
        with pytest.raises(TypeError, match=expected):
            call(model)
    # Without a model, dimensions are needed.
    with pytest.raises(TypeError, match="give a `model`, or the dim" if model is None else expected):
        ehi.Index.create(tmp_path / "index", model)
