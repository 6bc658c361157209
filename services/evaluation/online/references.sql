-- What a tenant's traffic is compared with. Of questions their vectors, of nothing the words.
CREATE TABLE IF NOT EXISTS drift_references (
  tenant text NOT NULL,
  kind text NOT NULL,
  value_count integer NOT NULL,
  -- As NumPy writes arrays.
  reference bytea NOT NULL,
  made_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, kind)
);
