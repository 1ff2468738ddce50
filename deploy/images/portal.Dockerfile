# The portal: pages, REST, controller, gateway. Built from the repository's root, after `make setup` has made static/vendor
# and the translations:
#   buildah bud -f deploy/images/portal.Dockerfile -t tessera/portal .
ARG BASE=tessera/base
FROM ${BASE} AS build
ARG UV=0.13.9
ENV UV_SYSTEM_CERTS=1
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install -q uv==${UV}
COPY pyproject.toml uv.lock /opt/tessera/
RUN /opt/uv/bin/uv sync --project /opt/tessera --frozen --no-default-groups --all-extras --no-install-project \
      --python /usr/bin/python3 --link-mode copy --compile-bytecode -q

FROM ${BASE}
RUN apt-get update -qq && \
    apt-get install -y -qq --no-install-recommends nginx-light libnginx-mod-http-lua && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /opt/tessera
COPY --from=build /opt/tessera/.venv .venv
COPY manage.py ./
COPY locale locale
COPY templates templates
COPY static static
COPY apps apps
COPY portal portal
ENV PATH=/opt/tessera/.venv/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/home/tessera LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1 TESSERA_STATE=/var/lib/tessera TESSERA_DRIVER=kubernetes TESSERA_LISTEN=0.0.0.0
# The folder of a volume, and its content at first. The secret that settings make on the way here must not be every installation's.
RUN TESSERA_STATE=/tmp/build TESSERA_DRIVER=local python manage.py collectstatic --noinput -v0 && rm -rf /tmp/build && \
    python -m compileall -q apps portal && install -d -o 1000 -g 1000 -m 0711 /var/lib/tessera
USER 1000:1000
EXPOSE 8000 8001
CMD ["python", "manage.py", "up", "--no-demo"]
