"""The backend: a transaction waits for its turn before BEGIN IMMEDIATE, and gives it back at its end."""

import threading
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError

from portal.sqlite.turn import Turn

_SECONDS = 20.0  # as SQLite's own busy_timeout, see settings

_turns: dict[str, Turn] = {}
_making = threading.Lock()


def _turn_of(database: str, *, behind: bool = False) -> Turn:
    with _making:
        return _turns.setdefault(database, Turn(database, behind=behind))


class DatabaseWrapper(base.DatabaseWrapper):
    _turn: Turn | None = None  # while this connection holds it

    def _start_transaction_under_autocommit(self) -> None:
        self._take_turn()
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc] # the stubs lack it
        except BaseException:
            self._give_turn()
            raise

    def _commit(self) -> Any:
        result = super()._commit()  # type: ignore[misc] # a commit that fails is followed by a rollback
        self._give_turn()
        return result

    def _rollback(self) -> Any:
        try:
            return super()._rollback()  # type: ignore[misc]
        finally:
            self._give_turn()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._give_turn()  # SQLite has rolled back, also where Django still thinks of a transaction

    def checkpoint(self) -> None:
        """Copy SQLite's log into the database, as far as that goes without anybody waiting. A commit of its own would do it every 1,000
        pages, and wait for the disk with the one write lock in its hand: 350 ms were seen."""
        with self.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _take_turn(self) -> None:
        name = str(self.settings_dict["NAME"])
        if self._turn is not None or self.is_in_memory_db():
            return
        turn = _turn_of(name, behind=bool(self.settings_dict.get("BEHIND")))
        if not turn.take(_SECONDS):
            raise OperationalError("database is locked: its turn did not come")
        self._turn = turn

    def _give_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.give()
