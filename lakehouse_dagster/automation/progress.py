"""Progress of a run at a terminal: the lines of the steps, without Dagster's own lines."""

import logging
import sys

import dagster as dg


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        meta = getattr(record, "dagster_meta", None) or {}
        message = meta.get("orig_message") or record.getMessage()
        return f"  {message}" if record.levelno < logging.WARNING else f"  {record.levelname}: {message}"


@dg.logger(config_schema=None, description="Prints the lines of the steps on standard output, without times and ids.")
def progress_logger(init_context: dg.InitLoggerContext) -> logging.Logger:
    """Print the lines of the steps at a terminal, without Dagster's own lines:
    `dg.Definitions(loggers={"progress": progress_logger})`.
    """
    logger = logging.getLogger("lakehouse.progress")
    logger.handlers.clear()
    logger.propagate = False
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_OneLine())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    return logger
