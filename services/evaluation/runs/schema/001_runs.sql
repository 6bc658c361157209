-- Runs of golden sets, what they came to, and the score of every question.
CREATE TABLE runs (
  run_id text PRIMARY KEY,
  tenant text NOT NULL,
  golden_set text NOT NULL,
  status text NOT NULL CHECK (status IN ('waiting', 'running', 'done', 'failed', 'cancelled')),
  reason text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL,
  -- Signs of life of whoever runs it; a run without one for long was abandoned.
  beat_at timestamptz NOT NULL,
  done_count integer NOT NULL DEFAULT 0,
  wanted_count integer NOT NULL DEFAULT 0,
  manifest jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX runs_of_tenant ON runs (tenant, created_at DESC, run_id DESC);

CREATE TABLE measurements (
  run_id text NOT NULL REFERENCES runs ON DELETE CASCADE,
  place integer NOT NULL,
  variant text NOT NULL,
  metric text NOT NULL,
  stratum text NOT NULL,
  language text NOT NULL,
  mean double precision,
  low double precision,
  high double precision,
  scored_count integer NOT NULL,
  missing_count integer NOT NULL,
  PRIMARY KEY (run_id, place)
);

CREATE TABLE scores (
  run_id text NOT NULL REFERENCES runs ON DELETE CASCADE,
  variant text NOT NULL,
  metric text NOT NULL,
  item_id text NOT NULL,
  value double precision,
  status text NOT NULL,
  PRIMARY KEY (run_id, variant, metric, item_id)
);
