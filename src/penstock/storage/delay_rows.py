"""Delayed records that wait, in the order in which they are due; a million take 24 MB.

Three packed columns in blocks: a block is found by bisection, and a row goes in or out by moving
the few kilobytes behind it. Objects would take ten times the memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from penstock.storage.delay_batches import Row

BLOCK_MAX = 1024
"""Rows in a block before it becomes two."""

NEVER = 1 << 63
"""Later than any row is due, and above every offset."""


class _Block:
    __slots__ = ("dues", "ids", "places")

    def __init__(self, dues: array[int], ids: array[int], places: array[int]) -> None:
        self.dues = dues
        self.ids = ids
        self.places = places

    def find(self, due: int, id_: int) -> int:
        """Where the row is, or would have to be."""
        dues = self.dues
        low = bisect_left(dues, due)
        if low == len(dues) or dues[low] != due:
            return low
        return bisect_left(self.ids, id_, low, bisect_right(dues, due, low))

    def split(self, at: int) -> _Block:
        """Cut off what is from `at` on."""
        rest = _Block(self.dues[at:], self.ids[at:], self.places[at:])
        del self.dues[at:], self.ids[at:], self.places[at:]
        return rest


def _first_id(block: _Block) -> int:
    return block.ids[0]


class WaitingRows:
    """Sorted by (due, id), each id once."""

    __slots__ = ("_blocks", "_count", "_firsts")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []  # none of them empty
        self._firsts: list[int] = []  # when the first row of each is due
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def earliest(self) -> int:
        """When the first of them is due."""
        return self._firsts[0] if self._firsts else NEVER

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, tuple)
        due, id_ = key
        return self._find(due, id_) is not None

    def dues_of(self, ids: set[int]) -> dict[int, int]:
        """When those of these that are there are due, by id; looks at each row once."""
        return {
            id_: block.dues[block.ids.index(id_)]
            for block in self._blocks
            for id_ in ids.intersection(block.ids)
        }

    def put(self, due: int, id_: int, place: int) -> None:
        """Add a row, or give it another place if it is there."""
        if not self._blocks:
            self.load(array("q", [due]), array("q", [id_]), array("q", [place]))
            return
        number = self._block_of(due, id_)
        block = self._blocks[number]
        at = block.find(due, id_)
        if at < len(block.ids) and block.ids[at] == id_ and block.dues[at] == due:
            block.places[at] = place
            return
        block.dues.insert(at, due)
        block.ids.insert(at, id_)
        block.places.insert(at, place)
        self._count += 1
        if at == 0:
            self._firsts[number] = due
        if len(block.ids) > BLOCK_MAX:
            # Whoever adds at the end, as most do, leaves full blocks behind and not half ones.
            is_last = number + 1 == len(self._blocks) and at + 1 == len(block.ids)
            rest = block.split(BLOCK_MAX if is_last else BLOCK_MAX // 2)
            self._blocks.insert(number + 1, rest)
            self._firsts.insert(number + 1, rest.dues[0])

    def _block_of(self, due: int, id_: int) -> int:
        """The number of the block in which the row is, or would have to be."""
        firsts = self._firsts
        end = bisect_right(firsts, due)
        if end and firsts[end - 1] == due:  # a thousand blocks may begin with the same time
            start = bisect_left(firsts, due, 0, end)
            end = bisect_right(self._blocks, id_, start, end, key=_first_id)
        return max(end - 1, 0)

    def remove(self, due: int, id_: int) -> bool:
        """Take a row out; whether it was there."""
        found = self._find(due, id_)
        if found is None:
            return False
        number, at = found
        block = self._blocks[number]
        del block.dues[at], block.ids[at], block.places[at]
        self._count -= 1
        if not block.ids:
            del self._blocks[number], self._firsts[number]
        elif at == 0:
            self._firsts[number] = block.dues[0]
        return True

    def _find(self, due: int, id_: int) -> tuple[int, int] | None:
        if not self._blocks:
            return None
        number = self._block_of(due, id_)
        block = self._blocks[number]
        at = block.find(due, id_)
        if at < len(block.ids) and block.ids[at] == id_ and block.dues[at] == due:
            return number, at
        return None

    def rows_from(self, due: int, id_: int = -1) -> Iterator[Row]:
        """The rows from a key on, in their order; not to be changed meanwhile."""
        number = self._block_of(due, id_)
        for block in self._blocks[number : number + 1]:
            at = block.find(due, id_)
            yield from map(Row, block.dues[at:], block.ids[at:], block.places[at:])
        for block in self._blocks[number + 1 :]:
            yield from map(Row, block.dues, block.ids, block.places)

    @property
    def lowest_place(self) -> int:
        """The lowest place of all; looks at each row."""
        return min((min(block.places) for block in self._blocks), default=NEVER)

    def below(self, place: int, count_max: int) -> list[Row]:
        """Rows whose place is below, in the order in which they are due."""
        found: list[Row] = []
        for block in self._blocks:
            if min(block.places) < place:
                rows = map(Row, block.dues, block.ids, block.places)
                found += [row for row in rows if row.place < place]
                if len(found) >= count_max:
                    break
        return found[:count_max]

    def drop_below(self, place: int) -> int:
        """Forget rows whose place is below; how many these were."""
        before = self._count
        for block in self._blocks:
            if min(block.places) < place:
                kept = [at for at, where in enumerate(block.places) if where >= place]
                self._count -= len(block.places) - len(kept)
                block.dues = array("q", [block.dues[at] for at in kept])
                block.ids = array("q", [block.ids[at] for at in kept])
                block.places = array("q", [block.places[at] for at in kept])
        if self._count != before:
            self._blocks = [block for block in self._blocks if block.ids]
            self._firsts = [block.dues[0] for block in self._blocks]
        return before - self._count

    # ── as three columns ────────────────────────────────────────────────────────────────────────

    def columns(self) -> tuple[array[int], array[int], array[int]]:
        """All dues, all ids, all places, in one order."""
        dues, ids, places = array("q"), array("q"), array("q")
        for block in self._blocks:
            dues += block.dues
            ids += block.ids
            places += block.places
        return dues, ids, places

    def load(self, dues: array[int], ids: array[int], places: array[int]) -> None:
        """Become what `columns` gave."""
        self._count = len(ids)
        self._blocks = [
            _Block(dues[at : at + BLOCK_MAX], ids[at : at + BLOCK_MAX], places[at : at + BLOCK_MAX])
            for at in range(0, len(ids), BLOCK_MAX)
        ]
        self._firsts = [block.dues[0] for block in self._blocks]
