# The node agent with the limiting library. Built from the repository's root, after `make vcuda`:
#   buildah bud -f deploy/images/agent.Dockerfile --target agent -t tessera/node-agent .
# With `--target agent-sim` the simulated driver is in it as well: for machines without a GPU, never for real cards.
ARG BASE=tessera/base
FROM ${BASE} AS build
ARG UV=0.13.9
ENV UV_SYSTEM_CERTS=1
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install -q uv==${UV}
COPY requirements.txt uv.lock deploy/images/agent.in deploy/images/subset.py /src/
RUN python3 /src/subset.py /src/uv.lock /src/requirements.txt /src/agent.in >/src/agent.txt && \
    /opt/uv/bin/uv venv -q --python /usr/bin/python3 /opt/tessera/.venv && \
    VIRTUAL_ENV=/opt/tessera/.venv /opt/uv/bin/uv pip install -q --require-hashes -r /src/agent.txt --link-mode copy --compile-bytecode

FROM ${BASE} AS agent
WORKDIR /opt/tessera
COPY --from=build /opt/tessera/.venv .venv
COPY build/vcuda/lib/libcuda.so.1 build/vcuda/lib/libnvidia-ml.so.1 libraries/lib/
COPY vcuda/__init__.py vcuda/
COPY vcuda/node vcuda/node
ENV PATH=/opt/tessera/.venv/bin:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 PYTHONUNBUFFERED=1
RUN python -m compileall -q vcuda
# Root: it makes folders on the node that no other account may enter, and hands files to the accounts of claims.
ENTRYPOINT ["python", "-m", "vcuda.node", "--libraries", "/opt/tessera/libraries"]

FROM agent AS agent-sim
COPY build/vcuda/sim/libcuda.so.1 build/vcuda/sim/libnvidia-ml.so.1 build/vcuda/sim/tessera-sim libraries/sim/
COPY vcuda/sim/cards libraries/sim/cards
