// Command shares is a member of a share group, with franz-go: until SIGTERM, or a kill.
//
// Its words, and what they mean, are those of ShareWorker.java in the folder above; so are its
// notes.
package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"penstock/compat/notes"
)

const (
	cannotGoOn               = 3
	deliveriesBeforeAccepted = 2
	wait                     = 200 * time.Millisecond
	flushMax                 = 10 * time.Second
	// underWay is how long an answer of the broker may be under way, at the very most.
	underWay = time.Second
)

type worker struct {
	topic, group string

	chance *rand.Rand
	notes  *notes.Notes
	client *kgo.Client

	mutex sync.Mutex
	heard map[int32][]error // by partition, since something was last said
}

func main() {
	words := os.Args[1:]
	taken, err := notes.Open(words[5], words[6])
	if err != nil {
		panic(err)
	}
	w := &worker{
		topic: words[1], group: words[2], chance: seeded(words[3], words[5]), notes: taken,
		heard: make(map[int32][]error),
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := w.run(ctx, words[0]); err != nil {
		fmt.Fprintf(os.Stderr, "%s cannot go on: %v\n", words[5], err)
		os.Exit(cannotGoOn)
	}
}

func seeded(seed, name string) *rand.Rand {
	number, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		panic(err)
	}
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return rand.New(rand.NewPCG(number, hash.Sum64()))
}

func (w *worker) run(ctx context.Context, bootstrap string) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumeTopics(w.topic),
		kgo.ShareGroup(w.group),
		kgo.ShareMaxRecords(40),
		kgo.FetchMaxWait(wait),
		kgo.ShareAckCallback(w.hear),
	}
	if w.chance.IntN(2) == 0 {
		options = append(options, kgo.ShareMaxRecordsStrict())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	w.client = client
	// The client may have asked during the poll before this one.
	before := time.Now()
	for ctx.Err() == nil {
		now := time.Now()
		short, cancel := context.WithTimeout(ctx, 2*wait)
		records := client.PollFetches(short).Records()
		cancel()
		for _, record := range records {
			what := w.place(record)
			what["do"], what["value"] = "deliver", string(record.Value)
			w.notes.Seen(before.Add(-underWay), what)
		}
		// Not to be interrupted: it is told what became of all that was said.
		if err := w.settle(context.WithoutCancel(ctx), records); err != nil {
			return err
		}
		before = now
	}
	client.Close()
	return nil
}

// settle says of each record what became of it; some are kept for longer and accepted then.
func (w *worker) settle(ctx context.Context, records []*kgo.Record) error {
	said := make(map[kgo.AckStatus][]*kgo.Record)
	for _, record := range records {
		word := w.word(record)
		said[word] = append(said[word], record)
	}
	for _, word := range []kgo.AckStatus{kgo.AckRenew, kgo.AckRelease, kgo.AckReject, kgo.AckAccept} {
		if err := w.say(ctx, word, said[word]); err != nil {
			return err
		}
	}
	return w.say(ctx, kgo.AckAccept, said[kgo.AckRenew])
}

func (w *worker) word(record *kgo.Record) kgo.AckStatus {
	switch lot := w.chance.Float64(); {
	case lot < 0.8 || record.DeliveryCount() > deliveriesBeforeAccepted:
		return kgo.AckAccept
	case lot < 0.92:
		return kgo.AckRelease
	case lot < 0.98:
		return kgo.AckRenew
	default:
		return kgo.AckReject
	}
}

// say has one word for some records, and waits until it is known what became of it.
func (w *worker) say(ctx context.Context, word kgo.AckStatus, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	w.forget()
	begun := make(map[int32][]int)
	for _, record := range records {
		what := w.place(record)
		what["do"], what["word"] = "settle", word.String()
		begun[record.Partition] = append(begun[record.Partition], w.notes.Begin(what))
	}
	w.client.MarkAcks(word, records...)
	ctx, cancel := context.WithTimeout(ctx, flushMax)
	defer cancel()
	if err := w.client.FlushAcks(ctx); err != nil {
		return err // what comes later would be taken for an answer to the next word
	}
	for partition, ops := range begun {
		for _, op := range ops {
			w.notes.End(op, w.outcome(partition))
		}
	}
	return nil
}

func (w *worker) forget() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.heard = make(map[int32][]error)
}

func (w *worker) hear(_ *kgo.Client, results kgo.ShareAckResults) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, result := range results {
		w.heard[result.Partition] = append(w.heard[result.Partition], result.Err)
	}
}

// outcome is what became of a word for a partition, which may have gone out in several requests.
func (w *worker) outcome(partition int32) notes.Line {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	heard := w.heard[partition]
	if err := errors.Join(heard...); err != nil {
		is := "unknown"
		if len(heard) == 1 && errors.Is(err, kerr.InvalidRecordState) {
			is = "failed"
		}
		return notes.Line{"is": is, "error": err.Error()}
	}
	if len(heard) == 0 {
		return notes.Line{"is": "unknown", "error": "nothing was heard"}
	}
	return notes.Line{"is": "ok"}
}

func (w *worker) place(record *kgo.Record) notes.Line {
	return notes.Line{
		"topic": record.Topic, "partition": record.Partition, "group": w.group,
		"offset": record.Offset, "deliveries": record.DeliveryCount(),
	}
}
