"""``python -m surefoot`` is the command `surefoot`."""

import sys

from surefoot.extras import MissingExtra, needed_by


def main() -> None:
    """Run the command; when something it needs is not installed, say so in one sentence and exit with 1."""
    try:
        with needed_by("the command surefoot", "cli"):
            from surefoot.cli import app

            app()
    except MissingExtra as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
