"""Live outputs of a run during training: a served page and TensorBoard files. They never block the training loop."""

import sys
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from equiscope.errors import InputError
from equiscope.record.run import Entry, Run, read_entries, read_run

if TYPE_CHECKING:
    from equiscope.explore import Live
    from equiscope.explore.server import Server
    from equiscope.training.tensorboard import Board


class RunMonitor(AbstractContextManager["RunMonitor"]):
    """The outputs of --live and --tensorboard.

    live         first port to try; None for no page
    tensorboard  whether to write TensorBoard files; a run that has some gets more of them when it goes on
    """

    def __init__(self, folder: Path, live: int | None, open_browser: bool, tensorboard: bool) -> None:
        from equiscope.training.tensorboard import FOLDER, checked

        self.folder, self.port, self.open_browser = folder, live, open_browser
        self.tensorboard = tensorboard
        self._live: Live | None = None
        self._server: Server | None = None
        self._board: Board | None = None
        if tensorboard:
            checked()
        elif _has(folder / FOLDER):
            try:
                checked()
                self.tensorboard = True
            except InputError:
                print(f"{folder / FOLDER} is not continued: tensorboard is not installed.", file=sys.stderr)

    def begin(self, run: Run) -> None:
        """Called before the first step: earlier entries of a resumed run are shown too."""
        from equiscope.training.processes import first

        if not first():  # only the first of several processes
            return
        past = read_entries(self.folder) if self.port is not None or self.tensorboard else []
        if self.tensorboard:
            from equiscope.training.tensorboard import Board

            self._board = Board(self.folder, run, past)
        if self.port is not None:
            self._serve(run, past, self.port)

    def _serve(self, run: Run, past: list[Entry], port: int) -> None:
        from equiscope.cli.explore import opened
        from equiscope.explore import Live
        from equiscope.explore.server import server

        self._live = Live(run, past)
        self._server = server(self._live.page, port, {"/entries": self._live.answer})
        print(f"The run can be watched at {self._server.url}", file=sys.stderr, flush=True)
        if self.open_browser and not opened(self._server.url):
            print("No browser could be opened here: open the address above yourself.", file=sys.stderr, flush=True)

    def entry(self, entry: Entry) -> None:
        if self._live is not None:
            self._live.add(entry)
        if self._board is not None:
            self._board.add(entry)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._board is not None:
            self._board.close()
        if self._live is None or self._server is None:
            return
        with suppress(InputError):  # the training loop reports a missing folder
            self._live.state(read_run(self.folder, entries=False))
        if not isinstance(error, KeyboardInterrupt):
            self._live.wait()
        self._server.close()


def _has(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError:  # a name that no file can have, which the training loop reports
        return False
