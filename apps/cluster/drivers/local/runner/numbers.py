"""Under which descriptors a runner has the sockets of its run: known to the driver, which names them in the order."""

FIRST_SOCKET = 64
MOST_SOCKETS = 16
