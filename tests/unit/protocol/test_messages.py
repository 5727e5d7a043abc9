"""What generated messages promise beside their bytes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.protocol.generated.delete_topics import DeleteTopicsRequest
from penstock.protocol.generated.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.metadata import MetadataRequest
from penstock.protocol.generated.metadata_records import PartitionChangeRecord
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.primitives import ProtocolError, Splices


@dataclass
class Slice:
    size: int


def _fetched(records: object) -> FetchResponse:
    partition = PartitionData(partition_index=1, records=records)  # type: ignore[arg-type]
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_a_splice_leaves_a_gap_of_its_size(version: int) -> None:
    whole = _fetched(b"r" * 200).encode(version)
    splice, out, splices = Slice(200), bytearray(b"head"), Splices()
    _fetched(splice).write(version, out, splices)
    ((at, found),) = splices
    assert found is splice
    assert out[4:at] + b"r" * 200 + out[at:] == whole


def test_an_empty_splice_needs_no_insertion() -> None:
    out, splices = bytearray(), Splices()
    _fetched(Slice(0)).write(12, out, splices)
    assert out == _fetched(b"").encode(12)
    assert splices == []


def test_a_splice_is_refused_where_nobody_collects_them() -> None:
    with pytest.raises(ProtocolError, match="splices"):
        _fetched(Slice(10)).encode(12)


def test_records_are_a_view_of_the_input_and_not_a_copy() -> None:
    partition = PartitionProduceData(index=0, records=memoryview(b"abc"))
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    frame = bytearray(request.encode(9))
    read, _ = ProduceRequest.read(frame, 9)
    records = read.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    frame[frame.index(b"abc")] = ord("x")
    assert records.tobytes() == b"xbc"


def test_a_field_without_a_place_is_refused_when_it_matters() -> None:
    response = FetchResponse(node_endpoints=[NodeEndpoint(node_id=1)])
    assert response.encode(16)
    with pytest.raises(ProtocolError, match=r"FetchResponse\.node_endpoints"):
        response.encode(15)
    request = FetchRequest(replica_state=ReplicaState(replica_id=3))
    with pytest.raises(ProtocolError, match=r"FetchRequest\.replica_state"):
        request.encode(14)


def test_a_field_without_a_place_is_dropped_when_it_is_ignorable() -> None:
    assert FetchRequest(rack_id="here").encode(10) == FetchRequest().encode(10)


def test_null_is_refused_in_versions_that_have_no_form_for_it() -> None:
    everything = MetadataRequest(topics=None)
    assert MetadataRequest.read(everything.encode(1), 1)[0].topics is None
    with pytest.raises(ProtocolError, match=r"MetadataRequest\.topics must not be null"):
        everything.encode(0)
    with pytest.raises(ProtocolError, match=r"MetadataRequest\.topics must not be null"):
        MetadataRequest.read(b"\xff\xff\xff\xff", 0)


def test_a_struct_with_nothing_but_defaults_is_not_sent_as_a_tag() -> None:
    bare = PartitionData(current_leader=LeaderIdAndEpoch())
    absent = PartitionData()

    def encoded(it: PartitionData) -> bytes:
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[it])]).encode(12)

    assert encoded(bare) == encoded(absent)


def test_tags_of_the_future_are_skipped_and_known_ones_beside_them_are_read() -> None:
    record = PartitionChangeRecord(partition_id=1, leader=5)
    raw = record.encode(0)
    assert raw[20] == 1, "one tag"
    future = raw[:20] + b"\x02" + raw[21:] + b"\x63\x03new"
    assert PartitionChangeRecord.read(future, 0) == (record, len(future))


def test_a_tag_that_lies_about_its_size_is_refused() -> None:
    raw = bytearray(PartitionChangeRecord(partition_id=1, leader=5).encode(0))
    assert raw[20:23] == b"\x01\x01\x04"
    raw[22] = 5
    with pytest.raises(ProtocolError, match="size"):
        PartitionChangeRecord.read(raw + b"\x00", 0)


@pytest.mark.parametrize("version", [-1, 0, 3, 19, 32767])
def test_a_version_that_does_not_exist_is_refused(version: int) -> None:
    with pytest.raises(ProtocolError, match="has versions 4 to 18"):
        FetchRequest.read(b"", version)
    with pytest.raises(ProtocolError, match="has versions 4 to 18"):
        FetchRequest().encode(version)


@pytest.mark.parametrize("version", [2, 3])
def test_a_string_has_at_most_32767_bytes_in_either_form(version: int) -> None:
    longest = FindCoordinatorRequest(key="x" * 32767)
    raw = longest.encode(version)
    assert FindCoordinatorRequest.read(raw, version) == (longest, len(raw))
    with pytest.raises(ProtocolError, match="longer than 32767"):
        FindCoordinatorRequest(key="x" * 32768).encode(version)


def test_a_longer_compact_string_is_refused_though_its_bytes_are_there() -> None:
    raw = b"\x81\x80\x02" + b"x" * 32768 + b"\x00\x00"
    with pytest.raises(ProtocolError, match="longer than 32767"):
        FindCoordinatorRequest.read(raw, 3)


def test_messages_do_not_share_their_empty_lists() -> None:
    one, other = FetchRequest(), FetchRequest()
    one.topics.append(None)  # type: ignore[arg-type]
    assert other.topics == []


def test_a_list_may_be_null_on_purpose() -> None:
    assert MetadataRequest().topics == []
    assert MetadataRequest(topics=None).topics is None


def test_messages_are_equal_by_their_fields_and_have_no_hash() -> None:
    assert FetchRequest(min_bytes=1) == FetchRequest(min_bytes=1)
    assert FetchRequest(min_bytes=1) != FetchRequest(min_bytes=2)
    assert FetchRequest() != FetchResponse()
    with pytest.raises(TypeError):
        hash(FetchRequest())


def test_a_message_shows_its_fields() -> None:
    assert repr(LeaderIdAndEpoch(leader_id=1)) == "LeaderIdAndEpoch(leader_id=1, leader_epoch=-1)"


def test_a_misspelt_field_is_noticed() -> None:
    with pytest.raises(TypeError):
        DeleteTopicsRequest(topic_name=["t"])  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        DeleteTopicsRequest().topic_name = ["t"]  # type: ignore[attr-defined]
