"""Take the screenshot of `csdf report` that README.md shows, with Chromium.

python docs/site/screenshot.py
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = ("person_detection", "--element-bytes", "1", "--ram", "16kB", "--input", "rows")
SIZE = "1100,1070"  # pixels: the answer, the plans, RAM and flash
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    """Write report.png; return the exit code."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        sys.stderr.write(f"no browser: expected one of {', '.join(BROWSERS)}\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = (sys.executable, "-m", "csdf", "report", *WORDS, "-o", str(page))
        subprocess.run(command, check=True, cwd=ROOT)
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        target = f"--screenshot={ROOT / 'docs' / 'screenshots' / 'report.png'}"
        subprocess.run(
            (browser, *options, f"--window-size={SIZE}", target, page.as_uri()),
            check=True,
            stderr=subprocess.DEVNULL,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
