"""Write the pages of the site: ``python -m website build/pages``; then ``mkdocs build`` renders them."""

import sys
from pathlib import Path

from website.pages import write

write(Path(sys.argv[1]))
