"""Static files with the hash of their content in the name, compressed; `import` between our ES modules follows the hashed names."""

from django.contrib.staticfiles.storage import HashedFilesMixin
from servestatic.storage import CompressedManifestStaticFilesStorage

_OURS = "js/*.js"  # packages ship modules whose imports only a bundler understands; those are left as they are
_IMPORTS = HashedFilesMixin._js_module_import_aggregation_patterns[1]  # type: ignore[attr-defined]  # not in the stubs


class ModuleStaticFilesStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # ServeStatic has no types
    patterns = (*CompressedManifestStaticFilesStorage.patterns, (_OURS, _IMPORTS))
