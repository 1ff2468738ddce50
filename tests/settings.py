"""The portal's settings with a state folder and a database of this test process alone; a Tessera that runs here is never touched."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_state = tempfile.mkdtemp(prefix="tessera-test-")
atexit.register(shutil.rmtree, _state, ignore_errors=True)
os.environ["TESSERA_STATE"] = _state  # before the settings are read; programs that tests start inherit it

from portal.settings import *  # noqa: E402, F403
from portal.settings import DATABASES  # noqa: E402

if "sqlite3" in DATABASES["default"]["ENGINE"]:
    DATABASES["default"]["TEST"] = {"NAME": Path(_state) / "test.sqlite3"}
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.MD5PasswordHasher"
]  # quick; that Argon2 is used is a test of the settings
