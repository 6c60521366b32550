#!/bin/sh
# Deduplicate ten billion URLs on a Spark standalone cluster; docs/scale.md estimates the cost.
# On every machine: the same Python with canonry[spark] at the same path, Java 17, /shared mounted, and
#   $SPARK_HOME/sbin/start-worker.sh spark://head:7077   (on the head start-master.sh first)
# SPARK_HOME is the folder of the pyspark package: python -c 'import pyspark; print(pyspark.__path__[0])'
# If the job is killed, start it again: finished input files are not read twice.
set -eu
MASTER="${MASTER:-spark://head:7077}"
IN="${IN:-/shared/urls/*.parquet}"      # many files with a few million URLs each: one task per file
OUT="${OUT:-/shared/unique.parquet}"
PYTHON="${PYTHON:-/opt/canonry/bin/python}"

export PYSPARK_PYTHON="$PYTHON"
export PYSPARK_SUBMIT_ARGS="\
  --conf spark.executor.cores=4 \
  --conf spark.executor.memory=6g \
  --conf spark.executor.memoryOverhead=6g \
  --conf spark.driver.memory=4g \
  --conf spark.task.maxFailures=8 \
  --conf spark.excludeOnFailure.enabled=true \
  pyspark-shell"
# Spark's shuffle uses the local disks of the workers: set SPARK_LOCAL_DIRS on each worker.
exec "$PYTHON" -m canonry bulk "$IN" --out "$OUT" --engine spark --master "$MASTER" --policy bookmark@1
