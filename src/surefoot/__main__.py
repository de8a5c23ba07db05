"""``python -m surefoot`` is the command `surefoot`."""

from surefoot.cli import app

app()
