"""The closed lists: every word, function, type and construct that a statement may use. What is not here is refused."""

from collections.abc import Mapping

from sqlglot import exp

_AGGREGATES = """
    any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp every grouping
    json_agg json_arrayagg json_object_agg json_objectagg jsonb_agg jsonb_object_agg max min mode percentile_cont
    percentile_disc range_agg range_intersect_agg regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy stddev stddev_pop stddev_samp string_agg sum var_pop var_samp variance
"""
_WINDOWS = "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number"
_MATH = """
    abs acos acosd acosh asin asind asinh atan atan2 atan2d atand atanh cbrt ceil ceiling cos cosd cosh cot cotd
    degrees div erf erfc exp factorial floor gamma gcd greatest lcm least lgamma ln log log10 min_scale mod pi power
    radians random random_normal round scale sign sin sind sinh sqrt tan tand tanh to_hex trim_scale trunc
    width_bucket
"""
_TEXT = """
    ascii bit_length btrim casefold char_length character_length chr concat concat_ws convert_from convert_to crc32
    crc32c decode encode format initcap left length lower lpad ltrim md5 normalize octet_length overlay position
    quote_ident quote_literal quote_nullable regexp_count regexp_instr regexp_like regexp_match regexp_matches
    regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr repeat replace reverse right rpad rtrim
    sha224 sha256 sha384 sha512 split_part starts_with string_to_array string_to_table strpos substr substring
    to_ascii to_bin to_char to_number to_oct translate trim unistr upper
"""
_TEXT_SEARCH = """
    array_to_tsvector json_to_tsvector jsonb_to_tsvector numnode phraseto_tsquery plainto_tsquery querytree
    setweight strip to_tsquery to_tsvector ts_delete ts_filter ts_headline ts_rank ts_rank_cd tsquery_phrase
    tsvector_to_array websearch_to_tsquery
"""
_TIME = """
    age clock_timestamp current_date current_time current_timestamp date date_add date_bin date_part date_subtract
    date_trunc extract isfinite justify_days justify_hours justify_interval localtime localtimestamp make_date
    make_interval make_time make_timestamp make_timestamptz now statement_timestamp timestamptz timezone to_date
    to_timestamp transaction_timestamp
"""
_JSON = """
    array_to_json json json_array json_array_elements json_array_elements_text json_array_length json_build_array
    json_build_object json_each json_each_text json_exists json_extract_path json_extract_path_text json_object
    json_object_keys json_query json_scalar json_serialize json_strip_nulls json_table json_to_record
    json_to_recordset json_typeof json_value jsonb_array_elements jsonb_array_elements_text jsonb_array_length
    jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path jsonb_extract_path_text
    jsonb_insert jsonb_object jsonb_object_keys jsonb_path_exists jsonb_path_exists_tz jsonb_path_match
    jsonb_path_match_tz jsonb_path_query jsonb_path_query_array jsonb_path_query_array_tz jsonb_path_query_first
    jsonb_path_query_first_tz jsonb_path_query_tz jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls
    jsonb_to_record jsonb_to_recordset jsonb_typeof row_to_json to_json to_jsonb
"""
_ARRAYS = """
    array_append array_cat array_dims array_length array_lower array_ndims array_position array_positions
    array_prepend array_remove array_replace array_reverse array_sample array_shuffle array_sort array_to_string
    array_upper cardinality generate_series generate_subscripts trim_array unnest
"""
_CONDITIONS = "coalesce nullif num_nonnulls num_nulls cast pg_typeof"
_CASTS = "bool float4 float8 int2 int4 int8 text"
_NETWORK = """
    abbrev broadcast family host hostmask inet_merge inet_same_family masklen netmask network set_masklen
"""
_UUIDS = "gen_random_uuid uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7"
_RANGES = """
    daterange int4range int8range isempty lower_inc lower_inf numrange range_merge tsrange tstzrange upper_inc upper_inf
"""

FUNCTIONS = frozenset(
    " ".join(
        (
            _AGGREGATES, _WINDOWS, _MATH, _TEXT, _TEXT_SEARCH, _TIME, _JSON, _ARRAYS, _CONDITIONS, _CASTS, _NETWORK,
            _UUIDS, _RANGES,
        )
    ).split()
)  # fmt: skip

