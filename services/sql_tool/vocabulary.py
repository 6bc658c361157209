"""The closed lists: every word, function, type and construct that a statement may use. What is not here is refused."""

from collections.abc import Mapping

from sqlglot import exp

_AGGREGATES = """
    array_agg avg bit_and bit_or bool_and bool_or corr count covar_pop covar_samp every grouping json_agg
    json_object_agg jsonb_agg jsonb_object_agg max min mode percentile_cont percentile_disc regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy stddev stddev_pop stddev_samp string_agg
    sum var_pop var_samp variance
"""
_WINDOWS = "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number"
_MATH = """
    abs acos asin atan atan2 cbrt ceil ceiling cos cot degrees div exp factorial floor gcd greatest lcm least ln log
    log10 mod pi power radians random round sign sin sqrt tan to_hex trunc width_bucket
"""
_TEXT = """
    ascii bit_length btrim char_length character_length chr concat concat_ws decode encode initcap left length lower
    lpad ltrim md5 normalize octet_length overlay position quote_literal quote_nullable regexp_count regexp_instr
    regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr
    repeat replace reverse right rpad rtrim sha256 split_part starts_with string_to_array string_to_table strpos
    substr substring to_ascii to_char to_number translate trim unistr upper
"""
_TEXT_SEARCH = """
    phraseto_tsquery plainto_tsquery to_tsquery to_tsvector ts_headline ts_rank ts_rank_cd websearch_to_tsquery
"""
_TIME = """
    age clock_timestamp current_date current_time current_timestamp date date_bin date_part date_trunc extract isfinite
    justify_days justify_hours justify_interval localtime localtimestamp make_date make_interval make_time
    make_timestamp make_timestamptz now statement_timestamp timezone to_date to_timestamp transaction_timestamp
"""
_JSON = """
    json_array_elements json_array_elements_text json_array_length json_build_array json_build_object json_each
    json_each_text json_extract_path json_extract_path_text json_object json_object_keys json_strip_nulls
    json_to_record json_to_recordset json_typeof jsonb_array_elements jsonb_array_elements_text jsonb_array_length
    jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path jsonb_extract_path_text
    jsonb_object jsonb_object_keys jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array
    jsonb_path_query_first jsonb_pretty jsonb_set jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_typeof
    row_to_json to_json to_jsonb array_to_json
"""
_ARRAYS = """
    array_append array_cat array_dims array_length array_lower array_ndims array_position array_positions
    array_prepend array_remove array_replace array_to_string array_upper cardinality generate_series
    generate_subscripts trim_array unnest
"""
_CONDITIONS = "coalesce nullif num_nonnulls num_nulls cast"
_RANGES = "daterange int4range int8range isempty lower_inc lower_inf numrange tsrange tstzrange upper_inc upper_inf"

FUNCTIONS = frozenset(
    " ".join((_AGGREGATES, _WINDOWS, _MATH, _TEXT, _TEXT_SEARCH, _TIME, _JSON, _ARRAYS, _CONDITIONS, _RANGES)).split()
)

# A function in FROM that returns rows has these columns; any other has one column with its own name.
FUNCTION_COLUMNS: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    ("json_each", "json_each_text", "jsonb_each", "jsonb_each_text"), ("key", "value")
)
# These take the number of characters that they make.
GROWING_NAMES = ("repeat", "lpad", "rpad")
GROWING: tuple[type[exp.Expr], ...] = (exp.Repeat, exp.Pad)
MAX_REPEATS = 10_000

TIME_FIELDS = frozenset(
    """
    century day days decade dow doy epoch hour hours isodow isoyear julian microsecond microseconds millennium
    millisecond milliseconds minute minutes month months quarter second seconds timezone timezone_hour timezone_minute
    week weeks year years decades centuries millenniums
    """.split()
)
# Call the user's or the server's identity by name alone: a call without brackets.
IDENTITY_WORDS = frozenset(
    "user current_user session_user system_user current_role current_catalog current_schema".split()
)
SYNTAX_WORDS = frozenset(
    """
        all and any array as asc asymmetric at between bernoulli both by case cross cube current desc distinct else end
        escape except exclude exists false fetch filter first following for from full group grouping groups having
        ilike in inner intersect is isnull join last lateral leading left like limit local materialized natural next no
        not notnull null nulls of offset on only or order others outer over overlaps partition placing preceding range
        recursive repeatable right rollup row rows select sets similar some symmetric system table tablesample then ties
        time to trailing true unbounded union unknown using values when where window with within without zone ordinality
        ignore respect
        """.split()
)
TYPE_WORDS = frozenset(
    """
    bigint bit bool boolean bpchar bytea char character date decimal double float float4 float8 inet cidr int int2 int4
    int8 integer interval json jsonb numeric precision real smallint text time timestamp timestamptz timetz uuid varchar
    varying daterange int4range int8range numrange tsrange tstzrange tsvector tsquery
    """.split()
)

_T = exp.DataType.Type
TYPES = frozenset(
    {
        _T.ARRAY, _T.BIGINT, _T.BIT, _T.BOOLEAN, _T.BPCHAR, _T.CHAR, _T.DATE, _T.DATERANGE, _T.DECIMAL, _T.DOUBLE,
        _T.FLOAT, _T.INET, _T.INT, _T.INT4RANGE, _T.INT8RANGE, _T.INTERVAL, _T.JSON, _T.JSONB, _T.NUMRANGE,
        _T.SMALLINT, _T.TEXT, _T.TIME, _T.TIMESTAMP, _T.TIMESTAMPTZ, _T.TIMETZ, _T.TSRANGE, _T.TSTZRANGE, _T.UUID,
        _T.VARBINARY, _T.VARCHAR,
    }
)  # fmt: skip

