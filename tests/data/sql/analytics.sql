-- One statement a line, ␤ stands for a line break; over all columns of contracts, providers and payments.
-- windows
SELECT id, sum(amount) OVER (PARTITION BY provider ORDER BY signed_on ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM contracts
SELECT id, avg(amount) OVER (ORDER BY signed_on ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW) FROM contracts
SELECT id, count(*) OVER (ORDER BY year RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES) FROM contracts
SELECT id, count(*) OVER (ORDER BY year GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE GROUP) FROM contracts
SELECT id, count(*) OVER (ORDER BY year GROUPS 2 PRECEDING EXCLUDE NO OTHERS) FROM contracts
SELECT id, sum(amount) OVER (ORDER BY signed_on RANGE BETWEEN INTERVAL '30 days' PRECEDING AND CURRENT ROW) FROM contracts
SELECT id, rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w FROM contracts WINDOW w AS (PARTITION BY year ORDER BY amount DESC NULLS LAST)
SELECT id, lag(amount, 1, 0) OVER (ORDER BY id), lead(amount, 2) OVER (ORDER BY id) FROM contracts
SELECT id, last_value(amount) OVER w2 FROM contracts WINDOW w AS (PARTITION BY year), w2 AS (w ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
SELECT id, nth_value(amount, 2) OVER (PARTITION BY year ORDER BY id) FROM contracts
SELECT year, sum(sum(amount)) OVER (ORDER BY year) FROM contracts GROUP BY year
SELECT id, sum(amount) FILTER (WHERE status = 'active') OVER (PARTITION BY provider) FROM contracts
SELECT id, amount - lag(amount) OVER (w) AS delta FROM contracts WINDOW w AS (ORDER BY signed_on, id)
SELECT id, ntile(10) OVER (ORDER BY amount) AS decile FROM contracts WHERE amount IS NOT NULL
SELECT DISTINCT provider, first_value(amount) OVER (PARTITION BY provider ORDER BY signed_on DESC NULLS LAST) FROM contracts
SELECT row_number() OVER (), id FROM contracts
-- grouping
SELECT provider, year, sum(amount), grouping(provider, year) FROM contracts GROUP BY GROUPING SETS ((provider, year), (provider), ())
SELECT provider, year, count(*) FROM contracts GROUP BY CUBE (provider, year)
SELECT provider, year, status, count(*) FROM contracts GROUP BY provider, ROLLUP (year, status)
SELECT year, status, count(*) FROM contracts GROUP BY GROUPING SETS (ROLLUP (year), CUBE (status))
SELECT year, status, count(*) FROM contracts GROUP BY DISTINCT ROLLUP (year), ROLLUP (status)
SELECT CASE WHEN grouping(status) = 1 THEN 'total' ELSE status END AS s, count(*) FROM contracts GROUP BY ROLLUP (status)
SELECT count(*) FROM contracts GROUP BY ()
SELECT extract(quarter FROM signed_on) AS q, count(*) FROM contracts GROUP BY 1 HAVING count(*) > 2
SELECT provider, count(*) FROM contracts GROUP BY ALL provider ORDER BY 2
SELECT count(*) FILTER (WHERE status = 'active') AS active, count(*) FILTER (WHERE status <> 'active') AS other FROM contracts
SELECT id, provider, amount FROM contracts GROUP BY id
-- lateral
SELECT p.name, t.id, t.amount FROM providers p CROSS JOIN LATERAL (SELECT c.id, c.amount FROM contracts c WHERE c.provider = p.name ORDER BY c.amount DESC NULLS LAST LIMIT 2) t
SELECT p.name, t.total FROM providers p LEFT JOIN LATERAL (SELECT sum(amount) AS total FROM contracts c WHERE c.provider = p.name) t ON true
SELECT c.id, tag FROM contracts c CROSS JOIN LATERAL unnest(c.tags) AS tag
SELECT c.id, t.tag, t.n FROM contracts c, unnest(c.tags) WITH ORDINALITY AS t(tag, n)
SELECT c.id, e.value ->> 'metric' FROM contracts c, jsonb_array_elements(c.clauses -> 'sla') AS e
SELECT c.id, value FROM contracts c, jsonb_array_elements(c.clauses -> 'sla')
SELECT id, key, value FROM contracts, jsonb_each(clauses)
SELECT id, k FROM contracts, LATERAL jsonb_object_keys(clauses) AS k
SELECT c.id, s.metric, s.target FROM contracts c, jsonb_to_recordset(c.clauses -> 'sla') AS s(metric text, target numeric)
SELECT x.notice_days FROM contracts c, jsonb_to_record(c.clauses -> 'termination') AS x(notice_days int, penalty bool)
SELECT * FROM ROWS FROM (generate_series(1, 3), unnest(ARRAY['a','b'])) AS t(n, l)
SELECT a, b FROM unnest(ARRAY[1,2], ARRAY['x','y']) AS t(a, b)
SELECT n, o FROM generate_series(10, 12) WITH ORDINALITY AS g(n, o)
SELECT e.ordinality, e.value FROM jsonb_array_elements('[1,2]'::jsonb) WITH ORDINALITY AS e
SELECT ordinality, value FROM jsonb_array_elements_text('["a"]'::jsonb) WITH ORDINALITY
-- json
SELECT clauses -> 'termination' -> 'notice_days' FROM contracts
SELECT clauses #>> '{sla,0,metric}' FROM contracts
SELECT clauses #> ARRAY['sla', '0'] FROM contracts
SELECT id FROM contracts WHERE clauses @> '{"termination": {"penalty": true}}'
SELECT id FROM contracts WHERE clauses ? 'sla' AND clauses ?| ARRAY['a', 'sla'] AND clauses ?& ARRAY['sla']
SELECT id FROM contracts WHERE clauses @? '$.sla[*] ? (@.target > 99)'
SELECT id FROM contracts WHERE clauses @@ '$.termination.penalty == true'
SELECT jsonb_path_query_array(clauses, '$.sla[*].metric') FROM contracts
SELECT jsonb_path_query_first(clauses, '$.sla[*] ? (@.target > $t)', '{"t": 99}') FROM contracts
SELECT (clauses -> 'sla' -> 0 ->> 'target')::numeric FROM contracts
SELECT avg((clauses -> 'termination' ->> 'notice_days')::int) FROM contracts
SELECT clauses['termination']['penalty'] FROM contracts
SELECT clauses - 'sla' FROM contracts
SELECT clauses #- '{sla,0}' FROM contracts
SELECT clauses || '{"x": 1}'::jsonb FROM contracts
SELECT jsonb_agg(jsonb_build_object('id', id, 'amount', amount) ORDER BY id) FROM contracts
SELECT json_agg(q) FROM (SELECT id, amount FROM contracts) q
SELECT row_to_json(q) FROM (SELECT id, amount FROM contracts LIMIT 2) q
SELECT to_jsonb(p) - 'id' FROM providers p
SELECT jsonb_object_agg(name, region) FROM providers
SELECT json_object_agg(name, region ORDER BY name) FROM providers
SELECT jsonb_typeof(clauses -> 'sla'), jsonb_array_length(clauses -> 'sla') FROM contracts
SELECT JSON_VALUE(clauses, '$.termination.notice_days' RETURNING int) FROM contracts
SELECT JSON_VALUE(clauses, '$.termination.notice_days') FROM contracts
SELECT JSON_VALUE(clauses, '$.x' RETURNING text DEFAULT 'none' ON EMPTY NULL ON ERROR) FROM contracts
SELECT JSON_QUERY(clauses, '$.sla[*]' WITH WRAPPER) FROM contracts
SELECT JSON_QUERY(clauses, '$.sla' RETURNING jsonb) FROM contracts
SELECT id FROM contracts WHERE JSON_EXISTS(clauses, '$.sla[*] ? (@.target > 99)')
SELECT JSON_EXISTS(clauses, '$.sla[*] ? (@.target > $t)' PASSING 99 AS t) FROM contracts
SELECT jt.metric, jt.target FROM contracts c, JSON_TABLE(c.clauses, '$.sla[*]' COLUMNS (metric text PATH '$.metric', target numeric PATH '$.target')) AS jt
SELECT jt.* FROM contracts c, JSON_TABLE(c.clauses, '$.sla[*]' COLUMNS (n FOR ORDINALITY, metric text PATH '$.metric')) AS jt
SELECT '{"a": 1}' IS JSON, 'x' IS NOT JSON, '[]' IS JSON ARRAY, '{}' IS JSON OBJECT, '1' IS JSON SCALAR
SELECT '{"a":1,"a":2}' IS JSON OBJECT WITH UNIQUE KEYS
SELECT JSON_OBJECT('a': 1, 'b': id) FROM contracts
SELECT JSON_OBJECT('a' VALUE 1 ABSENT ON NULL)
SELECT JSON_ARRAY(1, 2, id) FROM contracts
SELECT JSON_ARRAYAGG(id ORDER BY id) FROM contracts
SELECT JSON_OBJECTAGG(name: region) FROM providers
SELECT JSON_OBJECTAGG(name VALUE region) FROM providers
SELECT JSON_SCALAR(1), JSON_SERIALIZE('{}' RETURNING text), JSON('{}')
SELECT json_build_array(1, 'a', NULL), jsonb_build_array(id, amount) FROM contracts
SELECT jsonb_set(clauses, '{termination,notice_days}', '10') FROM contracts
SELECT jsonb_insert(clauses, '{sla,0}', '"x"') FROM contracts
SELECT jsonb_strip_nulls(clauses), jsonb_pretty(clauses) FROM contracts
SELECT jsonb_path_exists(clauses, '$.sla'), jsonb_path_match(clauses, 'exists($.sla)') FROM contracts
SELECT m FROM contracts, jsonb_path_query(clauses, '$.sla[*].metric') AS m
SELECT json_array_elements('[1]'::json), json_extract_path_text('{"a": {"b": 1}}'::json, 'a', 'b')
SELECT jsonb_path_query_array_tz(clauses, '$.d.datetime()') FROM contracts
-- arrays
SELECT tags[1], tags[1:2], tags[:1], tags[2:] FROM contracts
SELECT ARRAY[1, 2] || 3, ARRAY[1] || ARRAY[2], 0 || ARRAY[1]
SELECT (array_agg(id ORDER BY amount DESC))[1:3] FROM contracts
SELECT id FROM contracts WHERE 'priority' = ANY(tags)
SELECT id FROM contracts WHERE tags @> ARRAY['priority'] AND tags && '{t1,t2}' AND NOT tags <@ ARRAY['t1']
SELECT ARRAY(SELECT id FROM contracts ORDER BY id LIMIT 3)
SELECT array_position(tags, 't1'), array_length(tags, 1), cardinality(tags), array_upper(tags, 1), array_ndims(tags) FROM contracts
SELECT array_remove(tags, 't1'), array_replace(tags, 't1', 'x'), array_cat(tags, tags), array_append(tags, 'z') FROM contracts
SELECT ARRAY[[1,2],[3,4]], (ARRAY[[1,2],[3,4]])[2][1]
SELECT '{1,2,3}'::int[], ARRAY[]::text[], NULL::date[]
SELECT unnest(tags), count(*) FROM contracts GROUP BY 1 ORDER BY 2 DESC, 1
SELECT array_to_string(tags, ', ', '-'), string_to_array('a,b', ',') FROM contracts
SELECT array_sort(ARRAY[3,1,2]), array_reverse(ARRAY[1,2]), array_sample(ARRAY[1,2,3], 2), array_shuffle(ARRAY[1,2])
SELECT id FROM contracts WHERE id = ANY('{1,2,3}'::int[])
SELECT id FROM contracts WHERE amount > ALL(ARRAY[1, 2]) AND status = SOME(ARRAY['active'])
SELECT array_agg(DISTINCT status ORDER BY status DESC) FROM contracts
SELECT ARRAY[1,2] = ARRAY[1,2], ARRAY[1,2] < ARRAY[1,3]
SELECT trim_array(tags, 1), array_dims(tags) FROM contracts WHERE cardinality(tags) > 0
SELECT generate_subscripts(tags, 1) AS i FROM contracts
-- ctes
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT i FROM n
WITH RECURSIVE t(id, parent) AS (SELECT id, id - 1 FROM contracts WHERE id = 1 UNION SELECT c.id, c.id - 1 FROM contracts c JOIN t ON c.id = t.id + 1) SELECT count(*) FROM t
WITH RECURSIVE t AS (SELECT 1 AS id, 0 AS up UNION ALL SELECT id + 1, id FROM t WHERE id < 5) SEARCH DEPTH FIRST BY id SET ord SELECT id FROM t ORDER BY ord
WITH RECURSIVE t AS (SELECT 1 AS id, 0 AS up UNION ALL SELECT id + 1, id FROM t WHERE id < 5) SEARCH BREADTH FIRST BY id SET ord SELECT * FROM t ORDER BY ord
WITH RECURSIVE t AS (SELECT 1 AS id UNION ALL SELECT id % 3 + 1 FROM t) CYCLE id SET looped USING path SELECT id, looped FROM t
WITH RECURSIVE t AS (SELECT 1 AS id UNION ALL SELECT id % 3 + 1 FROM t) CYCLE id SET looped TO 'Y' DEFAULT 'N' USING path SELECT id, looped, path::text FROM t
WITH a AS MATERIALIZED (SELECT id FROM contracts), b AS NOT MATERIALIZED (SELECT id FROM a) SELECT count(*) FROM b
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b
WITH totals AS (SELECT provider, sum(amount) AS total FROM contracts GROUP BY provider), ranked AS (SELECT provider, total, rank() OVER (ORDER BY total DESC NULLS LAST) AS r FROM totals) SELECT p.name, r.total FROM ranked r JOIN providers p ON p.name = r.provider WHERE r.r <= 3
WITH RECURSIVE fib(a, b) AS (SELECT 0, 1 UNION ALL SELECT b, a + b FROM fib WHERE b < 100) SELECT a FROM fib
SELECT * FROM (WITH q AS (SELECT id FROM contracts) SELECT count(*) AS n FROM q) s
WITH v(a, b) AS (VALUES (1, 'x'), (2, 'y')) SELECT a, b FROM v
-- distinct on, sets, values
SELECT DISTINCT ON (provider) provider, signed_on, amount FROM contracts ORDER BY provider, signed_on DESC NULLS LAST
SELECT DISTINCT ON (provider, year) id FROM contracts ORDER BY provider, year, amount
SELECT id FROM contracts EXCEPT SELECT contract_id FROM payments ORDER BY id
SELECT id FROM contracts INTERSECT ALL SELECT contract_id FROM payments
(SELECT id FROM contracts ORDER BY id LIMIT 2) UNION ALL (SELECT id FROM payments ORDER BY id DESC LIMIT 2)
SELECT id FROM contracts UNION (SELECT id FROM payments EXCEPT SELECT id FROM providers) ORDER BY 1 LIMIT 5
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(n, l) JOIN contracts c ON c.id = t.n
SELECT column1, column2 FROM (VALUES (1, 'a'), (2, 'b')) v
SELECT id FROM contracts WHERE (year, status) IN (VALUES (2020, 'active'), (2021, 'draft'))
SELECT id FROM contracts WHERE (year, status) IN (SELECT year, status FROM contracts WHERE id < 5)
SELECT id FROM contracts WHERE ROW(year, id) > ROW(2020, 5)
SELECT id FROM contracts WHERE (year, id) >= (2020, 5)
SELECT id FROM contracts WHERE (year, id) IS DISTINCT FROM (2020, 5)
SELECT id, amount FROM contracts ORDER BY amount DESC NULLS LAST FETCH FIRST 3 ROWS WITH TIES
SELECT id FROM contracts ORDER BY id OFFSET 5 ROWS FETCH NEXT 5 ROWS ONLY
SELECT id FROM contracts ORDER BY id LIMIT ALL OFFSET 2
SELECT id FROM contracts ORDER BY id LIMIT 5 OFFSET (SELECT 1)
SELECT EXISTS (SELECT FROM contracts WHERE amount > 1000)
SELECT ALL id FROM contracts
SELECT * FROM (TABLE providers) t
-- statistics
SELECT percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY amount) FROM contracts
SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY amount DESC), mode() WITHIN GROUP (ORDER BY status) FROM contracts
SELECT year, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FILTER (WHERE amount > 0) FROM contracts GROUP BY year
SELECT rank(1000) WITHIN GROUP (ORDER BY amount), dense_rank(1000) WITHIN GROUP (ORDER BY amount), percent_rank(1000) WITHIN GROUP (ORDER BY amount), cume_dist(1000) WITHIN GROUP (ORDER BY amount) FROM contracts
SELECT corr(amount, year), covar_pop(amount, year), covar_samp(amount, year) FROM contracts
SELECT regr_slope(amount, year), regr_intercept(amount, year), regr_r2(amount, year), regr_count(amount, year), regr_avgx(amount, year), regr_sxy(amount, year) FROM contracts
SELECT stddev_pop(amount), stddev_samp(amount), var_pop(amount), var_samp(amount), variance(amount) FROM contracts
SELECT bit_and(id), bit_or(id), bit_xor(id), bool_and(id > 0), bool_or(id > 5), every(id > 0) FROM contracts
SELECT any_value(provider), count(DISTINCT (provider, year)) FROM contracts
SELECT width_bucket(amount, 0, 100000, 10) AS b, count(*) FROM payments GROUP BY b ORDER BY b
SELECT width_bucket(amount, ARRAY[0, 1000, 10000]::numeric[]) FROM contracts
SELECT string_agg(provider, '; ' ORDER BY provider DESC), string_agg(DISTINCT status, ',' ORDER BY status) FROM contracts
SELECT sum(DISTINCT amount), avg(ALL amount), count(ALL id) FROM contracts
SELECT range_agg(daterange(signed_on, signed_on + 30)) IS NOT NULL FROM contracts
SELECT min(signed_on), max(signed_on), max(signed_on) - min(signed_on) AS days FROM contracts
-- dates
SELECT date_trunc('quarter', signed_on), signed_on + interval '1 month', signed_on - 7, signed_on - date '2020-01-01' FROM contracts
SELECT paid_at AT TIME ZONE 'Europe/Madrid', (paid_at AT TIME ZONE 'UTC')::date FROM payments
SELECT paid_at AT LOCAL FROM payments
SELECT date_trunc('day', paid_at, 'Europe/Madrid') FROM payments
SELECT timezone('UTC', paid_at) FROM payments
SELECT extract(isodow FROM signed_on), extract(epoch FROM paid_at), date_part('doy', signed_on) FROM contracts, payments
SELECT EXTRACT('year' FROM signed_on) FROM contracts
SELECT d::date, count(c.id) FROM generate_series(date '2020-01-01', date '2020-12-01', interval '1 month') AS d LEFT JOIN contracts c ON date_trunc('month', c.signed_on) = d GROUP BY d ORDER BY d
SELECT age(date '2024-01-01', signed_on), age(signed_on) FROM contracts
SELECT make_date(2024, 2, 29), make_interval(months => 3, days => 2), make_interval(0, 3), make_timestamptz(2024, 1, 1, 0, 0, 0, 'UTC'), make_time(8, 30, 0)
SELECT (date '2020-01-01', interval '1 year') OVERLAPS (date '2020-06-01', date '2020-07-01')
SELECT id FROM contracts WHERE signed_on BETWEEN SYMMETRIC date '2021-12-31' AND date '2020-01-01'
SELECT id FROM contracts WHERE signed_on NOT BETWEEN '2020-01-01' AND '2020-12-31'
SELECT interval '1 year 2 months', interval 'P1Y2M3D', interval '1' day, interval '1-2' year to month, interval '04:05:06' hour to second, interval '3.5' second(1)
SELECT justify_interval(interval '35 days'), justify_days(interval '35 days'), interval '1 day' * 3, 3 * interval '1 day', -interval '1 day', interval '1 day' / 2
SELECT to_char(c.signed_on, 'TMMonth YYYY'), to_char(c.amount, 'FM999G999D00'), to_char(p.paid_at, 'HH24:MI:SS') FROM contracts c, payments p
SELECT to_date('01.02.2020', 'DD.MM.YYYY'), to_timestamp('2020-01-01 10:00', 'YYYY-MM-DD HH24:MI'), to_timestamp(0)
SELECT now()::date, current_date - 1, current_timestamp(0), localtime, clock_timestamp() > now(), transaction_timestamp(), statement_timestamp()
SELECT timestamp '2020-01-01 00:00', timestamp with time zone '2020-01-01 00:00+00', time '10:00', time with time zone '10:00+02', timestamp(0) without time zone '2020-01-01 00:00:00.5'
SELECT date_bin('15 minutes', paid_at, timestamptz '2020-01-01') FROM payments
SELECT isfinite(signed_on), signed_on = 'infinity' FROM contracts
SELECT date_add(paid_at, interval '1 day'), date_subtract(paid_at, '1 day'::interval, 'Europe/Madrid') FROM payments
SELECT signed_on::timestamp + time '10:00' FROM contracts
SELECT daterange('2020-01-01', '2020-02-01', '[)') && daterange(signed_on, NULL), lower(daterange(signed_on, signed_on + 1)), signed_on <@ daterange('2020-01-01', '2021-01-01') FROM contracts
SELECT int4range(1, 5) @> 3, numrange(1.5, 2.5) * numrange(2, 3), tstzrange(paid_at, paid_at + interval '1 h') -|- tstzrange(paid_at, paid_at) FROM payments
SELECT date 'today', 'tomorrow'::date, timestamp 'now'
-- text
SELECT name ILIKE 'a%', name NOT LIKE 'A\_%', name LIKE '50!%' ESCAPE '!', name ~ '^A', name ~* 'cloud$', name !~ 'x', name !~* 'y' FROM providers
SELECT name SIMILAR TO '%(Cloud|Parts)', name NOT SIMILAR TO 'x' FROM providers
SELECT name LIKE ANY (ARRAY['A%', 'N%']), name ILIKE ALL ('{%a%}') FROM providers
SELECT starts_with(name, 'A'), name ^@ 'A' FROM providers
SELECT upper(name), lower(name), initcap(name), length(name), char_length(name), octet_length(name), bit_length(name) FROM providers
SELECT substring(name FROM 2 FOR 3), substring(name, 2), substring(name FROM '[A-Z].'), substr(name, 1, 2), left(name, -1), right(name, 2) FROM providers
SELECT trim(name), trim(both 'x' from name), trim(leading from name), trim(trailing '.' from name), ltrim(name, 'A'), btrim(name), rtrim(name) FROM providers
SELECT position('a' IN name), strpos(name, 'a'), overlay(name PLACING 'x' FROM 1 FOR 2), reverse(name), translate(name, 'abc', 'xyz') FROM providers
SELECT split_part(name, ' ', 1), split_part(name, ' ', -1), concat(name, '-', region), concat_ws(', ', name, region, NULL), name || ' ' || region FROM providers
SELECT regexp_replace(name, '(\w+) (\w+)', '\2 \1', 'g'), regexp_match(name, '[A-Z]'), regexp_split_to_array(name, '\s+'), regexp_count(name, 'a'), regexp_like(name, 'a'), regexp_substr(name, '[a-z]+'), regexp_instr(name, 'a') FROM providers
SELECT (regexp_matches(name, '(\w)(\w)', 'g'))[1] FROM providers
SELECT m[1] FROM providers, regexp_matches(name, '(\w)', 'g') AS m
SELECT word, count(*) FROM providers, regexp_split_to_table(lower(name), '\s+') AS word GROUP BY word
SELECT lpad(id::text, 5, '0'), rpad(name, 20, '.'), repeat('*', 3) FROM providers
SELECT format('%s (%s)', name, region), format('%1$s %I', name, region), format('%-10s|', name) FROM providers
SELECT ascii('a'), chr(65), md5(name), encode(sha256(name::bytea), 'hex'), encode(convert_to(name, 'UTF8'), 'base64') FROM providers
SELECT quote_literal(name), quote_ident(name), to_hex(255), normalize(name), unaccent FROM (SELECT name, region AS unaccent FROM providers) q
SELECT name COLLATE "C" FROM providers ORDER BY name COLLATE "POSIX"
SELECT name < 'M' COLLATE "C" FROM providers
SELECT 'it''s', E'tab\tnew', $$dollar $ quoted$$, $q$ with ' quote $q$, 'a'
SELECT 'first '␤'second' AS two_lines
SELECT string_to_table('a,b', ','), casefold('Ä'), crc32('x'::bytea)
SELECT 'Ñandú' AS "año", name AS "Región del país" FROM providers AS "los proveedores"
SELECT "los proveedores".name AS "nombre", "los proveedores".region FROM providers "los proveedores" ORDER BY "nombre"
SELECT sum(importe) FROM (SELECT amount AS importe, year AS año FROM contracts) contratación WHERE contratación.año = 2020
-- full text
SELECT id FROM contracts WHERE to_tsvector('spanish', status) @@ websearch_to_tsquery('spanish', 'activo')
SELECT ts_rank(to_tsvector('english', name), plainto_tsquery('english', 'cloud')) AS r, ts_headline('english', name, to_tsquery('english', 'cloud')) FROM providers ORDER BY r DESC
SELECT to_tsvector('simple', name) @@ to_tsquery('simple', 'acme & cloud'), phraseto_tsquery('simple', 'acme cloud') FROM providers
SELECT setweight(to_tsvector('english', name), 'A') || to_tsvector('english', region), ts_rank_cd(to_tsvector(name), 'cloud'::tsquery) FROM providers
SELECT strip(to_tsvector('simple', name)), numnode(to_tsquery('simple', 'a & b')), querytree(to_tsquery('simple', 'a')), tsvector_to_array(to_tsvector('simple', name)) FROM providers
-- expressions
SELECT CASE status WHEN 'active' THEN 1 WHEN 'draft' THEN 2 END, CASE WHEN amount > 10 THEN 'a' WHEN amount IS NULL THEN 'b' ELSE 'c' END FROM contracts
SELECT coalesce(amount, 0), nullif(status, 'draft'), greatest(amount, 1, 2), least(amount, 3) FROM contracts
SELECT amount IS NULL, amount IS NOT NULL, amount ISNULL, amount NOTNULL, (amount > 1) IS TRUE, (amount > 1) IS NOT FALSE, (amount > 1) IS UNKNOWN FROM contracts
SELECT amount IS DISTINCT FROM 5, amount IS NOT DISTINCT FROM NULL FROM contracts
SELECT 5 / 2, 5 % 2, 2 ^ 3, |/ 4, ||/ 27, 5 & 3, 5 | 3, 5 # 3, ~5, 1 << 2, 8 >> 1
SELECT abs(-1), sign(-2), ceil(1.2), ceiling(1.2), floor(1.8), round(1.234, 2), trunc(1.9), trunc(1.234, 2), mod(5, 3), div(7, 2), power(2, 3), sqrt(4), cbrt(27), exp(1), ln(2), log(10), log(2, 8), log10(100), pi(), gcd(12, 8), lcm(4, 6), factorial(5), sinh(1), cosh(1), tanh(1), asinh(1), degrees(1), radians(1), sind(30), min_scale(1.10), scale(1.10), trim_scale(1.10), erf(1)
SELECT cast(id AS int), amount::float8, id::numeric(12, 2), '5'::smallint, true::int, 1::boolean, 'x'::char(3), 'abc'::varchar(2), 1::text, 1.5::real, 1::double precision, 'a'::character varying(5) FROM contracts
SELECT int '5', text 'a', numeric '1.5', bool 't', float8 '1', uuid '00000000-0000-0000-0000-000000000000', jsonb '{}', varchar(3) 'abc', bit '101', inet '10.0.0.1'
SELECT date('2020-01-01'), float8(1), int4(1.5), text('a'), timestamptz('2020-01-01'), int8(1), bool(1)
SELECT 1e3, 1.5e-2, .5, 5., 0x1F, 0b101, 0o17, 1_000_000
SELECT B'101', X'1F', B'101' & B'110', '\xDEADBEEF'::bytea
SELECT NOT true, true AND NOT false OR true, NOT (amount > 1) FROM contracts
SELECT -amount, +amount, - -amount, amount * -1 FROM contracts
SELECT (SELECT max(amount) FROM contracts c2 WHERE c2.provider = c.provider) - c.amount FROM contracts c
SELECT c.* FROM contracts c WHERE c.amount = (SELECT max(amount) FROM contracts) -- newest
/* header */ SELECT /* inline */ id -- tail␤FROM contracts /* x */ LIMIT 1;
SELECT num_nonnulls(amount, signed_on), num_nulls(amount), pg_typeof(1)::text FROM contracts
SELECT host(inet '10.0.0.1'), family(inet '10.0.0.1'), inet '10.0.0.5' << inet '10.0.0.0/8', network(inet '10.0.0.1/8')
SELECT p FROM providers p
SELECT count(*), count(p) FROM providers p
SELECT ROW(id, name) FROM providers
SELECT (id, name) IS NULL, (id, name) = (1, 'x') FROM providers
SELECT id FROM contracts TABLESAMPLE BERNOULLI (50) REPEATABLE (1)
SELECT id FROM contracts TABLESAMPLE SYSTEM (50)
SELECT id FROM ONLY contracts
SELECT c.id FROM public.contracts AS c JOIN public.providers AS p ON (c.provider = p.name)
SELECT public.contracts.id FROM public.contracts
SELECT c.id FROM (contracts c JOIN providers p ON p.name = c.provider) LEFT JOIN payments y ON y.contract_id = c.id
SELECT a.id, b.id FROM contracts a FULL OUTER JOIN payments b ON a.id = b.id
SELECT a.id FROM contracts a NATURAL JOIN contracts b
SELECT * FROM contracts a JOIN payments b USING (id, amount)
SELECT id, name FROM providers ORDER BY country = 'DE' DESC, name ASC NULLS FIRST
SELECT gen_random_uuid(), random(), random(1, 10), uuidv7(), random_normal()
SELECT amount::money FROM payments
SELECT json_build_object('año', year, 'n', count(*)) FROM contracts GROUP BY year
SELECT id FROM contracts WHERE status IN ('active', 'draft') AND year IN (2019, 2020) AND provider NOT IN ('x')
SELECT sum(amount) AS "Total (€)", count(*) AS "nº" FROM contracts
SELECT max(id) FROM contracts HAVING count(*) > 1
SELECT status, count(*) * 100.0 / sum(count(*)) OVER () AS pct FROM contracts GROUP BY status
SELECT t.year, t.total, t.total - lag(t.total) OVER (ORDER BY t.year) AS diff FROM (SELECT year, sum(amount) AS total FROM contracts WHERE amount <> 'NaN' GROUP BY year) AS t ORDER BY t.year
SELECT x.* FROM (SELECT c.id, c.amount, (c.clauses ->> 'x') AS x FROM contracts c) x ORDER BY x.amount DESC
SELECT g FROM generate_series(1, 10, 2) g
SELECT g.n FROM generate_series(1, 10) AS g(n) WHERE g.n % 2 = 0
SELECT * FROM generate_series(1, 3) AS a CROSS JOIN generate_series(1, 2) AS b
-- what people of a company write in Spanish
SELECT p.name AS proveedor, count(*) AS "nº de contratos", round(sum(c.amount), 2) AS "importe total (€)" FROM contracts c JOIN providers p ON p.name = c.provider WHERE c.status = 'active' GROUP BY p.name HAVING count(*) > 1 ORDER BY "importe total (€)" DESC NULLS LAST LIMIT 10
WITH por_año AS (SELECT year AS año, sum(amount) AS total FROM contracts WHERE amount <> 'NaN' GROUP BY year) SELECT año, total, round(100 * (total / lag(total) OVER (ORDER BY año) - 1), 1) AS "variación %" FROM por_año ORDER BY año
SELECT to_char(date_trunc('month', paid_at), 'YYYY-MM') AS mes, method AS método, sum(amount) AS pagado FROM payments GROUP BY 1, 2 ORDER BY mes, método
SELECT provider, max(signed_on) AS última_firma, current_date - max(signed_on) AS "días desde la firma" FROM contracts GROUP BY provider ORDER BY 3 DESC
SELECT count(*) FILTER (WHERE status = 'active') AS vigentes, count(*) FILTER (WHERE status = 'expired') AS vencidos, round(100.0 * count(*) FILTER (WHERE status = 'expired') / nullif(count(*), 0), 1) AS "% vencidos" FROM contracts
SELECT provider, repeat('*', least(count(*), 50)::int) AS barra FROM contracts GROUP BY provider ORDER BY count(*) DESC
SELECT round(avg(amount)) FROM contracts WHERE amount <> 'NaN' GROUP BY year ORDER BY round
SELECT q.row_number, q.id FROM (SELECT id, row_number() OVER (ORDER BY amount DESC NULLS LAST, id) FROM contracts) q WHERE q.row_number <= 3
SELECT date_trunc, sum FROM (SELECT date_trunc('year', signed_on), sum(amount) FROM contracts GROUP BY 1) q ORDER BY date_trunc
SELECT c.id FROM contracts c WHERE c.signed_on >= date_trunc('year', current_date) - interval '1 year' AND c.signed_on < date_trunc('year', current_date)
SELECT c.provider, c.amount FROM contracts c WHERE c.amount > (SELECT avg(x.amount) FROM contracts x WHERE x.provider = c.provider AND x.amount <> 'NaN')
SELECT coalesce(to_char(signed_on, 'DD/MM/YYYY'), 'sin fecha') AS fecha FROM contracts ORDER BY signed_on DESC NULLS FIRST
SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY amount) AS p90, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS mediana FROM payments
SELECT p.name FROM providers p WHERE NOT EXISTS (SELECT FROM contracts c WHERE c.provider = p.name)
SELECT provider, string_agg(DISTINCT status, ', ' ORDER BY status) AS estados FROM contracts GROUP BY provider
SELECT region, country, count(*) FROM providers GROUP BY GROUPING SETS ((region, country), (region), ()) ORDER BY region NULLS LAST, country NULLS LAST
SELECT extract(year FROM paid_at)::int AS año, extract(month FROM paid_at)::int AS mes, sum(amount) FROM payments GROUP BY año, mes ORDER BY año, mes
SELECT m::date AS mes, coalesce(sum(p.amount), 0) AS total FROM generate_series(date '2023-01-01', date '2023-12-01', interval '1 month') AS m LEFT JOIN payments p ON date_trunc('month', p.paid_at) = m GROUP BY m ORDER BY m
SELECT a.provider AS "proveedor A", b.provider AS "proveedor B", count(*) FROM contracts a JOIN contracts b ON a.year = b.year AND a.provider < b.provider GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 5
SELECT status, count(*), round(100.0 * count(*) / sum(count(*)) OVER (), 1) AS porcentaje FROM contracts GROUP BY status ORDER BY porcentaje DESC
-- habits of models
SELECT percentile_cont(ARRAY[0.25,0.5,0.75]) WITHIN GROUP (ORDER BY amount) FROM contracts
SELECT id FROM contracts;
SELECT id FROM contracts ; -- done
SELECT id FROM contracts -- comment at end
SELECT/**/id/**/FROM/**/contracts
SELECT 'it''s' AS q, id FROM contracts
SELECT 1.5e3, .5, 5., 0.1, 1e-3, 1e+3
SELECT 0x1F AS h, 1_000_000 AS m, 0b11 AS b, 0o17 AS o
SELECT -id, +id, - -id FROM contracts
SELECT id FROM contracts WHERE year!=2020 AND year<>2021
SELECT E'tab\there', E'\u00e9', E'\x41' AS a
SELECT B'1010', X'1F'
SELECT N'abc'
SELECT '日本' AS "名前", amount AS "Importe (€)" FROM contracts
SELECT amount AS "Total Amount", provider AS "Proveedor único" FROM contracts ORDER BY "Total Amount" DESC
SELECT provider "Proveedor", sum(amount) "Total €" FROM contracts GROUP BY 1
SELECT amount total, year y FROM contracts ORDER BY total
SELECT "id", "provider" FROM "contracts" WHERE "year" = 2020
SELECT "contracts"."id" FROM "public"."contracts"
SELECT $$dollar$$ , $x$a$$b$x$
SELECT 'a' || E'\n' || 'b'
SELECT 'C:\temp\' AS p
SELECT '-- not a comment' , '/* nor this */'
SELECT id FROM contracts WHERE status = 'DELETE FROM contracts'
SELECT 'DROP TABLE x' AS "DELETE"
SELECT TRUE, false, NULL
select id from contracts where year=2020 order by id limit 3
SeLeCt Id FrOm CoNtRaCtS
/* leading */ SELECT id FROM contracts
SELECT 1 AS "a;b", 2 AS "--"
SELECT 'x' /* ; DROP TABLE contracts */
WITH a(x, y) AS (SELECT id, amount FROM contracts) SELECT x, y FROM a WHERE y > 100
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 100) SELECT sum(n) FROM t
WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 10) SELECT n FROM t
WITH RECURSIVE t AS (SELECT 1 AS n, '1'::text AS path UNION SELECT n + 1, path || '.' || (n + 1) FROM t WHERE n < 5) SELECT * FROM t
WITH RECURSIVE m AS (SELECT date '2023-01-01' AS d UNION ALL SELECT (d + interval '1 month')::date FROM m WHERE d < '2023-12-01') SELECT m.d, count(p.id) FROM m LEFT JOIN payments p ON date_trunc('month', p.paid_at)::date = m.d GROUP BY m.d ORDER BY m.d
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t) SELECT n FROM t LIMIT 10
WITH x AS (SELECT * FROM contracts) SELECT count(*) FROM x
WITH x AS (WITH y AS (SELECT id FROM contracts) SELECT id FROM y) SELECT id FROM x
WITH secrets AS (SELECT 1 AS id) SELECT id FROM secrets
WITH pg_class AS (SELECT 1 AS oid) SELECT oid FROM pg_class
WITH x AS (SELECT id FROM contracts) SELECT a.id FROM x a JOIN x b USING (id)
WITH x AS (TABLE contracts) SELECT id FROM x
WITH x AS (VALUES (1,'a'),(2,'b')) SELECT column1, column2 FROM x
SELECT (WITH z AS (SELECT max(id) AS m FROM contracts) SELECT m FROM z)
SELECT id FROM contracts WHERE id IN (WITH q AS (SELECT contract_id FROM payments) SELECT contract_id FROM q)
WITH a AS (SELECT id FROM contracts) (SELECT id FROM a) UNION ALL SELECT id FROM a
WITH t AS (SELECT provider, sum(amount) AS s FROM contracts GROUP BY provider), r AS (SELECT provider, s, rank() OVER (ORDER BY s DESC) AS rk FROM t) SELECT * FROM r WHERE rk <= 3
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SEARCH DEPTH FIRST BY n SET ord SELECT n, ord FROM t ORDER BY ord
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n % 3 + 1 FROM t) CYCLE n SET c USING p SELECT n, c FROM t
SELECT DATE_TRUNC('month', signed_on) AS month, SUM(amount) AS total FROM contracts GROUP BY month ORDER BY month
SELECT DATE_TRUNC('month', signed_on)::date AS month, COUNT(*) FROM contracts WHERE signed_on >= CURRENT_DATE - INTERVAL '10 years' GROUP BY 1 ORDER BY 1
SELECT EXTRACT(YEAR FROM signed_on)::int AS y, EXTRACT(MONTH FROM signed_on) AS m FROM contracts
SELECT EXTRACT(EPOCH FROM (now() - paid_at)) / 86400 AS days FROM payments
SELECT EXTRACT(DOW FROM paid_at), EXTRACT(ISODOW FROM paid_at), EXTRACT(WEEK FROM paid_at) FROM payments
SELECT COUNT(*) FILTER (WHERE status = 'active') AS a, SUM(amount) FILTER (WHERE year = 2023) AS b FROM contracts
SELECT provider, ROUND(AVG(amount)::numeric, 2) AS media FROM contracts WHERE amount <> 'NaN' GROUP BY provider HAVING COUNT(*) > 1 ORDER BY 2 DESC NULLS LAST
SELECT TO_CHAR(signed_on, 'YYYY-MM') AS mes, COALESCE(SUM(amount), 0) FROM contracts GROUP BY 1 ORDER BY 1
SELECT provider, STRING_AGG(DISTINCT status, ', ' ORDER BY status) FROM contracts GROUP BY provider
SELECT STRING_AGG(DISTINCT status, ', ') FROM contracts
SELECT year, SUM(amount) AS total, LAG(SUM(amount)) OVER (ORDER BY year) AS prev, ROUND(100.0 * (SUM(amount) - LAG(SUM(amount)) OVER (ORDER BY year)) / NULLIF(LAG(SUM(amount)) OVER (ORDER BY year), 0), 2) AS pct FROM contracts WHERE amount <> 'NaN' GROUP BY year ORDER BY year
SELECT GREATEST(amount, 0), LEAST(amount, 100, 50) FROM contracts
SELECT SPLIT_PART(provider, ' ', 1), REGEXP_REPLACE(provider, '\s+', '_', 'g') FROM contracts
SELECT REGEXP_MATCHES(provider, '(\w+) (\w+)') FROM contracts
SELECT (REGEXP_MATCH(provider, '(\w+)'))[1] FROM contracts
SELECT REGEXP_SPLIT_TO_TABLE(provider, '\s+') AS w FROM contracts
SELECT word, count(*) FROM contracts, REGEXP_SPLIT_TO_TABLE(lower(provider), '\s+') AS word GROUP BY word
SELECT 'Total' AS k, SUM(amount) FROM contracts UNION ALL SELECT provider, SUM(amount) FROM contracts GROUP BY provider
(SELECT provider, SUM(amount) s FROM contracts GROUP BY provider ORDER BY s DESC LIMIT 3) UNION ALL SELECT 'Total', SUM(amount) FROM contracts
SELECT provider, year FROM contracts UNION SELECT name, 0 FROM providers ORDER BY 1, year DESC LIMIT 5 OFFSET 1
SELECT c.id, e->>'metric' AS m FROM contracts c, jsonb_array_elements(c.clauses->'sla') e
SELECT c.id, e.value->>'metric' FROM contracts c CROSS JOIN jsonb_array_elements(c.clauses->'sla') AS e
SELECT c.id, t FROM contracts c LEFT JOIN LATERAL unnest(c.tags) AS t ON TRUE
SELECT c.id, t.ord, t.tag FROM contracts c, unnest(c.tags) WITH ORDINALITY AS t(tag, ord)
SELECT key, value FROM contracts, jsonb_each(clauses) LIMIT 5
SELECT k, count(*) FROM contracts, jsonb_object_keys(clauses) AS k GROUP BY k
SELECT jsonb_path_query_array(clauses, '$.sla[*].target') FROM contracts
SELECT clauses #- '{sla}' FROM contracts LIMIT 1
SELECT clauses || '{"x": 1}'::jsonb FROM contracts LIMIT 1
SELECT jsonb_set(clauses, '{sla}', '[]') FROM contracts LIMIT 1
SELECT clauses @? '$.sla[*] ? (@.target > 50)', clauses @@ '$.sla[0].target > 1' FROM contracts
SELECT json_build_object('id', id, 'p', provider) FROM contracts LIMIT 2
SELECT json_agg(json_build_object('y', y, 'n', n) ORDER BY y) FROM (SELECT year AS y, count(*) AS n FROM contracts GROUP BY year) q
SELECT json_agg(q) FROM (SELECT year, count(*) FROM contracts GROUP BY year) q
SELECT row_to_json(q) FROM (SELECT id, provider FROM contracts) q
SELECT jsonb_object_agg(provider, s) FROM (SELECT provider, sum(amount) s FROM contracts WHERE amount <> 'NaN' GROUP BY provider) q
SELECT m::date AS month, COALESCE(SUM(p.amount), 0) FROM generate_series('2023-01-01'::date, '2023-12-01'::date, '1 month'::interval) m LEFT JOIN payments p ON date_trunc('month', p.paid_at) = m GROUP BY m ORDER BY m
SELECT d::date FROM generate_series(CURRENT_DATE - 6, CURRENT_DATE, '1 day') AS d
SELECT generate_series(1, 5) AS n
SELECT provider, year, SUM(amount) FROM contracts GROUP BY ROLLUP (provider, year) ORDER BY provider NULLS LAST, year NULLS LAST
SELECT provider, year, SUM(amount) FROM contracts GROUP BY CUBE (provider, year)
SELECT COALESCE(provider, 'TOTAL'), GROUPING(provider), SUM(amount) FROM contracts GROUP BY ROLLUP (provider)
SELECT provider, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) AS median FROM contracts GROUP BY provider
SELECT MODE() WITHIN GROUP (ORDER BY status) FROM contracts
SELECT id, ROW_NUMBER() OVER (PARTITION BY provider ORDER BY amount DESC) AS rn FROM contracts
SELECT * FROM (SELECT id, provider, ROW_NUMBER() OVER (PARTITION BY provider ORDER BY amount DESC NULLS LAST) AS rn FROM contracts) t WHERE rn = 1
SELECT *, SUM(amount) OVER () AS total FROM contracts
SELECT c.*, p.country FROM contracts c JOIN providers p ON p.name = c.provider
SELECT id, SUM(amount) OVER (ORDER BY signed_on ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) FROM contracts
SELECT id, AVG(amount) OVER (ORDER BY signed_on RANGE BETWEEN '90 days' PRECEDING AND CURRENT ROW) FROM contracts
SELECT id, FIRST_VALUE(amount) OVER w, LAST_VALUE(amount) OVER w FROM contracts WINDOW w AS (PARTITION BY provider ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
SELECT CUME_DIST() OVER (ORDER BY amount), PERCENT_RANK() OVER (ORDER BY amount), NTILE(4) OVER (ORDER BY amount) FROM contracts
SELECT year, COUNT(DISTINCT provider) FROM contracts GROUP BY year
SELECT COUNT(DISTINCT (provider, year)) FROM contracts
SELECT DISTINCT provider_region FROM contracts ORDER BY provider_region
SELECT provider FROM contracts GROUP BY provider HAVING SUM(amount) > (SELECT AVG(amount) FROM contracts WHERE amount <> 'NaN')
SELECT c.provider, (SELECT COUNT(*) FROM payments p WHERE p.contract_id = c.id) AS n FROM contracts c
SELECT provider FROM contracts c WHERE EXISTS (SELECT 1 FROM payments p WHERE p.contract_id = c.id)
SELECT name FROM providers WHERE name NOT IN (SELECT provider FROM contracts)
SELECT name FROM providers p WHERE NOT EXISTS (SELECT FROM contracts c WHERE c.provider = p.name)
SELECT p.name FROM providers p LEFT JOIN contracts c ON c.provider = p.name WHERE c.id IS NULL
SELECT * FROM contracts c INNER JOIN payments USING (id)
SELECT id, amount FROM contracts NATURAL JOIN payments
SELECT c.id FROM contracts c RIGHT JOIN providers p ON p.name = c.provider
SELECT c.id, p.id FROM contracts c CROSS JOIN providers p LIMIT 10
SELECT AGE(signed_on), AGE(now(), signed_on) FROM contracts
SELECT signed_on + 30, signed_on - INTERVAL '1 month', signed_on + INTERVAL '1' MONTH FROM contracts
SELECT signed_on::timestamp AT TIME ZONE 'UTC' FROM contracts
SELECT paid_at AT TIME ZONE 'America/Sao_Paulo' FROM payments
SELECT DATE '2023-01-01' + INTERVAL '1 year 2 months 3 days'
SELECT INTERVAL '1-2' YEAR TO MONTH, INTERVAL '3 days', INTERVAL '1' DAY * 3
SELECT make_date(year, 1, 1) FROM contracts
SELECT TO_DATE('2023-01-15', 'YYYY-MM-DD'), TO_TIMESTAMP(1700000000), TO_TIMESTAMP('2023', 'YYYY')
SELECT CURRENT_DATE, CURRENT_TIMESTAMP, NOW(), LOCALTIMESTAMP
SELECT EXTRACT(DAY FROM AGE(CURRENT_DATE, signed_on)) FROM contracts
SELECT DATE_PART('year', signed_on) FROM contracts
SELECT CAST(amount AS INTEGER), CAST(amount AS DECIMAL(10,2)), amount::money, amount::float FROM contracts WHERE id = 1
SELECT CAST(id AS VARCHAR(10)), id::char(3), id::text FROM contracts
SELECT TRUNC(amount, 2), CEIL(amount), FLOOR(amount), ABS(amount), SIGN(amount), SQRT(abs(amount)), POWER(2, 3), MOD(10, 3), LN(10), LOG(10), EXP(1) FROM contracts WHERE amount > 0
SELECT UPPER(provider), LENGTH(provider), TRIM(provider), CONCAT(provider, '-', year), LPAD(id::text, 5, '0'), SUBSTRING(provider, 1, 3), SUBSTRING(provider FROM '\w+') FROM contracts
SELECT FORMAT('%s (%s)', provider, year) FROM contracts
SELECT provider LIKE 'A%', provider NOT ILIKE '%b', provider SIMILAR TO '(A|B)%', provider ~ '^A' , provider !~* 'b' FROM contracts
SELECT starts_with(provider, 'A'), provider ^@ 'A' FROM contracts
SELECT ARRAY_AGG(id ORDER BY id) FROM contracts
SELECT ARRAY_LENGTH(tags, 1), CARDINALITY(tags), ARRAY_TO_STRING(tags, ','), tags || ARRAY['x'], ARRAY_APPEND(tags, 'y'), 'priority' = ANY(tags), tags[1], tags[array_upper(tags,1)] FROM contracts
SELECT ARRAY[[1,2],[3,4]], '{1,2,3}'::int[]
SELECT BOOL_AND(amount > 0), BOOL_OR(year = 2020), EVERY(id > 0) FROM contracts
SELECT STDDEV(amount), VARIANCE(amount), CORR(year, id), MIN(amount), MAX(signed_on) FROM contracts WHERE amount <> 'NaN'
SELECT CASE status WHEN 'active' THEN 1 WHEN 'draft' THEN 2 ELSE 0 END FROM contracts
SELECT amount IS NULL, amount IS NOT NULL, (amount > 0) IS TRUE, (amount > 0) IS NOT FALSE, (amount > 0) IS UNKNOWN, amount ISNULL, amount NOTNULL FROM contracts
SELECT year / 2, year % 2, year ^ 2, |/ 4, ||/ 27, year & 1, year | 1, year # 1, ~year, year << 1, year >> 1 FROM contracts
SELECT NULLIF(amount, 0), COALESCE(amount, 0, 1) FROM contracts
SELECT id FROM contracts WHERE (year = 2020 OR year = 2021) AND NOT (status = 'draft')
SELECT id FROM contracts WHERE id NOT BETWEEN 1 AND 5 AND status NOT IN ('a','b')
SELECT x, y FROM (VALUES (1, 'a'), (2, 'b')) t(x, y)
SELECT * FROM (VALUES (1), (2)) AS t
SELECT 1
SELECT 1 WHERE false
SELECT count(*), count(amount), count(DISTINCT status) FROM contracts
SELECT a.n FROM (SELECT count(*) AS n FROM contracts) AS a
SELECT ROW(1, 'a'), (1, 2) = (1, 2)
SELECT id FROM contracts TABLESAMPLE SYSTEM (10)
SELECT to_tsvector('english', provider) @@ to_tsquery('english', 'acme') FROM contracts
SELECT ts_rank(to_tsvector('simple', provider), plainto_tsquery('simple', 'cloud')) FROM contracts
SELECT provider FROM contracts WHERE to_tsvector(provider) @@ websearch_to_tsquery('cloud -acme')
SELECT md5(provider), encode(sha256(provider::bytea), 'hex') FROM contracts
SELECT id FROM contracts FETCH FIRST 5 ROWS ONLY
SELECT id FROM contracts ORDER BY id OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY
SELECT id FROM contracts ORDER BY amount FETCH FIRST 3 ROWS WITH TIES
SELECT * FROM contracts LIMIT 5
SELECT * FROM contracts c, LATERAL (SELECT c.amount * 2 AS dbl) x
SELECT id FROM contracts ORDER BY provider COLLATE "C"
SELECT id FROM contracts ORDER BY lower(provider), 1 DESC
SELECT year AS y, count(*) FROM contracts GROUP BY y HAVING count(*) > 1 ORDER BY count(*) DESC, y
SELECT id FROM contracts WHERE daterange('2020-01-01','2021-01-01') @> signed_on
SELECT int4range(1, 10) * int4range(5, 15), lower(int4range(1,10)), upper_inf(daterange('2020-01-01', NULL))
SELECT provider, sum(amount) FILTER (WHERE year = 2020) AS "2020", sum(amount) FILTER (WHERE year = 2021) AS "2021" FROM contracts GROUP BY provider
SELECT sum(CASE WHEN status = 'active' THEN 1 ELSE 0 END)::float / count(*) FROM contracts
SELECT provider, amount, amount * 100.0 / SUM(amount) OVER () AS share FROM contracts
SELECT random() < 0.5, gen_random_uuid()
SELECT tags, tags && ARRAY['priority'], tags <@ ARRAY['a','b'] FROM contracts
SELECT year, array_agg(provider) FILTER (WHERE amount > 100) FROM contracts GROUP BY year
SELECT p.method, date_trunc('week', p.paid_at) w, sum(p.amount) OVER (PARTITION BY p.method ORDER BY p.paid_at) FROM payments p
SELECT * FROM contracts WHERE amount = (SELECT max(amount) FROM contracts WHERE amount <> 'NaN')
SELECT t1.year, t1.s - t0.s AS delta FROM (SELECT year, sum(amount) s FROM contracts GROUP BY year) t1 LEFT JOIN (SELECT year, sum(amount) s FROM contracts GROUP BY year) t0 ON t0.year = t1.year - 1
SELECT unnest(tags) AS tag, count(*) FROM contracts GROUP BY tag ORDER BY 2 DESC
SELECT unnest(ARRAY[1,2]), unnest(ARRAY['a','b'])
SELECT DISTINCT ON (provider, year) provider, year, id FROM contracts ORDER BY provider, year, id DESC
SELECT "year" FROM contracts GROUP BY "year" ORDER BY "year"
SELECT c.year FROM contracts c ORDER BY c.year
SELECT year, month FROM (SELECT year, extract(month FROM signed_on) AS month FROM contracts) q
SELECT date, total FROM (SELECT signed_on AS date, sum(amount) AS total FROM contracts GROUP BY signed_on) q ORDER BY date
SELECT q.date, q.value, q.name, q.type, q.text FROM (SELECT signed_on AS date, amount AS value, provider AS name, status AS type, 'x' AS text FROM contracts) q
SELECT count(*) AS count, max(amount) AS max, year AS value FROM contracts GROUP BY year ORDER BY count
SELECT to_char(amount, 'FM999G999D00'), to_char(now(), 'Day DD Mon YYYY') FROM contracts
SELECT justify_days(interval '40 days'), date_bin('15 minutes', paid_at, '2001-01-01') FROM payments
SELECT EXTRACT(YEAR FROM AGE(signed_on)) * 12 + EXTRACT(MONTH FROM AGE(signed_on)) FROM contracts
SELECT id, jsonb_pretty(clauses) FROM contracts LIMIT 1
SELECT jsonb_array_length(clauses->'sla') FROM contracts
SELECT id FROM contracts WHERE clauses->'termination'->>'penalty' = 'true' AND (clauses->'termination'->>'notice_days')::int > 30
SELECT (clauses->'sla'->0->>'target')::float8 FROM contracts
SELECT clauses->'sla'->-1 FROM contracts
SELECT avg((s->>'target')::numeric) FROM contracts c, LATERAL jsonb_array_elements(c.clauses->'sla') s
SELECT * FROM jsonb_to_record('{"a":1}') AS x(a int)
SELECT p.name, x.* FROM providers p LEFT JOIN LATERAL (SELECT c.id, c.amount FROM contracts c WHERE c.provider = p.name ORDER BY c.amount DESC LIMIT 2) x ON true
SELECT bit_and(id), bit_or(id) FROM contracts
SELECT provider || ' (' || provider_region || ')' FROM contracts
SELECT octet_length(provider), char_length(provider), bit_length(provider), ascii('a'), chr(65) FROM contracts
SELECT translate(provider, 'aeiou', '12345'), repeat('=', 10), overlay('abc' placing 'x' from 2) FROM contracts
SELECT count(*) FROM generate_series(1, 1000) g WHERE g % 7 = 0
SELECT date_trunc('month', now()) - interval '1 month' AS start, date_trunc('month', now()) - interval '1 second' AS finish
SELECT nth_value(amount, 2) OVER (ORDER BY id), lead(amount, 1, 0::numeric) OVER (ORDER BY id) FROM contracts
SELECT any_value(provider) FROM contracts
SELECT q.c FROM (SELECT count(*) OVER () AS c FROM contracts) q LIMIT 1
SELECT * FROM contracts WHERE provider IN (SELECT name FROM providers WHERE country IN ('US', 'DE')) AND amount > ALL (SELECT 100)
SELECT provider FROM contracts EXCEPT SELECT name FROM providers
SELECT provider FROM contracts INTERSECT ALL SELECT name FROM providers
SELECT id FROM contracts WHERE NOT EXISTS (SELECT 1 FROM payments WHERE payments.contract_id = contracts.id)
SELECT sum(amount)::bigint::text || ' €' AS "Total (€)" FROM contracts WHERE amount <> 'NaN'
SELECT TO_CHAR(DATE_TRUNC('month', signed_on), 'Mon YYYY') AS "Mes", SUM(amount) AS "Importe (€)" FROM contracts GROUP BY DATE_TRUNC('month', signed_on) ORDER BY DATE_TRUNC('month', signed_on)
