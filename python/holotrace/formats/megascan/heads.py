"""What the first bytes of a file tell of a schedule."""

from __future__ import annotations

from holotrace.formats.declaration import Head

# Args of the end of a forward or backward pass, which no other trace has all of.
_SIGNS = (b'"ph"', b'"microbatch"', b'"model_chunk"', b'"pp_rank"')
_RELATIVE = b'"rel_ts"'


def is_schedule(head: Head) -> bool:
    """Whether a file looks like MegaScan's."""
    return all(sign in head.text for sign in _SIGNS)


def refusal(head: Head) -> str:
    """Why a file is not the trace of all ranks; empty where it may be."""
    if _RELATIVE in head.text:
        return (
            "what one rank recorded with MegaScan, by a clock of its own; "
            "give the file that its aggregation made of all ranks"
        )
    return ""
