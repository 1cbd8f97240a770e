"""The description for a package index: README.md, whose links and images lead into the repository."""

import re
from configparser import ConfigParser
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
settings = ConfigParser(interpolation=None)
settings.read(HERE / "setup.cfg", encoding="utf-8")
url = settings["metadata"]["url"]

readme = (HERE / "README.md").read_text(encoding="utf-8")
linked = re.sub(r"\]\((?!https?:|#)", f"]({url}/blob/main/", readme)
setup(long_description=re.sub(r'src="(?!https?:)', f'src="{url}/raw/main/', linked))
