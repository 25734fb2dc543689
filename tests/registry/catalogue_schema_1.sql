-- A catalogue as bpeline made it before runs knew their workspace: sqlite3's .dump of it.
BEGIN TRANSACTION;
CREATE TABLE alias_history (
    id INTEGER NOT NULL,
    name VARCHAR(64) NOT NULL,
    alias VARCHAR(64) NOT NULL,
    from_number INTEGER,
    to_number INTEGER,
    "by" TEXT NOT NULL,
    reason TEXT NOT NULL,
    at VARCHAR(40) NOT NULL,
    CONSTRAINT pk_alias_history PRIMARY KEY (id)
);
INSERT INTO "alias_history" VALUES(1,'news','candidate',NULL,1,'bpeline','published','2026-11-21T13:29:05.118+00:00');
CREATE TABLE aliases (
    name VARCHAR(64) NOT NULL,
    alias VARCHAR(64) NOT NULL,
    number INTEGER NOT NULL,
    CONSTRAINT pk_aliases PRIMARY KEY (name, alias),
    CONSTRAINT fk_aliases_name_number FOREIGN KEY(name, number) REFERENCES versions (name, number)
);
INSERT INTO "aliases" VALUES('news','candidate',1);
CREATE TABLE count_tables (
    "key" VARCHAR(64) NOT NULL,
    counts_digest VARCHAR(64) NOT NULL,
    corpus_digest VARCHAR(64) NOT NULL,
    words BIGINT NOT NULL,
    total VARCHAR(40) NOT NULL,
    run_id VARCHAR(64) NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    CONSTRAINT pk_count_tables PRIMARY KEY ("key")
);
INSERT INTO "count_tables" VALUES('0000000000000000000000000000000000000000000000000000000000000007','0000000000000000000000000000000000000000000000000000000000000002','0000000000000000000000000000000000000000000000000000000000000003',5,'9223372036854775809','e7df43cf8ba9','2026-11-21T13:29:05.180+00:00');
CREATE TABLE file_readings (
    id INTEGER NOT NULL,
    path TEXT NOT NULL,
    size BIGINT NOT NULL,
    mtime_ns BIGINT NOT NULL,
    ctime_ns BIGINT NOT NULL,
    inode VARCHAR(20) NOT NULL,
    chunk_bytes BIGINT NOT NULL,
    reading_digest VARCHAR(64) NOT NULL,
    chunks JSON NOT NULL,
    CONSTRAINT pk_file_readings PRIMARY KEY (id),
    CONSTRAINT uq_file_readings_path_chunk_bytes_reading_digest UNIQUE (path, chunk_bytes, reading_digest)
);
INSERT INTO "file_readings" VALUES(1,'/corpus/a.txt',10,1152921504606846976,1152921504606846977,'18446744073709551615',64,'0000000000000000000000000000000000000000000000000000000000000009','[["0000000000000000000000000000000000000000000000000000000000000001", 0, 10, 0]]');
CREATE TABLE metrics (
    id INTEGER NOT NULL,
    version_id INTEGER NOT NULL,
    "key" VARCHAR(250) NOT NULL,
    step BIGINT NOT NULL,
    value FLOAT,
    CONSTRAINT pk_metrics PRIMARY KEY (id),
    CONSTRAINT uq_metrics_version_id_key_step UNIQUE (version_id, "key", step),
    CONSTRAINT fk_metrics_version_id FOREIGN KEY(version_id) REFERENCES versions (id)
);
INSERT INTO "metrics" VALUES(1,1,'compression/bytes_per_token',512,2.5);
CREATE TABLE runs (
    number INTEGER NOT NULL,
    id VARCHAR(64) NOT NULL,
    name VARCHAR(64) NOT NULL,
    config JSON NOT NULL,
    state VARCHAR(64) NOT NULL,
    pid BIGINT NOT NULL,
    host VARCHAR(255) NOT NULL,
    birth VARCHAR(100) NOT NULL,
    started_at VARCHAR(40) NOT NULL,
    heartbeat_at VARCHAR(40) NOT NULL,
    finished_at VARCHAR(40) NOT NULL,
    corpus_digest VARCHAR(64) NOT NULL,
    counts_digest VARCHAR(64) NOT NULL,
    step TEXT NOT NULL,
    error TEXT NOT NULL,
    CONSTRAINT pk_runs PRIMARY KEY (number),
    CONSTRAINT uq_runs_id UNIQUE (id)
);
INSERT INTO "runs" VALUES(1,'e7df43cf8ba9','news','{"vocab_size": 512}','finished',15299,'a-machine','boot:342533','2026-11-21T13:29:04.911+00:00','2026-11-21T13:29:04.989+00:00','2026-11-21T13:29:04.986+00:00','','','','');
INSERT INTO "runs" VALUES(2,'389e889b335a','news','{"vocab_size": 1024, "paths": ["/corpus/\u00e4.txt"]}','failed',15299,'a-machine','boot:342533','2026-11-21T13:29:05.019+00:00','2026-11-21T13:29:05.064+00:00','2026-11-21T13:29:05.062+00:00','0000000000000000000000000000000000000000000000000000000000000003','0000000000000000000000000000000000000000000000000000000000000002','learn merges','disk full');
CREATE TABLE schema_version (
    number INTEGER NOT NULL,
    applied_at VARCHAR(40) NOT NULL,
    CONSTRAINT pk_schema_version PRIMARY KEY (number)
);
INSERT INTO "schema_version" VALUES(1,'2026-11-21T13:29:04Z');
CREATE TABLE versions (
    id INTEGER NOT NULL,
    name VARCHAR(64) NOT NULL,
    number INTEGER NOT NULL,
    digest VARCHAR(64) NOT NULL,
    run_id VARCHAR(64) NOT NULL,
    corpus_digest VARCHAR(64) NOT NULL,
    counts_digest VARCHAR(64) NOT NULL,
    vocab_size INTEGER NOT NULL,
    pattern TEXT NOT NULL,
    mlflow_run_id VARCHAR(64) NOT NULL,
    mlflow_version VARCHAR(64) NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    CONSTRAINT pk_versions PRIMARY KEY (id),
    CONSTRAINT uq_versions_name_digest UNIQUE (name, digest),
    CONSTRAINT uq_versions_name_number UNIQUE (name, number)
);
INSERT INTO "versions" VALUES(1,'news',1,'0000000000000000000000000000000000000000000000000000000000000001','e7df43cf8ba9','0000000000000000000000000000000000000000000000000000000000000003','0000000000000000000000000000000000000000000000000000000000000002',512,'gpt2','m','1','2026-11-21T13:29:05.095+00:00');
CREATE INDEX ix_versions_digest ON versions (digest);
COMMIT;
