"""Reads an Apache Hudi table of version 8 or later from its files, without Spark.

The reader lists all files but reads only the small ones of the timeline. It needs pandas, PyArrow
and fastavro, and no other package of this project. A table on a local disk:

>>> from lab_env.tables.hudi.files import LocalFolder
>>> from lab_env.tables.hudi.reader import read_table
>>> table = read_table(LocalFolder("orders"))
>>> print(table.table_type, [instant.action for instant in table.instants], table.rows)
COPY_ON_WRITE ['commit', 'commit'] 3
>>> print(table.commit().operation, "updated", table.commit().updated)
UPSERT updated 1

Any other storage works as well: pass an object with the three members of `files.TableFiles`.
"""
