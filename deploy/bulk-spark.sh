#!/bin/sh
# Deduplicate many URLs on a Spark standalone cluster; docs/scale.md estimates the cost of ten billion.
# On every machine: Java 17, the same Python, /shared mounted, and Spark from `pip install pyspark`:
#   SPARK_HOME=$(python -c 'import pyspark; print(pyspark.__path__[0])')
#   $SPARK_HOME/bin/spark-class org.apache.spark.deploy.master.Master --host head             (on the head)
#   $SPARK_HOME/bin/spark-class org.apache.spark.deploy.worker.Worker spark://head:7077       (on the others)
# Spark's shuffle uses the local disks of the workers: set SPARK_LOCAL_DIRS for each.
# canonry[spark] is installed at the same path on every machine, or sent there from here:
#   venv-pack --prefix /opt/canonry --output canonry.tar.gz && ENVIRONMENT=canonry.tar.gz deploy/bulk-spark.sh
# If the job is killed, start it again: finished input files are not read twice.
set -eu
MASTER="${MASTER:-spark://head:7077}"
IN="${IN:-/shared/urls/*.parquet}"      # many files with a few million URLs each: one task per file
OUT="${OUT:-/shared/unique.parquet}"    # for a folder that all workers write: OUT=/shared/unique, --partition-size 256MB
POLICY="${POLICY:-bookmark@2}"
PYTHON="${PYTHON:-/opt/canonry/bin/python}"
ENVIRONMENT="${ENVIRONMENT:-}"

if [ -n "$ENVIRONMENT" ]; then
    export PYSPARK_PYTHON=./environment/bin/python
    archive="--archives $ENVIRONMENT#environment"
else
    export PYSPARK_PYTHON="$PYTHON"
    archive=
fi
# A task needs about 1 GB beside the memory of Java, for its Python process.
export PYSPARK_SUBMIT_ARGS="$archive \
  --conf spark.executor.cores=${EXECUTOR_CORES:-4} \
  --conf spark.executor.memory=${EXECUTOR_MEMORY:-6g} \
  --conf spark.driver.memory=${DRIVER_MEMORY:-4g} \
  --conf spark.task.maxFailures=8 \
  --conf spark.excludeOnFailure.enabled=true \
  pyspark-shell"
exec "$PYTHON" -m canonry bulk "$IN" --out "$OUT" --engine spark --master "$MASTER" --policy "$POLICY" "$@"
