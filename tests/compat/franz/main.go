// Command franz takes a broker through what franz-go programs do, one named step at a time.
//
// It prints a line of JSON per step: its name and, if it failed, why. The test that builds it
// turns each line into a result of its own.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	recordCount   = 20
	timestampStep = 10 * time.Second
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

type step struct {
	name string
	run  func(context.Context, *journey) error
}

// journey is what the steps share: one broker, one topic, and the first record's time.
type journey struct {
	bootstrap string
	topic     string
	first     time.Time
	admin     *kadm.Client
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	trip := &journey{
		bootstrap: bootstrap,
		topic:     topic,
		first:     time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli()),
		admin:     kadm.NewClient(client),
	}
	steps := []step{
		{"create", create},
		{"create twice", createTwice},
		{"describe", describe},
		{"produce and consume none", roundTrip("none")},
		{"produce and consume gzip", roundTrip("gzip")},
		{"produce and consume snappy", roundTrip("snappy")},
		{"produce and consume lz4", roundTrip("lz4")},
		{"produce and consume zstd", roundTrip("zstd")},
		{"seek by offset", seekByOffset},
		{"seek by timestamp", seekByTimestamp},
		{"share", share},
		{"describe configuration", describeConfiguration},
		{"delete records", deleteRecords},
		{"delete", deleteTopic},
	}
	out := json.NewEncoder(os.Stdout)
	for _, each := range steps {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		result := map[string]string{"step": each.name}
		if err := each.run(ctx, trip); err != nil {
			result["error"] = err.Error()
		}
		cancel()
		if err := out.Encode(result); err != nil {
			panic(err)
		}
	}
}

func create(ctx context.Context, trip *journey) error {
	retention := "123456789"
	made, err := trip.admin.CreateTopic(
		ctx, 5, 1, map[string]*string{"retention.ms": &retention}, trip.topic)
	if err != nil {
		return err
	}
	if made.NumPartitions != 5 || made.ReplicationFactor != 1 {
		return fmt.Errorf("the answer says %d partitions, %d replicas",
			made.NumPartitions, made.ReplicationFactor)
	}
	return nil
}

func createTwice(ctx context.Context, trip *journey) error {
	_, err := trip.admin.CreateTopic(ctx, 5, 1, nil, trip.topic)
	if err == nil || !strings.Contains(err.Error(), "TOPIC_ALREADY_EXISTS") {
		return fmt.Errorf("expected TOPIC_ALREADY_EXISTS, got %v", err)
	}
	return nil
}

func describe(ctx context.Context, trip *journey) error {
	topics, err := trip.admin.ListTopics(ctx, trip.topic)
	if err != nil {
		return err
	}
	found := topics[trip.topic]
	if found.Err != nil || len(found.Partitions) != 5 {
		return fmt.Errorf("expected 5 partitions, got %v (%v)", found.Partitions.Numbers(), found.Err)
	}
	for _, partition := range found.Partitions {
		if partition.Leader != 1 {
			return fmt.Errorf("partition %d is led by %d", partition.Partition, partition.Leader)
		}
	}
	return nil
}

// partitionOf gives each codec a partition of its own, so that offsets are known.
func partitionOf(codec string) int32 {
	return map[string]int32{"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[codec]
}

func (trip *journey) records(codec string) []*kgo.Record {
	var records []*kgo.Record
	for number := range recordCount {
		records = append(records, &kgo.Record{
			Topic:     trip.topic,
			Partition: partitionOf(codec),
			Key:       fmt.Appendf(nil, "%s-%d", codec, number),
			Value:     []byte(strings.Repeat(codec, 1+number*37)),
			Headers:   []kgo.RecordHeader{{Key: "codec", Value: []byte(codec)}},
			Timestamp: trip.first.Add(time.Duration(number) * timestampStep),
		})
	}
	return records
}

func roundTrip(codec string) func(context.Context, *journey) error {
	return func(ctx context.Context, trip *journey) error {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(trip.bootstrap),
			kgo.ProducerBatchCompression(codecs[codec]),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
		)
		if err != nil {
			return err
		}
		defer client.Close()
		sent := trip.records(codec)
		for number, result := range client.ProduceSync(ctx, sent...) {
			if result.Err != nil {
				return result.Err
			}
			if result.Record.Offset != int64(number) {
				return fmt.Errorf("record %d got offset %d", number, result.Record.Offset)
			}
		}
		return trip.expect(ctx, partitionOf(codec), kgo.NewOffset().AtStart(), trip.records(codec))
	}
}

