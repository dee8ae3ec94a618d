"""What the library reports reaches Python's `logging`."""

import logging
import os
import subprocess
import sys
import threading

import pytest

import ehi
from places import MODEL


def make_unshared(folder, set_up=""):
    """Makes an index where the folder of shared models cannot be made; gives what the program prints."""
    (folder / "file").touch()
    code = f"""
import logging, ehi
{set_up}
ehi.Index.create({str(folder / "index")!r}, {str(MODEL)!r}, precision="int8").close()
"""
    environment = {**os.environ, "EHI_MODELS": str(folder / "file" / "models")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_warning_is_printed_without_any_set_up(tmp_path):
    assert "the index gets its own copy of the model" in make_unshared(tmp_path)


def test_a_warning_goes_to_the_logger_of_its_target(tmp_path):
    form = "logging.basicConfig(format='%(levelname)s|%(name)s|%(path)s|%(message)s')"
    line = make_unshared(tmp_path, form).splitlines()[0]
    level, name, path, message = line.split("|", 3)
    assert (level, name, path) == ("WARNING", "ehi.model.model_store", str(tmp_path / "file" / "models"))
    assert message.startswith("the index gets its own copy of the model: ") and f"path={path}" in message


@pytest.mark.parametrize("quiet", ["logging.getLogger('ehi').setLevel('ERROR')", "logging.disable()"])
def test_a_logger_of_a_higher_level_gets_nothing(tmp_path, quiet):
    assert make_unshared(tmp_path, quiet) == ""


def test_spans_are_records_of_debug_with_their_duration(filled, caplog):
    filled.search("tea")
    assert not caplog.records
    with caplog.at_level("DEBUG", "ehi.index.search"):
        filled.search("tea", k=3)
    (record,) = [own for own in caplog.records if own.name.startswith("ehi.index.search")]
    assert (record.levelname, record.queries, record.k, record.filtered) == ("DEBUG", 1, 3, False)
    assert 0 < record.duration < 60 and record.getMessage().startswith("search: ")
    caplog.clear()
    filled.search("tea")
    assert not caplog.records


def test_levels_count_as_logging_counts_them(filled, caplog):
    def recorded():
        caplog.clear()
        filled.search("tea")
        return len(caplog.records)

    with caplog.at_level("DEBUG"):
        assert recorded() > 0
        logging.getLogger("ehi.index").setLevel("INFO")
        assert recorded() == 0
        logging.getLogger("ehi.index").setLevel("NOTSET")
        assert recorded() > 0
        logging.disable(logging.DEBUG)
        try:
            assert recorded() == 0
        finally:
            logging.disable(logging.NOTSET)
        assert recorded() > 0


def test_records_of_many_threads(filled, caplog):
    row = ehi.Encoder(MODEL).encode_query(["tea"] * 40)

    def ask():
        for _ in range(50):
            filled.search(row, ids_only=True)

    with caplog.at_level("DEBUG", "ehi"):
        threads = [threading.Thread(target=ask) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join(60) for thread in threads]
        assert not any(thread.is_alive() for thread in threads)
        filled.search("tea")
    assert len(caplog.records) > 200


def test_what_a_handler_raises(filled, capsys):
    class Handler(logging.Handler):
        def handle(self, record):
            raise self.error

    handler, logger = Handler(), logging.getLogger("ehi")
    logger.addHandler(handler)
    logger.setLevel("DEBUG")
    try:
        handler.error = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            filled.search("tea")
        handler.error = ZeroDivisionError()
        with _unraisable() as found:
            assert filled.search("tea").ids
        assert isinstance(found[0].exc_value, ZeroDivisionError)
    finally:
        logger.removeHandler(handler)
        logger.setLevel("NOTSET")


class _unraisable:
    """What is reported as unraisable."""

    def __enter__(self):
        self.found, self.hook = [], sys.unraisablehook
        sys.unraisablehook = self.found.append
        return self.found

    def __exit__(self, *error):
        sys.unraisablehook = self.hook


def test_a_handler_may_search(filled):
    class Handler(logging.Handler):
        found = None

        def emit(self, record):
            if self.found is None:
                self.found = ()
                self.found = filled.search("coffee").ids

    handler, logger = Handler(), logging.getLogger("ehi")
    logger.addHandler(handler)
    logger.setLevel("DEBUG")
    try:
        filled.search("tea")
    finally:
        logger.removeHandler(handler)
        logger.setLevel("NOTSET")
    assert handler.found


def test_what_waits_is_handed_over_at_the_end(tmp_path):
    code = f"""
import logging, ehi
logging.basicConfig(level="DEBUG", format="%(name)s %(message)s")
index = ehi.Index.create({str(tmp_path / "index")!r}, {str(MODEL)!r}, precision="int8")
index.add(["tea"], ["Green tea has caffeine."])
print("now", flush=True)
del index
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "ehi.store.seal flush: " in done.stderr
