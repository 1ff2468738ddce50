"""Static files with the hash of their content in the name, compressed; `import` between our ES modules follows the hashed names."""

from servestatic.storage import CompressedManifestStaticFilesStorage


class ModuleStaticFilesStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # ServeStatic has no types
    support_js_module_import_aggregation = True
