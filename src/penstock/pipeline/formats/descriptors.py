"""Protobuf schemas: `.proto` files compiled, `.desc` files read, and the message that is meant."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from penstock.pipeline.context import Context
from penstock.pipeline.formats.registry import Registry, RegistryFailed
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import Format

COMPILE_SECONDS_MAX = 60


def descriptor_set(context: Context, form: Format, subject: str) -> bytes:
    """The schema and all that it imports, as a serialised FileDescriptorSet."""
    if form.schema.endswith(".proto"):
        return _compile(context.path(form.schema), form)
    if form.schema:
        try:
            with open(context.path(form.schema), "rb") as file:
                return file.read()
        except OSError as fault:
            raise Problem(f"{form.schema} cannot be read: {fault}", "", form.place) from fault
    if form.registry and subject:
        return _from_registry(form, subject)
    raise Problem(
        "protobuf needs a schema",
        "Give a file, as in `schema: order.proto` or `schema: order.desc`.",
        form.place,
    )


def _from_registry(form: Format, subject: str) -> bytes:
    try:
        found = Registry(form.registry).latest(subject)
    except RegistryFailed as fault:
        raise Problem(str(fault), "Is it running, and is `registry` right?", form.place) from fault
    if found is None or found.kind != "PROTOBUF" or found.refers:
        raise Problem(
            f"the registry has no Protobuf schema for {subject!r} that stands on its own",
            "Give the one that values are to be read with, as in `schema: order.proto`.",
            form.place,
        )
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "schema.proto")
        with open(path, "w") as file:
            file.write(found.text)
        return _compile(path, form)


def _compile(path: str, form: Format) -> bytes:
    program = _compiler(form)
    folder = os.path.dirname(path)
    with tempfile.TemporaryDirectory() as target:
        out = os.path.join(target, "schema.desc")
        options = [f"-I{folder}", "--include_imports", f"--descriptor_set_out={out}"]
        done = subprocess.run(
            [*program, *options, os.path.basename(path)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS_MAX,
        )
        if done.returncode:
            said = "; ".join(line for line in done.stderr.splitlines() if ".proto:" in line)
            raise Problem(
                f"{os.path.basename(path)} cannot be compiled: {said or done.stderr}",
                "Imports are looked for in its own folder.",
                form.place,
            )
        with open(out, "rb") as file:
            return file.read()


def _compiler(form: Format) -> list[str]:
    if find_spec("grpc_tools"):
        return [sys.executable, "-m", "grpc_tools.protoc"]
    if found := shutil.which("protoc"):
        return [found]
    raise Problem(
        "there is nothing to compile a .proto file with",
        "`pip install grpcio-tools`, install protoc, or give the `.desc` that protoc makes of it: "
        "protoc --include_imports --descriptor_set_out=order.desc order.proto",
        form.place,
    )


def message_of(files: bytes, form: Format) -> Descriptor:
    """The message that the format names; the first of the schema if it names none."""
    try:
        parsed = descriptor_pb2.FileDescriptorSet.FromString(files)
        pool = pool_of(files)
    except (DecodeError, TypeError) as fault:
        raise Problem(
            f"{form.schema} is not a set of Protobuf descriptors: {fault}",
            "Make one with protoc --include_imports --descriptor_set_out=order.desc order.proto",
            form.place,
        ) from fault
    known = [name for file in parsed.file for name in _names(file.package, file.message_type)]
    if not form.message:
        own = parsed.file[-1] if parsed.file else None
        if own is None or not own.message_type:
            raise Problem(f"{form.schema} holds no message", "", form.place)
        return pool.FindMessageTypeByName(next(_names(own.package, own.message_type)))
    for name in known:
        if name == form.message or name.endswith(f".{form.message}"):
            return pool.FindMessageTypeByName(name)
    raise Problem(
        f"{form.schema} holds no message {form.message!r}",
        f"Known: {', '.join(known)}.",
        form.place,
    )


def _names(package: str, messages: Any) -> Any:
    front = f"{package}." if package else ""
    for each in messages:
        yield front + each.name
        yield from _names(front + each.name, each.nested_type)


@lru_cache(16)
def pool_of(files: bytes) -> descriptor_pool.DescriptorPool:
    """All types of a set of descriptors."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(files).file:
        pool.Add(file)
    return pool


@lru_cache(64)
def class_of(files: bytes, name: str) -> Any:
    """The class of a message."""
    return message_factory.GetMessageClass(pool_of(files).FindMessageTypeByName(name))


def path_of(message: Descriptor) -> list[int]:
    """The way to a message within its file, as registries write it."""
    path: list[int] = []
    here = message
    while here.containing_type is not None:
        path.insert(0, list(here.containing_type.nested_types).index(here))
        here = here.containing_type
    return [list(here.file.message_types_by_name.values()).index(here), *path]
