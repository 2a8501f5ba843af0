"""Our own Parquet datasets: layout, reading, writing."""
