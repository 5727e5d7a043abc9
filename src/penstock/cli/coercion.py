"""Turning words into numbers and choices without pydantic.

Typer hands this work to pydantic, whose import alone costs a command 100 to 200 ms; ours needs
only numbers, choices, text and lists of them. A parameter keeps its converter in one attribute
that Typer fills at first use, and we fill it before. Were Typer to keep it elsewhere one day, it
would convert by its own means again: slower, and as right. A test watches that pydantic stays out.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup


class QuickCommand(TyperCommand):
    """A command that converts its words by itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _quickened(super().get_params(ctx))


class QuickGroup(TyperGroup):
    """A group that converts its words by itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _quickened(super().get_params(ctx))


def _quickened(parameters: list[Any]) -> list[Any]:
    """The same parameters, with our converters where we have one."""
    for parameter in parameters:
        descriptor = getattr(parameter, "type_descriptor", None)
        convert = _converter(descriptor) if descriptor is not None else None
        if convert is str and parameter.param_type_name == "argument":
            convert = _name
        if convert is not None:
            vars(parameter)["_runtime_param"] = _Coercion(convert)
    return parameters


class _Coercion:
    """What Typer asks for a parameter's value."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        try:
            return [self._convert(one) for one in value] if many else self._convert(value)
        except ValueError as mistake:
            raise typer.BadParameter(str(mistake), ctx=ctx, param=param) from None


def _converter(descriptor: Any) -> Callable[[Any], Any] | None:
    """How to convert one word for this parameter; None where we do not know."""
    annotation = descriptor.annotation
    if get_origin(annotation) is list:
        (annotation,) = get_args(annotation)
    if annotation is str:
        return str
    if annotation is bool:
        return _flag
    if annotation in (int, float):
        info = descriptor.parameter_info
        return lambda word: _number(word, annotation, info.min, info.max)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return lambda word: _choice(word, annotation)
    return None


def _number(word: Any, kind: type[int] | type[float], low: Any, high: Any) -> int | float:
    try:
        number = kind(word)
        fits = (low is None or number >= low) and (high is None or number <= high)
    except ValueError:
        fits = False
    if not fits:
        what = "a whole number" if kind is int else "a number"
        if low is not None and high is not None:
            what += f" from {low} to {high}"
        elif low is not None:
            what += f" of at least {low}"
        elif high is not None:
            what += f" of at most {high}"
        raise ValueError(f"{word!r} is not {what}")
    return number


def _name(word: Any) -> str:
    """Text that names something: a topic, a key, a file. None of them is named by nothing."""
    if not word:
        raise ValueError("it is empty")
    return str(word)


def _flag(word: Any) -> bool:
    if isinstance(word, bool):
        return word
    if str(word).lower() in ("1", "true", "yes", "on"):
        return True
    if str(word).lower() in ("", "0", "false", "no", "off"):
        return False
    raise ValueError(f"{word!r} is neither yes nor no")


def _choice(word: Any, choices: type[Enum]) -> Enum:
    if isinstance(word, choices):
        return word
    for choice in choices:
        if str(choice.value) == str(word).lower():
            return choice
    raise ValueError(f"{word!r} is none of {', '.join(str(one.value) for one in choices)}")