// expect reads from an assigned partition and compares what comes with what was sent.
func (trip *journey) expect(
	ctx context.Context, partition int32, from kgo.Offset, sent []*kgo.Record,
) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(trip.bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{trip.topic: {partition: from}}),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	var got []*kgo.Record
	for len(got) < len(sent) {
		fetches := client.PollFetches(ctx)
		if problems := fetches.Errors(); len(problems) > 0 {
			return fmt.Errorf("after %d records: %v", len(got), problems[0].Err)
		}
		got = append(got, fetches.Records()...)
	}
	for number, want := range sent {
		have := got[number]
		same := string(have.Key) == string(want.Key) &&
			string(have.Value) == string(want.Value) &&
			have.Timestamp.Equal(want.Timestamp) &&
			len(have.Headers) == 1 && string(have.Headers[0].Value) == string(want.Headers[0].Value)
		if !same {
			return fmt.Errorf("sent %s at %v, got %s at %v",
				want.Key, want.Timestamp, have.Key, have.Timestamp)
		}
	}
	return nil
}

func seekByOffset(ctx context.Context, trip *journey) error {
	return trip.expect(ctx, 0, kgo.NewOffset().At(7), trip.records("none")[7:])
}

func seekByTimestamp(ctx context.Context, trip *journey) error {
	between := trip.first.Add(11*timestampStep - time.Millisecond)
	listed, err := trip.admin.ListOffsetsAfterMilli(ctx, between.UnixMilli(), trip.topic)
	if err != nil {
		return err
	}
	for partition := range int32(5) {
		found, ok := listed.Lookup(trip.topic, partition)
		if !ok || found.Err != nil || found.Offset != 11 {
			return fmt.Errorf("partition %d: expected offset 11, got %v", partition, found)
		}
	}
	return trip.expect(
		ctx, 4, kgo.NewOffset().AfterMilli(between.UnixMilli()), trip.records("zstd")[11:])
}

func describeConfiguration(ctx context.Context, trip *journey) error {
	described, err := trip.admin.DescribeTopicConfigs(ctx, trip.topic)
	if err != nil {
		return err
	}
	found, err := described.On(trip.topic, nil)
	if err != nil {
		return err
	}
	for _, config := range found.Configs {
		if config.Key == "retention.ms" && config.MaybeValue() == "123456789" {
			return nil
		}
	}
	return fmt.Errorf("retention.ms is not 123456789 in %v", found.Configs)
}

func deleteRecords(ctx context.Context, trip *journey) error {
	var until kadm.Offsets
	until.AddOffset(trip.topic, 0, 12, -1)
	deleted, err := trip.admin.DeleteRecords(ctx, until)
	if err != nil {
		return err
	}
	if err := deleted.Error(); err != nil {
		return err
	}
	return trip.expect(ctx, 0, kgo.NewOffset().AtStart(), trip.records("none")[12:])
}

func deleteTopic(ctx context.Context, trip *journey) error {
	if _, err := trip.admin.DeleteTopic(ctx, trip.topic); err != nil {
		return err
	}
	for ctx.Err() == nil {
		topics, err := trip.admin.ListTopics(ctx)
		if err != nil {
			return err
		}
		if !topics.Has(trip.topic) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("the topic is still listed")
}
