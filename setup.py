"""The description on the page of a package index: README.md, whose links to files lead into the repository."""

import re
from pathlib import Path

from setuptools import setup

REPOSITORY = "https://github.com/longstride/longstride/blob/main/"

readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
setup(long_description=re.sub(r"\]\((?!https?:|#)", f"]({REPOSITORY}", readme))
