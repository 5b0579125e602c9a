"""Progress of a run for someone at a terminal: what the steps say, and nothing of what Dagster says about them."""

import logging
import sys

import dagster as dg


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        meta = getattr(record, "dagster_meta", None) or {}
        message = meta.get("orig_message") or record.getMessage()
        return f"  {message}" if record.levelno < logging.WARNING else f"  {record.levelname}: {message}"


@dg.logger(config_schema=None, description="The steps' own lines on standard output, without times and ids.")
def progress_logger(init_context: dg.InitLoggerContext) -> logging.Logger:
    logger = logging.getLogger("lakehouse.progress")
    logger.handlers.clear()
    logger.propagate = False
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_OneLine())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    return logger
