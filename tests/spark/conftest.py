"""Where the JVMs of the tests find Spark: in a folder of links, without the archive of PySpark."""

import atexit
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

import pyspark

# Spark puts its archive pyspark.zip before the packages of its Python: each process of a session would compile PySpark
# anew, 1 s of CPU time. The package that is installed is the same PySpark. The first JVM of a run reads the variable,
# so it is set while tests are collected.
if "SPARK_HOME" not in os.environ:
    home = Path(mkdtemp(prefix="spark-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for folder in ("bin", "jars", "sbin"):
        (home / folder).symlink_to(Path(pyspark.__file__).parent / folder)
    os.environ["SPARK_HOME"] = str(home)
