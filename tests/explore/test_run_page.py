"""The page of a run holds its record, nothing in it is read as markup, and a page that is watched gets what is new."""

import base64
import gzip
import http.client
import re
import threading
import time

import msgspec
import pytest
from tests.explore.runs import HOSTILE, hostile, language, lost, pictured, point, run, translated
from tests.record.test_run import written

from equiscope.errors import InputError
from equiscope.explore import Live, following, html, write
from equiscope.explore.pages import run as room
from equiscope.explore.pages.run import plain
from equiscope.explore.server import server
from equiscope.record import RunReport, RunUpdate, run_report, write_run
from equiscope.record.run import METRICS

DATA = re.compile(r'<script type="application/octet-stream" id="runreport">([\w+/=]+)</script>')


def read(page: str) -> RunReport:
    (data,) = DATA.findall(page)
    return msgspec.json.decode(gzip.decompress(base64.b64decode(data)), type=RunReport)


@pytest.mark.parametrize("made", [run, translated, pictured, hostile, lost, lambda: run(done=0, samples=[], scores=[])])
def test_the_page_holds_the_record_as_it_is(made):
    assert read(html(run_report(made()))) == run_report(made())
    assert read(html(run_report(made()))).run == made()


def test_a_hostile_run_adds_no_element_to_the_page():
    clean, page = html(run_report(run())), html(run_report(hostile()))
    assert HOSTILE not in page
    assert page.count("<script") == clean.count("<script")
    assert page.count("</script>") == clean.count("</script>")
    assert "<img" not in plain(run_report(hostile()))
    assert HOSTILE not in Live(hostile(), []).page()


def test_without_a_script_the_page_is_tables():
    (noscript,) = re.findall(r"<noscript>(.*?)</noscript>", html(run_report(run())), re.DOTALL)
    assert run_report(run()).summary in noscript
    for told in ("<td>validation</td>", "<td>1.25</td>", "toy.txt", "ab" * 32, " after 60", "training loss"):
        assert told in noscript


def test_the_page_asks_for_nothing_and_one_that_is_watched_asks_its_own_server():
    page, watched = html(run_report(run())), Live(run(), []).page()
    assert "connect-src" not in page
    assert "default-src 'none'" in page
    assert "default-src 'none'" in watched
    assert "connect-src 'self'" in watched
    assert not re.search(r'(?:src|href)="https?:', page)


def test_it_is_written_whole_or_not_at_all(tmp_path):
    path = write(run_report(run()), tmp_path / "run.html")
    assert path.read_text(encoding="utf-8") == html(run_report(run()))
    with pytest.raises(InputError, match="cannot be written"):
        write(run_report(run()), tmp_path / "no" / "run.html")


def test_who_watches_gets_each_entry_once_and_in_order():
    live, found = Live(run(done=10), []), run(done=10)
    for entry in found.points:
        live.add(entry)
    assert live.news(0).entries == found.points
    assert live.news(4).entries == found.points[4:]
    assert live.news(10).entries == live.news(10**11).entries == []
    assert live.news(0).summary == "Step 10 of 60: training loss 3.827."
    assert live.news(0).seconds_left == pytest.approx(0.25 * 50)


def test_one_answer_is_bounded_and_says_that_more_waits():
    live = Live(run(), list(run().points))
    known, answers = 0, 0
    while (news := live.news(known, most=4)).more or not answers:
        known, answers = known + len(news.entries), answers + 1
        assert len(news.entries) == 4
    assert known + len(news.entries) == 60


def test_a_run_that_goes_on_shows_its_past():
    assert live_of(run(done=30)).news(0).entries == [*run(done=30).points]


def live_of(found):
    return Live(msgspec.structs.replace(found, points=[]), list(found.points))


def test_another_beginning_is_another_series():
    live = live_of(run(done=30))
    first = live.news(0).series
    live.begin(run(done=0), [])
    assert live.news(0).series not in ("", first)
    assert live.news(0).entries == []
    assert read(live.page()).series == live.news(0).series


def test_the_end_is_told():
    live = live_of(run(done=30))
    live.state(run())
    news = live.news(30)
    assert (news.state, news.summary, news.result) == ("finished", run_report(run()).summary, run().result)
    assert news.seconds_left is None


@pytest.mark.parametrize("number", ["", "-1", "1.5", "x", "1e3", "٣", "9" * 13, "0x1", "../../etc/passwd"])
def test_a_question_without_a_number_is_refused(number):
    with pytest.raises(InputError, match=r"Request /entries\?from=N"):
        live_of(run(done=3)).answer({"from": number})


