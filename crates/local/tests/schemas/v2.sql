-- A database of schema 2, with what it could hold.
PRAGMA application_id = 1330856786;
PRAGMA user_version = 2;
CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE services (
    name TEXT PRIMARY KEY NOT NULL,
    namespace TEXT NOT NULL,
    revision INTEGER NOT NULL,
    config TEXT NOT NULL,
    script TEXT NOT NULL
) STRICT;
CREATE TABLE service_secrets (
    service TEXT NOT NULL REFERENCES services (name) ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('environment', 'cluster')),
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (service, kind, name)
) STRICT, WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('instance_id', '5f0e1c6a-8d53-4b7e-9a51-0f6f2f6b9d10');
INSERT INTO counters (name, value) VALUES ('revision', 41);
INSERT INTO services (name, namespace, revision, config, script) VALUES (
    'cowsay',
    'oscar-svc',
    40,
    '{"name":"cowsay","cpu":"0.2","memory":"256Mi","image":"ghcr.io/grycap/cowsay","owner":"cluster_admin"}',
    '#!/bin/sh' || char(10) || 'echo hello' || char(10)
);
INSERT INTO service_secrets (service, kind, name, value) VALUES ('cowsay', 'environment', 'PASSWORD', 'planted');
CREATE TABLE users (
    namespace TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    display_name TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE image_repositories (position INTEGER PRIMARY KEY NOT NULL, repository TEXT NOT NULL) STRICT;
INSERT INTO users (namespace, owner, display_name) VALUES ('oscar-svc-62bb11b4', '62bb11b4aa@egi.eu', 'A Name');
INSERT INTO image_repositories (position, repository) VALUES (0, 'ghcr.io/grycap'), (1, 'docker.io');
