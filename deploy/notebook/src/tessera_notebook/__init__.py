"""Starts JupyterLab behind Tessera's gateway. Owns the server's settings; knows nothing of the portal, its rows or its driver."""
