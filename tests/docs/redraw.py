"""Draw the pictures of README and docs again, by the commands that the pages show.

python -m tests.docs.redraw
"""

import shutil
import tempfile
from pathlib import Path

from tests.docs.pages import PAGES, Reader, blocks_of, pictures_of


def main():
    for page in PAGES:
        pictures = pictures_of(page)
        if not pictures:
            continue
        with tempfile.TemporaryDirectory() as folder:
            Reader(page, Path(folder)).read_to(len(blocks_of(page)) - 1)
            for picture in pictures:
                shutil.copy(Path(folder) / picture.name, picture)


if __name__ == "__main__":
    main()
