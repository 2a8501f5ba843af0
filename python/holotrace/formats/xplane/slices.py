"""Exchanges between slices of TPUs: a program hands its data to the hosts, which return what comes of that of all."""

from __future__ import annotations

import polars as pl

_TRANSFER, _RENDEZVOUS = r'_xla_megascale_transfer_type="([A-Z_]+)"', r'_xla_host_transfer_rendezvous="([^"]+)"'
# Who receives this waits for the one that sends it only, which its text does not name.
_MESSAGE = "one-to-one"
_PROGRAM = "program_id"
# Profilers call the categories of all that passes through hosts so: "host recv-done".
_THROUGH_HOSTS = r"^host ((send|recv)(-done)?)$"


def with_categories(kinds: pl.DataFrame) -> pl.DataFrame:
    """The kinds of operations, what slices exchange with the ``hlo_category`` of a message, and not of hosts' data.

    Args:
        kinds: program_id, instruction, awaited, hlo_category and name, the full text, among others.
    """
    is_told = pl.col("name").cast(pl.String).str.contains(_TRANSFER).fill_null(value=False)
    told = kinds.filter(is_told).select(_PROGRAM, awaited="instruction", is_awaited=True).unique([_PROGRAM, "awaited"])
    category = pl.col("hlo_category").cast(pl.String)
    message = pl.when(is_told | pl.col("is_awaited")).then(category.str.replace(_THROUGH_HOSTS, "$1"))
    joined = kinds.join(told, on=[_PROGRAM, "awaited"], how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(hlo_category=pl.coalesce(message, category)).drop("is_awaited")


def with_exchanges(kinds: pl.DataFrame) -> pl.DataFrame:
    """The kinds of operations; a send that begins an exchange has this as its ``exchange``: "all-reduce".

    What receives, and what waits for that, has ``awaited`` the send.

    Args:
        kinds: program_id, instruction, awaited and name, the full text, among others.
    """
    text = pl.col("name").cast(pl.String)
    told = kinds.select(
        *(_PROGRAM, "instruction"),
        exchange=text.str.extract(_TRANSFER).str.to_lowercase().str.replace_all("_", "-").cast(pl.Categorical),
        rendezvous=text.str.extract(_RENDEZVOUS),
        is_sent=text.str.contains(r" send\(").fill_null(value=False),
        is_received=text.str.contains(r" recv\(").fill_null(value=False),
    )
    told = told.filter(pl.col("exchange").cast(pl.String) != _MESSAGE).drop_nulls("rendezvous")
    of_one, own, awaited = ([_PROGRAM, name] for name in ("rendezvous", "instruction", "awaited"))
    sent = told.filter("is_sent").unique(of_one).select(*of_one, "exchange", send="instruction")
    received = told.filter("is_received").unique(own).select(*of_one, "instruction")
    both = received.join(sent, on=of_one, nulls_equal=True)
    begun = both.select(_PROGRAM, "exchange", instruction="send").unique(own)
    receives = both.select(*own, receives="send")
    waits = both.select(_PROGRAM, awaited="instruction", waits="send")
    joined = kinds
    for known, key in ((begun, own), (receives, own), (waits, awaited)):
        joined = joined.join(known, on=key, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(awaited=pl.coalesce("receives", "waits", "awaited")).drop("receives", "waits")
