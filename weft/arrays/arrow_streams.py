"""Tables as Arrow streams: the bytes that carry rows between processes and into files."""

from __future__ import annotations

import pyarrow as pa


def streamed(table: pa.Table, compression: str | None = None) -> bytes:
    """A table as the bytes of an Arrow stream.

    >>> table_of(streamed(pa.table({"a": [1, 2]}))).to_pydict()
    {'a': [1, 2]}
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def table_of(stream: bytes | memoryview) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
