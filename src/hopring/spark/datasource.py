"""The data source `hopring`: spools as tables and streams of Spark; spools and live groups as sinks."""

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
    """What `format("hopring")` is."""

    @classmethod
    def name(cls) -> str:
        """By which Spark finds it."""
        return NAME

    def schema(self) -> str:
        """The columns of records; the first moment at which a wrong option can be refused."""
        return records_ddl(payload=read_options(self.options).payload)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        check_records(schema.names)
        refuse(self.options, STREAMS_ONLY, "without a stream")
        options = read_options(self.options)
        return (SpoolPushReader if options.push_filters else SpoolReader)(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        check_records(schema.names)
        refuse(self.options, BATCHES_ONLY, "in a stream, which has no end")
        return SpoolStreamReader(read_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`."""
        return SinkWriter(self._writing(schema, overwrite, stream=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """For `df.writeStream`."""
        return SinkStreamWriter(self._writing(schema, overwrite, stream=True))

    def _writing(self, schema: StructType, overwrite: bool, *, stream: bool) -> WriteOptions:
        if overwrite:
            raise SparkError(
                "what was written is never written over", "append: .mode('append'), outputMode('append')"
            )
        check_written([(field.name, field.dataType.simpleString()) for field in schema])
        return write_options(self.options, stream=stream)
