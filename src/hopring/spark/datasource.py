"""The data source `hopring`: reads spools as tables and streams, writes to spools and live groups."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from hopring.spark.errors import SparkError
from hopring.spark.schema import check_records, records_ddl
from hopring.spark.sink.options import WriteOptions, check_written, write_options
from hopring.spark.sink.writers import SinkStreamWriter, SinkWriter
from hopring.spark.source.options import BATCHES_ONLY, STREAMS_ONLY, read_options, refuse
from hopring.spark.source.readers import SpoolPushReader, SpoolReader, SpoolStreamReader

NAME = "hopring"


class SpoolDataSource(DataSource):
    """The data source behind `format("hopring")` in Spark."""

    @classmethod
    def name(cls) -> str:
        """The name by which Spark finds the source."""
        return NAME

    def schema(self) -> str:
        """The columns of records. The first call, so wrong options are refused here."""
        return records_ddl(payload=read_options(self.options).payload)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader that `spark.read` uses."""
        check_records(schema.names)
        refuse(self.options, STREAMS_ONLY, "without a stream")
        options = read_options(self.options)
        return (SpoolPushReader if options.push_filters else SpoolReader)(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader that `spark.readStream` uses."""
        check_records(schema.names)
        refuse(self.options, BATCHES_ONLY, "in a stream, which has no end")
        return SpoolStreamReader(read_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer that `df.write` uses."""
        return SinkWriter(self._writing(schema, overwrite, stream=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer that `df.writeStream` uses."""
        return SinkStreamWriter(self._writing(schema, overwrite, stream=True))

    def _writing(self, schema: StructType, overwrite: bool, *, stream: bool) -> WriteOptions:
        if overwrite:
            raise SparkError("a sink cannot overwrite", "append: .mode('append'), outputMode('append')")
        check_written([(field.name, field.dataType.simpleString()) for field in schema])
        return write_options(self.options, stream=stream)
