"""Questions about a dump and their answers; `cli`, `viewer` and `html_report` show them."""
