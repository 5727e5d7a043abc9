// Command worker reads, processes and writes, exactly once, with franz-go: until SIGTERM, or a kill.
//
// Its words, and what they mean, are those of worker.py in the folder above; so are its notes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"penstock/compat/notes"
)

const (
	batch      = 50
	cannotGoOn = 3
)

type worker struct {
	source, sink, group, identity, name string

	notes   *notes.Notes
	session *kgo.GroupTransactSession
	begun   int
}

func main() {
	words := os.Args[1:]
	taken, err := notes.Open(words[5], words[6])
	if err != nil {
		panic(err)
	}
	w := &worker{
		source: words[1], sink: words[2], group: words[3], identity: words[4], name: words[5],
		notes: taken,
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := w.run(ctx, words[0]); err != nil {
		fmt.Fprintf(os.Stderr, "%s cannot go on: %v\n", w.name, err)
		os.Exit(cannotGoOn)
	}
}

func (w *worker) run(ctx context.Context, bootstrap string) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(w.group),
		kgo.InstanceID(w.identity),
		kgo.ConsumeTopics(w.source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.RebalanceTimeout(10*time.Second),
		kgo.RequireStableFetchOffsets(),
		kgo.TransactionalID(w.identity),
		kgo.TransactionTimeout(10*time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		return err
	}
	w.session = session
	init := w.notes.Begin(notes.Line{"do": "init", "transactional_id": w.identity})
	if _, _, err := session.Client().ProducerID(ctx); err != nil {
		return err
	}
	w.notes.End(init, notes.Line{"is": "ok"})
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := session.PollRecords(wait, batch)
		cancel()
		if records := fetches.Records(); len(records) > 0 {
			// Not to be interrupted: a transaction that was begun is ended.
			if err := w.process(context.WithoutCancel(ctx), records); err != nil {
				return err
			}
		}
	}
	session.Close()
	return nil
}

// process is one transaction: the outputs, and how far the inputs are done.
func (w *worker) process(ctx context.Context, records []*kgo.Record) error {
	if err := w.session.Begin(); err != nil {
		return err
	}
	w.begun++
	transaction := fmt.Sprintf("%s/%d", w.name, w.begun)
	var failure firstError
	for _, record := range records {
		w.send(ctx, record, transaction, &failure)
	}
	if err := w.session.Client().Flush(ctx); err != nil {
		return err
	}
	commit := failure.get() == nil
	op := w.notes.Begin(notes.Line{"do": "end", "transaction": transaction, "commit": commit})
	committed, err := w.session.End(ctx, kgo.TransactionEndTry(commit))
	switch {
	case err != nil:
		// It may have been committed, and the session would read the inputs again: another life
		// asks the coordinator how far they are done.
		w.notes.End(op, notes.Line{"is": "unknown", "error": err.Error()})
		return errors.Join(failure.get(), err)
	case committed == commit:
		w.notes.End(op, notes.Line{"is": "ok"})
	default:
		w.notes.End(op, notes.Line{"is": "failed", "error": "aborted instead"})
	}
	return nil
}

func (w *worker) send(ctx context.Context, input *kgo.Record, transaction string, failure *firstError) {
	value := "done " + string(input.Value)
	op := w.notes.Begin(notes.Line{
		"do": "send", "topic": w.sink, "partition": input.Partition, "value": value,
		"transaction": transaction,
	})
	output := &kgo.Record{Topic: w.sink, Partition: input.Partition, Value: []byte(value)}
	w.session.Produce(ctx, output, func(landed *kgo.Record, err error) {
		if err != nil {
			failure.set(err)
			w.notes.End(op, notes.Line{"is": "unknown", "error": err.Error()})
			return
		}
		w.notes.End(op, notes.Line{"is": "ok", "offset": landed.Offset})
	})
}

// firstError keeps the first of several errors.
type firstError struct {
	mutex sync.Mutex
	err   error
}

func (f *firstError) set(err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *firstError) get() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.err
}
