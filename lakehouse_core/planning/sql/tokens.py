"""SQL text as tokens with their places, and a cursor over them for the statements that are parsed here.

Rule: strings, names and comments end where the parser of queries says, because both use its tokenizer.
Source: docs/sql.md#queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, near_hint, shown
from lakehouse_core.planning.sql.second_names import SECOND_NAMES, unsigned

_QUOTE_WRITTEN_TWICE: Final = ["\\", "'", '"']


class SparkSql(Databricks):  # type: ignore[misc]
    """Spark 4 is ANSI, and so is the dialect of Databricks: a cast that fails and a division by zero are errors. Here a
    quote that is written twice in a text is a quote, as in Spark.
    """

    class Tokenizer(Databricks.Tokenizer):  # type: ignore[misc]
        STRING_ESCAPES: ClassVar[list[str]] = _QUOTE_WRITTEN_TWICE

    class Parser(Databricks.Parser):  # type: ignore[misc]
        FUNCTIONS: ClassVar[dict[str, Any]] = Databricks.Parser.FUNCTIONS | SECOND_NAMES
        UNARY_PARSERS: ClassVar[dict[Any, Any]] = {**Databricks.Parser.UNARY_PARSERS, TokenType.PLUS: unsigned}


# The name under which sqlglot knows the dialect.
DIALECT: Final = "sparksql"
MAX_TEXT_LENGTH: Final = 1 << 20
# At most some 20 MB: the tokens of a text take 50 to 150 bytes a character.
_SHORT: Final = 2048
_REMEMBERED: Final = 64

_NAMES: Final = (TokenType.VAR, TokenType.IDENTIFIER)
TEXTS: Final = (TokenType.STRING, TokenType.RAW_STRING)


class _Tokenizer(SparkSql.Tokenizer):
    """The tokenizer of queries without keywords: each word is a token of its own."""

    COMMANDS: ClassVar[set[TokenType]] = set()  # sqlglot reads a plain set
    KEYWORDS = {  # noqa: RUF012
        mark: kind
        for mark, kind in Databricks.Tokenizer.KEYWORDS.items()
        if not mark[0].isalpha() and mark != Databricks.Tokenizer.HINT_START
    }


@dataclass(frozen=True, slots=True)
class Name:
    """A name of one or more parts; `start` and `end` are the places of its first and last character."""

    parts: tuple[str, ...]
    start: int
    end: int

    def __str__(self) -> str:
        return ".".join(self.parts)


class SqlText:
    """The text of one statement, and its tokens. Raises InvalidRequest for text that cannot be read, and for more than
    one statement.
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise InvalidRequest(f"sql({shown(text)}): expected the text of a statement.")
        self.text = text
        self.tokens = _tokens(text)
        while self.tokens and self.tokens[-1].token_type is TokenType.SEMICOLON:
            self.tokens.pop()
        if not self.tokens:
            raise InvalidRequest("The SQL text has no statement. Write one, as in SELECT 1.")
        for token in self.tokens:
            if token.token_type is TokenType.SEMICOLON:
                raise self.invalid(token.start, "found a second statement after ';'. Call sql once for each statement")
            self._refuse_hints(token)

    def place(self, start: int) -> str:
        """Return a place in the text for a message: `line 2, column 5`."""
        before = self.text[:start]
        return f"line {before.count(chr(10)) + 1}, column {start - before.rfind(chr(10))}"

    def invalid(self, start: int, message: str) -> InvalidRequest:
        """Return the error for a part of the text that is wrong."""
        return InvalidRequest(f"SQL, {self.place(start)}: {_sentence(message)}")

    def unsupported(self, start: int, message: str) -> UnsupportedFeature:
        """Return the error for a part of the text that is known and not carried out."""
        return UnsupportedFeature(f"SQL, {self.place(start)}: {_sentence(message)}")

    def no_column(self, start: int, name: str, known: Sequence[str]) -> InvalidRequest:
        """Return the error for an unknown column, with the nearest of the known ones."""
        others = f"Columns: {', '.join(known[:20])}." if known else "Check the name. A text is in quotes, as in 'a'."
        hint = near_hint(name, known, others)
        return self.invalid(start, f"there is no column {name}. {hint}")

    def _refuse_hints(self, token: Token) -> None:
        for comment in token.comments:
            if comment.startswith("+"):
                start = max(self.text.find("/*+"), 0)
                raise self.unsupported(
                    start, "hints in /*+ … */ are not carried out. Remove it; scan options are arguments of scan()"
                )


def sql_text(text: str) -> SqlText:
    """Return the text of a statement as tokens, which are remembered for short ones. Raises as `SqlText` does."""
    return _short_text(text) if isinstance(text, str) and len(text) <= _SHORT else SqlText(text)


