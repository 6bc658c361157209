-- One statement a line, over contracts, providers and payments.
SELECT extract(year FROM signed_on) AS y, count(*) FROM contracts GROUP BY 1 ORDER BY 1
SELECT date_trunc('month', signed_on)::date AS month, sum(amount) FROM contracts GROUP BY month ORDER BY month
SELECT to_char(signed_on, 'YYYY-MM') AS ym, sum(amount) AS total FROM contracts GROUP BY ym HAVING sum(amount) > 10 ORDER BY total DESC
SELECT p.name, count(*) AS n FROM contracts c JOIN providers p ON p.id = c.provider::int GROUP BY p.name ORDER BY n DESC LIMIT 5
SELECT * FROM providers
SELECT p.* FROM providers p
SELECT count(*), sum(c.amount), avg(c.amount), min(c.signed_on), max(c.signed_on) FROM contracts c WHERE c.signed_on BETWEEN $1 AND $2
SELECT id FROM contracts WHERE signed_on >= DATE '2025-01-01' AND signed_on < DATE '2026-01-01'
SELECT id FROM contracts WHERE signed_on >= CURRENT_DATE - INTERVAL '30 days'
SELECT id FROM contracts WHERE signed_on >= now() - interval '1' year
SELECT id FROM contracts WHERE lower(provider) LIKE lower($1) || '%'
SELECT id FROM contracts WHERE provider ILIKE '%' || $1 || '%'
SELECT round(avg(amount), 2) AS avg_amount FROM contracts
SELECT round(100.0 * sum(CASE WHEN status = 'active' THEN 1 ELSE 0 END) / count(*), 2) AS pct FROM contracts
SELECT status, count(*) FROM contracts GROUP BY status ORDER BY count(*) DESC
SELECT status, count(*) FROM contracts GROUP BY status ORDER BY count DESC
SELECT coalesce(sum(amount), 0) FROM contracts
WITH t AS (SELECT provider, sum(amount) AS s FROM contracts GROUP BY provider) SELECT provider, s, rank() OVER (ORDER BY s DESC) AS r FROM t
SELECT id, row_number() OVER (PARTITION BY provider ORDER BY amount DESC) AS rn FROM contracts
SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY provider ORDER BY amount DESC) AS rn FROM contracts) x WHERE rn = 1
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM contracts
SELECT DISTINCT provider FROM contracts
SELECT count(DISTINCT provider) FROM contracts
SELECT id FROM contracts WHERE provider IS NULL OR amount IS NOT NULL
SELECT id FROM contracts WHERE status IN ('a','b') AND NOT (amount < 5)
SELECT EXTRACT(MONTH FROM signed_on)::int AS "Month" FROM contracts
SELECT id FROM contracts WHERE id NOT IN (SELECT contract_id FROM payments)
SELECT id FROM contracts c WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.contract_id = c.id)
SELECT 'x' || id::text FROM contracts
SELECT sum(amount) FILTER (WHERE status='active') AS a FROM contracts
SELECT date_part('year', signed_on) FROM contracts
SELECT age(signed_on) FROM contracts
SELECT signed_on - interval '1 month', signed_on + 5 FROM contracts
SELECT array_agg(DISTINCT provider) FROM contracts
SELECT string_agg(DISTINCT provider, ', ') FROM contracts
SELECT cast(amount AS integer), amount::bigint, amount::numeric(12,2) FROM contracts
SELECT id FROM contracts ORDER BY random() LIMIT 1
SELECT id AS day, amount AS year FROM contracts ORDER BY day
SELECT q.month FROM (SELECT to_char(signed_on,'MM') AS month FROM contracts) q GROUP BY q.month ORDER BY q.month
SELECT month, n FROM (SELECT to_char(signed_on,'MM') AS month, count(*) AS n FROM contracts GROUP BY 1) q ORDER BY month
SELECT id FROM contracts FETCH FIRST 5 ROWS ONLY
SELECT id FROM contracts UNION ALL SELECT id FROM payments ORDER BY id LIMIT 3
SELECT greatest(amount, 0), least(amount, 1), abs(amount), power(amount, 2), sqrt(amount), mod(id, 2), ceil(amount), floor(amount) FROM contracts
SELECT signed_on::timestamp AT TIME ZONE 'UTC' FROM contracts
SELECT generate_series(1, 3)
SELECT d::date FROM generate_series('2025-01-01'::date, '2025-12-31'::date, '1 month'::interval) d
SELECT gs.d::date, count(c.id) FROM generate_series('2025-01-01'::date, '2025-12-31'::date, interval '1 month') AS gs(d) LEFT JOIN contracts c ON date_trunc('month', c.signed_on) = gs.d GROUP BY 1
SELECT make_date(2025, 1, 1), to_date('2025', 'YYYY'), to_timestamp(0)
SELECT substring(provider, 1, 3), length(provider), left(provider, 2), split_part(provider, '-', 1), replace(provider, 'a', 'b'), initcap(provider), concat_ws(' ', id, provider) FROM contracts
SELECT regexp_replace(provider, '[0-9]+', '', 'g') FROM contracts WHERE provider ~* 'cloud'
SELECT id::varchar(10), provider::char(3) FROM contracts
SELECT lead(amount) OVER (ORDER BY signed_on), first_value(id) OVER (PARTITION BY status ORDER BY amount) FROM contracts
SELECT stddev(amount), variance(amount), corr(amount, id) FROM contracts
SELECT true AND false, 1 <> 2, 1 != 2, NULL IS NULL
SELECT id, CASE status WHEN 'a' THEN 1 ELSE 0 END "Case" FROM contracts
SELECT array_to_string(ARRAY[1,2], ','), cardinality(ARRAY[1])
SELECT unnest(ARRAY[1,2])
SELECT sum(amount)::float / 2 FROM contracts
SELECT c.id FROM contracts c INNER JOIN payments p ON c.id = p.contract_id LEFT OUTER JOIN providers r ON r.id = c.id
SELECT c.id FROM contracts c JOIN payments p USING (id)
SELECT to_char(sum(amount), '999G999D99') FROM contracts
SELECT signed_on FROM contracts WHERE EXTRACT(year FROM signed_on) = 2025
SELECT SUM(amount) AS total_amount, COUNT(*) AS number FROM public.contracts WHERE signed_on >= '2025-01-01'::date
SELECT p.name AS "name", p.id FROM providers AS p WHERE p.name = 'x' -- comment
SELECT lower(name) AS name FROM providers GROUP BY lower(name) ORDER BY lower(name)
SELECT json_build_object('a', id) FROM contracts
SELECT bool_or(amount > 1), every(amount > 2) FROM contracts
SELECT ntile(4) OVER (ORDER BY amount) AS quartile FROM contracts
SELECT EXTRACT(EPOCH FROM (now() - signed_on)) / 86400 AS days FROM contracts
SELECT date_trunc('year', signed_on) AS year, count(*) FROM contracts GROUP BY date_trunc('year', signed_on)
SELECT width_bucket(amount, 0, 10, 5) FROM contracts
SELECT (amount / nullif(id, 0))::numeric(10,2) FROM contracts
SELECT * FROM providers p, payments q WHERE p.id = q.id
SELECT max(c.signed_on) - min(c.signed_on) AS span FROM contracts AS c
SELECT count(*) AS "count" FROM contracts
SELECT provider AS name, amount AS value, status AS type FROM contracts ORDER BY value DESC, name
SELECT current_date, current_timestamp, localtimestamp
SELECT id FROM contracts WHERE amount > ALL (SELECT 5)
SELECT 1 AS one UNION SELECT 2 ORDER BY one
SELECT id FROM contracts WHERE signed_on > '2025-01-01' AND (provider, status) = ('a', 'b')
SELECT id FROM contracts WHERE id IN ($1,$2)
SELECT make_date($1,$2,$3)
SELECT id FROM contracts WHERE (id,status)=($1,$2) AND amount<$3*$4
SELECT $1::text||$2::text||$q$a$q$
SELECT date_bin('15 minutes', signed_on, '2001-01-01') FROM contracts
SELECT date_trunc('mon', signed_on) FROM contracts
SELECT position('a' IN $1), substring(status FROM $2) FROM contracts WHERE status IS DISTINCT FROM $1
