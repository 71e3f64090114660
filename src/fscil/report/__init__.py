"""From result files to a comparison and a page a person enjoys reading. Reads files, never a model."""

from fscil.report.analysis import Analysis, load_analysis, parse_analysis
from fscil.report.embedding import tsne_panels
from fscil.report.page import report_html, write_report
from fscil.report.results import Result, find_results, load_results, parse_result
from fscil.report.tables import Column, ComparisonTable, Difference, Row, Spread, comparison_table
from fscil.report.text import comparison_text

__all__ = [
    "Analysis",
    "Column",
    "ComparisonTable",
    "Difference",
    "Result",
    "Row",
    "Spread",
    "comparison_table",
    "comparison_text",
    "find_results",
    "load_analysis",
    "load_results",
    "parse_analysis",
    "parse_result",
    "report_html",
    "tsne_panels",
    "write_report",
]
