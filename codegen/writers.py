"""Emits the function that writes one layout: runs of fixed width become one `pack`.

The mirror of `readers`: a run stays open until a length, a count or a nested struct closes it,
and the prefix that closes it is packed by the same call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from codegen.layout import CODE, Layout, Slot
from codegen.lines import Constants, Lines
from codegen.names import local


class WriterEmitter:
    """Emits writers into one module."""

    def __init__(
        self,
        lines: Lines,
        constants: Constants,
        names: dict[Layout, str],
        conditions: dict[tuple[str, str], Callable[[str], str]],
        *,
        inline: bool,
    ) -> None:
        self.lines = lines
        self.constants = constants
        self.names = names
        self.conditions = conditions  # (class, attribute) of a field: when its value is set
        self._inline = inline  # whether to write the elements of arrays without a call
        self._it = "it"
        self._values: list[str] = []
        self._code = ""
        self._out = "out"

    def emit(self, layout: Layout, *, whole: bool) -> None:
        """`whole` is for a message, whose writer always has the third argument."""
        name, add, block = self.names[layout], self.lines.add, self.lines.block
        splices = ", splices: Splices | None" if whole or layout.holds_records() else ""
        with block(f"def write_{name}(it: {layout.cls}, out: bytearray{splices}) -> None:"):
            self._body(layout, "it")
        add("")
        add("")

    def _body(self, layout: Layout, it: str) -> None:
        """Write the object that is named `it`."""
        outer, self._it = self._it, it
        refused = [gone.attr for gone in layout.absent if not gone.ignorable]
        for attr in refused:
            with self.lines.block(f"if {self._is_set(layout, attr)}:"):
                self.lines.add(f'raise no_place("{layout.cls}.{attr}")')
        for slot in layout.slots:
            self._slot(layout, slot, f"{it}.{slot.attr}")
        if layout.flexible and not layout.tagged:
            self._code += "x"  # no tagged fields: a zero, which struct calls a pad byte
        self._close()
        if layout.tagged:
            self._tags(layout)
        if not (layout.slots or layout.flexible or refused):
            self.lines.add("pass")
        self._it = outer

    def _is_set(self, layout: Layout, attr: str) -> str:
        return self.conditions[(layout.cls, attr)](f"{self._it}.{attr}")

    # -- runs --

    def _close(self) -> None:
        values, code = self._values, self._code
        self._values, self._code = [], ""
        if code == "x":
            self.lines.add(f"{self._out}.append(0)")
        elif code:
            self.lines.add(f"{self._out} += {self.constants.pack(code)}({', '.join(values)})")

    def _prefix(self, compact: bool, plain_code: str, bounded: str | None = None) -> None:
        """Pack the open run and the length or count in `n`; `bounded` names a string."""
        add, block = self.lines.add, self.lines.block
        if not compact:
            if bounded is not None:
                with block("if n > STRING_SIZE_MAX:"):
                    add(f"raise too_long({bounded})")
            self._values.append("n")
            self._code += plain_code
            self._close()
            return
        values, code = self._values, self._code
        self._values, self._code = [], ""
        with block("if n < 128:"):
            if values:
                packer = self.constants.pack(code + "B")
                add(f"{self._out} += {packer}({', '.join([*values, 'n'])})")
            else:
                add(f"{self._out}.append(n)")
        with block("else:"):
            if bounded is not None:
                with block("if n > STRING_SIZE_MAX + 1:"):
                    add(f"raise too_long({bounded})")
            if values:
                add(f"{self._out} += {self.constants.pack(code)}({', '.join(values)})")
            add(f"write_uvarint({self._out}, n)")

    # -- fields --

    def _slot(self, layout: Layout, slot: Slot, value: str) -> None:
        what = f'"{layout.cls}.{slot.attr}"'
        if slot.is_fixed:
            self._values.append(value)
            self._code += CODE[slot.type]
        elif slot.is_array:
            self._array(slot, value, what)
        elif slot.part is not None:
            self._struct(slot, value)
        elif slot.type == "records":
            self._records(slot, value)
        else:
            self._text(slot, value, what)

    def _null(self, slot: Slot, what: str) -> None:
        """Lines for a value that is None."""
        if slot.nullable:
            self.lines.add("n = 0" if slot.compact else "n = -1")
        else:
            self.lines.add(f"raise null_refused({what})")

    def _text(self, slot: Slot, value: str, what: str) -> None:
        add, block = self.lines.add, self.lines.block
        raw = f"{value}.encode()" if slot.type == "string" else value
        one = " + 1" if slot.compact else ""
        if slot.optional:
            with block(f"if {value} is None:"):
                add('raw = b""')
                self._null(slot, what)
            with block("else:"):
                add(f"raw = {raw}")
                add(f"n = len(raw){one}")
        else:
            add(f"raw = {raw}")
            add(f"n = len(raw){one}")
        if slot.type == "string":
            self._prefix(slot.compact, "h", bounded=what)
        else:
            self._prefix(slot.compact, "i")
        add(f"{self._out} += raw")

    def _records(self, slot: Slot, value: str) -> None:
        add, block = self.lines.add, self.lines.block
        add(f"records = {value}")
        one = " + 1" if slot.compact else ""
        word = "if"
        if slot.optional:
            with block("if records is None:"):
                self._null(slot, '"records"')
            word = "elif"
        with block(f"{word} isinstance(records, BUFFERS):" if slot.spliced else "else:"):
            add(f"n = len(records){one}")
        if slot.spliced:
            with block("else:"):
                add(f"n = records.size{one}")
        self._prefix(slot.compact, "i")
        put = "write_records(out, records, splices)" if slot.spliced else "out += records"
        if not slot.optional:
            add(put)
            return
        with block("if records is not None:"):
            add(put)

    def _struct(self, slot: Slot, value: str) -> None:
        assert slot.part is not None
        splices = ", splices" if slot.part.holds_records() else ""
        call = f"write_{self.names[slot.part]}({value}, {self._out}{splices})"
        self._close()
        if not slot.nullable:
            self.lines.add(call)
            return
        if not slot.optional:
            self.lines.add(f"{self._out}.append(1)")
            self.lines.add(call)
            return
        with self.lines.block(f"if {value} is None:"):
            self.lines.add(f"{self._out}.append({255 if slot.tag is None else 0})")
        with self.lines.block("else:"):
            self.lines.add(f"{self._out}.append(1)")
            self.lines.add(call)

    def _array(self, slot: Slot, value: str, what: str) -> None:
        add, block = self.lines.add, self.lines.block
        one = " + 1" if slot.compact else ""
        if slot.optional:
            with block(f"if {value} is None:"):
                self._null(slot, what)
            with block("else:"):
                add(f"n = len({value}){one}")
        else:
            add(f"n = len({value}){one}")
        self._prefix(slot.compact, "i")
        if slot.optional:
            with block(f"if {value}:"):
                self._elements(slot, value)
        else:
            self._elements(slot, value)

    def _elements(self, slot: Slot, value: str) -> None:
        add, block, out = self.lines.add, self.lines.block, self._out
        if slot.element == "string":
            with block(f"for text in {value}:"):
                compact = "compact_" if slot.compact else ""
                add(f"write_{compact}string({out}, text)")
        elif slot.element == "uuid":
            add(f'{out} += b"".join({value})')
        elif slot.element == "int32":
            # Replicas, in-sync replicas, partitions: short lists, and the bulk of metadata.
            count = "n - 1" if slot.compact else "n"
            with block("if n < INT32S_SHORT:"):
                add(f"{out} += PACK_INT32S[{count}](*{value})")
            with block("else:"):
                add(f'write_numbers({out}, {value}, "i")')
        elif slot.part is None:
            add(f'write_numbers({out}, {value}, "{CODE[slot.element]}")')
        else:
            splices = ", splices" if slot.part.holds_records() else ""
            element = local(slot.part.cls)
            with block(f"for {element} in {value}:"):
                if self._inline:
                    self._body(slot.part, element)
                else:
                    add(f"write_{self.names[slot.part]}({element}, {out}{splices})")

    # -- tagged fields --

    def _tags(self, layout: Layout) -> None:
        """Only fields that are set are sent, each with its tag and size."""
        add, block = self.lines.add, self.lines.block
        it = self._it
        quick = [
            f"{it}.{slot.attr} is None"
            if slot.default == "None"
            else f"not ({self._is_set(layout, slot.attr)})"
            for slot in layout.tagged
        ]
        with block(f"if {' and '.join(quick)}:"):
            add(f"{self._out}.append(0)")
        with block("else:"):
            add("n_tags = 0")
            add("tags = bytearray()")
            # Elements inside have tags of their own: their locals must not meet ours.
            inline, self._inline = self._inline, False
            for slot in layout.tagged:
                self._tag(layout, slot)
            self._inline = inline
            add(f"write_uvarint({self._out}, n_tags)")
            add(f"{self._out} += tags")

    def _tag(self, layout: Layout, slot: Slot) -> None:
        add = self.lines.add
        with self.lines.block(f"if {self._is_set(layout, slot.attr)}:"):
            add("n_tags += 1")
            add("tag = bytearray()")
            outer, self._out = self._out, "tag"
            if slot.default == "None":
                slot = replace(slot, optional=False)  # the condition has excluded it
            self._slot(layout, slot, f"{self._it}.{slot.attr}")
            self._close()
            self._out = outer
            add(f"write_uvarint(tags, {slot.tag})")
            add("write_uvarint(tags, len(tag))")
            add("tags += tag")
