"""Django's SQLite backend, with a queue before the one writer that SQLite allows."""