@lru_cache(maxsize=_REMEMBERED)
def _short_text(text: str) -> SqlText:
    return SqlText(text)


def split_statements(text: str) -> list[tuple[int, str]]:
    """Return the statements of a text, which a semicolon ends, each with its place in the text. Raises InvalidRequest
    for text that cannot be read.
    """
    found, begin = [], 0
    for token in _tokens(text):
        if token.token_type is TokenType.SEMICOLON:
            found.append((begin, text[begin : token.start]))
            begin = token.end + 1
    found.append((begin, text[begin:]))
    return [(place, one) for place, one in found if _tokens(one)]


def is_complete(text: str) -> bool:
    """Return whether the last statement of the text ends with a semicolon."""
    try:
        tokens = _tokens(text)
    except InvalidRequest:
        return False
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON


def _tokens(text: str) -> list[Token]:
    if len(text) > MAX_TEXT_LENGTH:
        raise InvalidRequest(f"The SQL text has {len(text)} characters: at most {MAX_TEXT_LENGTH} are read.")
    try:
        return list(_Tokenizer(dialect=Databricks).tokenize(text))
    except SqlglotError as error:
        raise InvalidRequest(
            f"The SQL text {shown(text)} cannot be read: a quote or a comment is not closed, or a character is not SQL."
        ) from error


class TokenCursor:
    """Reads the tokens of a statement one after the other. Raises InvalidRequest where another one is expected."""

    def __init__(self, sql: SqlText, start: int = 0) -> None:
        self.sql = sql
        self._tokens: Sequence[Token] = sql.tokens
        self._next = start

    @property
    def index(self) -> int:
        """The number of the next token."""
        return self._next

    @property
    def is_done(self) -> bool:
        return self._next >= len(self._tokens)

    @property
    def start(self) -> int:
        """The place of the next token; the end of the text after the last one."""
        return len(self.sql.text) if self.is_done else int(self._tokens[self._next].start)

    @property
    def end(self) -> int:
        """The place behind the last token that was read."""
        return int(self._tokens[self._next - 1].end) + 1 if self._next else 0

    def token(self, ahead: int = 0) -> Token | None:
        """Return a token without reading it; None behind the last one."""
        index = self._next + ahead
        return self._tokens[index] if index < len(self._tokens) else None

    def is_at(self, *words: str) -> bool:
        """Return whether the next tokens are these words or marks."""
        return all(_is(self.token(ahead), word) for ahead, word in enumerate(words))

    def takes(self, *words: str) -> bool:
        """Read these words or marks if they are next; return whether they are."""
        if not self.is_at(*words):
            return False
        self._next += len(words)
        return True

    def takes_one(self, *words: str) -> str | None:
        """Read one of these words if it is next, and return it."""
        return next((word for word in words if self.takes(word)), None)

    def expect(self, *words: str) -> None:
        """Read these words or marks."""
        for word in words:
            if not self.takes(word):
                raise self.expected(word)

    def expected(self, what: str) -> InvalidRequest:
        """Return the error that `what` is expected where the cursor is."""
        return self.sql.invalid(self.start, f"found {self.found()}, expected {what}")

    def found(self) -> str:
        """Return the next token as text for a message."""
        token = self.token()
        return "the end of the text" if token is None else shown(self.sql.text[token.start : token.end + 1])

    def part(self, what: str = "a name") -> str:
        """Read one part of a name."""
        token = self.token()
        if token is None or token.token_type not in _NAMES or not token.text:
            raise self.expected(what)
        self._next += 1
        return str(token.text)

    def name(self, what: str = "a name") -> Name:
        """Read a name whose parts are joined by dots."""
        start = self.start
        parts = [self.part(what)]
        while self.takes("."):
            parts.append(self.part(what))
        if self.is_at("$"):
            raise self.sql.invalid(
                self.start,
                f"found '$' in a name. Put the name of a system table in backquotes, as in `{parts[-1]}$files`",
            )
        return Name(tuple(parts), start, self.end - 1)

    def end_statement(self) -> None:
        """Check that no token is left."""
        if not self.is_done:
            raise self.sql.invalid(self.start, f"found {self.found()}, expected the end of the statement")

    def skip(self, count: int = 1) -> None:
        """Read tokens, whatever they are."""
        self._next += count


def _sentence(message: str) -> str:
    return message if message.endswith((".", "?")) else f"{message}."


def _is(token: Token | None, word: str) -> bool:
    if token is None or token.token_type in (*TEXTS, TokenType.IDENTIFIER):
        return False
    return bool(token.text.upper() == word)
