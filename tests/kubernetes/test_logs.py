"""A run's output by offset, from a kubelet that knows times only: nothing lost, nothing twice, whatever comes between two looks."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kmock import Server

from apps.cluster.drivers.kubernetes.api import Api, Connection
from apps.cluster.drivers.kubernetes.logs import Logs, without_broken_end
from apps.core.errors import NotFound, Unavailable
from tests.kubernetes.server import ApiServer, Manifest

START = datetime(2026, 1, 1, tzinfo=UTC)


CUT = 16 * 1024  # bytes after which the container runtime cuts a line


class Output:
    """What a kubelet has of a run's output. `zone` is that of its machine. The runtime keeps back what has no end yet, and cuts what
    is too long: the rest is another entry, with another time."""

    def __init__(self, server: ApiServer, zone: timezone = UTC) -> None:
        self.server, self.zone, self.lines, self.now = server, zone, list[tuple[datetime, int, bytes]](), START
        self.asked: list[dict[str, str]] = []
        self.all = self._held = b""
        self.pod = server.put("pods", {"metadata": {"name": "p", "namespace": "n"}, "status": running("Running")})
        server.logs["p"] = self._answer

    def write(self, text: str | bytes, *, after: float = 0.0, nanoseconds: int = 0) -> None:
        self.now += timedelta(seconds=after)
        *whole, self._held = (self._held + (text.encode() if isinstance(text, str) else text)).split(b"\n")
        for line in whole:
            self._enter(line + b"\n", nanoseconds)
        while len(self._held) > CUT:
            self._enter(self._held[:CUT], nanoseconds)
            self._held = self._held[CUT:]

    def end(self) -> None:
        """The run has ended: what was kept back is written."""
        if self._held:
            self._enter(self._held, 0)
        self.pod = self.server.patch("pods", "p", {"status": {"phase": "Succeeded"}})

    def _enter(self, line: bytes, nanoseconds: int) -> None:
        self.lines.append((self.now, nanoseconds, line))
        self.all += line

    def rotate(self) -> None:
        self.lines.clear()

    def _answer(self, params: dict[str, str]) -> bytes:
        self.asked.append(params)
        since = datetime.fromisoformat(params["sinceTime"]) if "sinceTime" in params else START - timedelta(days=1)
        found = [one for one in self.lines if one[0].replace(microsecond=0) >= since]
        begins = [True, *(line.endswith(b"\n") for _, _, line in found)]
        parts = [
            (self._stamp(at, ns) + b" " if params.get("timestamps") == "true" and new else b"") + line
            for new, (at, ns, line) in zip(begins, found, strict=False)
        ]
        text = b"".join(parts)
        return text[: int(params["limitBytes"])] if "limitBytes" in params else text

    def _stamp(self, at: datetime, nanoseconds: int) -> bytes:
        local = at.astimezone(self.zone)
        zone = "Z" if self.zone is UTC else local.strftime("%z")[:3] + ":" + local.strftime("%z")[3:]
        return f"{local:%Y-%m-%dT%H:%M:%S.%f}{nanoseconds:03d}{zone}".encode()


def running(phase: str) -> Manifest:
    return {"phase": phase, "containerStatuses": [{"name": "main", "containerID": "x", "state": {"running": {}}}]}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as made, Server(made, host="127.0.0.1"):
        yield made


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with Api(Connection(host=str(server.servers[0].url))) as made:
        yield made


async def read_all(logs: Logs, api: Api, output: Output, offset: int = 0, limit: int = 65536) -> tuple[str, int, bool]:
    """Everything from `offset` on that there is now."""
    text = ""
    while True:
        chunk = await logs.read(api, output.pod, offset=offset, limit=limit)
        assert chunk.offset == offset
        text, offset = text + chunk.text, chunk.next
        if not chunk.text or chunk.eof:
            return text, offset, chunk.eof


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=8)), timezone(-timedelta(hours=3, minutes=30))])
async def test_following_reads_only_what_is_new(server: ApiServer, api: Api, zone: timezone) -> None:
    output, logs = Output(server, zone), Logs()
    output.write("".join(f"line {n}\n" for n in range(100)))
    first, offset, _ = await read_all(logs, api, output)
    output.write("later\n", after=3.0)
    second, offset, _ = await read_all(logs, api, output, offset)
    assert (first + second).encode() == output.all
    assert second == "later\n"
    output.asked.clear()
    output.write("last\n", after=1.0)
    assert (await read_all(logs, api, output, offset))[0] == "last\n"
    assert all("sinceTime" in asked for asked in output.asked)


async def test_lines_of_one_instant_are_neither_lost_nor_told_twice(server: ApiServer, api: Api) -> None:
    output, logs, text, offset = Output(server), Logs(), "", 0
    for number in range(20):
        output.write(f"{number}\n")
        more, offset, _ = await read_all(logs, api, output, offset)
        text += more
    assert text == "".join(f"{n}\n" for n in range(20))


async def test_a_line_that_was_cut_for_its_length_comes_whole(server: ApiServer, api: Api) -> None:
    output, logs = Output(server), Logs()
    output.write("before\n" + "x" * (CUT + 10))
    text, offset, _ = await read_all(logs, api, output)
    assert text == "before\n" + "x" * CUT
    output.write("y\nnext\n", after=2.5)
    more, offset, _ = await read_all(logs, api, output, offset)
    output.write("last\n", after=0.1)
    last, _, _ = await read_all(logs, api, output, offset)
    assert (text + more + last).encode() == output.all


async def test_progress_bars_are_one_line(server: ApiServer, api: Api) -> None:
    output, logs = Output(server), Logs()
    output.write("10 %\r20 %\r")
    assert (await read_all(logs, api, output))[0] == ""
    output.write("100 %\ndone\n", after=1.5)
    assert (await read_all(logs, api, output))[0] == "10 %\r20 %\r100 %\ndone\n"


async def test_old_bytes_are_fetched_again_and_a_negative_offset_counts_from_the_end(
    server: ApiServer, api: Api
) -> None:
    output, logs = Output(server), Logs()
    line = "x" * 1023 + "\n"
    output.write(line * 600)
    whole = output.all.decode()
    chunk = await logs.read(api, output.pod, offset=1000, limit=50)
    assert chunk.text == whole[1000:1050]
    chunk = await logs.read(api, output.pod, offset=-10, limit=50)
    assert (chunk.text, chunk.offset) == (whole[-10:], len(whole) - 10)
    assert (await logs.read(api, output.pod, offset=10**9, limit=50)).offset == len(whole)
    assert (await read_all(logs, api, output))[0] == whole


async def test_after_a_rotation_the_output_goes_on(server: ApiServer, api: Api) -> None:
    output, logs = Output(server), Logs()
    output.write("old\n" * 10)
    _, offset, _ = await read_all(logs, api, output)
    output.rotate()
    output.write("new\n", after=0.0, nanoseconds=5)
    assert (await read_all(logs, api, output, offset))[0] == "new\n"


async def test_the_end_is_told_when_the_run_has_ended_and_all_was_read(server: ApiServer, api: Api) -> None:
    output, logs = Output(server), Logs()
    output.write("a\nb")
    assert not (await read_all(logs, api, output))[2]
    output.end()
    chunk = await logs.read(api, output.pod, offset=0, limit=2)
    assert (chunk.text, chunk.eof) == ("a\n", False)
    assert (await read_all(logs, api, output))[1:] == (3, True)


async def test_characters_are_never_cut(server: ApiServer, api: Api) -> None:
    output, logs = Output(server), Logs()
    output.write("第一行\n第二行\n")
    text, offset = "", 0
    while offset < len(output.all):
        chunk = await logs.read(api, output.pod, offset=offset, limit=4)
        text, offset = text + chunk.text, chunk.next
    assert text.encode() == output.all


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.text("ab\n\r第", max_size=8), st.sampled_from([0.0, 0.0, 0.3, 1.0, 5.0])), max_size=12))
async def test_however_it_is_written_and_read_it_comes_whole(
    server: ApiServer, api: Api, pieces: list[tuple[str, float]]
) -> None:
    output, logs, text, offset = Output(server), Logs(), "", 0
    for piece, after in pieces:
        output.write(piece, after=after)
        more, offset, _ = await read_all(logs, api, output, offset)
        text += more
    output.end()
    more, _, eof = await read_all(logs, api, output, offset)
    assert (text + more).encode() == output.all
    assert eof


async def test_before_there_is_a_container_the_output_is_empty(server: ApiServer, api: Api) -> None:
    pod = server.put("pods", {"metadata": {"name": "q", "namespace": "n"}, "status": {"phase": "Pending"}})
    chunk = await Logs().read(api, pod, offset=0, limit=100)
    assert (chunk.text, chunk.next, chunk.eof) == ("", 0, False)


async def test_what_is_no_more_is_not_found_and_what_cannot_be_read_is_not_available(
    server: ApiServer, api: Api
) -> None:
    output = Output(server)
    server["get", lambda request: request.url.path.endswith("/log")][:1] << 500
    with pytest.raises(Unavailable):
        await Logs().read(api, output.pod, offset=0, limit=1)
    del server.logs["p"]
    with pytest.raises(NotFound, match="no longer has the output"):
        await Logs().read(api, output.pod, offset=0, limit=1)
    server.drop("pods", "p")
    with pytest.raises(NotFound, match="went with it"):
        await Logs().read(api, output.pod, offset=0, limit=1)


@pytest.mark.parametrize(
    ("text", "count", "kept"), [("", 0, 0), ("a", 1, 1), ("é", 1, 1), ("aé", 2, 1), ("a第", 3, 1), ("a第", 4, 4)]
)
def test_a_broken_end_waits_for_its_rest(text: str, count: int, kept: int) -> None:
    data = text.encode()[:count]
    assert without_broken_end(data) == data[:kept]
