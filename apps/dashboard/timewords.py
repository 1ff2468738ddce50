"""Ages and lengths of time in words. The same two rules as static/js/ui.js, which keeps the words on the page current."""

from django.utils.translation import gettext as _

UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


def words() -> dict[str, str]:
    """All words that ages and lengths are made of, in the current language; `{n}` is the number."""
    return {
        "now": _("just now"),
        "second-ago": _("{n} s ago"),
        "minute-ago": _("{n} min ago"),
        "hour-ago": _("{n} h ago"),
        "day-ago": _("{n} d ago"),
        "second-ahead": _("in {n} s"),
        "minute-ahead": _("in {n} min"),
        "hour-ahead": _("in {n} h"),
        "day-ahead": _("in {n} d"),
        "second": _("{n} s"),
        "minute": _("{n} min"),
        "hour": _("{n} h"),
        "day": _("{n} d"),
    } | {"joint": " "}


def age(seconds: float) -> str:
    """How long ago, in one unit; negative is to come."""
    size = abs(seconds)
    if size < 10:
        return words()["now"]
    unit, length = next((unit, length) for unit, length in UNITS if size >= length)
    return words()[f"{unit}-{'ago' if seconds >= 0 else 'ahead'}"].replace("{n}", str(int(size // length)))


def length(seconds: float) -> str:
    """A length of time in at most two neighbouring units; `0 s` for less than a second."""
    rest = max(0, int(seconds))
    counted = []
    for unit, size in UNITS:
        n, rest = divmod(rest, size)
        counted.append((unit, n))
    first = next((index for index, (_unit, n) in enumerate(counted) if n), None)
    spoken = words()
    if first is None:
        return spoken["second"].replace("{n}", "0")
    pair = counted[first : first + 2]
    return " ".join(spoken[unit].replace("{n}", str(n)) for index, (unit, n) in enumerate(pair) if index == 0 or n)
