"""What commands print: tables, the live view, reports."""
