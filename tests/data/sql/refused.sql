-- One statement a line; ␍ stands for a carriage return. contracts hides clauses, tags, year, day, date and c.
SELECT date_part(year, signed_on) FROM contracts
SELECT date_trunc(year, signed_on) FROM contracts
SELECT date_bin('7 days', paid_at, year) FROM payments, contracts
SELECT date_bin('7 days', signed_on, day) FROM contracts
SELECT date_trunc((year), signed_on) FROM contracts
SELECT date_trunc(year || '', signed_on) FROM contracts
SELECT date_trunc(contracts.year, signed_on) FROM contracts
SELECT extract(epoch FROM day) FROM contracts
SELECT interval '1' year FROM contracts WHERE year = 1
SELECT interval '1 year' * year FROM contracts
SELECT c FROM contracts, providers c
SELECT count(c) FROM contracts, providers c
SELECT contracts FROM contracts
SELECT (contracts).clauses FROM contracts
SELECT (contracts.*).clauses FROM contracts
SELECT to_jsonb(contracts) FROM contracts
SELECT contracts.to_jsonb FROM contracts
SELECT contracts.* FROM contracts
SELECT * FROM contracts NATURAL JOIN providers
SELECT contracts.id FROM contracts NATURAL JOIN (SELECT 1 AS clauses) q
SELECT ctid FROM contracts
SELECT xmin, tableoid FROM providers
SELECT providers.ctid FROM providers
SELECT q.name FROM providers q, LATERAL (SELECT clauses FROM contracts) z
(SELECT id FROM contracts) ORDER BY clauses
((SELECT id FROM contracts)) ORDER BY clauses LIMIT 1
(SELECT id FROM contracts ORDER BY id) ORDER BY clauses
(SELECT id FROM contracts) UNION (SELECT id FROM contracts ORDER BY clauses)
SELECT id FROM contracts UNION SELECT id FROM contracts ORDER BY clauses
SELECT id FROM contracts GROUP BY id, clauses
SELECT id AS clauses FROM contracts GROUP BY clauses
SELECT id FROM contracts GROUP BY GROUPING SETS ((id), (clauses))
SELECT id FROM contracts GROUP BY ROLLUP (id, (clauses))
SELECT DISTINCT ON (clauses) id FROM contracts
SELECT id FROM contracts WINDOW w AS (ORDER BY clauses)
SELECT rank() OVER (w ORDER BY clauses) FROM contracts WINDOW w AS (PARTITION BY id)
SELECT sum(id) FILTER (WHERE clauses IS NOT NULL) FROM contracts
SELECT count(*) OVER (ROWS BETWEEN (SELECT count(clauses) FROM contracts) PRECEDING AND CURRENT ROW) FROM contracts
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY year) FROM contracts
SELECT string_agg(provider, ',' ORDER BY clauses) FROM contracts
SELECT array_agg(id ORDER BY clauses) FROM contracts
SELECT coalesce(clauses -> 'a', 'x') FROM contracts
SELECT max(clauses -> 'a' -> 'b' ->> 'c') FROM contracts
SELECT coalesce(status -> clauses, 'x') FROM contracts
SELECT concat(id, clauses) FROM contracts
SELECT id FROM contracts c JOIN providers p USING (clauses)
SELECT id FROM contracts c JOIN contracts d USING (clauses)
SELECT id FROM contracts TABLESAMPLE BERNOULLI (year)
SELECT id FROM contracts TABLESAMPLE evil (1)
SELECT id FROM contracts LIMIT (SELECT max(year) FROM contracts)
SELECT id FROM contracts OFFSET (SELECT max(year) FROM contracts)
SELECT id FROM contracts FETCH FIRST (SELECT max(year) FROM contracts) ROWS ONLY
SELECT id FROM contracts FOR UPDATE
SELECT id FROM contracts FOR SHARE OF contracts NOWAIT
SELECT current_user
SELECT user
SELECT session_user
SELECT CURRENT_SCHEMA
SELECT current_schemas(true)
SELECT current_setting('x')
SELECT set_config('a','b',true)
SELECT pg_catalog.set_config('a','b',true)
SELECT "set_config"('a','b',true)
SELECT pg_sleep(5) FROM (VALUES (1)) AS pg_sleep(x)
SELECT pg_sleep(5) FROM (VALUES (1)) AS pg_sleep(x), (VALUES (1)) AS y(z)
SELECT filter(1)
SELECT "filter"(1)
SELECT over(1)
SELECT "lower"."x"('a')
SELECT public.lower('a')
SELECT lower.lower('a')
SELECT * FROM public.unnest(ARRAY[1])
SELECT * FROM ROWS FROM (generate_series(1,2), pg_ls_dir('.'))
SELECT * FROM pg_ls_dir('.')
SELECT * FROM LATERAL pg_ls_dir('.')
SELECT * FROM json_to_recordset('[]') AS x(a regclass)
SELECT * FROM json_to_recordset('[]') AS x(a contracts)
SELECT x::contracts FROM (SELECT '1' AS x) q
SELECT CAST('x' AS public.contracts)
SELECT '1'::oid
SELECT '1'::pg_catalog.regclass
SELECT '1'::"regclass"
SELECT regclass('contracts')
SELECT text 'a', regclass 'b'
SELECT '1'::xml
SELECT xmlparse(document '<a/>')
SELECT xmlelement(name foo)
SELECT xmlforest(id AS x) FROM contracts
SELECT json_populate_record(null::contracts, '{}')
SELECT NULL::contracts
SELECT ROW(1)::contracts
SELECT 1 OPERATOR(public.+) 2
SELECT id OPERATOR(+) 2 FROM contracts
SELECT id COLLATE "x" FROM contracts
SELECT repeat('x', $1)
SELECT repeat('x', 9999999)
SELECT repeat(repeat('x', 9999), 9999)
SELECT lpad('x', 99999999, 'y')
SELECT rpad('x', id) FROM contracts
SELECT pg_catalog.repeat('x', 99999999)
SELECT format('%1000000000s', 'x')
WITH x AS (INSERT INTO contracts VALUES (1) RETURNING id) SELECT * FROM x
WITH x AS (UPDATE contracts SET id = 1 RETURNING id) SELECT * FROM x
WITH x AS (SELECT 1) DELETE FROM contracts
WITH x AS (SELECT 1) INSERT INTO contracts SELECT * FROM x
SELECT * INTO t FROM providers
SELECT 1; SELECT 2
SELECT 1;; SELECT 2
EXPLAIN SELECT 1
CALL f()
DO $$ BEGIN END $$
VALUES (1)
TABLE contracts
SELECT * FROM (TABLE contracts) x
SELECT * FROM (TABLE secrets) x
SELECT a.id FROM contracts a, secrets.contracts b
SELECT public.secrets.x FROM contracts
SELECT contracts.public.id FROM contracts
SELECT other.contracts.id FROM contracts
SELECT lab.public.contracts.id FROM contracts
SELECT id FROM contracts WHERE EXISTS (TABLE secrets)
SELECT id FROM contracts WHERE id IN (TABLE secrets)
SELECT id FROM contracts WHERE id = ANY (TABLE secrets)
SELECT ARRAY(TABLE secrets)
SELECT $1.x
SELECT 'a' "b" FROM "secrets"
SELECT 1 -- ␍; DELETE FROM contracts
SELECT U&'\0061'
SELECT $a$ $a; DELETE FROM contracts; $a$ ; DELETE FROM x
SELECT 1 /* /* */ FROM secrets */ FROM secrets
SELECT {fn x()}
SELECT {{ x }}
SELECT `id` FROM contracts
SELECT id FROM contracts PIVOT (sum(id) FOR status IN ('a'))
SELECT id FROM contracts QUALIFY rank() OVER () = 1
SELECT * EXCEPT (clauses) FROM contracts
SELECT * EXCLUDE (id) FROM providers
SELECT * REPLACE (1 AS id) FROM providers
SELECT TOP 1 id FROM contracts
SELECT id FROM contracts SORT BY clauses
SELECT id FROM contracts CLUSTER BY clauses
SELECT id FROM contracts DISTRIBUTE BY clauses
SELECT id FROM contracts CONNECT BY clauses
SELECT id FROM contracts START WITH clauses CONNECT BY id
SELECT id FROM contracts MATCH_RECOGNIZE (x)
SELECT id FROM contracts VERSION AS OF 1
SELECT id FROM contracts WITH (nolock)
SELECT id FROM contracts LATERAL VIEW explode(tags) t AS x
SELECT IF(clauses, 1, 2) FROM contracts
SELECT x -> x + clauses FROM contracts
SELECT json_agg(contracts) FROM contracts
SELECT count(*) FROM contracts c WHERE c IS NULL
SELECT count(*) FROM contracts c WHERE c = c
SELECT (SELECT c) FROM contracts c
SELECT (SELECT c.*) FROM contracts c
SELECT ROW(c.*) FROM contracts c
SELECT ARRAY[c] FROM contracts c
SELECT c::text FROM contracts c
SELECT id FROM contracts WHERE clauses @> '{}'
SELECT id FROM contracts AS d(id, clauses)
SELECT z.clauses FROM (contracts CROSS JOIN providers) AS z
SELECT z.clauses FROM (SELECT * FROM contracts) z
WITH z AS (TABLE contracts) SELECT clauses FROM z
WITH z(clauses) AS (SELECT clauses FROM contracts) SELECT 1 FROM z
WITH RECURSIVE z AS (SELECT 1 AS n UNION ALL SELECT year FROM contracts) SELECT n FROM z
WITH z AS (SELECT 1) SELECT * FROM y
SELECT id FROM contracts ORDER BY id USING >
SELECT id FROM contracts WHERE CURRENT OF x
SELECT nextval('s')
SELECT id FROM contracts WHERE id ~~~ 1
SELECT a FROM unnest(ARRAY[1]) WITH ORDINALITY AS a(b, clauses), contracts WHERE clauses = 1
SELECT id FROM contracts CROSS JOIN (SELECT 1 AS clauses) q WHERE clauses = 1
SELECT q.x FROM (SELECT 1 AS clauses) q0, LATERAL (SELECT clauses AS x FROM contracts) q
SELECT (SELECT 1 FROM providers a JOIN providers b ON clauses IS NOT NULL, (SELECT 1 AS clauses) q LIMIT 1) FROM contracts
SELECT id, LAG(clauses) OVER () FROM contracts
SELECT GREATEST(id, year) FROM contracts
SELECT id FROM contracts WHERE year BETWEEN SYMMETRIC 1 AND 2
SELECT id FROM contracts WHERE (id, year) IN ((1, 2))
SELECT overlay(status PLACING clauses FROM 1) FROM contracts
SELECT trim(clauses FROM status) FROM contracts
SELECT position(clauses IN status) FROM contracts
SELECT substring(status FROM clauses) FROM contracts
SELECT status SIMILAR TO clauses FROM contracts
SELECT status LIKE 'a' ESCAPE clauses FROM contracts
SELECT make_interval(years => year) FROM contracts
SELECT signed_on AT TIME ZONE clauses FROM contracts
SELECT CASE clauses WHEN 1 THEN 1 END FROM contracts
SELECT CASE WHEN true THEN 1 ELSE clauses END FROM contracts
SELECT tags[1] FROM contracts
SELECT (ARRAY[1])[year] FROM contracts
SELECT (ARRAY[1])[1:year] FROM contracts
SELECT id FROM contracts WHERE status = ANY(tags)
SELECT id FROM contracts WHERE status = ALL(SELECT clauses FROM contracts)
SELECT jsonb_path_query(clauses, '$') FROM contracts
SELECT date FROM contracts
SELECT date + 1 FROM contracts
SELECT date(date) FROM contracts
SELECT contracts.date FROM contracts
SELECT day FROM contracts
SELECT "day" FROM contracts
SELECT count(day) FROM contracts
SELECT (SELECT clauses FROM unnest(to_tsvector('x')) AS clauses LIMIT 1) FROM contracts
SELECT (SELECT clauses FROM unnest(to_tsvector('x')) AS t(clauses, b) WHERE c IS NULL LIMIT 1) FROM contracts
SELECT (SELECT tags FROM (SELECT * FROM providers JOIN (SELECT 1 AS id, 2 AS tags) z USING (id)) q(x, y, w) LIMIT 1) FROM contracts
SELECT id FROM contracts WHERE NOT json AND c IS NULL
SELECT id FROM contracts WHERE id = SOME (tags)
SELECT id FROM contracts WHERE id > ALL (ARRAY[year])
SELECT ROW(contracts) FROM contracts
SELECT ROW(id, clauses) FROM contracts
SELECT ROW(1)::contracts
SELECT (ROW(id)).f1 FROM contracts
SELECT id FROM contracts GROUP BY ALL id, clauses
SELECT * FROM ROWS FROM (unnest(tags), generate_series(1, 2)) AS t(a, b), contracts
SELECT t.a FROM contracts c, ROWS FROM (unnest(c.tags)) AS t(a)
SELECT * FROM ROWS FROM (pg_sleep(1)) AS t(a)
SELECT * FROM ____(generate_series(1, 2)) AS t(a)
SELECT JSON_OBJECT('a' : id, 'b' : clauses) FROM contracts
SELECT JSON_OBJECT(status VALUE clauses) FROM contracts
SELECT JSON_OBJECT(date VALUE 5) FROM contracts
SELECT JSON_ARRAY(id, clauses) FROM contracts
SELECT JSON_VALUE(clauses, '$') FROM contracts
SELECT JSON_VALUE('{}', '$' DEFAULT day ON EMPTY) FROM contracts
SELECT JSON_VALUE('{}', '$' RETURNING regclass) FROM contracts
SELECT JSON_QUERY('{}', '$' PASSING tags AS x) FROM contracts
SELECT JSON_EXISTS('{}', '$' PASSING (SELECT token FROM secrets) AS x)
SELECT JSON_ARRAYAGG(id ORDER BY clauses) FROM contracts
SELECT JSON_OBJECTAGG(id VALUE tags) FROM contracts
SELECT JSON_SERIALIZE(contracts) FROM contracts
SELECT x.a FROM contracts, JSON_TABLE(clauses, '$' COLUMNS (a text PATH '$')) x
SELECT x.a FROM JSON_TABLE('{}', '$' COLUMNS (a regclass PATH '$')) x
SELECT x.a FROM JSON_TABLE('{}', '$' COLUMNS (a text PATH '$' DEFAULT day ON EMPTY)) x, contracts
SELECT x.clauses FROM JSON_TABLE('{}', '$' COLUMNS (a text PATH '$')) x, contracts
SELECT clauses IS JSON FROM contracts
SELECT contracts IS JSON FROM contracts
SELECT id COLLATE "evil collation" FROM contracts
SELECT id COLLATE clauses FROM contracts
SELECT clauses COLLATE "C" FROM contracts
SELECT day AT LOCAL FROM contracts
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) SEARCH DEPTH FIRST BY n SET o SELECT clauses FROM t, contracts
WITH t AS (SELECT 1 AS n) SELECT o FROM t
WITH RECURSIVE t AS (SELECT clauses FROM contracts UNION ALL SELECT clauses FROM t) CYCLE clauses SET x USING y SELECT x FROM t
WITH a AS (SELECT repeat('x', 9000) AS s) SELECT repeat(s, 9000) FROM a
SELECT repeat('xxxxxxxxxx', 9000)
SELECT repeat(status, 5000) || repeat(provider, 5000) FROM contracts
SELECT repeat('x', least(id, $1)) FROM contracts
SELECT repeat('x', 3 * 100000000)
SELECT repeat('x', 1_000_000_000)
SELECT repeat('x', 0x7FFFFFF)
SELECT repeat('x', 1e9::int)
SELECT lpad(status, $1) FROM contracts
SELECT format('%*s', 1000000000, 'x')
SELECT format(status, id) FROM contracts
SELECT count(*) FROM generate_series(1, 99999999999)
SELECT count(*) FROM generate_series(-9999999999, 1, 2)
SELECT text(contracts) FROM contracts
SELECT float8(year) FROM contracts
SELECT "extract"(year, signed_on) FROM contracts
SELECT interval '1' second(year) FROM contracts
SELECT make_interval(days := year) FROM contracts
SELECT '1'::regconfig
FROM contracts SELECT id
UNLISTEN *
NOTIFY x, 'y'
SELECT id FROM contracts ORDER BY $1::text
SELECT id FROM contracts ORDER BY CAST($1 AS text) DESC
SELECT rank() OVER (ORDER BY $1) FROM contracts
SELECT string_agg(provider, ',' ORDER BY $1) FROM contracts
SELECT count(*) FROM contracts GROUP BY $1::text
SELECT INTERVAL $1
SELECT id AS $1 FROM contracts
SELECT id FROM contracts WHERE id IN $1
SELECT extract($1 FROM signed_on) FROM contracts
SELECT $1,(SELECT token FROM secrets),$2
SELECT $1,$a$,$2,$a$,(SELECT token FROM secrets)
SELECT $1,clauses,$2 FROM contracts
SELECT date_bin('7 days', signed_on, "year") FROM contracts
SELECT id) FROM contracts
