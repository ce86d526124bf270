"""`verl-rollout-dump report`: a dump as one HTML file, to send to someone.

It holds everything it shows, and loads nothing: charts are pictures inside the file, there is no script, and a
Content-Security-Policy forbids both. Whatever a model wrote is text there.
"""

from verl_rollout_dump.html_report.writing import write_report

__all__ = ["write_report"]
