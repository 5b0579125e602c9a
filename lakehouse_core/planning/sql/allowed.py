"""What queries may have: the nodes of trees and the functions that both engines carry out with the same result.

Rule: this list is closed. A function of an engine that could reach files, settings or the network is not in it.
Source: docs/sql.md#queries.
"""

from typing import Final

from lakehouse_core.errors import near_names
from lakehouse_core.planning.sql.lambdas import LAMBDA_NAMES

_CLAUSE_WORDS: Final = """
Select From Where Group Having Order Ordered Limit Offset Join With CTE TableAlias Table Subquery Values Tuple
Union Except Intersect Distinct Window WindowSpec Lateral Rollup Cube GroupingSets Identifier Column Star
Alias Paren Literal Null Boolean HexString Placeholder Cast TryCast DataType DataTypeParam Interval IntervalSpan Var
Case If Lambda Filter IgnoreNulls Bracket Slice Dot Struct PropertyEQ Array Map VarMap Kwarg WithinGroup RawString
Neg Not And Or Add Sub Mul Div IntDiv Mod EQ NEQ NullSafeEQ NullSafeNEQ GT GTE LT LTE Is In Between Like ILike Escape
RegexpLike Exists DPipe BitwiseAnd BitwiseOr BitwiseXor BitwiseNot All Any ColumnDef
"""
_FUNCTION_WORDS: Final = """
Abs Ceil Floor Round Sqrt Exp Ln Log Pow Sign Greatest Least Coalesce Nullif Nvl2 Pi Sin Cos Tan Atan Atan2 Degrees
Radians Cbrt
Count CountIf Sum Avg Min Max First Last AnyValue Stddev StddevPop StddevSamp Variance VariancePop Median Corr
CovarPop CovarSamp ArrayAgg ArrayUniqueAgg LogicalAnd LogicalOr Quantile PercentileCont ApproxDistinct Grouping
RowNumber Rank DenseRank PercentRank CumeDist Ntile Lag Lead FirstValue LastValue NthValue
Upper Lower Length Trim Substring Concat ConcatWs Replace Reverse Left Right Pad Repeat StrPosition StartsWith
EndsWith Contains Initcap SplitPart RegexpReplace RegexpExtract Ascii Chr Translate Space RegexpSplit BitLength
Year Month Day DayOfMonth DayOfWeek DayOfYear WeekOfYear Quarter Hour Minute Second Extract
DateDiff TsOrDsAdd TsOrDsToDate AddMonths LastDay TimestampTrunc DateTrunc CurrentDate CurrentTimestamp
TimestampAdd TimestampDiff MonthsBetween TimeToStr TimeStrToTime StrToTime UnixDate TimestampFromParts DateFromParts
ArraySize ArrayContains ArraySort ArrayToString ArrayMax ArrayMin ArrayPosition
ArrayDistinct MapKeys MapFromEntries Explode IsNan Posexplode GenerateSeries Flatten
ArraySlice Transform ArrayFilter Reduce MD5 SHA SHA2 Hex Unhex ToBase64 FromBase64 BitwiseLeftShift BitwiseRightShift
"""
FUNCTION_NODES: Final = frozenset(_FUNCTION_WORDS.split())
NODES: Final = FUNCTION_NODES | frozenset(_CLAUSE_WORDS.split())
# Functions that have no node of their own. `positive` is the sign +.
FUNCTIONS: Final = LAMBDA_NAMES | {"map_values", "positive"}

# The names under which users know the functions: those of docs/sql.md, and for advice.
_NAME_WORDS: Final = """
abs ceil floor round sqrt cbrt exp ln log log2 log10 power sign pi sin cos tan atan atan2 degrees radians greatest least
coalesce ifnull nvl nvl2 nullif isnull isnotnull if isnan shiftleft shiftright count count_if sum avg mean min max first
last any_value stddev stddev_pop stddev_samp std variance var_pop var_samp median percentile corr covar_pop covar_samp
approx_count_distinct grouping collect_list collect_set array_agg bool_and bool_or every some row_number rank dense_rank
percent_rank cume_dist ntile lag lead first_value last_value nth_value upper lower length char_length bit_length trim
ltrim rtrim substring concat concat_ws replace reverse left right lpad rpad repeat instr locate startswith endswith
contains initcap split split_part regexp_replace regexp_extract regexp_like ascii chr translate space md5 sha sha1 sha2
hex unhex base64 unbase64 year month day dayofmonth dayofweek dayofyear weekofyear quarter hour minute second date_part
weekday date_add date_sub dateadd timestampadd datediff timestampdiff add_months last_day date_trunc trunc current_date
current_timestamp months_between date_format to_date to_timestamp unix_date make_timestamp make_date size cardinality
array array_contains array_distinct array_sort sort_array array_join array_max array_min array_position element_at slice
flatten sequence map map_keys map_values map_from_entries struct named_struct explode posexplode transform filter exists
forall aggregate reduce zip_with map_filter transform_values transform_keys
"""
NAMES: Final = tuple(_NAME_WORDS.split())
# Too short to be near to what somebody meant.
_SHORT: Final = 3


def refusal(name: str) -> str:
    """Return why a function or a clause is refused, with the nearest names."""
    near = (
        ""
        if name.lower() in NAMES
        else near_names(name.lower(), [one for one in NAMES if len(one) > _SHORT], most=2, cutoff=0.65)
    )
    hint = f". Did you mean {near}?" if near else ""
    return f"{name} is not carried out{hint}"