# A function in FROM that returns rows has these columns; any other has one column with its own name.
FUNCTION_COLUMNS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys("json_each json_each_text jsonb_each jsonb_each_text".split(), ("key", "value")),
    **dict.fromkeys("json_array_elements json_array_elements_text".split(), ("value",)),
    **dict.fromkeys("jsonb_array_elements jsonb_array_elements_text".split(), ("value",)),
}
# These are sure to have the one column that we think they have, whatever their arguments.
SURE_FUNCTIONS = frozenset(
    """
    generate_series generate_subscripts json_array_elements json_array_elements_text json_each json_each_text
    json_object_keys jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys
    jsonb_path_query regexp_matches regexp_split_to_table string_to_table
    """.split()
)

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
# The words that PostgreSQL takes for no column unless they are quoted.
RESERVED = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation
    column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze
    from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit
    localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references
    returning right select session_user similar some symmetric system_user table tablesample then to trailing true
    union unique user using variadic verbose when where window with
    """.split()
)
# Those of them that are a value, or end one.
WHOLE_OPERANDS = frozenset(
    "current_date current_time current_timestamp end false isnull localtime localtimestamp notnull null true".split()
)
SYNTAX_WORDS = frozenset(
    """
    all and any array as asc asymmetric at bernoulli between both by case collate cross cube current desc distinct
    else end escape except exclude exists false fetch filter first following for from full group grouping groups
    having ignore ilike in inner intersect is isnull join last lateral leading left like limit local materialized
    natural next no not notnull null nulls of offset on only or order ordinality others outer over overlaps
    partition placing preceding range recursive repeatable respect right rollup row rows select sets similar some
    symmetric system table tablesample then ties time to trailing true unbounded union unknown using values when
    where window with within without zone
    """.split()
)
TYPE_WORDS = frozenset(
    """
    bigint bit bool boolean bpchar bytea char character cidr date daterange decimal double float float4 float8 inet
    int int2 int4 int4range int8 int8range integer interval json jsonb money numeric numrange precision real
    smallint text time timestamp timestamptz timetz tsquery tsrange tstzrange tsvector uuid varchar varying
    """.split()
)

_T = exp.DataType.Type
TYPES = frozenset(
    {
        _T.ARRAY, _T.BIGINT, _T.BIT, _T.BOOLEAN, _T.BPCHAR, _T.CHAR, _T.DATE, _T.DATERANGE, _T.DECIMAL, _T.DOUBLE,
        _T.FLOAT, _T.INET, _T.INT, _T.INT4RANGE, _T.INT8RANGE, _T.INTERVAL, _T.JSON, _T.JSONB, _T.MONEY,
        _T.NUMRANGE, _T.SMALLINT, _T.TEXT, _T.TIME, _T.TIMESTAMP, _T.TIMESTAMPTZ, _T.TIMETZ, _T.TSRANGE,
        _T.TSTZRANGE, _T.UUID, _T.VARBINARY, _T.VARCHAR,
    }
)  # fmt: skip

# Types that the parser does not know.
USER_TYPES = ("tsquery", "tsvector")

# Constructs that are no function and hold no names of their own; the resolver knows the rest one by one.
PLAIN_NODES: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Add, exp.Adjacent, exp.All, exp.And, exp.Any, exp.ArrayContainedBy, exp.ArrayContainsAll,
        exp.ArrayOverlaps, exp.AtTimeZone, exp.Between, exp.BitString, exp.BitwiseAnd, exp.BitwiseLeftShift,
        exp.BitwiseNot, exp.BitwiseOr, exp.BitwiseRightShift, exp.BitwiseXor, exp.Boolean, exp.Bracket,
        exp.ByteString, exp.Case, exp.Cast, exp.DPipe, exp.DataTypeParam, exp.Distinct, exp.Div, exp.EQ, exp.Escape,
        exp.Exists, exp.Fetch, exp.Filter, exp.GT, exp.GTE, exp.HexString, exp.ILike, exp.If, exp.IgnoreNulls,
        exp.In, exp.Interval, exp.IntervalSpan, exp.Is, exp.JSONBContainsAllTopKeys, exp.JSONBContainsAnyTopKeys,
        exp.JSONBContainsTopKey, exp.JSONBDeleteAtPath, exp.JSONBExtract, exp.JSONBExtractScalar,
        exp.JSONBPathExists, exp.JSONExtract, exp.JSONExtractScalar, exp.JSONPath, exp.JSONPathKey,
        exp.JSONPathRoot, exp.JSONPathSubscript, exp.LT, exp.LTE, exp.Lambda, exp.Like, exp.Limit, exp.LimitOptions,
        exp.Literal, exp.Mod, exp.Mul, exp.NEQ, exp.National, exp.Neg, exp.Not, exp.Null, exp.NullSafeEQ,
        exp.NullSafeNEQ, exp.Offset, exp.Or, exp.Order, exp.Ordered, exp.Overlaps, exp.Paren, exp.Pow,
        exp.RawString, exp.RegexpILike, exp.RegexpLike, exp.RespectNulls, exp.Second, exp.SimilarTo, exp.Slice,
        exp.Sqrt, exp.Sub, exp.Tuple, exp.Where, exp.WindowSpec, exp.WithinGroup,
    }
)  # fmt: skip

# What sqlglot makes of the calls in FUNCTIONS. Its names differ from PostgreSQL's, so both lists must agree.
FUNCTION_NODES: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Abs, exp.Acos, exp.Acosh, exp.Anonymous, exp.AnyValue, exp.Array, exp.ArrayAgg, exp.ArrayAppend,
        exp.ArrayConcat, exp.ArrayPosition, exp.ArrayPrepend, exp.ArrayRemove, exp.ArrayReverse, exp.ArraySize,
        exp.ArraySort, exp.ArrayToString, exp.Ascii, exp.Asin, exp.Asinh, exp.Atan, exp.Atan2, exp.Atanh, exp.Avg,
        exp.BitLength, exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg, exp.CastToStrType, exp.Cbrt,
        exp.Ceil, exp.Chr, exp.Coalesce, exp.Concat, exp.ConcatWs, exp.Corr, exp.Cos, exp.Cosh, exp.Cot, exp.Count,
        exp.CovarPop, exp.CovarSamp, exp.CumeDist, exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Date,
        exp.DateAdd, exp.DateBin, exp.Decode, exp.Degrees, exp.DenseRank, exp.Encode, exp.Exp, exp.Explode,
        exp.ExplodingGenerateSeries, exp.Extract, exp.Factorial, exp.FirstValue, exp.Floor, exp.Format,
        exp.Greatest, exp.GroupConcat, exp.Grouping, exp.Hex, exp.Host, exp.Initcap, exp.IntDiv, exp.JSONArrayAgg,
        exp.JSONBObjectAgg, exp.JSONKeyValue, exp.JSONObject, exp.JSONObjectAgg, exp.JSONStripNulls,
        exp.JustifyDays, exp.JustifyHours, exp.JustifyInterval, exp.Lag, exp.LastValue, exp.Lead, exp.Least,
        exp.Left, exp.Length, exp.Ln, exp.Localtime, exp.Localtimestamp, exp.Log, exp.LogicalAnd, exp.LogicalOr,
        exp.Lower, exp.MD5, exp.MakeInterval, exp.MatchAgainst, exp.Max, exp.Min, exp.Mode, exp.Normalize,
        exp.NthValue, exp.Ntile, exp.Nullif, exp.Overlay, exp.Pad, exp.PercentRank, exp.PercentileCont,
        exp.PercentileDisc, exp.Pi, exp.Radians, exp.Rand, exp.Rank, exp.RegexpCount, exp.RegexpInstr,
        exp.RegexpReplace, exp.RegexpSubstr, exp.RegrAvgx, exp.RegrAvgy, exp.RegrCount, exp.RegrIntercept,
        exp.RegrR2, exp.RegrSlope, exp.RegrSxx, exp.RegrSxy, exp.RegrSyy, exp.Repeat, exp.Replace, exp.Reverse,
        exp.Right, exp.Round, exp.RowNumber, exp.SHA2Digest, exp.Sign, exp.Sin, exp.Sinh, exp.SplitPart,
        exp.StartsWith, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.StrPosition, exp.StrToDate, exp.StrToTime,
        exp.StringToArray, exp.Substring, exp.Sum, exp.Tan, exp.Tanh, exp.TimeFromParts, exp.TimeToStr,
        exp.TimestampFromParts, exp.TimestampTrunc, exp.ToNumber, exp.Translate, exp.Trim, exp.Trunc,
        exp.UnixToTime, exp.Unnest, exp.Upper, exp.Uuid, exp.Variance, exp.VariancePop, exp.WidthBucket,
    }
)  # fmt: skip
