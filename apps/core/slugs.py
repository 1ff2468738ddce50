"""Host names from names in any script: readable where the name allows it, unique always."""

import re
import unicodedata
from base64 import b32encode
from uuid import UUID

MAX_LABEL = 63  # octets of a DNS label (RFC 1035)


def slug_for(name: str, unique: UUID) -> str:
    """A DNS label: the name's ASCII letters and digits, then `unique` in base 32. Different `unique` never give the same slug."""
    tail = b32encode(unique.bytes).decode("ascii").rstrip("=").lower()
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii").lower()
    head = re.sub(r"[^a-z0-9]+", "-", ascii_name).strip("-")[: MAX_LABEL - len(tail) - 1].strip("-")
    return f"{head}-{tail}" if head else f"x-{tail}"
