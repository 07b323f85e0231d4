"""One document on what is evaluated and how: ``ragassay.yaml``."""

from ragassay.config.load import FILE_NAME as FILE_NAME
from ragassay.config.load import Document as Document
from ragassay.config.load import Override as Override
from ragassay.config.load import check as check
from ragassay.config.load import check_rules as check_rules
from ragassay.config.load import find as find
from ragassay.config.load import first_problem as first_problem
from ragassay.config.load import import_plugins as import_plugins
from ragassay.config.load import load as load
from ragassay.config.load import read as read
from ragassay.config.load import read_yaml as read_yaml
from ragassay.config.model import GatedConfig as GatedConfig
from ragassay.config.model import ProjectConfig as ProjectConfig
from ragassay.config.model import section_of as section_of
from ragassay.config.model import sections as sections
from ragassay.config.model import template as template
