# What the other images stand on: Debian 12 with Python 3.11 and one account without rights.
#   buildah bud -f deploy/images/base.Dockerfile -t tessera/base .
ARG DEBIAN=debian:bookworm-slim
FROM ${DEBIAN}
RUN command -v python3 >/dev/null || { \
      apt-get update -qq && \
      apt-get install -y -qq --no-install-recommends python3 python3-venv ca-certificates && \
      rm -rf /var/lib/apt/lists/*; }
RUN groupadd --gid 1000 tessera && useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash tessera