def test_nobody_is_waited_for_who_does_not_ask(monkeypatch):
    slept = []
    monkeypatch.setattr(room.time, "sleep", slept.append)
    live = live_of(run(done=3))
    now = time.monotonic() + room.GONE + 1
    monkeypatch.setattr(room.time, "monotonic", lambda: now)
    live.wait()
    assert slept == []
    live.news(0)
    live.wait()
    assert slept == [room.PATIENCE]


@pytest.fixture
def served():
    live = live_of(run(done=3))
    with server(live.page, 18865, {"/entries": live.answer}) as made:
        yield live, made.port


def ask(port, path, host=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", path, headers={"Host": host or f"127.0.0.1:{port}"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_server_gives_the_page_and_what_is_new(served):
    live, port = served
    assert ask(port, "/")[1].decode() == live.page()
    answer, body = ask(port, "/entries?from=1")
    assert answer.getheader("Content-Type") == "application/json"
    assert answer.getheader("Cache-Control") == "no-store"
    assert msgspec.json.decode(body, type=RunUpdate).entries == run(done=3).points[1:]


@pytest.mark.parametrize("path", ["/entries", "/entries?from=-1", "/entries?from=1%00", "/entries?" + "&".join("abcdefghij")])
def test_a_bad_question_gets_a_sentence(served, path):
    answer, body = ask(served[1], path)
    assert answer.status == 400
    assert body.endswith(b".\n")


@pytest.mark.parametrize("path", ["/entries/../run.json", "/run.json", "/metrics.jsonl", "/entries/", "/%65ntries"])
def test_no_path_is_opened(served, path):
    assert ask(served[1], path)[0].status == 404


def test_a_name_that_somebody_points_here_gets_no_entries(served):
    answer, body = ask(served[1], "/entries?from=0", "evil.example")
    assert answer.status == 403
    assert b"loss" not in body


def test_many_tabs_may_ask_while_it_trains(served):
    live, port = served
    heard, stop = [], threading.Event()

    def tab() -> None:
        known = []
        while not stop.is_set() or len(known) < 203:
            known += msgspec.json.decode(ask(port, f"/entries?from={len(known)}")[1], type=RunUpdate).entries
        heard.append(known)

    tabs = [threading.Thread(target=tab) for _ in range(4)]
    for thread in tabs:
        thread.start()
    for step in range(4, 204):
        live.add(point(step))
    stop.set()
    for thread in tabs:
        thread.join(20)
    assert [[entry.step for entry in known] for known in heard] == [list(range(1, 204))] * 4


def test_a_run_of_another_process_is_followed(tmp_path):
    found = run(done=10, samples=[])
    entries = written(found, tmp_path)
    live = following(tmp_path)
    live.answer({"from": "0"})
    assert live.news(0).entries == entries
    with (tmp_path / METRICS).open("ab") as file:
        file.write(msgspec.json.encode(point(11)) + b"\n" + msgspec.json.encode(point(12))[:20])
    assert msgspec.json.decode(live.answer({"from": "10"}), type=RunUpdate).entries[-1].step == 11
    write_run(run(samples=language(range(0))), tmp_path)
    assert msgspec.json.decode(live.answer({"from": "0"}), type=RunUpdate).state == "finished"


def test_a_followed_run_that_goes_on_from_a_checkpoint_begins_again(tmp_path):
    written(run(done=10, samples=[]), tmp_path)
    live = following(tmp_path)
    before = live.news(0).series
    kept = (tmp_path / METRICS).read_bytes().splitlines(keepends=True)[:5]
    part = tmp_path / "part"
    part.write_bytes(b"".join(kept))
    part.replace(tmp_path / METRICS)
    news = msgspec.json.decode(live.answer({"from": "0"}), type=RunUpdate)
    assert news.series != before
    assert [entry.step for entry in news.entries] == [1, 2, 3, 4, 5]


def test_a_followed_record_that_is_damaged_is_said(tmp_path):
    written(run(done=10, samples=[]), tmp_path)
    live = following(tmp_path)
    with (tmp_path / METRICS).open("ab") as file:
        file.write(b"not json\n")
    with pytest.raises(InputError, match=r"metrics\.jsonl is damaged"):
        live.answer({"from": "0"})


def test_how_long_nothing_was_heard_is_told(monkeypatch):
    live = live_of(run(done=3))
    later = time.time() + 90
    monkeypatch.setattr(room.time, "time", lambda: later)
    assert 89 < live.news(0).silent < 91
