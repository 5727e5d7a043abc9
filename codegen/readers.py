"""Emits the function that reads one layout: runs of fixed width become one `unpack_from`.

A run is open while fields of fixed width follow one another. The length of the string, the count
of the array or the number of tags behind them closes it, and is unpacked by the same call into
the local `n`; a varint takes part as one byte, with a slow path for longer ones.
"""

from __future__ import annotations

from codegen.layout import CODE, WIDTH, Layout, Slot
from codegen.lines import Constants, Lines
from codegen.names import local


class ReaderEmitter:
    """Emits readers into one module."""

    def __init__(
        self,
        lines: Lines,
        constants: Constants,
        names: dict[Layout, str],
        fresh: dict[tuple[str, str], str],
        *,
        inline: bool,
    ) -> None:
        self.lines = lines
        self.constants = constants
        self.names = names
        self.fresh = fresh  # (class, attribute): the list or struct that the field starts with
        self._inline = inline  # whether to read the elements of arrays without a call
        self._it = "it"
        self._targets: list[str] = []
        self._code = ""
        self._width = 0

    def emit(self, layout: Layout) -> None:
        name, add = self.names[layout], self.lines.add
        head = f"def read_{name}(view: memoryview, at: int) -> tuple[{layout.cls}, int]:"
        with self.lines.block(head):
            if any(not it.is_fixed for it in (*layout.slots, *layout.tagged)):
                add("size = len(view)")
            self._body(layout, "it")
            add("return it, at")
        add("")
        add("")

    def _body(self, layout: Layout, it: str) -> None:
        """Read one `layout` into a new object, named `it`."""
        outer, self._it = self._it, it
        self.lines.add(f"{it} = new({layout.cls})")
        defaults = [(gone.attr, gone.default) for gone in layout.absent]
        defaults += [(slot.attr, slot.default) for slot in layout.tagged]
        for attr, default in defaults:
            fresh = self.fresh.get((layout.cls, attr))
            self.lines.add(f"{it}.{attr} = {fresh or default}")
        for slot in layout.slots:
            self._slot(layout, slot)
        if layout.flexible:
            self._close("B", 1)
            self._tags(layout)
        else:
            self._close()
        self._it = outer

    # -- runs --

    def _fixed(self, target: str, kind: str) -> None:
        self._targets.append(target)
        self._code += CODE[kind]
        self._width += WIDTH[kind]

    def _close(self, code: str = "", width: int = 0) -> None:
        """Unpack the open run, and with it the prefix `code` into `n`."""
        targets = [*self._targets, "n"] if code else self._targets
        codes, size = self._code + code, self._width + width
        self._targets, self._code, self._width = [], "", 0
        if not targets:
            return
        add = self.lines.add
        if codes == "B":
            add("n = view[at]")
        elif codes == "?":
            add(f"{targets[0]} = view[at] != 0")
        elif len(targets) == 1:
            add(f"({targets[0]},) = {self.constants.unpack(codes)}(view, at)")
        else:
            add(f"{', '.join(targets)} = {self.constants.unpack(codes)}(view, at)")
        add(f"at += {size}")

    def _length(self, slot: Slot, plain_code: str) -> None:
        """Leave the length or count in `n`, one too high if compact."""
        if slot.compact:
            self._close("B", 1)
            self._long_varint()
        else:
            self._close(plain_code, struct_width(plain_code))

    def _long_varint(self) -> None:
        with self.lines.block("if n > 127:"):
            self.lines.add("n, at = read_uvarint(view, at - 1)")

    # -- fields --

    def _slot(self, layout: Layout, slot: Slot) -> None:
        target = f"{self._it}.{slot.attr}"
        what = f'"{layout.cls}.{slot.attr}"'
        if slot.is_fixed:
            self._fixed(target, slot.type)
        elif slot.is_array:
            self._array(slot, target, what)
        elif slot.part is not None:
            self._struct(slot, target)
        else:
            self._text(slot, target, what)

    def _null(self, slot: Slot, target: str, what: str) -> None:
        self.lines.add(f"{target} = None" if slot.nullable else f"raise null_refused({what})")

    def _text(self, slot: Slot, target: str, what: str) -> None:
        """A string, bytes or records."""
        add, block = self.lines.add, self.lines.block
        if slot.type == "string" and slot.compact:
            self._close("B", 1)
            with block("if n > 127:"):
                add("n, at = read_uvarint(view, at - 1)")
                with block("if n > STRING_SIZE_MAX + 1:"):
                    add(f"raise too_long({what})")
        else:
            self._length(slot, "h" if slot.type == "string" else "i")
        # What is usual comes first: text that is there.
        with block("if n > 0:" if slot.compact else "if n >= 0:"):
            add("end = at + n - 1" if slot.compact else "end = at + n")
            with block("if end > size:"):
                add(f"raise cut_short({what})")
            value = {
                "string": 'view[at:end].tobytes().decode("utf-8", "replace")',
                "bytes": "view[at:end].tobytes()",
                "records": "view[at:end]",
            }[slot.type]
            add(f"{target} = {value}")
            add("at = end")
        with block("else:"):
            self._null(slot, target, what)

    def _struct(self, slot: Slot, target: str) -> None:
        assert slot.part is not None
        read = f"{target}, at = read_{self.names[slot.part]}(view, at)"
        if not slot.nullable:
            self._close()
            self.lines.add(read)
            return
        # The mark of a null struct is -1 in a byte, or, in a tagged field, 0 in a varint.
        self._close("b" if slot.tag is None else "B", 1)
        with self.lines.block("if n < 0:" if slot.tag is None else "if n == 0:"):
            self.lines.add(f"{target} = None")
        with self.lines.block("else:"):
            self.lines.add(read)

    def _array(self, slot: Slot, target: str, what: str) -> None:
        add, block = self.lines.add, self.lines.block
        self._length(slot, "i")
        if slot.compact:
            add("n -= 1")
        with block("if n < 0:"):
            self._null(slot, target, what)
        if slot.element == "string":
            with block("else:"):
                compact = "compact_" if slot.compact else ""
                add(f"{target}, at = read_{compact}strings(view, at, n)")
        elif slot.element == "uuid":
            with block("else:"):
                add(f"{target} = read_uuids(view, at, n)")
                add("at += n * 16")
        elif slot.element == "int32":
            with block("elif n < INT32S_SHORT:"):
                add(f"{target} = list(UNPACK_INT32S[n](view, at))")
                add("at += n * 4")
            with block("else:"):
                add(f'{target} = read_numbers(view, at, n, "i", 4)')
                add("at += n * 4")
        elif slot.part is None:
            code, width = CODE[slot.element], WIDTH[slot.element]
            with block("else:"):
                add(f'{target} = read_numbers(view, at, n, "{code}", {width})')
                add(f"at += n * {width}" if width > 1 else "at += n")
        else:
            self._structs(slot.part, target, what)

    def _structs(self, part: Layout, target: str, what: str) -> None:
        add, block = self.lines.add, self.lines.block
        least = max(1, part.size_min())
        with block(f"elif n * {least} > size - at:" if least > 1 else "elif n > size - at:"):
            add(f"raise cut_short({what})")
        with block("else:"):
            add(f"{target} = []")
            with block("for _ in range(n):"):
                element = local(part.cls)
                if self._inline:
                    self._body(part, element)
                else:
                    add(f"{element}, at = read_{self.names[part]}(view, at)")
                add(f"{target}.append({element})")

    # -- tagged fields --

    def _tags(self, layout: Layout) -> None:
        add, block = self.lines.add, self.lines.block
        with block("if n:"):
            self._long_varint()
            if not layout.tagged:
                add("at = skip_tags(view, at, n)")
                return
            with block("for _ in range(n):"):
                add("tag, at = read_uvarint(view, at)")
                add("n, at = read_uvarint(view, at)")
                add("stop = at + n")
                with block("if stop > len(view):"):
                    add('raise cut_short("a tagged field")')
                # Elements inside have tags of their own: their locals must not meet ours.
                inline, self._inline = self._inline, False
                for number, slot in enumerate(layout.tagged):
                    word = "elif" if number else "if"
                    with block(f"{word} tag == {slot.tag}:"):
                        self._slot(layout, slot)
                        self._close()
                self._inline = inline
                with block("else:"):
                    add("at = stop")
                with block("if at != stop:"):
                    add(f'raise wrong_size(f"{{tag}} of {layout.cls}")')


def struct_width(code: str) -> int:
    """The width of a length prefix."""
    return {"b": 1, "B": 1, "h": 2, "i": 4}[code]
