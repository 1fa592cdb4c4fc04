"""Statements of a POSIX shell, as far as they can be known without running them.

The rules are those of the Shell Command Language (POSIX.1-2017, XCU chapter 2): quoting, comments,
joined lines, parameter expansion with defaults, and simple commands with assignments. What joins
or repeats commands is refused, and what only a run can tell is an `Unknown`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sweeps.exporters.launches import Unknown, UnreadableExportError, Word

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATORS = ("&&", "||", ";;", "|", "&", "(", ")")
_REDIRECT = re.compile(r"\d*(<<-|<<|<>|>>|>\||<&|>&|<|>)[ \t]*")
_RESERVED = frozenset({
    "!", "[[", "case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "until", "while", "{", "}",
})  # fmt: skip
_BRACKETED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|.", re.DOTALL)
_SPLIT = re.compile(r"[\s*?\[]")


@dataclass(frozen=True, slots=True)
class _Text:
    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    raw: str
    quoted: bool
    default: "Raw | None" = None
    on_empty: bool = False


@dataclass(frozen=True, slots=True)
class _Opaque:
    """What a run alone tells: the output of a command, an arithmetic value."""

    raw: str


Part = _Text | _Variable | _Opaque


@dataclass(frozen=True, slots=True)
class Raw:
    """A word as it stands, in parts."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """Return it as messages show it."""
        return "".join(p.text if isinstance(p, _Text) else p.raw for p in self.parts)

    @property
    def plain(self) -> str:
        """Return it where nothing of it is quoted or replaced; else empty."""
        bare = all(isinstance(part, _Text) and not part.quoted for part in self.parts)
        return self.text if bare else ""

    @property
    def is_text(self) -> bool:
        """Tell whether nothing in it is replaced."""
        return all(isinstance(part, _Text) for part in self.parts)

    @property
    def assignment(self) -> "tuple[str, Raw] | None":
        """Return the name and the value where it assigns one."""
        first = self.parts[0] if self.parts else None
        if not isinstance(first, _Text) or first.quoted:
            return None
        name, equals, rest = first.text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            return None
        return name, Raw((*([_Text(rest, False)] if rest else []), *self.parts[1:]))


@dataclass(frozen=True, slots=True)
class Statement:
    """A simple command: assignments, words, and where its output goes."""

    assignments: tuple[tuple[str, Raw], ...]
    words: tuple[Raw, ...]
    redirections: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return it as messages show it, without what it assigns."""
        return " ".join([*(word.text for word in self.words), *self.redirections])


def statements(text: str) -> Iterator[Statement]:
    """Yield each statement. Raises UnreadableExportError, once what precedes it was yielded."""
    if "\0" in text:
        raise UnreadableExportError("it holds a null character, which shells take differently")
    lexer = _Lexer(text)
    while not lexer.at_end:
        words, redirections = lexer.statement()
        if words or redirections:
            yield _statement(words, redirections)


def value_of(raw: Raw, variables: Mapping[str, Word], *, splits: bool) -> Word:
    """Return what a word becomes; it `splits` where it is no assignment's value.

    A variable that is not among those given has a value that only the place knows.
    """
    out: list[str] = []
    for number, part in enumerate(raw.parts):
        found = _part_value(part, variables, splits=splits, is_first=number == 0)
        if found is None:
            return Unknown(raw.text)
        out.append(found)
    return "".join(out)


def _part_value(
    part: Part, variables: Mapping[str, Word], *, splits: bool, is_first: bool
) -> str | None:
    if isinstance(part, _Opaque):
        return None
    if isinstance(part, _Text):
        if part.quoted:
            return part.text
        # A tilde becomes a home, and a pattern the names of files.
        tilde = part.text.startswith("~") if is_first else False
        return None if tilde or (splits and re.search(r"[*?\[]", part.text)) else part.text
    value = variables.get(part.name)
    if part.default is not None and (value is None or (part.on_empty and value == "")):
        value = value_of(part.default, variables, splits=False)
    if not isinstance(value, str):
        return None
    if splits and not part.quoted and (not value or _SPLIT.search(value)):
        return None
    return value


def _statement(words: list[Raw], redirections: list[str]) -> Statement:
    assigned: list[tuple[str, Raw]] = []
    while words and (found := words[0].assignment) is not None:
        assigned.append(found)
        words = words[1:]
    if words and words[0].plain in _RESERVED:
        raise UnreadableExportError(f"`{words[0].text}`: which commands run then is not known")
    return Statement(tuple(assigned), tuple(words), tuple(redirections))


