-- Answers of live traffic that were measured. No word of question, answer or evidence is kept, and nothing of a person.
CREATE TABLE IF NOT EXISTS online_answers (
  tenant text NOT NULL,
  answer_id text NOT NULL,
  measured_at timestamptz NOT NULL DEFAULT now(),
  language text NOT NULL,
  finish text NOT NULL,
  strategy text NOT NULL,
  model text NOT NULL,
  trace_id text NOT NULL,
  tools text NOT NULL,
  retrieval_score double precision,
  total_milliseconds double precision,
  -- -1 to 1, the mean of what people said.
  feedback double precision,
  feedback_count integer NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, answer_id)
);
CREATE INDEX IF NOT EXISTS online_answers_by_time ON online_answers (measured_at);

CREATE TABLE IF NOT EXISTS online_scores (
  tenant text NOT NULL,
  answer_id text NOT NULL,
  metric text NOT NULL,
  value double precision,
  status text NOT NULL,
  judge text NOT NULL,
  PRIMARY KEY (tenant, answer_id, metric),
  FOREIGN KEY (tenant, answer_id) REFERENCES online_answers ON DELETE CASCADE
);