# Constructs that are no function and hold no names of their own; the resolver knows the rest one by one.
PLAIN_NODES: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Add, exp.All, exp.And, exp.Any, exp.ArrayContainedBy, exp.ArrayContainsAll, exp.ArrayOverlaps,
        exp.AtTimeZone, exp.Between, exp.BitString, exp.BitwiseAnd, exp.BitwiseLeftShift, exp.BitwiseNot,
        exp.BitwiseOr, exp.BitwiseRightShift, exp.BitwiseXor, exp.Boolean, exp.Bracket, exp.ByteString, exp.Case,
        exp.Cast, exp.DPipe, exp.DataTypeParam, exp.Distinct, exp.Div, exp.EQ, exp.Escape, exp.Exists, exp.Fetch,
        exp.Filter, exp.GT, exp.GTE, exp.HexString, exp.ILike, exp.If, exp.IgnoreNulls, exp.In, exp.Interval, exp.Is,
        exp.JSONBContainsAllTopKeys, exp.JSONBContainsAnyTopKeys, exp.JSONBContainsTopKey, exp.JSONBDeleteAtPath,
        exp.JSONBExtract, exp.JSONBExtractScalar, exp.JSONBPathExists, exp.JSONExtract, exp.JSONExtractScalar,
        exp.JSONPath, exp.JSONPathKey, exp.JSONPathRoot, exp.JSONPathSubscript, exp.LT, exp.LTE, exp.Lambda, exp.Like,
        exp.Limit, exp.LimitOptions, exp.Literal, exp.Mod, exp.Mul, exp.NEQ, exp.National, exp.Neg, exp.Not, exp.Null,
        exp.NullSafeEQ, exp.NullSafeNEQ, exp.Offset, exp.Or, exp.Order, exp.Ordered, exp.Overlaps, exp.Paren, exp.Pow,
        exp.IntervalSpan, exp.RawString, exp.RegexpILike, exp.RegexpLike,
        exp.RespectNulls, exp.SimilarTo, exp.Slice, exp.Sqrt, exp.Sub,
        exp.Tuple, exp.Where, exp.WindowSpec, exp.WithinGroup,
    }
)  # fmt: skip

# What sqlglot makes of the calls in FUNCTIONS. Its names differ from PostgreSQL's, so both lists must agree.
FUNCTION_NODES: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Abs, exp.Acos, exp.Anonymous, exp.Array, exp.ArrayAgg, exp.ArrayAppend, exp.ArrayConcat,
        exp.ArrayPosition, exp.ArrayPrepend, exp.ArrayRemove, exp.ArraySize, exp.ArrayToString, exp.Ascii,
        exp.Asin, exp.Atan, exp.Atan2, exp.Avg, exp.BitLength, exp.BitwiseAndAgg, exp.BitwiseOrAgg,
        exp.CastToStrType, exp.Cbrt, exp.Ceil, exp.Chr, exp.Coalesce, exp.Concat, exp.ConcatWs, exp.Corr,
        exp.Cos, exp.Cot, exp.Count, exp.CovarPop, exp.CovarSamp, exp.CumeDist, exp.CurrentDate,
        exp.CurrentTime, exp.CurrentTimestamp, exp.Date, exp.DateBin, exp.Decode, exp.Degrees, exp.DenseRank,
        exp.Encode, exp.Exp, exp.Explode, exp.ExplodingGenerateSeries, exp.Extract, exp.Factorial,
        exp.FirstValue, exp.Floor, exp.Greatest, exp.GroupConcat, exp.Grouping, exp.Hex, exp.Initcap,
        exp.IntDiv, exp.JSONArrayAgg, exp.JSONBObjectAgg, exp.JSONKeyValue, exp.JSONObject, exp.JSONObjectAgg,
        exp.JSONStripNulls, exp.JustifyDays, exp.JustifyHours, exp.JustifyInterval, exp.Lag, exp.LastValue,
        exp.Lead, exp.Least, exp.Left, exp.Length, exp.Ln, exp.Localtime, exp.Localtimestamp, exp.Log,
        exp.LogicalAnd, exp.LogicalOr, exp.Lower, exp.MD5, exp.MakeInterval, exp.MatchAgainst, exp.Max, exp.Min,
        exp.Mode, exp.Normalize, exp.NthValue, exp.Ntile, exp.Nullif, exp.Overlay, exp.Pad, exp.PercentRank,
        exp.PercentileCont, exp.PercentileDisc, exp.Pi, exp.Radians, exp.Rand, exp.Rank, exp.RegexpCount,
        exp.RegexpInstr, exp.RegexpReplace, exp.RegexpSubstr, exp.RegrAvgx, exp.RegrAvgy, exp.RegrCount,
        exp.RegrIntercept, exp.RegrR2, exp.RegrSlope, exp.RegrSxx, exp.RegrSxy, exp.RegrSyy, exp.Repeat,
        exp.Replace, exp.Reverse, exp.Right, exp.Round, exp.RowNumber, exp.SHA2Digest, exp.Sign, exp.Sin,
        exp.SplitPart, exp.StartsWith, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.StrPosition,
        exp.StrToDate, exp.StrToTime, exp.StringToArray, exp.Substring, exp.Sum, exp.Tan, exp.TimeFromParts,
        exp.TimeToStr, exp.TimestampFromParts, exp.TimestampTrunc, exp.ToNumber, exp.Translate, exp.Trim,
        exp.Trunc, exp.UnixToTime, exp.Unnest, exp.Upper, exp.Variance, exp.VariancePop, exp.WidthBucket,
    }
)  # fmt: skip
