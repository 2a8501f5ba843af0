"""What is asked, in the order of the table; each module's first line is its question."""

from types import ModuleType

from questions import (
    analyses,
    call_tree,
    critical_path,
    dataset,
    hta,
    hta_methods,
    import_time,
    inflate_alone,
    job_graph,
    many_ranks,
    memory,
    pages,
    parse_alone,
    perfetto,
    profiles,
    ranks,
    typed_decode,
    whole_report,
    workers,
)

ALL: tuple[ModuleType, ...] = (
    hta,
    hta_methods,
    perfetto,
    typed_decode,
    parse_alone,
    inflate_alone,
    memory,
    analyses,
    call_tree,
    critical_path,
    job_graph,
    import_time,
    ranks,
    many_ranks,
    pages,
    whole_report,
    workers,
    profiles,
    dataset,
)
