"""What queries may have: the nodes of trees and the functions that both engines carry out with the same result.

Rule: this list is closed. A function of an engine that could reach files, settings or the network is not in it.
"""

from typing import Final

from lakehouse_core.errors import near_names

_CLAUSE_WORDS: Final = """
Select From Where Group Having Order Ordered Limit Offset Join With CTE TableAlias Table Subquery Values Tuple
Union Except Intersect Distinct Window WindowSpec Lateral Rollup Cube GroupingSets Identifier Column Star
Alias Paren Literal Null Boolean HexString Placeholder Cast TryCast DataType DataTypeParam Interval IntervalSpan Var
Case If Lambda Filter IgnoreNulls Bracket Slice Dot Struct PropertyEQ Array Map VarMap Kwarg WithinGroup RawString
Neg Not And Or Add Sub Mul Div IntDiv Mod EQ NEQ NullSafeEQ GT GTE LT LTE Is In Between Like ILike Escape RegexpLike
Exists DPipe BitwiseAnd BitwiseOr BitwiseXor BitwiseNot All Any ColumnDef
"""
_FUNCTION_WORDS: Final = """
Abs Ceil Floor Round Sqrt Exp Ln Log Pow Sign Greatest Least Coalesce Nullif Nvl2 Pi Sin Cos Tan Atan Atan2 Degrees
Radians Cbrt
Count CountIf Sum Avg Min Max First Last AnyValue Stddev StddevPop StddevSamp Variance VariancePop Median Corr
CovarPop CovarSamp ArrayAgg ArrayUniqueAgg LogicalAnd LogicalOr Quantile PercentileCont ApproxDistinct Grouping
RowNumber Rank DenseRank PercentRank CumeDist Ntile Lag Lead FirstValue LastValue NthValue
Upper Lower Length Trim Substring Concat ConcatWs Replace Reverse Left Right Pad Repeat StrPosition StartsWith
EndsWith Contains Initcap Split SplitPart RegexpReplace RegexpExtract Ascii Chr Translate Space RegexpSplit
Year Month Day DayOfMonth DayOfWeek DayOfYear Week WeekOfYear Quarter Hour Minute Second Extract DateAdd DateSub
DateDiff TsOrDsAdd TsOrDsToDate TsOrDsDiff AddMonths LastDay TimestampTrunc DateTrunc CurrentDate CurrentTimestamp
MonthsBetween TimeToStr TimeStrToTime StrToTime StrToDate Date UnixDate DateFromParts TimestampFromParts
TsOrDsToTimestamp
ArraySize ArrayContains ArraySort ArrayConcat ArrayToString ArrayMax ArrayMin ArrayPosition SortArray
MapKeys MapValues MapFromEntries Explode ExplodeOuter IsNan Posexplode PosexplodeOuter GenerateSeries Flatten
ArraySlice MD5 SHA SHA2 BitLength Hex Unhex ToBase64 FromBase64 BitwiseLeftShift BitwiseRightShift
"""
FUNCTION_NODES: Final = frozenset(_FUNCTION_WORDS.split())
NODES: Final = FUNCTION_NODES | frozenset(_CLAUSE_WORDS.split())
# Functions that have no node of their own, and the same name and result in both engines.
FUNCTIONS: Final = frozenset({"bit_length", "isnan"})

# The names under which users know the functions, for advice.
_KNOWN_WORDS: Final = """
abs ceil floor round sqrt exp ln log power sign greatest least coalesce ifnull nvl nvl2 nullif count count_if sum
avg min max first last any_value stddev variance median corr grouping collect_list collect_set row_number rank
dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value upper lower length trim ltrim rtrim
substring concat concat_ws replace reverse left right lpad rpad repeat instr locate startswith endswith contains initcap
split split_part regexp_replace regexp_extract year month day dayofweek dayofyear weekofyear quarter hour minute second
date_add date_sub datediff add_months last_day date_trunc current_date current_timestamp date_format to_date
to_timestamp size array_contains array_sort sort_array array_max array_min map_keys map_values
explode explode_outer posexplode sequence md5 sha sha2 hex unhex base64 unbase64
"""


def refusal(name: str) -> str:
    """Return why a function or a clause is refused, with the nearest names."""
    known = _KNOWN_WORDS.split()
    near = "" if name.lower() in known else near_names(name.lower(), known, most=2, cutoff=0.6)
    hint = f". Did you mean {near}?" if near else ""
    return f"{name} is not carried out{hint}"
