"""What SQL has elsewhere and weft has not: what it is called, and what to write instead.

Readers of a message know SQL and not the parser. So a construct is called by its SQL name, and the advice says what to
write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot.tokenizer_core import Token, TokenType

_ARRAYS = "columns are numbers, texts and times; flatten arrays, maps and structs where the rows come from"
_BITS = "arithmetic has + - * / % and DIV"
_OTHER_ROWS = (
    "aggregate over a window: FROM trades [RANGE 1 HOUR SLIDE 1 HOUR]; answers cannot depend on the row before"
)
_JSON = "parse JSON where the rows come from; a stream USING json has its fields as columns"
_MATCHING = "LIKE, STARTSWITH, ENDSWITH and CONTAINS compare texts"
_SUBQUERY = "make it a CREATE CONTINUOUS QUERY of its own and join its answers"
_LATER = "answers must not depend on when they are computed; use the stream's clock"
_DATES = "CAST, DATE_TRUNC, YEAR … SECOND, INTERVALs and UNIX_MICROS work on times"
_SESSIONS = "windows have a fixed length: [RANGE 5 MINUTES SLIDE 5 MINUTES], HOP and TUMBLE"
_LIST = "aggregates give one number, text or time; keep the rows with a query without aggregates"
_ORDERED = "MIN_BY(x, clock) and MAX_BY(x, clock) give the first and the last x"
_TESTS = "count what holds: SUM(CASE WHEN … THEN 1 ELSE 0 END)"

#: Clauses by sqlglot's name of them: what they are called, and what to do instead.
CLAUSES = {
    "order": "ORDER BY with LIMIT: answers have no order; keep the top rows where you read them",
    "limit": "LIMIT: answers have no order; keep the top rows where you read them, or take MAX and MAX_BY",
    "offset": "OFFSET: answers have no order; skip rows where you read them",
    "qualify": "QUALIFY: filter in a query over this one",
    "laterals": "LATERAL VIEW: flatten the rows in the source",
    "sort": "SORT BY: answers have no order",
    "cluster": "CLUSTER BY: answers have no order",
    "distribute": "DISTRIBUTE BY: answers have no order",
    "kind": "SELECT AS STRUCT: select columns",
    "into": "SELECT INTO: write CREATE CONTINUOUS QUERY name INTO … AS SELECT",
    "connect": "CONNECT BY: recursion over a stream is not supported",
    **dict.fromkeys(("hint", "hints"), "a hint: weft plans by itself"),
    "pivots": "PIVOT: use CASE inside the aggregates",
    "sample": "TABLESAMPLE: every row counts",
    "locks": "FOR UPDATE: rows of a stream do not change",
    **dict.fromkeys(("version", "when"), "time travel: a stream is read as it arrives"),
    "joins": "a join inside parentheses: use a view",
    "grouping_sets": "GROUP BY GROUPING SETS: write one query for each grouping",
    "cube": "GROUP BY CUBE: write one query for each grouping",
    "rollup": "GROUP BY ROLLUP: write one query for each grouping",
    "totals": "GROUP BY WITH TOTALS: write one query for each grouping",
    "all": "GROUP BY ALL: name the columns",
    "except_": "leaving columns out of *: list the columns",
    "replace": "replacing columns of *: list the columns",
    "rename": "renaming columns of *: list the columns",
    "columns": "a list of column names after an alias: name columns with AS",
}

#: Expressions by sqlglot's name of them: what they are called, and what to do instead.
EXPRESSIONS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("select", "subquery"), ("a subquery inside an expression", _SUBQUERY)),
    "exists": ("EXISTS", _SUBQUERY),
    "all": ("ALL with a subquery", _SUBQUERY),
    "any": ("ANY with a subquery", _SUBQUERY),
    "window": ("a window function (OVER)", _OTHER_ROWS),
    "windowtable": ("a window of FROM", "in GROUP BY write window(ts, '1 hour', '5 minutes')"),
    "filter": ("FILTER", "write CASE inside the aggregate: SUM(CASE WHEN … THEN x END)"),
    "star": ("*", "name the columns"),
    "tuple": ("a list of values in parentheses", "compare the columns one by one, with AND"),
    "bracket": ("an element of an array or map", _ARRAYS),
    "array": ("an ARRAY", _ARRAYS),
    "struct": ("a STRUCT", _ARRAYS),
    "dot": ("a field of a struct, or a function of another schema", _ARRAYS),
    "lambda": ("a function without a name (->)", _ARRAYS),
    "kwarg": ("an argument by name (=>)", "write the arguments in their order"),
    "jsonextract": ("-> (a part of JSON)", _JSON),
    "jsonextractscalar": ("->> (a part of JSON)", _JSON),
    "jsonbextract": ("#> (a part of JSON)", _JSON),
    "bitwiseand": ("&", _BITS),
    "bitwiseor": ("|", _BITS),
    "bitwisexor": ("^", _BITS),
    "bitwisenot": ("~", _BITS),
    "bitwiseleftshift": ("<<", _BITS),
    "bitwiserightshift": (">>", _BITS),
    "regexplike": ("RLIKE", _MATCHING),
    "regexpilike": ("matching without regard to case", _MATCHING),
    "ilike": ("ILIKE", "write LOWER(x) LIKE 'a%'"),
    "glob": ("GLOB", _MATCHING),
    "similarto": ("SIMILAR TO", _MATCHING),
    "escape": ("ESCAPE", "a backslash takes the next character of a pattern as it is"),
    "collate": ("COLLATE", "texts compare by their characters; UPPER and LOWER make cases equal"),
    "attimezone": ("AT TIME ZONE", "times are in UTC; add or subtract an INTERVAL"),
    "hexstring": ("a number or BINARY in hexadecimal", "write a decimal number, or CAST('…' AS BINARY)"),
    "national": ("a text with N before it", "drop the N"),
    "rawstring": ("a text with R before it", "double the backslashes and drop the R"),
    **dict.fromkeys(("placeholder", "parameter"), ("a parameter", "write the value")),
    "concat": ("a text beside a text", "write 'a' || 'b'"),
    "strtodate": ("CAST with FORMAT", "texts are cast to DATE as they are: '2024-01-31'"),
    "strtotime": ("CAST with FORMAT", "texts are cast to TIMESTAMP as they are: '2024-01-31 12:00:00'"),
    "rollup": ("ROLLUP", "write one query for each grouping"),
    "cube": ("CUBE", "write one query for each grouping"),
    "groupingsets": ("GROUPING SETS", "write one query for each grouping"),
    "order": ("ORDER BY inside a call", "aggregates do not look at the order of rows"),
    "distinct": ("DISTINCT", "it goes after SELECT, or into COUNT(DISTINCT x)"),
    "ignorenulls": ("IGNORE NULLS", "aggregates leave NULLs out anyway"),
    "respectnulls": ("RESPECT NULLS", "aggregates leave NULLs out"),
    "overlaps": ("OVERLAPS", "compare the ends of both with < and AND"),
    "propertyeq": ("= here", "compare with = inside an expression, without a name before it"),
    "alias": ("AS inside an expression", "give names to whole columns of the select list"),
    "datatype": ("a type here", "CAST(x AS type) changes the type of a value"),
    "var": ("a word here", "quote texts with '…' and names with `…`"),
}

#: Functions of others, by what they have to do with: the names, and what to do instead.
_FUNCTIONS: tuple[tuple[str, str], ...] = (
    ("count_if bool_or bool_and every some any", _TESTS),
    ("first last first_value last_value nth_value arg_max arg_min argmax argmin any_value mode", _ORDERED),
    ("lag lead row_number rank dense_rank percent_rank cume_dist ntile", _OTHER_ROWS),
    ("string_agg listagg group_concat collect_list collect_set array_agg json_agg map_agg histogram", _LIST),
    (
        "corr covar_pop covar_samp regr_slope regr_intercept regr_r2 skewness kurtosis bit_and bit_or bit_xor product",
        "aggregates are COUNT, SUM, AVG, MIN, MAX, VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP, MIN_BY, MAX_BY, MEDIAN, "
        "PERCENTILE and APPROX_COUNT_DISTINCT",
    ),
    ("percentile_disc percentile_approx approx_percentile quantile", "PERCENTILE(x, p) is exact and interpolated"),
    ("approx_distinct count_distinct", "write COUNT(DISTINCT x) or APPROX_COUNT_DISTINCT(x)"),
    ("grouping grouping_id", "write one query for each grouping"),
    ("session session_window cumulate", _SESSIONS),
    (
        "tumble_start tumble_end hop_start hop_end tumble_rowtime hop_rowtime",
        "select window_start and window_end, which every query with a window has",
    ),
    (
        "get_json_object json_value json_query json_extract json_extract_scalar json_tuple from_json to_json "
        "parse_json variant_get schema_of_json json_array_length json_object_keys",
        _JSON,
    ),
    (
        "regexp_extract regexp_replace regexp_like regexp_count regexp_substr regexp_instr regexp regexp_matches rlike",
        _MATCHING,
    ),
    (
        "locate instr position strpos charindex index_of find_in_set",
        "CONTAINS(s, x) says whether x is there, STARTSWITH and ENDSWITH whether it is first or last",
    ),
    ("left right mid", "write SUBSTRING(s, 1, n), or SUBSTRING(s, -n) for the end of the text"),
    ("concat_ws format_string printf format", "write a || ', ' || b"),
    (
        "split split_part split_index substring_index explode posexplode unnest flatten array map struct named_struct "
        "map_from_entries size cardinality element_at array_contains transform sequence generate_series",
        _ARRAYS,
    ),
    (
        "date_format to_char format_timestamp to_timestamp to_date strftime strptime parse_timestamp to_unix_timestamp "
        "unix_timestamp from_unixtime date date_add date_sub dateadd datesub datediff timestampdiff timestampadd "
        "date_diff add_months months_between last_day next_day trunc make_date make_timestamp weekofyear week "
        "dayofyear weekday dayname monthname date_part datepart to_utc_timestamp from_utc_timestamp convert_timezone "
        "age epoch unix_seconds unix_millis timestamp_seconds timestamp_millis epoch_ms time to_time",
        _DATES,
    ),
    (
        "lpad rpad initcap repeat space translate overlay ascii chr char hex unhex md5 sha sha1 sha2 crc32 hash "
        "xxhash64 base64 unbase64 encode decode to_binary levenshtein soundex btrim str_to_map quote",
        "texts have UPPER, LOWER, LENGTH, TRIM, LTRIM, RTRIM, REVERSE, SUBSTRING, REPLACE, CONCAT, STARTSWITH, "
        "ENDSWITH and CONTAINS",
    ),
    (
        "sin cos tan asin acos atan atan2 sinh cosh tanh log log2 log1p expm1 cbrt degrees radians pi e factorial "
        "bround width_bucket hypot greatest_common_divisor pmod positive negative conv bin rint",
        "numbers have ABS, SIGN, ROUND, FLOOR, CEIL, SQRT, POWER, EXP, LN, LOG10 and MOD",
    ),
    ("nvl2 decode iff zeroifnull nullifzero isnull isnotnull nanvl isnan", "write CASE WHEN … THEN … ELSE … END"),
    (
        "try_add try_subtract try_multiply try_divide try_sum try_avg try_to_number",
        "drop TRY_: overflows are NULL anyway",
    ),
    (
        "now rand random randn uuid current_timestamp current_date current_time localtimestamp localtime curdate "
        "getdate sysdate systimestamp statement_timestamp proctime",
        _LATER,
    ),
    ("current_user session_user user current_catalog current_schema current_database version input_file_name", _LATER),
)

#: What to do instead of a function, by its name.
FUNCTIONS: Mapping[str, str] = {name: advice for names, advice in _FUNCTIONS for name in names.split()}

#: Functions that are written without parentheses, and look like columns.
WITHOUT_PARENTHESES = frozenset(
    {"current_date", "current_timestamp", "current_time", "localtimestamp", "localtime", "current_user", "session_user"}
)

#: Types of others by sqlglot's name of them, as they are written.
TYPES: Mapping[str, str] = {
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
    "TIMETZ": "TIME WITH TIME ZONE",
    "UBIGINT": "UNSIGNED BIGINT",
    "UINT": "UNSIGNED INT",
    "USMALLINT": "UNSIGNED SMALLINT",
    "UTINYINT": "UNSIGNED TINYINT",
}

#: What begins a statement elsewhere, and what to do instead.
_STATEMENTS: tuple[tuple[str, str], ...] = (
    ("INSERT", "rows come from a stream's source; answers go where CREATE CONTINUOUS QUERY … INTO says"),
    ("UPDATE, MERGE", "rows of a stream do not change"),
    ("DELETE", "rows of a stream do not change; RETAIN and windows limit how long they are kept"),
    ("TRUNCATE", "rows of a stream do not change; DROP the object instead"),
    ("CREATE OR", "weft does not replace what has a state: DROP it first, then CREATE it"),
    ("CREATE MATERIALIZED", "write CREATE CONTINUOUS QUERY name AS SELECT …, whose answers are kept up to date"),
    ("CREATE TEMPORARY, CREATE TEMP", "write CREATE VIEW name AS SELECT …"),
    ("CREATE QUERY", "write CREATE CONTINUOUS QUERY name AS SELECT …"),
    ("CREATE SOURCE", "write CREATE STREAM name (…) WATERMARK FOR … USING …"),
    ("CREATE SINK", "write CREATE CONTINUOUS QUERY name INTO parquet OPTIONS (path '…') AS SELECT …"),
    ("CREATE EXTERNAL", "write CREATE TABLE name (…) USING … OPTIONS (path '…'), or CREATE STREAM"),
    ("CREATE INDEX", "weft makes its indexes from the conditions of the queries"),
    ("CREATE FUNCTION", "there are no functions of one's own; compute the column where the rows come from"),
    ("CREATE DATABASE, CREATE SCHEMA", "a project is a directory: weft init"),
    ("CREATE USER, GRANT, REVOKE", "weft token makes the tokens that readers of an edge need"),
    ("DROP QUERY, DROP MATERIALIZED", "write DROP CONTINUOUS QUERY name"),
    ("ALTER STREAM", "DROP what reads the stream and the stream, then CREATE them with the other columns"),
    ("ALTER TABLE", "DROP what reads the table and the table, then CREATE them with the other columns"),
    ("ALTER VIEW", "DROP the view and CREATE it with the other SELECT"),
    ("RENAME", "DROP it and CREATE it with the other name"),
    ("PAUSE", "a query runs until DROP CONTINUOUS QUERY; stop weft run to pause all"),
    ("RESUME", "write ALTER QUERY name RESUME"),
    ("REFRESH", "tables are read at each start: stop weft run and start it again"),
    ("USE", "a project is a directory: name it with --project"),
    ("BEGIN, COMMIT", "weft register runs all statements of a file or none"),
    ("START", "weft run starts a project"),
    ("STOP", "Ctrl-C stops weft run"),
    ("VALUES", "rows come from streams and tables; CREATE TABLE … USING csv reads a file of them"),
)

#: What to do instead of a statement, by the words that begin it.
STATEMENTS: Mapping[str, str] = {words: advice for openings, advice in _STATEMENTS for words in openings.split(", ")}

_WINDOW = "put the window after the stream in FROM: FROM trades [RANGE 1 HOUR SLIDE 5 MINUTES], or HOP, or TUMBLE"
_COLUMN = "a column has a name and a type, and no more"
_LIMIT = "answers have no order; keep the top rows where you read them"


class Advice(NamedTuple):
    """What is wrong, what to do, and the number of the token to point at."""

    message: str
    hint: str
    at: int


_NO_PATTERNS = "patterns over rows are not supported; join the stream with itself"

#: Words at which the parser stops, and what to do instead.
_AT: Mapping[str, str] = {
    **dict.fromkeys(("WINDOW TUMBLING", "WINDOW HOPPING"), _WINDOW),
    "WINDOW SESSION": "windows have a fixed length: [RANGE … SLIDE …]",
    "WINDOW": "there is no OVER; aggregate over a window in FROM",
    "EMIT CHANGES": "drop it: without a window every change is an answer",
    "EMIT FINAL": "drop it: with a window the answer comes when it has closed",
    "EMIT": "write EMIT EMPTY, or drop it",
    "FETCH": _LIMIT,
    "MATCH_RECOGNIZE": _NO_PATTERNS,
    "NOT NULL": f"{_COLUMN}; a query can say WHERE x IS NOT NULL",
    "PRIMARY KEY": f"{_COLUMN}; SELECT DISTINCT … RETAIN … drops repetitions",
    "PARTITIONED BY": "folders such as day=1 are read as they are",
    "LOCATION": "write OPTIONS (path '…')",
    "WITH (": "write USING format OPTIONS (name 'value', …)",
    "CASCADE": "drop what reads it first",
    "RESTRICT": "drop the word: what others read is never dropped",
}

#: What is said of words at which the parser stops, where that is not just that they are not supported.
_SAID: Mapping[str, str] = {
    "WINDOW": "the WINDOW clause is not supported",
    "EMIT": "EMIT is only followed by EMPTY",
    "WITH (": "WITH (…) is not supported",
}

#: Calls in whose parentheses the parser stops, because it reads only arguments with commas between them.
_INSIDE: dict[str, tuple[str, str]] = {
    "SESSION": ("SESSION is not supported", "windows have a fixed length: [RANGE … SLIDE …], HOP or TUMBLE"),
    "CUMULATE": ("CUMULATE is not supported", "use [RANGE … SLIDE …], HOP or TUMBLE, or a query for each length"),
    "MATCH_RECOGNIZE": ("MATCH_RECOGNIZE is not supported", _NO_PATTERNS),
    "TRIM": (
        "TRIM takes a text and nothing else",
        "write TRIM(s), LTRIM(s) or RTRIM(s); REPLACE(s, x) removes every x",
    ),
    "SUBSTRING": ("SUBSTRING takes its arguments with commas", "write SUBSTRING(s, 1, 2)"),
    "SUBSTR": ("SUBSTR takes its arguments with commas", "write SUBSTR(s, 1, 2)"),
    "OVERLAY": ("OVERLAY is not supported", "write SUBSTRING(s, 1, n) || x || SUBSTRING(s, m)"),
    "POSITION": ("POSITION is not supported", "CONTAINS(s, x) says whether x is in s"),
}


def advice(tokens: Sequence[Token], stopped: int) -> Advice | None:
    """What to say of a statement whose parser stopped at a token; None if nothing of it is known."""
    return at_token(tokens, stopped) or _inside_a_call(tokens, stopped)


def at_token(tokens: Sequence[Token], stopped: int) -> Advice | None:
    """What to say of the words at a token."""
    here = " ".join(token.text.upper() for token in tokens[stopped : stopped + 2])  # PRIMARY KEY is one token, or two
    for words, hint in _AT.items():
        if f"{here} ".startswith(f"{words} "):
            return Advice(_SAID.get(words, f"{words} is not supported"), hint, stopped)
    if here and stopped and tokens[stopped - 1].text.upper() == "TOP":
        return Advice("TOP is not supported", _LIMIT, stopped - 1)
    return None


def _inside_a_call(tokens: Sequence[Token], stopped: int) -> Advice | None:
    """What to say of the innermost call of which something is known. The parser may stop at its opening parenthesis."""
    closed = 0
    for index in range(min(stopped, len(tokens) - 1), 0, -1):
        if tokens[index].token_type == TokenType.R_PAREN and index != stopped:
            closed += 1
        elif tokens[index].token_type == TokenType.L_PAREN and closed:
            closed -= 1
        elif tokens[index].token_type == TokenType.L_PAREN and tokens[index - 1].text.upper() in _INSIDE:
            return Advice(*_INSIDE[tokens[index - 1].text.upper()], at=index - 1)
    return None
