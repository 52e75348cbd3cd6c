"""Reading agents' responses as reports: untrusted text in, a frozen report or every reason against it out."""

from logos.adapters.reports.reader import MAX_REPORT_CHARACTERS, read_report
from logos.adapters.reports.records import example, report_schema, report_schemas

__all__ = ["MAX_REPORT_CHARACTERS", "example", "read_report", "report_schema", "report_schemas"]