class _Lexer:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        """Tell whether nothing is left."""
        return self._at >= len(self._text)

    def statement(self) -> tuple[list[Raw], list[str]]:
        """Read up to the end of a line, or a semicolon."""
        words: list[Raw] = []
        redirections: list[str] = []
        while not self.at_end:
            self._skip_blanks()
            if self._take("\n") or (not self._sees(";;") and self._take(";")) or self.at_end:
                break
            if self._sees("#"):
                self._at = self._find("\n")
            elif (match := _REDIRECT.match(self._text, self._at)) is not None:
                redirections.append(self._redirection(match))
            else:
                self._refuse_operators()
                words.append(self._word())
        return words, redirections

    def _redirection(self, match: re.Match[str]) -> str:
        if match[1].startswith("<<"):
            raise UnreadableExportError("it holds a here-document, which is not read")
        self._at = match.end()
        return match[0].strip() + " " + self._word().text

    def _refuse_operators(self) -> None:
        for operator in _OPERATORS:
            if self._sees(operator):
                why = f"`{operator}` joins commands: which of them run is not known"
                raise UnreadableExportError(why)

    def _word(self) -> Raw:
        parts: list[Part] = []
        while not self.at_end and self._text[self._at] not in " \t\n;|&()<>":
            parts += self._in_double_quotes() if self._sees('"') else [self._part()]
        return Raw(_merged(parts))

    def _part(self) -> Part:
        char = self._text[self._at]
        if char == "'":
            end = self._text.find("'", self._at + 1)
            if end < 0:
                raise UnreadableExportError("a single quote is not closed in it")
            return _Text(self._cut(end + 1)[1:-1], True)
        if char in "$`":
            return self._expansion(quoted=False)
        if char == "\\":
            two = self._cut(self._at + 2)
            return _Text("" if two == "\\\n" else two[1:], two != "\\\n")
        if char == "\r":
            raise UnreadableExportError(
                "its lines end as on Windows, which a shell takes for a part of the last word"
            )
        return _Text(self._cut(self._at + 1), False)

    def _in_double_quotes(self) -> list[Part]:
        self._at += 1
        parts: list[Part] = [_Text("", True)]
        while not self._sees('"'):
            if self.at_end:
                raise UnreadableExportError("a double quote is not closed in it")
            parts.append(self._quoted_part())
        self._at += 1
        return parts

    def _quoted_part(self) -> Part:
        if self._text[self._at] in "$`":
            return self._expansion(quoted=True)
        if self._sees("\\") and self._text[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\"):
            return _Text(self._cut(self._at + 2)[1:], True)
        if self._sees("\\\n"):
            self._at += 2
            return _Text("", True)
        return _Text(self._cut(self._at + 1), True)

    def _expansion(self, *, quoted: bool) -> Part:
        """Read what begins with a dollar or a backquote."""
        if self._sees("`"):
            return _Opaque(self._cut(self._closing("`", self._at + 1)))
        if self._sees("$("):
            return _Opaque(self._cut(self._balanced("(", ")", self._at + 1)))
        if self._sees("${"):
            return self._braced(quoted=quoted)
        match = _NAME.match(self._text, self._at + 1)
        if self._text.startswith("\\\n", match.end() if match else self._at + 1):
            raise UnreadableExportError("a line ends within the name of a variable")
        if match:
            return _Variable(match[0], self._cut(match.end()), quoted)
        following = self._text[self._at + 1 : self._at + 2]
        if following in ("'", '"') and not quoted:
            raise UnreadableExportError("$' and $\" mean different things to different shells")
        if following and (following in "@*#?-$!" or following.isdigit()):
            return _Opaque(self._cut(self._at + 2))
        return _Text(self._cut(self._at + 1), True)

    def _braced(self, *, quoted: bool) -> Part:
        raw = self._cut(self._balanced("{", "}", self._at + 1))
        match = re.fullmatch(r"\$\{([A-Za-z_]\w*)(?:(:?)-(.*))?\}", raw, re.DOTALL)
        if match is None:
            return _Opaque(raw)
        name, colon, default = match.groups()
        if default is None:
            return _Variable(name, raw, quoted)
        return _Variable(name, raw, quoted, _default(default), colon == ":")

    def _balanced(self, opening: str, closing: str, at: int) -> int:
        """Return the place after the bracket that closes the one at a place; quoted ones aside."""
        depth = 0
        for match in _BRACKETED.finditer(self._text, at):
            depth += (match[0] == opening) - (match[0] == closing)
            if depth == 0:
                return match.end()
        raise UnreadableExportError(f"{self._text[at - 1 : at + 1]} is not closed in it")

    def _closing(self, mark: str, at: int) -> int:
        end = self._text.find(mark, at)
        if end < 0:
            raise UnreadableExportError(f"{mark} is not closed in it")
        return end + 1

    def _skip_blanks(self) -> None:
        while self._take(" ") or self._take("\t") or self._take("\\\n"):
            pass

    def _sees(self, mark: str) -> bool:
        return self._text.startswith(mark, self._at)

    def _take(self, mark: str) -> bool:
        found = self._sees(mark)
        self._at += len(mark) if found else 0
        return found

    def _find(self, mark: str) -> int:
        end = self._text.find(mark, self._at)
        return len(self._text) if end < 0 else end

    def _cut(self, end: int) -> str:
        cut = self._text[self._at : end]
        self._at = end
        return cut


def _default(text: str) -> Raw:
    """Read the word after `:-`, in which blanks are no ends."""
    if re.search(r"[\\'\"`$]", text):
        lexer = _Lexer(text.replace(" ", "\\ "))
        words, _ = lexer.statement()
        return words[0] if len(words) == 1 else Raw((_Opaque(text),))
    return Raw((_Text(text, True),))


def _merged(parts: list[Part]) -> tuple[Part, ...]:
    """Join texts that lie beside each other and are quoted alike."""
    out: list[Part] = []
    for part in parts:
        last = out[-1] if out else None
        if isinstance(part, _Text) and isinstance(last, _Text) and part.quoted == last.quoted:
            out[-1] = _Text(last.text + part.text, part.quoted)
        elif part != _Text("", False):
            out.append(part)
    return tuple(out)
