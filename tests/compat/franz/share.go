package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const shareGroup = "franz-share"

// share has a share group take all records of the topic: every fourth one is released at first,
// rejected, or kept for longer before it is accepted; the others are accepted at once.
func share(ctx context.Context, trip *journey) error {
	if err := trip.beginEarliest(ctx, shareGroup); err != nil {
		return err
	}
	var refused error
	client, err := kgo.NewClient(
		kgo.SeedBrokers(trip.bootstrap), kgo.ConsumeTopics(trip.topic), kgo.ShareGroup(shareGroup),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			refused = errors.Join(refused, results.Error())
		}))
	if err != nil {
		return err
	}
	defer client.Close()
	done := make(map[string]bool)
	for len(done) < 5*recordCount {
		fetches := client.PollFetches(ctx)
		if problems := fetches.Errors(); len(problems) > 0 {
			return fmt.Errorf("after %d records: %v", len(done), problems[0].Err)
		}
		for _, record := range fetches.Records() {
			name := fmt.Sprintf("%d/%d", record.Partition, record.Offset)
			if done[name] {
				return fmt.Errorf("%s came again after it was done with", name)
			}
			if acknowledge(client, ctx, record) {
				done[name] = true
			}
		}
	}
	if err := client.FlushAcks(ctx); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	return trip.nothingLeft(ctx)
}

// acknowledge says what became of a record; true if it must not come again.
func acknowledge(client *kgo.Client, ctx context.Context, record *kgo.Record) bool {
	switch {
	case record.Offset%4 == 0 && record.DeliveryCount() == 1:
		record.Ack(kgo.AckRelease)
		return false
	case record.Offset%4 == 1:
		record.Ack(kgo.AckReject)
	case record.Offset%4 == 2:
		record.Ack(kgo.AckRenew)
		_ = client.FlushAcks(ctx)
		record.Ack(kgo.AckAccept)
	default:
		record.Ack(kgo.AckAccept)
	}
	return true
}

func (trip *journey) nothingLeft(ctx context.Context) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(trip.bootstrap), kgo.ConsumeTopics(trip.topic), kgo.ShareGroup(shareGroup))
	if err != nil {
		return err
	}
	defer client.Close()
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if records := client.PollFetches(short).Records(); len(records) > 0 {
		return fmt.Errorf("%d records are left, the first at %d", len(records), records[0].Offset)
	}
	return nil
}

// beginEarliest has a group begin at the beginning of partitions that it never read.
func (trip *journey) beginEarliest(ctx context.Context, group string) error {
	earliest := "earliest"
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Op, config.Value = "share.auto.offset.reset", kmsg.IncrementalAlterConfigOpSet, &earliest
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = append(resource.Configs, config)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	client, err := kgo.NewClient(kgo.SeedBrokers(trip.bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if code := response.Resources[0].ErrorCode; code != 0 {
		return fmt.Errorf("the group's configuration was refused with %d", code)
	}
	return nil
}
