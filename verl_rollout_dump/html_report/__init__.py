"""`verl-rollout-dump report`: a dump as one HTML file, to send to someone.

The file contains everything that it shows and loads nothing: charts are images inside the file, there is no script,
and a Content-Security-Policy forbids both. Whatever a model wrote is shown as text.
"""

from verl_rollout_dump.html_report.writing import write_report

__all__ = ["write_report"]
