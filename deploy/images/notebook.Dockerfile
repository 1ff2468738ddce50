# What an experiment runs in: JupyterLab, CUDA for Python, NumPy. Built from the repository's root:
#   buildah bud -f deploy/images/notebook.Dockerfile -t tessera/notebook .
ARG BASE=tessera/base
FROM ${BASE} AS build
# The version of scripts/setup.sh. uv trusts its own list of authorities unless told to trust the system's.
ARG UV=0.13.9
ENV UV_SYSTEM_CERTS=1
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install -q uv==${UV}
COPY deploy/notebook /src
# Copies, since the cache is no part of the image; bytecode now, since later nobody may write there.
RUN UV_PROJECT_ENVIRONMENT=/opt/notebook /opt/uv/bin/uv sync --project /src --frozen --no-default-groups --no-editable \
      --python /usr/bin/python3 --link-mode copy --compile-bytecode -q

FROM ${BASE}
COPY --from=build /opt/notebook /opt/notebook
ENV PATH=/opt/notebook/bin:/usr/local/bin:/usr/bin:/bin HOME=/home/tessera TESSERA_PORT=8888 LANG=C.UTF-8
# The home is where a volume is mounted; without one it is the container's own, and gone with it.
WORKDIR /home/tessera
USER 1000:1000
EXPOSE 8888
# It opens its port before it loads JupyterLab: a request that comes early waits and is not refused.
CMD ["tessera-notebook"]
