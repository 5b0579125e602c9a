"""Where the JVMs of the tests find Spark: in a folder of links, without the archive of PySpark."""

import atexit
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

import pyspark

# Spark puts its archive pyspark.zip before the packages of its Python: each process of a session would compile PySpark
# anew, 1 s of CPU time. It is the same PySpark, and where it lies is not what is tested. An environment counts from the
# first JVM of a run on, so it is set when tests are collected.
if "SPARK_HOME" not in os.environ:
    home = Path(mkdtemp(prefix="spark-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for folder in ("bin", "jars", "sbin"):
        (home / folder).symlink_to(Path(pyspark.__file__).parent / folder)
    os.environ["SPARK_HOME"] = str(home)
